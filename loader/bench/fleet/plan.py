"""What a run of the fleet is made of: its size, its weather, and how its time passes."""

from __future__ import annotations

from dataclasses import dataclass

from loader.bench.simulation.autoscaler import Policy

MAX_BUNDLE = 20_000
"""The loader's own default."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Parameters of a run; they are part of its record.

    Fleet seconds are seconds of the controller: the autoscaler's metric, memory and limits, boots and preemptions. One
    real second is `compress` of them. What the processes do takes real time: their start, a bundle's window, a lease,
    and the 30 seconds between the SIGTERM of a preemption and its SIGKILL.
    """

    messages: int = 1_000_000
    twice: float = 0.01
    """Share of the messages that are second publications of an event, under the same event id."""
    poison: float = 0.001
    """Share of the messages that can never be loaded."""
    seed: int = 1
    workers_min: int = 1
    workers_max: int = 4
    assignment: int | None = None
    """Messages of backlog for each worker; None: all workers until a third of the backlog is left."""
    compress: float = 30.0
    boot_seconds: float = 120.0
    metric_late: float = 120.0
    preemptions_per_hour: float = 3.0
    """Of each worker, in fleet time."""
    outright: float = 0.5
    """Share of the preemptions that are a kill -9 without warning."""
    grace_seconds: float = 30.0
    kills: int = 2
    """kill -9 of a serving worker at set shares of the backlog, whatever preemptions are drawn."""
    restarts: int = 2
    """Of Postgres, in order and by kill -9 in turn; only of a server of ours."""
    cuts: int = 6
    """All streams end at once."""
    redeliveries: int | None = None
    """Deliveries that the Pub/Sub server doubles; None: as many as are published twice."""
    window_seconds: float = 5.0
    lease_seconds: int = 10
    bundle: int | None = None
    """LOADER_MAX_BUNDLE_MESSAGES; None: a fiftieth of the backlog, at most the default."""
    calibrate: int | None = None
    """Messages of each measurement beforehand; None: a fifth of the backlog, 0: none, and no ideal."""
    patience_seconds: float = 120.0
    """Without any progress a run has failed."""

    def __post_init__(self) -> None:
        if self.messages < 100:
            raise ValueError(f"{self.messages} messages are too few: 100 at least")
        if not 0 <= self.twice < 0.5 or not 0 <= self.poison < 0.5:
            raise ValueError("the shares of messages published twice and of poison must be from 0 to below a half")
        if self.compress <= 0:
            raise ValueError("one real second is more than no fleet time: --compress must be above 0")
        if not 0 <= self.outright <= 1:
            raise ValueError("the share of preemptions without warning must be from 0 to 1")
        self.policy()

    def policy(self) -> Policy:
        """The autoscaler's. The backlog is its only signal: workers that share a machine's cores say nothing of a VM's
        CPU. Raises ValueError when it makes no sense."""
        assignment = self.assignment or max(1, self.messages // (3 * self.workers_max))
        return Policy(self.workers_min, self.workers_max, float(assignment), 1.0, None)

    @property
    def bundle_messages(self) -> int:
        """LOADER_MAX_BUNDLE_MESSAGES."""
        return self.bundle or min(MAX_BUNDLE, max(200, self.messages // 50))

    @property
    def calibration(self) -> int:
        """Messages of each measurement beforehand, 0 for none."""
        if self.calibrate is not None:
            return self.calibrate
        return min(200_000, max(20_000, self.messages // 5))

    @property
    def doubled_deliveries(self) -> int:
        """Deliveries that the server doubles."""
        return self.redeliveries if self.redeliveries is not None else round(self.messages * self.twice)
