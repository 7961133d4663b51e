"""Messages between a supervisor and one worker process: JSON over a socket pair that dies with either of them."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

Handler = Callable[[str, dict[str, Any]], Any]

_MOST_UNANSWERED = 50
"""Questions put to an end that never answers: a socket's buffer holds some thousands, then sending would block."""


class LinkClosed(Exception):
    """The other process has gone."""


class LinkRefused(Exception):
    """The other process could not do what was asked; the text says why. `kind` is the class of its error."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Link:
    """One end. `handler` answers what the other end asks, each question in a thread of its own."""

    def __init__(self, connection: Connection, handler: Handler, on_close: Callable[[], None] | None = None) -> None:
        self._connection = connection
        self._handler = handler
        self._on_close = on_close
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._closed = False
        self._unanswered = 0
        self._thread = threading.Thread(target=self._read, name="link", daemon=True)

    def start(self) -> None:
        """Listen; returns at once."""
        self._thread.start()

    def ask(self, what: str, seconds: float, arguments: dict[str, Any] | None = None) -> Any:
        """The other end's answer, within `seconds`. Raises TimeoutError, LinkClosed, LinkRefused."""
        if self._unanswered >= _MOST_UNANSWERED:
            raise TimeoutError("no answer to many questions before this one")
        answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            if self._closed:
                raise LinkClosed
            number = next(self._numbers)
            self._asked[number] = answers
        try:
            self._send({"ask": what, "number": number, "arguments": arguments or {}})
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            self._unanswered += 1
            raise TimeoutError(f"no answer to {what} within {seconds:g} s") from None
        except OSError as error:
            raise LinkClosed from error
        finally:
            with self._lock:
                self._asked.pop(number, None)
        if answer is None:
            raise LinkClosed
        if "error" in answer:
            raise LinkRefused(answer["error"], answer["text"])
        return answer["answer"]

    def join(self, seconds: float) -> None:
        """Wait until the other end has gone and all that it sent was read."""
        self._thread.join(seconds)

    def _send(self, frame: dict[str, Any]) -> None:
        data = json.dumps(frame).encode()
        with self._sending:
            self._connection.send_bytes(data)

    def _read(self) -> None:
        try:
            while True:
                frame = json.loads(self._connection.recv_bytes())
                self._unanswered = 0
                if "ask" in frame:
                    # A profile takes half a minute, and the next question must not wait for it.
                    threading.Thread(target=self._answer, args=(frame,), name="link answer", daemon=True).start()
                    continue
                with self._lock:
                    answers = self._asked.get(frame["number"])
                if answers is not None:
                    answers.put(frame)
        except (EOFError, OSError):
            pass  # the other process has gone, which is what `on_close` is for
        with self._lock:
            self._closed = True
            waiting = list(self._asked.values())
        for answers in waiting:
            answers.put(None)
        with self._sending:
            self._connection.close()
        if self._on_close is not None:
            self._on_close()

    def _answer(self, frame: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"number": frame["number"]}
        try:
            answer["answer"] = self._handler(frame["ask"], frame["arguments"])
        except Exception as error:  # told to the one who asked
            answer |= {"error": type(error).__name__, "text": str(error)}
        try:
            self._send(answer)
        except OSError:
            pass  # whoever asked has gone
