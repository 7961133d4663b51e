"""Gives memory that is free back to the system. glibc keeps it otherwise: a fifth of the process after a burst."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable


def make_trim() -> Callable[[], None]:
    """A function that gives free memory back (1 to 5 ms); it does nothing where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # musl, for example
        return lambda: None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back
