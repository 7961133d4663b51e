"""The ceiling of pulling, a process: our puller takes messages and acks them; nothing is loaded.

PUBSUB_EMULATOR_HOST=… python -m loader.bench.pulling SUBSCRIPTION STREAMS
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading

from loader.pull.puller import Puller

_REPORT = 10_000


def main() -> None:
    """Take and ack until SIGTERM."""
    subscription, streams = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    gc.disable()  # as in a worker
    puller = Puller(None, subscription, streams=int(streams))
    _say(ready=True)
    puller.start()
    taken = 0
    while not stop.is_set():
        messages = puller.take(0.1)
        if messages:
            puller.ack(messages)
            taken += len(messages)
        if taken >= _REPORT or (taken and not messages):
            _say(loaded=taken)
            taken = 0
    puller.close(2.0)


def _say(**entry: object) -> None:
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
