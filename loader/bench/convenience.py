"""The baseline worker, a process: the convenience client and one stock `pipeline.run` a window.

python -m loader.bench.convenience SUBSCRIPTION DATABASE_URL DATASET WINDOW_SECONDS BUNDLE
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import deque
from typing import Any

import google.cloud.pubsub_v1 as pubsub_v1

from loader.bench.stock import StockPipeline


def main() -> None:
    """Pull, gather a window, load it, ack each message, until SIGTERM."""
    subscription, url, dataset, seconds, bundle = sys.argv[1:]
    stop = threading.Event()
    stock = StockPipeline(url, dataset)
    stock.pipeline.sync_destination()
    # dlt takes the signals for itself while it runs; ours is set once and found again after each run.
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    received: deque[Any] = deque()
    subscriber = pubsub_v1.SubscriberClient()
    _say(ready=True)
    future = subscriber.subscribe(
        subscription, received.append, flow_control=pubsub_v1.types.FlowControl(max_messages=2 * int(bundle))
    )
    try:
        while not stop.is_set():
            window = _window(received, float(seconds), int(bundle), stop)
            if window:
                stock.run([message.data for message in window])
                for message in window:
                    message.ack()
                _say(loaded=len(window))
    finally:
        future.cancel()
        future.result()
        subscriber.close()
        stock.close()


def _window(received: deque[Any], seconds: float, bundle: int, stop: threading.Event) -> list[Any]:
    until = time.monotonic() + seconds
    window: list[Any] = []
    while len(window) < bundle and time.monotonic() < until and not stop.is_set():
        if received:
            window.append(received.popleft())
        else:
            time.sleep(seconds / 100)
    return window


def _say(**entry: Any) -> None:
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
