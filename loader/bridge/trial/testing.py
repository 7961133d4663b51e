"""Runs the `test` blocks of a file and says what differs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loader.bridge.config.model import Configuration, TestBlock
from loader.bridge.formats.json import Json
from loader.bridge.frame import Undecodable
from loader.bridge.lookups.lookups import fixed
from loader.bridge.trial.trial import Refused, Sent, Trial, encode_value, make_frame, text


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a test went. `differences` is empty if all is as expected."""

    name: str
    place: str
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether everything came out as expected."""
        return not self.differences


def run_tests(configuration: Configuration) -> list[Verdict]:
    """Every test block, in the order of the file."""
    return [run_test(configuration, test) for test in configuration.tests]


def run_test(configuration: Configuration, test: TestBlock) -> Verdict:
    """Messages in, one after the other; what comes out is compared in order with what is expected."""
    trial = Trial(configuration, test.pipeline, fixed(test.lookups))
    source = configuration.pipelines[test.pipeline].source
    came: list[Sent | Refused] = []
    for given in test.inputs:
        result = trial.run(make_frame(given, trial.format, source))
        came += [*result.sent, *result.refused]
    differences: list[str] = []
    for number, (expected, got) in enumerate(zip(test.expected, came, strict=False), 1):
        differences += [f"message {number}: {each}" for each in compare(expected, got)]
    for number, missing in enumerate(test.expected[len(came) :], len(came) + 1):
        differences.append(f"message {number}: expected {_shown(missing)}, but nothing more came")
    for number, extra in enumerate(came[len(test.expected) :], len(test.expected) + 1):
        differences.append(f"message {number}: not expected: {_described(extra)}")
    return Verdict(test.name, str(test.place), tuple(differences))


def compare(expected: Mapping[str, Any], got: Sent | Refused) -> list[str]:
    """What differs; only what is expected counts."""
    reason = expected.get("refused")
    if isinstance(got, Refused) or reason is not None:
        if isinstance(got, Refused) and reason is not None:
            return [] if reason in got.reason else [f"refused because {got.reason!r}, expected {reason!r} in it"]
        return [f"expected {_shown(expected)}, but {_described(got)}"]
    found = []
    if "sink" in expected and expected["sink"] != got.sink:
        found.append(f"goes to {got.sink}, expected {expected['sink']}")
    if "key" in expected and text(expected["key"]) != got.key:
        found.append(f"key is {_plain(got.key)}, expected {_plain(text(expected['key']))}")
    headers = dict(got.headers)
    for name, value in (expected.get("headers") or {}).items():
        if name not in headers:
            found.append(f"header {name} is missing, expected {_plain(text(value))}")
        elif headers[name] != text(value):
            found.append(f"header {name} is {_plain(headers[name])}, expected {_plain(text(value))}")
    if "value" in expected:
        found += _values(expected["value"], got.value)
    return found


def _values(expected: Any, got: bytes | None) -> list[str]:
    if not isinstance(expected, dict | list) or got is None:
        wanted = encode_value(expected)
        return [] if wanted == got else [f"value is {_plain(got)}, expected {_plain(wanted)}"]
    try:
        fields = Json().decode(got)
        fields = Json().decode_exactly(got, fields)
    except Undecodable:
        return [f"value is not JSON: {_plain(got)}"]
    if _same(fields, expected):
        return []
    lines = difflib.unified_diff(_pretty(expected), _pretty(fields), "expected", "got", lineterm="", n=2)
    return ["value differs\n    " + "\n    ".join(lines)]


def _same(one: Any, other: Any) -> bool:
    # In Python true is 1; in JSON it is not.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _pretty(value: Any) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str).split("\n")


def _shown(expected: Mapping[str, Any]) -> str:
    return json.dumps(dict(expected), ensure_ascii=False, default=str)


def _described(got: Sent | Refused) -> str:
    if isinstance(got, Refused):
        return f"it was refused by {got.by}: {got.reason}"
    return f"it goes to {got.sink} with value {_plain(got.value)}"


def _plain(value: bytes | None) -> str:
    return "null" if value is None else repr(value.decode("utf-8", "backslashreplace"))
