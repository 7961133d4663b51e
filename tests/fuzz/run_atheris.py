"""The fuzz target led by coverage, for as long as one likes. Needs atheris, which the tests do not: pip install atheris

    python tests/fuzz/run_atheris.py [FOLDER…] [-max_total_time=60] [options of libFuzzer]

Starts from tests/fuzz/corpus; with a FOLDER of your own before the options, new inputs are kept there. An input that
breaks a property is written as crash-…; once it is mended, put it into the corpus under the name of what it shows.
The first byte of an input chooses the rules, the rest is a file as in the corpus (fuzz_input.py)."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: pip install atheris")

with atheris.instrument_imports(include=["loader", "orjson"]):
    from fuzz_input import corpus, format_input, parse_input
    from fuzz_target import check_message, check_rows, message

    from loader.message.decode import DecodeRules
    from loader.plan.book import PlanRules

RULES = [
    (DecodeRules(table_key="eventName"), PlanRules()),
    (
        DecodeRules(
            table_key="eventName", event_id_key="id", max_message_bytes=2_000, max_array_elements=12, max_keys=30
        ),
        PlanRules(max_columns=20, max_tables=3, keep_raw=True),
    ),
    (DecodeRules(table_attribute="ce-type", emulator=True), PlanRules(max_nesting=1, keep_attributes=True)),
]


def one_input(data: bytes) -> None:
    """Raises AssertionError when a property does not hold."""
    if not data:
        return
    decode, plan = RULES[data[0] % len(RULES)]
    attributes, body = parse_input(data[1:])
    if check_message(attributes, body, decode):
        check_rows([message(attributes, body, number) for number in range(5)], decode, plan)


def main() -> None:
    """Run libFuzzer until it is stopped, its time is up, or an input breaks a property."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as seeds:
        for name, attributes, body in corpus():
            for number in range(len(RULES)):
                Path(seeds, f"{name}-{number}").write_bytes(bytes([number]) + format_input(attributes, body))
        atheris.Setup([*sys.argv, seeds], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
