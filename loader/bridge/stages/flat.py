"""How a record and an element of its list become one flat object: which fields, and what they are called there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Path = tuple[str, ...]


class Names(NamedTuple):
    """Source path or key and name in the row, in the row's order."""

    parents: Sequence[tuple[Path, str]]
    elements: Sequence[tuple[Path, str]]


@dataclass(frozen=True, slots=True)
class Flat:
    """What a `flatten` stage was told. Hashable by identity only."""

    each: Path
    keep: Sequence[Path] | None
    """Fields of the record; None: all but the list."""
    fields: Sequence[Path] | None
    """Fields of the element; None: all, without its lists if `raw` has them."""
    rename: Mapping[str, str]
    raw: str | None
    """Name of the column with the whole element."""
    raw_text: bool = False
    key: Path | None = None
    """Field of the record that becomes the message's key."""

    @property
    def flat(self) -> bool:
        """Whether all paths are of one step."""
        paths = [self.each, *(self.keep or ()), *(self.fields or ()), *([self.key] if self.key else ())]
        return all(len(path) == 1 for path in paths)

    def names(self, record: Sequence[str], element: Sequence[str], is_list: Callable[[str], bool]) -> Names:
        """For a record and an element with these keys. An element's field has its own name; what would take a name
        that is taken gets `parent_` or `element_` in front, and no field is lost."""
        taken = {self.raw} if self.raw else set()
        if self.fields is not None:
            chosen = list(self.fields)
        else:
            chosen = [(key,) for key in element if not (self.raw and is_list(key))]
        elements = [(path, self._name(path, "element_", taken)) for path in chosen]
        if self.keep is not None:
            kept = list(self.keep)
        else:  # a list further down was taken out of its object before
            kept = [(key,) for key in record if key != self.each[0] or len(self.each) > 1]
        return Names([(path, self._name(path, "parent_", taken)) for path in kept], elements)

    def _name(self, path: Path, prefix: str, taken: set[str]) -> str:
        name = self.rename.get(".".join(path)) or "_".join(path)
        while name in taken:
            name = prefix + name
        taken.add(name)
        return name
