"""What VMs cost: list prices of an e2-small, as terraform/prices.toml states them (a test compares the two)."""

from __future__ import annotations

from dataclasses import dataclass

HOURS_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars: a VM's hour, on spot and standard, and its boot disk's month."""

    spot_hour: float = 0.0051
    standard_hour: float = 0.0168
    disk_month: float = 1.00

    def month(self, spot_hours_a_day: float, standard_hours_a_day: float) -> float:
        """Dollars a month in which each day has so many VM hours."""
        disk = self.disk_month / HOURS_A_MONTH
        spot, standard = spot_hours_a_day * (self.spot_hour + disk), standard_hours_a_day * (self.standard_hour + disk)
        return (spot + standard) * HOURS_A_MONTH / 24
