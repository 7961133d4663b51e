"""Checks what no single block can show: unknown names, loops, unreachable stages, limits, shared consumers."""

from __future__ import annotations

from loader.bridge.config.finding import Findings
from loader.bridge.config.model import Configuration


def check(configuration: Configuration, findings: Findings) -> None:
    """Add what is wrong or doubtful."""
