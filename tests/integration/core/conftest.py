"""A dataset for each test, and the loader's core (decode, lanes, learning) on it without Pub/Sub around."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Processes that these tests start import the harness as well, by this very name.
sys.path.insert(0, str(Path(__file__).parent))

from loading_harness import Loading

CASES = Path(__file__).parents[1] / "data" / "cases"


@pytest.fixture
def new_loading(database_url: str) -> Iterator[Callable[..., Loading]]:
    """Makes a worker's core on the test's database; keyword arguments are settings."""
    made: list[Loading] = []

    def make(**settings: Any) -> Loading:
        made.append(Loading(database_url, **settings))
        return made[-1]

    yield make
    for loading in made:
        loading.close()


@pytest.fixture
def loading(new_loading: Callable[..., Loading]) -> Loading:
    """A worker's core whose events name their table by the key `eventName`."""
    return new_loading()


@pytest.fixture(scope="session")
def case() -> Callable[[str], list[bytes]]:
    """The messages of one case file, one a line."""

    def read(name: str) -> list[bytes]:
        return (CASES / f"{name}.jsonl").read_bytes().removesuffix(b"\n").split(b"\n")

    return read
