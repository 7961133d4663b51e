"""Sends each message to some of the pipeline's sinks, by rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.condition.compile import compile_condition
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.stages.stage import Option, Outcome, StageContext


class Route:
    """Rules in order; the first that holds decides, or with match = "all" every one that holds."""

    name: ClassVar[str] = "route"
    summary: ClassVar[str] = (
        "Sends a message to the sinks of the first rule that holds, else to the default; without one it is counted as "
        "filtered. A second route narrows what the first one chose."
    )
    options: ClassVar[Sequence[Option]] = (
        Option(
            "rule",
            "blocks",
            "A rule.",
            required=True,
            inner=(
                Option("when", "condition", "Condition that a message must meet.", required=True),
                Option("to", "list(endpoint)", "Sinks that it goes to; [] drops it.", required=True),
            ),
        ),
        Option("default", "list(endpoint)", "Sinks for messages that meet no rule; unset, they are dropped."),
        Option("match", "one of first|all", "Whether the first rule decides or all that hold.", "first"),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.rules = [(compile_condition(rule["when"], context.lookup), tuple(rule["to"])) for rule in options["rule"]]
        self.default = tuple(options.get("default") or ())
        self.all = options.get("match") == "all"
        self.pairs = [(condition.test, to) for condition, to in self.rules]

    def apply(self, frames: list[Frame]) -> Outcome:
        outcome = Outcome()
        for frame in frames:
            try:
                sinks = self._sinks(frame)
            except Undecodable as error:
                outcome.refused.append((frame, str(error)))
                continue
            if frame.sinks is not None:
                sinks = tuple(sink for sink in sinks if sink in frame.sinks)
            if sinks:
                frame.sinks = sinks
                outcome.frames.append(frame)
            else:
                outcome.filtered += 1
        return outcome

    def _sinks(self, frame: Frame) -> tuple[str, ...]:
        if not self.all:
            for test, to in self.pairs:
                if test(frame):
                    return to
            return self.default
        found: dict[str, None] = {}
        held = False
        for test, to in self.pairs:
            if test(frame):
                held = True
                found.update(dict.fromkeys(to))
        return tuple(found) if held else self.default

    def why(self, frame: Frame) -> str:
        """Which rules held, and where the message goes."""
        held = [
            f"rule {number} ({condition.text})"
            for number, (condition, _) in enumerate(self.rules, 1)
            if condition.test(frame)
        ]
        sinks = ", ".join(self._sinks(frame)) or "nowhere"
        if not held:
            return f"no rule of {len(self.rules)} holds: default, to {sinks}"
        return f"{' and '.join(held if self.all else held[:1])} holds: to {sinks}"


STAGE = Route
