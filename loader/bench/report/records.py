"""Which of the kept records a report is made from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from loader.errors import LoaderError

Record = dict[str, Any]
ORDER = ("load", "run", "latency", "soak", "fleet", "bridge", "gps")
"""Benchmarks in the order of the report. The simulation has its page beside Terraform."""
_SIZE = {"fleet": "messages", "soak": "minutes"}
"""Of these a large run says more than a newer small one."""


def read_records(folder: Path) -> list[Record]:
    """All records of a folder. Raises LoaderError for one that is not readable."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            _ = record["benchmark"], record["date"], record["parameters"], record["results"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LoaderError(f"{path} is no record of a benchmark: {error!r}") from error
        found.append(record)
    return found


def newest(records: Iterable[Record]) -> dict[str, Record]:
    """The record of each benchmark that a report shows: the newest, of fleet and soak the newest of the largest."""
    chosen: dict[str, Record] = {}
    for record in sorted(records, key=lambda one: (_size(one), one["date"])):
        if record["benchmark"] in ORDER:
            chosen[record["benchmark"]] = record
    return {name: chosen[name] for name in ORDER if name in chosen}


def _size(record: Record) -> float:
    return float(record["parameters"].get(_SIZE.get(record["benchmark"], ""), 0))
