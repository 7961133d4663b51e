"""Vehicles that drive through the town and report the links that they took."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from loader.bridge.generate.roads import Link, Roads

LINKS = 5
POINTS = 6
"""Of a record and of a link, in the middle: a record has 3 to 7 links, a link 4 to 8 points."""
_TRIP_RECORDS = 40


class _Vehicle:
    __slots__ = ("at", "came", "device", "left", "trip")

    def __init__(self, device: str, at: int) -> None:
        self.device = device
        self.at = at
        """The crossing that it is at."""
        self.came = -1
        """The crossing that it came from: it turns back only where there is no other way."""
        self.trip = ""
        self.left = 0
        """Records until its trip ends."""


def records(seed: int, vehicles: int, rate: float, start: int) -> Iterator[dict[str, Any]]:
    """Without end: record `i` is sent at `start` + `i` / `rate` (milliseconds since the epoch). The same arguments make
    the same records. Fields as in loader/bridge/examples/gps.avsc, times in milliseconds."""
    pick = random.Random(f"vehicles {seed}")
    roads = Roads(seed)
    fleet = [
        _Vehicle(f"nav-{seed % 1_000:03d}-{number:06d}", pick.randrange(len(roads.leaving)))
        for number in range(vehicles)
    ]
    number = 0
    while True:
        vehicle = fleet[number % vehicles] if number < vehicles else fleet[pick.randrange(vehicles)]
        if vehicle.left == 0:
            vehicle.trip = f"{pick.getrandbits(64):016x}"
            vehicle.left = pick.randint(_TRIP_RECORDS // 2, _TRIP_RECORDS * 2)
        vehicle.left -= 1
        yield _record(pick, roads, vehicle, start + int(number * 1_000 / rate))
        number += 1


def _record(pick: random.Random, roads: Roads, vehicle: _Vehicle, sent: int) -> dict[str, Any]:
    links = [_next(pick, roads, vehicle) for _ in range(pick.randint(LINKS - 2, LINKS + 2))]
    seconds = [link.seconds * pick.uniform(1.0, 1.6) for link in links]
    at = sent - int(sum(seconds) * 1_000) - 500
    path = []
    for link, took in zip(links, seconds, strict=True):
        left = at + int(took * 1_000)
        path.append({"linkId": link.number, "enteredAt": at, "leftAt": left, "points": _points(pick, link, at, left)})
        at = left
    return {"deviceId": vehicle.device, "tripId": vehicle.trip, "sentAt": sent, "path": path}


def _next(pick: random.Random, roads: Roads, vehicle: _Vehicle) -> Link:
    ways = roads.leaving[vehicle.at]
    link = ways[int(pick.random() * len(ways))]
    if link.end == vehicle.came and len(ways) > 1:
        link = ways[(ways.index(link) + 1) % len(ways)]
    vehicle.came, vehicle.at = vehicle.at, link.end
    return link


def _points(pick: random.Random, link: Link, entered: int, left: int) -> list[dict[str, Any]]:
    count = pick.randint(POINTS - 2, POINTS + 2)
    speed = link.seconds * link.speed * 1_000 / (left - entered)
    noise = pick.random
    points = []
    for number in range(count):
        part = number / count
        points.append(
            {
                "lat": round(link.lat + link.lat_step * part + (noise() - 0.5) * 4e-5, 6),
                "lon": round(link.lon + link.lon_step * part + (noise() - 0.5) * 4e-5, 6),
                "speed": round(speed * (0.8 + 0.4 * noise()), 2),
                "heading": round((link.heading + (noise() - 0.5) * 6) % 360, 1),
                "at": entered + int((left - entered) * part),
            }
        )
    return points
