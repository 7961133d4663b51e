"""Gives what was read to all pipelines of a shared consumer, so that each payload is decoded at most once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from loader.bridge.columns import Columns, reformatted
from loader.bridge.engine.flow import Flow
from loader.bridge.frame import Frame


def give_out(frames: Sequence[Frame], flows: Sequence[Flow]) -> Iterator[tuple[Flow, Sequence[Frame]]]:
    """Each pipeline with frames of its own; those of one format share what is decoded."""
    return _columns(frames, flows) if isinstance(frames, Columns) else _frames(frames, flows)


def _columns(columns: Columns, flows: Sequence[Flow]) -> Iterator[tuple[Flow, Sequence[Frame]]]:
    readers = Counter(id(flow.format) for flow in flows if flow.has_stages)
    first: dict[int, Columns] = {}
    for flow in flows:
        mine = first.get(id(flow.format))
        if mine is None:
            mine = columns.reformat(flow.format)
            # Who reads alone need not keep what it decoded for others.
            if readers[id(flow.format)] > 1:
                mine = mine.shared()
            first[id(flow.format)] = mine
        yield flow, mine


def _frames(frames: Sequence[Frame], flows: Sequence[Flow]) -> Iterator[tuple[Flow, Sequence[Frame]]]:
    first: dict[int, Sequence[Frame]] = {}
    for flow in flows:
        # Who is first with a format takes the frames themselves, the others copies.
        mine = first.get(id(flow.format))
        if mine is None:
            own = frames if not first else [frame.copy() for frame in frames]
            mine = first[id(flow.format)] = reformatted(own, flow.format)
        else:
            mine = [frame.copy() for frame in mine]
        yield flow, mine
