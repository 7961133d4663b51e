"""One thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "warning", "fault", "configuration"]

EXIT_CODES: dict[Status, int] = {"ok": 0, "warning": 0, "fault": 1, "configuration": 78}


@dataclass(frozen=True, slots=True)
class Finding:
    """`status` is ok, warning (works, but see `advice`), fault (does not work) or configuration (wrong setting)."""

    area: str
    subject: str
    status: Status
    found: str
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def exit_code(findings: Iterable[Finding]) -> int:
    """78 if a setting is wrong, else 1 if anything does not work, else 0."""
    return max((EXIT_CODES[finding.status] for finding in findings), default=0)
