"""Flow control against bundle size: could a bundle ever fill, and will its messages' leases last."""

from __future__ import annotations

from loader.checks.finding import Finding
from loader.settings.declaration import Settings
from loader.settings.limits import contradictions
from loader.settings.sizes import format_size

AREA = "settings"


def judge_flow(settings: Settings) -> list[Finding]:
    """One finding for each contradiction, or one that says what is held and when a bundle closes."""
    found = [Finding(AREA, "flow control", "configuration", text) for text in contradictions(settings)]
    return found or [
        Finding(
            AREA,
            "flow control",
            "ok",
            f"holds up to {settings.outstanding_messages} messages, {format_size(settings.outstanding_bytes)}; "
            f"a bundle closes at {settings.max_bundle_messages} messages, {format_size(settings.max_bundle_bytes)} or "
            f"{settings.window_seconds:g} s; leases of {settings.lease_seconds} s",
        )
    ]
