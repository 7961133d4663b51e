"""What the stages that change payloads have in common: one frame's trouble is that frame's alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loader.bridge.frame import Frame, Undecodable
from loader.bridge.stages.stage import Outcome, RefusedFrame


def change_each(frames: list[Frame], change: Callable[[Frame], None]) -> Outcome:
    """Changes each frame that has a value; a tombstone has no fields and goes on as it is."""
    outcome = Outcome()
    for frame in frames:
        if frame.payload.value is not None or frame.changed:
            try:
                change(frame)
            except (Undecodable, RefusedFrame) as error:
                outcome.refused.append((frame, str(error)))
                continue
        outcome.frames.append(frame)
    return outcome


def check_parents(frame: Frame, path: Sequence[str]) -> None:
    """Raises RefusedFrame if setting `path` would overwrite a value that is no object, with all it says."""
    value = frame.exact_fields
    for depth, name in enumerate(path):
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, Mapping):
            if value.get(name) is None and depth < len(path) - 1:
                return
            value = value.get(name)
        else:
            where = ".".join(path[:depth]) or "the payload"
            raise RefusedFrame(f"cannot set {'.'.join(path)}: {where} is not an object")
