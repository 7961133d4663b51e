"""One fuzz input: a message as a file. `name: value` lines are attributes, then an empty line, then the body's bytes.

A file that starts with an empty line has no attributes. Whatever the bytes are, they are some message: what is no
`name: value` line is passed over."""

from __future__ import annotations

import gzip
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
GZIPPED = "body-is-gzipped-on-reading"
"""A header of corpus files alone: their bodies stand readable in the file and are compressed when they are read."""


def parse_input(data: bytes) -> tuple[dict[str, str], bytes]:
    """Attributes (as Pub/Sub has them: texts of valid UTF-8) and body."""
    if data.startswith(b"\n"):
        return {}, data[1:]
    head, separator, body = data.partition(b"\n\n")
    if not separator:
        return {}, data
    attributes = {}
    for line in head.decode("utf-8", "ignore").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            attributes[name.strip()] = value.strip()
    return attributes, body


def format_input(attributes: dict[str, str], body: bytes) -> bytes:
    """The file of a message; `parse_input` gives it back if its attributes have no line breaks or outer blanks."""
    head = "".join(f"{name}: {value}\n" for name, value in attributes.items())
    return head.encode() + b"\n" + body


def corpus() -> list[tuple[str, dict[str, str], bytes]]:
    """Name, attributes and body of every corpus file."""
    found = []
    for path in sorted(CORPUS.iterdir()):
        attributes, body = parse_input(path.read_bytes())
        if attributes.pop(GZIPPED, ""):
            body = gzip.compress(body, mtime=0)
        found.append((path.name, attributes, body))
    return found
