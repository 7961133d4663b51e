"""The two-bucket commit: a committed position never passes a message that was not confirmed."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from loader.bridge.engine.bucket import Ledger

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "read", "confirm", "confirm", "rotate", "drain", "take", "split"]),
        st.integers(0, 2**32),
    ),
    max_size=80,
)


class _World:
    """A consumer of three partitions with two pipelines, and what was confirmed of each offset."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.apart: Ledger | None = None
        self.next = dict.fromkeys(range(3), 0)
        self.waiting: list[tuple[Any, str, list[tuple[int, int]], int]] = []
        self.open: dict[str, dict[tuple[int, int], int]] = {"a": {}, "b": {}}
        self.committed = {"a": dict.fromkeys(range(3), 0), "b": dict.fromkeys(range(3), 0)}
        self.attached = ["a", "b"]

    def read(self, rng: random.Random) -> None:
        batch: list[tuple[int, int]] = []
        for _ in range(rng.randrange(1, 8)):
            partition = rng.randrange(3)
            batch.append((partition, self.next[partition]))
            self.next[partition] += 1
        positions = {partition: self.next[partition] for partition, _ in batch}
        for ledger, names in ((self.ledger, self.attached), (self.apart, ["b"])):
            if ledger is None:
                continue
            ledger.read(positions)
            for name in names:
                self._give(ledger, name, batch, rng)

    def _give(self, ledger: Ledger, name: str, batch: list[tuple[int, int]], rng: random.Random) -> None:
        share = ledger.share(name)
        kept = [message for message in batch if rng.random() < 0.7]
        copies = rng.choice([1, 1, 2, 3])
        share.give(len(batch) - len(kept) + len(kept) * copies)
        share.confirm(len(batch) - len(kept))
        for message in kept:
            self.open[name][message] = self.open[name].get(message, 0) + copies
            for _ in range(copies):
                self.waiting.append((share, name, [message], 1))

    def confirm(self, rng: random.Random) -> None:
        rng.shuffle(self.waiting)
        for _ in range(rng.randrange(len(self.waiting) + 1)):
            share, name, messages, count = self.waiting.pop()
            share.confirm(count)
            for message in messages:
                self.open[name][message] -= 1
                if not self.open[name][message]:
                    del self.open[name][message]

    def commit(self, positions: dict[Any, int], names: list[str]) -> None:
        for partition, position in positions.items():
            for name in names:
                below = [m for m in self.open[name] if m[0] == partition and m[1] < position]
                assert not below, f"{name}: {position} of {partition} committed before {below}"
                self.committed[name][partition] = max(self.committed[name][partition], position)

    def settle(self, action: str, rng: random.Random) -> None:
        for ledger, names in ((self.ledger, self.attached), (self.apart, ["b"])):
            if ledger is None:
                continue
            if action == "take":
                self.commit(ledger.take([rng.randrange(3)]), list(names))
                continue
            bucket = ledger.rotate() if action == "rotate" else ledger.drain()
            if bucket is not None:
                self.commit(bucket.positions, names)

    def split(self) -> None:
        if self.apart is None:
            self.apart, self.attached = self.ledger.split("b"), ["a"]


@settings(max_examples=300)
@given(ACTIONS)
def test_a_committed_position_never_passes_an_unconfirmed_message(actions):
    world = _World()
    taken = False
    for action, seed in actions:
        rng = random.Random(seed)
        if action in ("read", "confirm"):
            getattr(world, action)(rng)
        elif action == "split":
            world.split()
        else:
            taken = taken or action == "take"
            world.settle(action, rng)
    rng = random.Random(1)
    while world.waiting:
        world.confirm(rng)
    world.settle("drain", random.Random(2))
    if not taken:
        for name in ("a", "b"):
            assert world.committed[name] == world.next, "all confirmed, so all is committed"


def test_a_bucket_waits_for_each_pipeline():
    ledger = Ledger()
    ledger.read({("t", 0): 10})
    for name in ("a", "b"):
        ledger.share(name).give(10)
    first, second = ledger.share("a"), ledger.share("b")
    assert ledger.rotate().positions == {}
    first.confirm(10)
    assert ledger.rotate() is None
    second.confirm(9)
    assert ledger.rotate() is None
    second.confirm(1)
    assert ledger.rotate().positions == {("t", 0): 10}


def test_more_confirmations_than_messages_are_a_fault():
    share = Ledger().share("a")
    share.give(1)
    share.confirm(1)
    with pytest.raises(RuntimeError, match="2 messages were confirmed of 1"):
        share.confirm(1)


def test_a_pipeline_that_goes_its_own_way_holds_nobody_up():
    ledger = Ledger()
    ledger.read({("t", 0): 5})
    slow = ledger.share("slow")
    slow.give(5)
    ledger.rotate()
    own = ledger.split("slow")
    assert ledger.rotate().positions == {("t", 0): 5}
    assert own.rotate() is None
    slow.confirm(5)
    assert own.rotate().positions == {("t", 0): 5}
