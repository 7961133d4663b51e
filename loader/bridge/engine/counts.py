"""What a pipeline counts. Written by its threads under its lock, read by the metrics."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counts:
    """Messages, since start."""

    taken: int = 0
    """Read for the pipeline."""
    sent: int = 0
    """Confirmed by a sink, counted by sink and copy."""
    filtered: int = 0
    skipped: int = 0
    """Tombstones left out."""
    dead: int = 0
    """Refused for good: dead letters, or dropped if the file says so."""
    decodes: int = 0
    encodes: int = 0
    repeats: int = 0
    """Given up unconfirmed when partitions moved: they are delivered again."""

    def as_dict(self) -> dict[str, int]:
        return {each.name: getattr(self, each.name) for each in fields(self)}
