"""How the C library's allocator is to behave: it keeps what is free, a fifth of the process after a burst, and it opens
heaps by the thread, each with its own share of what is free."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

_M_ARENA_MAX = -8  # <malloc.h> of glibc


def use_one_heap() -> None:
    """Let all threads share a heap: 10 MB less at a full backlog, and no more CPU, for threads take turns in Python.

    Before threads are started; it does nothing where the C library is not glibc.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
        mallopt(_M_ARENA_MAX, 1)


def make_trim() -> Callable[[], None]:
    """A function that gives free memory back (1 to 5 ms); it does nothing where the C library is not glibc."""
    trim = _function("malloc_trim")
    if trim is None:
        return lambda: None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back


def _function(name: str) -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim  # noqa: B018 - musl has none, and another mallopt if any
        return getattr(library, name)  # type: ignore[no-any-return]
    except (OSError, AttributeError):
        return None
