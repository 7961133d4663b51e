"""A mould: records with the same keys and the same classes of values become a root row in one step.

Publishers write the keys of one kind of event in one order, so most records repeat what was seen before. A mould is
what the walk of fit.py found for such records, kept as positions: the row is then picked by C code. Whatever a mould
does not take (a number out of range, a text that is no instant) goes the long way. Rows of lists have few keys:
looking for a mould would cost as much as it saves."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from loader.plan.book import Node, Slot, TablePlan
from loader.plan.kind import DICT, DIRECT, FLOAT, INT, LIST, MAX_BIGINT, MIN_BIGINT, TIME
from loader.plan.names import LONGEST_KEPT_KEY
from loader.plan.timestamp import instant

# orjson reads integers beyond 64 bit as floats; any float that large may have been one.
SUSPECT = float(2**63)

MAX_MOULDS = 32
"""Kept for each object of a plan: keys that come and go in every combination must not fill the memory."""
MAX_KEYS = 200
_TRIES = 3
_NONE = type(None)

Shape = tuple[tuple[str, ...], tuple[type, ...]]
"""The keys of a record in their order, and the classes of its values."""


class Mould:
    """Positions of a record's values in a row, and which of them need a look before they are stored."""

    __slots__ = ("dicts", "floats", "ints", "lists", "pick", "times")

    def __init__(
        self,
        pick: itemgetter[Any],
        ints: tuple[int, ...],
        floats: tuple[int, ...],
        times: tuple[int, ...],
        dicts: tuple[tuple[int, Slot], ...],
        lists: tuple[tuple[int, str, Slot], ...],
    ) -> None:
        self.pick = pick
        self.ints = ints
        self.floats = floats
        self.times = times
        self.dicts = dicts
        self.lists = lists

    def cast(self, system: tuple[Any, ...], values: list[Any]) -> list[Any] | None:
        """The row, still without what dicts and lists add; None when a value does not fit its column."""
        for position in self.ints:
            if not MIN_BIGINT <= values[position] <= MAX_BIGINT:
                return None
        for position in self.floats:
            if not -SUSPECT < values[position] < SUSPECT:
                return None
        for position in self.times:
            text = instant(values[position])
            if text is None:
                return None
            values[position] = text
        values.append(None)  # what columns without a value pick
        return [*system, *self.pick(values)]


def keep_mould(plan: TablePlan, node: Node, shape: Shape, system: int) -> None:
    """Make and keep the mould of a record that has just been fitted; `system` columns are filled by the loader."""
    moulds = node.moulds
    tries = moulds.get(shape, 0)
    if tries == 0 and (len(moulds) >= MAX_MOULDS or len(shape[0]) > MAX_KEYS or _too_long(shape[0])):
        return
    # JSON columns, shared places, variants and overflow have no mould: do not try for ever.
    if tries.__class__ is int and tries < _TRIES:
        moulds[shape] = _mould(plan, node, shape, system) or tries + 1


def _too_long(keys: tuple[str, ...]) -> bool:
    return any(len(key) > LONGEST_KEPT_KEY for key in keys)


def _mould(plan: TablePlan, node: Node, shape: Shape, system: int) -> Mould | None:
    keys, classes = shape
    width = len(plan.columns)
    if width < system + 2 or width > 4 * len(keys) + 32:
        return None  # a wide row that is mostly empty is copied blank and filled faster
    source = [len(keys)] * width
    looks: dict[int, list[int]] = {INT: [], FLOAT: [], TIME: []}
    dicts: list[tuple[int, Slot]] = []
    lists: list[tuple[int, str, Slot]] = []
    for position, (key, cls) in enumerate(zip(keys, classes, strict=True)):
        if cls is _NONE:
            continue
        wanted, index, fast, slot = node.slots.get(key) or (None, -1, -1, None)
        if wanted is not cls or slot is None:
            return None
        if fast == DICT:
            dicts.append((position, slot))
        elif fast == LIST:
            lists.append((position, key, slot))
        elif index < system or source[index] != len(keys):
            return None
        else:
            source[index] = position
            if fast != DIRECT:
                looks[fast].append(position)
    return Mould(
        itemgetter(*source[system:]),
        tuple(looks[INT]),
        tuple(looks[FLOAT]),
        tuple(looks[TIME]),
        tuple(dicts),
        tuple(lists),
    )
