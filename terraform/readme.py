"""Renew the tables of terraform/README.md: `python terraform/readme.py`; `--check` only compares."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
README = FOLDER / "README.md"
MODULES = ("subscription", "identity", "database", "network", "fleet", "startup", "monitoring")

_BLOCK = re.compile(r'^(?P<kind>variable|output) "(?P<name>\w+)" \{\n(?P<body>.*?)^\}', re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r'^  description += "((?:\\.|[^"\\])*)"', re.MULTILINE)


def blocks(file: Path) -> list[tuple[str, str, int]]:
    """(name, body, line) of each variable or output."""
    text = file.read_text(encoding="utf-8")
    return [(m["name"], m["body"], text.count("\n", 0, m.start()) + 1) for m in _BLOCK.finditer(text)]


def description(body: str) -> str:
    """A block's description, as one line of a table."""
    found = _TEXT.search(body)
    return found[1].replace('\\"', '"').replace("|", "\\|") if found else ""


def kind(body: str) -> str:
    """A variable's type; an object's attributes are in the file."""
    found = re.search(r"^  type += (\w+(?:\(\w+\))?)", body, re.MULTILINE)
    return found[1].removesuffix("({") if found else ""


def default(body: str) -> str:
    """A variable's default; required without one."""
    found = re.search(r"^  default += (.+)$", body, re.MULTILINE)
    return f"`{found[1]}`" if found else "required"


def tables(folder: Path, link: str) -> str:
    """Variables and outputs of one module, each linked to its line."""
    lines = ["| Variable | Type | Default | Meaning |", "|---|---|---|---|"]
    for name, body, line in blocks(folder / "variables.tf"):
        lines.append(f"| [{name}]({link}variables.tf#L{line}) | {kind(body)} | {default(body)} | {description(body)} |")
    lines += ["", "| Output | Meaning |", "|---|---|"]
    for name, body, line in blocks(folder / "outputs.tf"):
        lines.append(f"| [{name}]({link}outputs.tf#L{line}) | {description(body)} |")
    return "\n".join(lines)


def modules() -> str:
    """The tables of the modules beneath."""
    return "\n\n".join(f"### {m}\n\n{tables(FOLDER / 'modules' / m, f'modules/{m}/')}" for m in MODULES)


def renew(text: str) -> str:
    """The README with each generated section as it should be. Raises ValueError where a marker is missing."""
    sys.path.insert(0, str(FOLDER))
    try:
        import prices
        import simulation
    finally:
        sys.path.remove(str(FOLDER))
    contents = {
        "tables": tables(FOLDER, ""),
        "modules": modules(),
        "prices": prices.page(),
        "simulation": simulation.page(),
    }
    for name, content in contents.items():
        begin, end = f"<!-- {name}: begin (renewed by terraform/readme.py) -->", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md must hold {begin} and {end} once each")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n{content}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> int:
    """Exit code 1 if `--check` finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    new = renew(old)
    if arguments.check:
        return int(old != new)
    if old != new:
        README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
