"""Measuring: CPU, wall and server CPU of a piece of work, and medians over repetitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from loader.bench.cpu import own_seconds, process_seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """What some messages cost. Seconds; `server` is the CPU of the Postgres server, None when it is not ours."""

    messages: int
    rows: int
    cpu: float
    wall: float
    server: float | None

    @property
    def cpu_micros(self) -> float:
        """CPU of this process, µs a message."""
        return self.cpu / self.messages * 1e6


def measure(work: Callable[[], int], messages: int, server_pid: int | None = None) -> Cost:
    """Do the work once; it returns the rows that it stored."""
    server = process_seconds(server_pid) if server_pid is not None else 0.0
    wall, cpu = time.perf_counter(), own_seconds()
    rows = work()
    cpu, wall = own_seconds() - cpu, time.perf_counter() - wall
    spent = process_seconds(server_pid) - server if server_pid is not None else None
    return Cost(messages, rows, cpu, wall, spent)


def summary(costs: Sequence[Cost]) -> dict[str, float | int | None]:
    """Medians over repetitions of the same work, in the units of the reports."""
    cpu = median(cost.cpu_micros for cost in costs)
    servers = [cost.server / cost.messages * 1e6 for cost in costs if cost.server is not None]
    rows_a_message = sum(cost.rows for cost in costs) / sum(cost.messages for cost in costs)
    wall = median(cost.messages / cost.wall for cost in costs)
    return {
        "repetitions": len(costs),
        "cpu_us_per_message": round(cpu, 3),
        "cpu_us_min": round(min(cost.cpu_micros for cost in costs), 3),
        "cpu_us_max": round(max(cost.cpu_micros for cost in costs), 3),
        "messages_per_second_one_core": round(1e6 / cpu) if cpu else None,
        "rows_per_second_one_core": round(1e6 / cpu * rows_a_message) if cpu else None,
        "messages_per_second_wall": round(wall),
        "rows_per_second_wall": round(wall * rows_a_message),
        "rows_per_message": round(rows_a_message, 3),
        "postgres_cpu_us_per_message": round(median(servers), 3) if servers else None,
    }
