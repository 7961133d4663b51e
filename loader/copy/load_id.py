"""Load ids, spelled as dlt's: seconds since the epoch with a fraction, as text."""

from __future__ import annotations

import secrets
import threading
import time


class LoadIds:
    """Makes load ids that grow, and that no other worker makes: the last digits are this worker's own."""

    def __init__(self) -> None:
        self._nonce = secrets.randbelow(10_000)
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        """A new load id, such as `1764504000.12345670042`."""
        with self._lock:
            micros = max(time.time_ns() // 1000, self._last + 1)
            self._last = micros
        return f"{micros // 1_000_000}.{micros % 1_000_000:06d}{self._nonce:04d}"
