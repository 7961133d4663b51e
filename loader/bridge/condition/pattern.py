"""How long a regular expression may take on a text that somebody chose to make it slow.

`re` tries one way after the other, and nothing can stop it, nor anybody else of the process go on meanwhile. A pattern
whose ways double with each character, (a+)+$ on aaaa…, is refused when the file is read. For all others the time grows
with a power of the text's length: a longer text than the power allows is searched by linear.py, or, where that cannot
tell (word boundaries, what looks around, references, MULTILINE), refused.

A way that doubles is one position of the automaton that a text leads back to itself in two ways; the power is the
longest row of repeats that one text could be shared out among (Weber and Seidl, On the degree of ambiguity of finite
automata, 1991). Word boundaries and what looks around are taken to hold always, and possessive repeats to give back:
it errs on the careful side.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from loader.bridge.condition.automaton import BEGIN, END, Automaton, build
from loader.bridge.condition.linear import MOST_POSITIONS, Linear

LONGEST = {2: 20_000, 3: 2_000, 4: 500}
"""Characters of a text that `re` is given, by the power: some seconds of the slowest patterns that there are, 1 to 5 ns
a step."""
MOST_POWER = max(LONGEST)
MOST_STEPS = 1_000_000
"""Of looking for two ways; ordinary patterns take some hundreds."""

_DOUBLING = "on some texts its time doubles with each character"
_INSTEAD = (
    r"let what a repeat repeats begin or end with something of its own: a+ for (a+)+, (a|b)* for (a|b|ab)*, "
    r"\w+(\s+\w+)* for (\w+\s*)+"
)
_MANY = (
    "on some texts its time grows with the power {power} of their length, for so many repeats in a row can take the "
    "same characters: begin it with ^, or write [^,]* for .* before a comma"
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, ready to be searched for."""

    search: re.Pattern[str]
    longest: int | None = None
    """Characters of the longest text that it is tried on; None where the time grows as the text does."""
    linear: Linear | None = None
    """For texts of more than `ordinary` characters."""
    ordinary: int = 0
    refused: str | None = None
    """Why it is not tried at all, and what to write instead."""


@lru_cache(maxsize=1_000)
def study(text: str) -> Pattern:
    """The pattern and its cost. Raises re.error for what is no regular expression."""
    try:
        re.compile(text)
        return _studied(text)
    except RecursionError:
        raise re.error("nested too deep") from None


def _studied(text: str) -> Pattern:
    # Whether something is found does not depend on what stands before it: .*x is x, found from fewer places.
    short = re.sub(r"\A((?:\(\?[aimsux]+\))?)\.\*\??(?![+?*{])", r"\1", text)
    search = re.compile(short)
    automaton = build(short)
    if automaton.tangled:
        text = f"each round of its repeat {automaton.tangled} may be empty: write (a{{0,20}}) for (a?){{20}}"
        return Pattern(search, refused=f"{_DOUBLING}: {text}")
    alive = _undecided(automaton)
    circles = _circles(automaton, alive)
    for circle in circles:
        found = _two_ways(automaton, circle)
        if found is not None:
            return Pattern(search, refused=f"{_DOUBLING}: {found}; {_INSTEAD}")
    power = _power(automaton, alive, circles)
    if power > MOST_POWER:
        return Pattern(search, refused=_MANY.format(power=power))
    longest = LONGEST.get(power)
    if longest is not None and automaton.certain and automaton.exact and len(automaton.labels) <= MOST_POSITIONS:
        return Pattern(search, linear=Linear(automaton), ordinary=longest)
    return Pattern(search, longest)


def _undecided(automaton: Automaton) -> set[int]:
    """Positions from which the search may yet fail. From the others it has succeeded, whichever way it goes on."""
    everything = set(range(len(automaton.labels)))
    if not automaton.certain:
        return everything
    undecided = everything - automaton.last.keys()
    before: dict[int, list[int]] = {}
    for position in everything:
        for after in automaton.follow[position]:
            before.setdefault(after, []).append(position)
    todo = list(undecided)
    while todo:
        for position in before.get(todo.pop(), ()):
            if position not in undecided:
                undecided.add(position)
                todo.append(position)
    return undecided


def _circles(automaton: Automaton, alive: set[int]) -> list[set[int]]:
    """Sets of positions that all lead to each other (Tarjan, without recursion), in reverse order of the text."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found = []
    for root in sorted(alive):
        if root in index:
            continue
        work = [(root, iter(automaton.follow[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            position, rest = work[-1]
            after = next((each for each in rest if each in alive), None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[position])
                if low[position] == index[position]:
                    circle = set()
                    while position not in circle:
                        circle.add(stack.pop())
                    on_stack -= circle
                    if len(circle) > 1 or position in automaton.follow[position]:
                        found.append(circle)
            elif after not in index:
                index[after] = low[after] = len(index)
                stack.append(after)
                on_stack.add(after)
                work.append((after, iter(automaton.follow[after])))
            elif after in on_stack:
                low[position] = min(low[position], index[after])
    return found


def _two_ways(automaton: Automaton, circle: set[int]) -> str | None:
    """Why a text leads round the circle in two ways, None if no text does: two walkers that read the same set out from
    one position, part, and meet again."""
    follow = {each: [after for after in automaton.follow[each] if after in circle] for each in circle}
    came: dict[tuple[int, int], tuple[int, int]] = {}
    todo: list[tuple[int, int]] = []
    steps = 0

    def text(pair: tuple[int, int]) -> str:
        labels = []
        while True:
            labels.append(automaton.labels[pair[0]] & automaton.labels[pair[1]])
            pair = came.get(pair, (-1, -1))
            if pair[0] == pair[1]:
                return "".join(map(automaton.character, reversed(labels)))

    for start in sorted(circle):
        for after in follow[start]:
            if automaton.follow[start][after] > 1:
                return f"{automaton.character(automaton.labels[after])!r} in what it repeats goes on in two ways"
    # The ends of many words all lead to the same beginnings: these are looked at once.
    for start in {tuple(follow[each]): each for each in circle}.values():
        # Two that set out together are never told apart by which is the first.
        for place, a in enumerate(follow[start]):
            for b in follow[start][place + 1 :]:
                pair = (a, b) if a < b else (b, a)
                if automaton.labels[a] & automaton.labels[b] and pair not in came:
                    came[pair] = (start, start)
                    todo.append(pair)
    while todo:
        pair = todo.pop()
        for a in follow[pair[0]]:
            label = automaton.labels[a]
            steps += len(follow[pair[1]])
            for b in follow[pair[1]]:
                if not label & automaton.labels[b]:
                    continue
                if a == b:
                    word = text(pair) + automaton.character(label)
                    return f"{word!r} in what it repeats can be read in two ways"
                after_both = (a, b) if a < b else (b, a)
                if after_both not in came:
                    came[after_both] = pair
                    todo.append(after_both)
        if steps > MOST_STEPS:
            return "or so it is feared of one as large as this"
    return None


def _power(automaton: Automaton, alive: set[int], circles: list[set[int]]) -> int:
    """The longest row of repeats, each of which can take from the one before it; the search itself, which begins at
    each character, is the first."""
    rows = [1] * len(circles)
    # Circles come the last of the text first, so what is behind one is known.
    for at, circle in enumerate(circles):
        rows[at] += _behind(automaton, alive, circles[:at], rows, circle)
    return max(1 + _behind(automaton, alive, circles, rows, None), *rows, 1)


def _behind(
    automaton: Automaton, alive: set[int], circles: list[set[int]], rows: list[int], before: set[int] | None
) -> int:
    """The longest row that begins with a circle to which a text leads that the circle before it (None: the search) and
    the circle itself can read over and over."""
    labels = automaton.labels
    most = 0
    for circle, row in zip(circles, rows, strict=False):
        shared = _union(automaton, circle) & (~(BEGIN | END) if before is None else _union(automaton, before))
        if row <= most or not shared:
            continue
        wanted = _within(automaton, circle, shared)
        if before is None:
            starts = set(automaton.first)
        else:
            starts = {after for each in _within(automaton, before, shared) for after in automaton.follow[each]} - before
        todo = [each for each in starts if each in alive and labels[each] & shared]
        seen = set(todo)
        while todo:
            position = todo.pop()
            if position in wanted:
                most = row
                break
            for after in automaton.follow[position]:
                if after not in seen and after in alive and labels[after] & shared:
                    seen.add(after)
                    todo.append(after)
    return most


def _within(automaton: Automaton, circle: set[int], shared: int) -> set[int]:
    """Positions of the circle to which these characters alone lead back."""
    some = _circles(automaton, {each for each in circle if automaton.labels[each] & shared})
    return set().union(*some)


def _union(automaton: Automaton, circle: set[int]) -> int:
    whole = 0
    for position in circle:
        whole |= automaton.labels[position]
    return whole
