"""The allocator: all threads share one heap, and what is free can be given back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loader.worker.memory import make_trim

_HEAPS = """
import threading
from pathlib import Path
from loader.worker.memory import use_one_heap
{first}
def fill():
    kept.append([bytearray(100_000 + n) for n in range(50)])
kept = []
threads = [threading.Thread(target=fill) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
# glibc gives each further heap 64 MB of addresses, aligned: most of it without any rights yet.
print(sum(line.split()[1] == "---p" and int(line.split("-")[1].split()[0], 16) % (64 << 20) == 0
          for line in Path("/proc/self/maps").read_text().splitlines()))
"""


def heaps(first: str) -> int:
    program = _HEAPS.format(first=first)
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux: /proc/self/maps")
def test_threads_share_one_heap() -> None:
    usual = heaps("")
    if not usual:
        pytest.skip("the C library is not glibc, or it was told to use one heap already")
    assert heaps("use_one_heap()") == 0


def test_giving_back_never_fails() -> None:
    make_trim()()
