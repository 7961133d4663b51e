"""The status page as an endpoint: reads the picture at most every few seconds, however many browsers ask for it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

import psycopg

from loader.logs import Redaction
from loader.observe.health import Report
from loader.observe.http import Request, Response
from loader.observe.page import HEADERS, render
from loader.status.monitoring import read_backlog
from loader.status.picture import Backlog, Picture
from loader.status.read import read_picture

FRESH_SECONDS = 5.0
BACKLOG_SECONDS = 60.0
"""Cloud Monitoring has a new figure each minute, and a quota."""


class Connector(Protocol):
    """Opens connections; loader/database/connection.py has the real one."""

    def connect(self, application_name: str, *, autocommit: bool = False) -> psycopg.Connection[Any]: ...


class PageSource:
    """Thread-safe. A connection is opened for each look and closed after it: nobody may look for days.

    `report` gives the health of the worker that serves the page, where one does. `clock` is monotonic seconds."""

    def __init__(
        self,
        connector: Connector,
        dataset: str,
        subscription: str | None,
        report: Callable[[], Report] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connector = connector
        self._dataset = dataset
        self._subscription = subscription
        self._report = report
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._picture: Picture | None = None
        self._trouble: str | None = None
        self._backlog_at = float("-inf")
        self._backlog = Backlog()

    def page(self, request: Request) -> Response:
        """The page; while the database does not answer, the last picture under what is wrong."""
        # One looks and the others wait for its result: a database in trouble is not asked by all of them at once.
        with self._lock:
            if self._clock() - self._looked >= FRESH_SECONDS:
                self._look()
                self._looked = self._clock()
            picture, trouble = self._picture, self._trouble
        body = render(self._dataset, picture, trouble, self._report() if self._report is not None else None)
        return Response(body, "text/html; charset=utf-8", HTTPStatus.OK, HEADERS)

    def _look(self) -> None:
        try:
            with self._connector.connect("loader page", autocommit=True) as conn:
                picture = read_picture(conn, self._dataset)
        except psycopg.errors.UndefinedTable:
            self._trouble = f"dataset {self._dataset} has none of the loader's tables yet: nothing was loaded"
            return
        except psycopg.Error as error:
            # What a driver says may hold the login; the page is for more eyes than the log.
            text = " ".join(Redaction().text(str(error)).split())
            self._trouble = f"the database does not answer: {text[:300]}"
            return
        self._trouble = None
        if self._clock() - self._backlog_at >= BACKLOG_SECONDS:
            self._backlog = read_backlog(self._subscription, picture.taken_at)
            self._backlog_at = self._clock()
        self._picture = dataclasses.replace(picture, backlog=self._backlog)
