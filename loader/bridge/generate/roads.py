"""A small town's road graph: crossings on an uneven grid, and links between neighbours in both directions."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

_METRES_A_DEGREE = 111_320.0
_SPEEDS = (8.3, 13.9, 13.9, 19.4)
"""Metres a second: 30, 50 and 70 km/h."""


class Link(NamedTuple):
    """A piece of road from one crossing to the next, one direction."""

    number: int
    start: int
    end: int
    lat: float
    lon: float
    lat_step: float
    lon_step: float
    """From the start to the end, in degrees."""
    heading: float
    seconds: float
    """To drive along it."""
    speed: float


class Roads:
    """`size` × `size` crossings about 200 m apart. The same seed makes the same town."""

    def __init__(self, seed: int, size: int = 24, lat: float = 48.137, lon: float = 11.575) -> None:
        pick = random.Random(f"roads {seed}")
        across = _METRES_A_DEGREE * math.cos(math.radians(lat))
        places = [
            (
                lat + (row * 200 + pick.uniform(-60, 60)) / _METRES_A_DEGREE,
                lon + (column * 200 + pick.uniform(-60, 60)) / across,
            )
            for row in range(size)
            for column in range(size)
        ]
        self.leaving: list[list[Link]] = [[] for _ in places]
        """Links by the crossing that they start at."""
        number = 4_800_000
        for row in range(size):
            for column in range(size):
                here = row * size + column
                neighbours = [here + 1] if column + 1 < size else []
                neighbours += [here + size] if row + 1 < size else []
                for there in neighbours:
                    speed = pick.choice(_SPEEDS)
                    for start, end in ((here, there), (there, here)):
                        self.leaving[start].append(_link(number, start, end, places, speed, across))
                        number += 1


def _link(number: int, start: int, end: int, places: list[tuple[float, float]], speed: float, across: float) -> Link:
    (lat, lon), (end_lat, end_lon) = places[start], places[end]
    north, east = (end_lat - lat) * _METRES_A_DEGREE, (end_lon - lon) * across
    heading = math.degrees(math.atan2(east, north)) % 360
    seconds = math.hypot(north, east) / speed
    return Link(number, start, end, lat, lon, end_lat - lat, end_lon - lon, heading, seconds, speed)
