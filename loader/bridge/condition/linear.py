"""Searches a text in time that grows as the text does, whatever the pattern, for texts that are too long for `re`.

It follows all ways at once through the positions of the automaton, and keeps where that led for the next time. It takes
some 40 ns a character, where `re` takes 1 on ordinary texts and a million on bad ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loader.bridge.condition.automaton import BEGIN_TEXT, END_LINE, END_TEXT, Automaton

MOST_POSITIONS = 100
"""Of an automaton: a character costs up to a tenth of a microsecond for each."""
MOST_STEPS = 50_000
"""That are kept."""


class _Decided(Exception):
    """The search is over: the pattern was found, or cannot be any more."""

    def __init__(self, found: bool) -> None:
        self.found = found


class _State(dict[str, "_State"]):
    """Positions that may come next, and the state after each character that was seen there."""

    __slots__ = ("mask", "owner")

    def __init__(self, owner: Linear, mask: int) -> None:
        self.owner = owner
        self.mask = mask

    def __missing__(self, character: str) -> _State:
        return self.owner.step(self, character)


class Linear:
    """Says what `re.search` would of a pattern whose automaton is exact. Any thread may call."""

    def __init__(self, automaton: Automaton) -> None:
        self._takes = automaton.takes
        self._follow = [_mask(each) for each in automaton.follow]
        self._first = _mask(automaton.first)
        self._last = _mask(automaton.last)
        self._empty = automaton.empty
        self._begins = self._those(BEGIN_TEXT)
        self._lines = self._those(END_LINE)
        self._ends = self._those(END_TEXT)
        # Of several positions that take the same, one is asked.
        self._kinds: dict[Any, int] = {}
        for number, takes in enumerate(self._takes):
            if not isinstance(takes, str):
                self._kinds[takes] = self._kinds.get(takes, 0) | 1 << number
        self._forget()

    def _those(self, wanted: str) -> int:
        return _mask(number for number, takes in enumerate(self._takes) if takes == wanted)

    def _forget(self) -> None:
        self._states: dict[int, _State] = {}
        self._accepts: dict[str, int] = {}
        self._steps = 0

    def search(self, text: str) -> bool:
        """Whether the pattern is found anywhere in the text."""
        if self._empty:
            return True
        end = len(text)
        # $ holds at the end and before a line break that ends the text.
        before_last = end - 1 if text.endswith("\n") else end
        mask = self._here(self._first, (self._begins, self._at(0, before_last, end)))
        if mask is None:
            return True
        state = self._state(mask)
        whole = end if not self._lines | self._ends else max(0, before_last - 1)
        try:
            for character in text[:whole]:
                state = state[character]
            for at in range(whole, end):
                mask = self._here(state[text[at]].mask, (0, self._at(at + 1, before_last, end)))
                if mask is None:
                    return True
                state = self._state(mask)
        except _Decided as decided:
            return decided.found
        return False

    def _at(self, at: int, before_last: int, end: int) -> int:
        return (self._lines if at in (before_last, end) else 0) | (self._ends if at == end else 0)

    def _here(self, mask: int, hold: tuple[int, int]) -> int | None:
        """What may come next when these places of the text hold; None when the pattern is found with them."""
        holds = hold[0] | hold[1]
        new = mask & holds
        while new:
            if new & self._last:
                return None
            after = self._after(new) & ~mask
            mask |= after
            new = after & holds
        return mask

    def _after(self, mask: int) -> int:
        after = 0
        while mask:
            low = mask & -mask
            after |= self._follow[low.bit_length() - 1]
            mask ^= low
        return after

    def _state(self, mask: int) -> _State:
        state = self._states.get(mask)
        return state if state is not None else self._states.setdefault(mask, _State(self, mask))

    def step(self, state: _State, character: str) -> _State:
        """The state after a character, kept unless that decides the search: then it raises _Decided."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            self._forget()
        accepts = self._accepts.get(character)
        if accepts is None:
            accepts = 0
            for takes, those in self._kinds.items():
                if takes.match(character) is not None:
                    accepts |= those
            self._accepts[character] = accepts
        hits = state.mask & accepts
        if hits & self._last:
            raise _Decided(True)
        mask = self._after(hits) | self._first & ~self._begins
        if not mask:
            raise _Decided(False)
        after = state[character] = self._state(mask)
        return after


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
