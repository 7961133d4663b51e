"""The flight record: which messages a worker process has in hand, readable by its supervisor after a kill -9.

Kept in memory that both share and no disk: a message that was in flight when a worker died twice is a suspect, and
is loaded alone from then on."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Collection, Iterable

_HEADER = struct.Struct("<Q")
_SLOT_BYTES = 1 << 26
"""Distance between slots; the memory is sparse, only what is written takes room."""
SLOTS = 2
"""One for each thread that loads: 0 the bundles', 1 the learning's."""
DEATHS_OF_A_SUSPECT = 2
_MOST_REMEMBERED = 200_000


def new_record() -> int:
    """A file descriptor of shared memory for one worker; the caller closes it."""
    if sys.platform.startswith("linux"):
        return os.memfd_create("loader-flight")
    with tempfile.TemporaryFile() as file:  # has no name from the start, and goes with its last descriptor
        return os.dup(file.fileno())


class FlightRecord:
    """One worker's messages in flight, behind a descriptor of `new_record`. Each slot is for one thread."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, slot: int, message_ids: Iterable[str]) -> None:
        """These messages are about to be worked on; they replace what the slot held."""
        data = "\n".join(message_ids).encode("utf-8", "replace")[: _SLOT_BYTES - _HEADER.size]
        # The length last: a reader after a kill must not take old bytes for new ones.
        self.clear(slot)
        os.pwrite(self.descriptor, data, slot * _SLOT_BYTES + _HEADER.size)
        os.pwrite(self.descriptor, _HEADER.pack(len(data)), slot * _SLOT_BYTES)

    def clear(self, slot: int) -> None:
        """They are settled."""
        os.pwrite(self.descriptor, _HEADER.pack(0), slot * _SLOT_BYTES)

    def read(self) -> list[list[str]]:
        """Message ids by slot."""
        result = []
        for slot in range(SLOTS):
            header = os.pread(self.descriptor, _HEADER.size, slot * _SLOT_BYTES)
            size = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else 0
            data = os.pread(self.descriptor, size, slot * _SLOT_BYTES + _HEADER.size)
            result.append(data.decode("utf-8", "replace").split("\n") if data else [])
        return result


class Suspects:
    """Messages that were in flight when workers died."""

    def __init__(self) -> None:
        self._deaths: OrderedDict[str, list[int]] = OrderedDict()

    def died(self, slots: Iterable[Collection[str]]) -> bool:
        """A worker died with these in flight; True if there are more suspects now, or they have become worse."""
        changed = False
        for ids in slots:
            for message_id in ids:
                counts = self._deaths.setdefault(message_id, [0, 0])
                self._deaths.move_to_end(message_id)
                counts[0] += 1
                counts[1] += len(ids) == 1
                changed |= counts[0] >= DEATHS_OF_A_SUSPECT
        while len(self._deaths) > _MOST_REMEMBERED:
            self._deaths.popitem(last=False)
        return changed

    @property
    def current(self) -> dict[str, int]:
        """Message id → deaths at which it was the only one in flight, of those that saw two deaths or more."""
        return {key: alone for key, (deaths, alone) in self._deaths.items() if deaths >= DEATHS_OF_A_SUSPECT}
