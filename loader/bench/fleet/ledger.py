"""What was published and what was found, event by event: 17 bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from loader.bench.fleet.content import MASK

_LISTED = 5
_MOST = 255


@dataclass(frozen=True, slots=True)
class Compared:
    """Events by what is wrong with them, and the first few of each for people. All 0 is what is wanted."""

    missing: int = 0
    """No row."""
    doubled: int = 0
    """More than one root row."""
    different: int = 0
    """One root row, but not the content that was published: a value, a type, a table or a child row is wrong."""
    unexpected: int = 0
    """Rows of events that were never published or that are poison, and child rows without a parent."""
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Nothing is wrong."""
        return not (self.missing or self.doubled or self.different or self.unexpected)


class Ledger:
    """Events by number. One that is to have no rows (poison) is never expected."""

    def __init__(self, events: int) -> None:
        self._expected = array("Q", bytes(8 * events))
        self._found = array("Q", bytes(8 * events))
        self._roots = bytearray(events)
        self._wanted = bytearray(events)
        self.rows = 0
        """Root rows found."""
        self.strangers: list[str] = []
        """Identities of rows that belong to no event; the first few."""
        self.unknown = 0

    def expect(self, number: int, digest: int) -> None:
        """The event was published with this content; twice the same is one event."""
        self._expected[number] = digest
        self._wanted[number] = 1

    def find(self, number: int | None, digest: int, root: bool, identity: str | None) -> None:
        """A row was read; None when its identity is no event's."""
        self.rows += root
        if number is None:
            self.unknown += 1
            if len(self.strangers) < _LISTED:
                self.strangers.append(str(identity))
            return
        self._found[number] = (self._found[number] + digest) & MASK
        if root and self._roots[number] < _MOST:
            self._roots[number] += 1

    def compare(self, identity: Callable[[int], str]) -> Compared:
        """Judge each event."""
        counts = {"missing": 0, "doubled": 0, "different": 0, "unexpected": self.unknown}
        examples = [f"{name}: no event of this run" for name in self.strangers]
        for number, wanted in enumerate(self._wanted):
            roots = self._roots[number]
            if wanted and roots == 1 and self._found[number] == self._expected[number]:
                continue
            if not wanted:
                if not roots and not self._found[number]:
                    continue
                kind = "unexpected"
            else:
                kind = "missing" if not roots else "doubled" if roots > 1 else "different"
            counts[kind] += 1
            if counts[kind] <= _LISTED:
                examples.append(f"{identity(number)}: {kind}")
        return Compared(**counts, examples=tuple(examples))
