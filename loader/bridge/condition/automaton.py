"""The positions of a regular expression and what may follow each (Glushkov's construction), with the number of ways.

Python's `re` tries one way after the other. How many there are for a text is a question about this automaton, and
pattern.py asks it. It reads what `re` itself parsed, so that both mean the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any

MOST_WAYS = 2
"""What is counted: none, one, or more than one."""
MOST_POSITIONS = 400
"""A repeat is written out up to here; beyond, it is taken to have no upper end."""
MOST_READINGS = 1_000
"""The same for the ways in which all rounds together may be read, whatever the text."""
BEGIN, END = 1, 2
"""Labels of ^ and $, which no character has."""
BEGIN_TEXT, END_LINE, END_TEXT = "^", "$", "\\Z"

_OTHERS = "\u0130\u0131\u017f\u0378\u0660\u06dd\u1e9e\u2003\u2028\u20ac\u212a\u4e00\uffff\U0001d7d8\U0001f600"
"""Beyond Latin-1, one of each kind that a class tells from the others: digits, letters, blanks, signs."""


@dataclass(slots=True)
class Automaton:
    """Positions by number. A label is a set of characters as bits of `characters`."""

    characters: str
    labels: list[int] = field(default_factory=list)
    takes: list[Any] = field(default_factory=list)
    """For each position an expression that matches the one character that it takes, or the place of the text."""
    follow: list[dict[int, int]] = field(default_factory=list)
    """For each position, how many ways lead to each next one."""
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    certain: bool = True
    """Nothing but characters, ^ and $ decides: no looking around, no word boundaries, no references."""
    exact: bool = True
    """It takes the texts that the pattern matches, and no others, if it is certain, too."""
    empty: bool = False
    """The pattern may match nothing."""
    tangled: str | None = None
    """A repeat, such as (a?){20}, whose rounds may be empty: each leaves all ways open once more."""

    def character(self, label: int) -> str:
        """One character of the label, a readable one if there is any; empty for ^ and $."""
        found = [each for at, each in enumerate(self.characters) if label >> (at + 2) & 1]
        return min(found, key=lambda each: (not each.isprintable(), not each.islower(), each), default="")


@dataclass(slots=True)
class _Part:
    empty: int = 1
    """In how many ways it may match nothing."""
    readings: int = 1
    """In how many ways it may be read, repeats without an end apart and whatever the text."""
    first: Counter[int] = field(default_factory=Counter)
    last: Counter[int] = field(default_factory=Counter)


def build(pattern: str) -> Automaton:
    """The automaton of a pattern that `re` compiles."""
    tree = _parser.parse(pattern)
    builder = _Builder(tree)
    part = builder.sequence(tree, tree.state.flags)
    found = builder.automaton
    found.first, found.last, found.empty = dict(part.first), dict(part.last), bool(part.empty)
    return found


class _Builder:
    def __init__(self, tree: Any) -> None:
        points = {point for near in _points(tree) for point in (near - 1, near, near + 1) if 0 <= point < 0x110000}
        variants = {other for point in points for other in _cases(chr(point))}
        self.automaton = Automaton("".join(sorted({*map(chr, range(256)), *_OTHERS, *variants})))
        self.groups: dict[int, Any] = {}

    def sequence(self, items: Iterable[Any], flags: int) -> _Part:
        whole = _Part()
        for item in items:
            whole = self.then(whole, self.item(item, flags))
        return whole

    def item(self, item: Any, flags: int) -> _Part:
        operator, given = item
        match str(operator):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                name, held = repr(item), _Held(item)
                return self.position(_label(self.automaton.characters, name, flags, held), _one(name, flags, held))
            case "BRANCH":
                return self.either([self.sequence(each, flags) for each in given[1]])
            case "SUBPATTERN":
                group, added, removed, body = given
                if group is not None:
                    self.groups[group] = (body, (flags | added) & ~removed)
                return self.sequence(body, (flags | added) & ~removed)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, body = given
                self.automaton.exact &= str(operator) != "POSSESSIVE_REPEAT"
                return self.repeat(least, most, body, flags)
            case "ATOMIC_GROUP":
                self.automaton.exact = False
                return self.sequence(given, flags)  # as if it could be left in several ways
            case "AT":
                return self.at(str(given), flags)
            case "ASSERT" | "ASSERT_NOT":
                self.automaton.certain = False
                if given[0] < 0:
                    return _Part()  # what is looked back at has a fixed length
                # Read from here on, and then everything goes on from here as well.
                return _Part(1, first=self.sequence(given[1], flags).first)
            case "GROUPREF":
                self.automaton.certain = False
                body, then = self.groups.get(given, ((), flags))
                return self.sequence(body, then)
            case "GROUPREF_EXISTS":
                self.automaton.certain = False
                _, yes, no = given
                return self.either([self.sequence(each or (), flags) for each in (yes, no)])
            case _:  # FAILURE: nothing is matched by it
                return _Part(0)

    def position(self, label: int, takes: Any) -> _Part:
        number = len(self.automaton.labels)
        self.automaton.labels.append(label)
        self.automaton.takes.append(takes)
        self.automaton.follow.append({})
        return _Part(0, 1, Counter((number,)), Counter((number,)))

    def at(self, where: str, flags: int) -> _Part:
        lines = bool(flags & re.MULTILINE)
        if where == "AT_BEGINNING_STRING" or (where == "AT_BEGINNING" and not lines):
            return self.position(BEGIN, BEGIN_TEXT)
        if where == "AT_END_STRING" or (where == "AT_END" and not lines):
            return self.position(END, END_TEXT if where == "AT_END_STRING" else END_LINE)
        self.automaton.certain = False
        return _Part()

    def then(self, a: _Part, b: _Part) -> _Part:
        self.link(a.last, b.first)
        return _Part(
            _few(a.empty * b.empty),
            a.readings * b.readings,
            _sum(a.first, {each: ways * a.empty for each, ways in b.first.items()}),
            _sum(b.last, {each: ways * b.empty for each, ways in a.last.items()}),
        )

    def link(self, ends: Counter[int], starts: Counter[int]) -> None:
        for end, ways in ends.items():
            follow = self.automaton.follow[end]
            for start, more in starts.items():
                follow[start] = _few(follow.get(start, 0) + ways * more)

    def either(self, parts: list[_Part]) -> _Part:
        whole = _Part(0, 0)
        for part in parts:
            whole = _Part(
                _few(whole.empty + part.empty),
                whole.readings + part.readings,
                _sum(whole.first, part.first),
                _sum(whole.last, part.last),
            )
        return whole

    def repeat(self, least: int, most: int, body: Any, flags: int) -> _Part:
        if most == 0:
            return _Part()
        start = len(self.automaton.labels)
        one = self.sequence(body, flags)
        size = len(self.automaton.labels) - start
        if most == 1:
            return one if least else _maybe(one)
        endless = most is _parser.MAXREPEAT
        if endless and least > 1 and not one.empty and start + size * least <= MOST_POSITIONS:
            # x{3,} is xxx+.
            self.link(one.last, one.first)
            whole = _Part(0, 1, one.first, one.last)
            for _ in range(1, least):
                whole = self.then(self.sequence(body, flags), whole)
            return whole
        if not endless and one.empty and most > 8:
            self.automaton.tangled = f"{{{least},{most}}}" if least != most else f"{{{most}}}"
        if endless or start + size * most > MOST_POSITIONS or _readings(one.readings, least, most) > MOST_READINGS:
            self.link(one.last, one.first)
            self.automaton.exact &= endless and (least <= 1 or bool(one.empty))
            if one.empty:
                # `re` goes on after a round that was empty, and once more without it.
                return _Part(MOST_WAYS, 1, one.first, Counter(dict.fromkeys(one.last, MOST_WAYS)))
            return _Part(0 if least else 1, 1, one.first, one.last)
        # x{2,4} is xx(x(x)?)?: from the innermost on.
        whole = one if most <= least else _maybe(one)
        for done in range(1, most):
            whole = self.then(self.sequence(body, flags), whole)
            if most - done > least:
                whole = _maybe(whole)
        return whole


def _maybe(part: _Part) -> _Part:
    return _Part(_few(part.empty + 1), part.readings + 1, part.first, part.last)


def _readings(one: int, least: int, most: int) -> int:
    """Of between `least` and `most` rounds, counted no further than is asked for."""
    whole, power = 0, 1
    for done in range(most + 1):
        whole += power if done >= least else 0
        if whole > MOST_READINGS or power > MOST_READINGS:
            return MOST_READINGS + 1
        power *= one
    return whole


def _few(ways: int) -> int:
    return min(ways, MOST_WAYS)


def _sum(a: dict[int, int], b: dict[int, int]) -> Counter[int]:
    whole = Counter(a)
    for each, ways in b.items():
        if ways:
            whole[each] = _few(whole[each] + ways)
    return whole


def _points(value: Any) -> Iterator[int]:
    """The code points that a pattern names."""
    if isinstance(value, _parser.SubPattern):
        value = value.data
    if isinstance(value, list | tuple):
        if len(value) == 2 and str(value[0]) in ("LITERAL", "NOT_LITERAL"):
            yield value[1]
        elif len(value) == 2 and str(value[0]) == "RANGE":
            yield from value[1]
        else:
            for each in value:
                yield from _points(each)


def _cases(character: str) -> Iterator[str]:
    for each in (character, character.lower(), character.upper()):
        if len(each) == 1:
            yield each


class _Held:
    """An item that a cache passes on and does not look at."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=1_000)
def _one(name: str, flags: int, held: _Held) -> Any:
    """An expression of one item alone."""
    state = _parser.State()
    state.flags = flags
    state.str = name
    return _compiler.compile(_parser.SubPattern(state, [held.item]), flags)


@lru_cache(maxsize=1_000)
def _label(characters: str, name: str, flags: int, held: _Held) -> int:
    """Which of the characters the item takes, by asking `re`: it knows classes, cases and flags best."""
    return sum(1 << (found.start() + 2) for found in _one(name, flags, held).finditer(characters))
