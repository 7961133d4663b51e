"""A dataset that messages are loaded into as a worker does, and the command run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psycopg
from pydantic import SecretStr

from loader.commands.parts import make_database
from loader.dead_letter.replay import Impatience
from loader.message.message import Message
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts
from loader.worker.batch import MessageBatch
from loader.worker.learning import Learning


def message(number, body, attributes=None, age=3.0):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    published = int((time.time() - age) * 1_000_000)
    return Message(f"ack-{number}", f"m{number}", data, attributes or {}, published, 1)


class Dataset:
    def __init__(self, url):
        self.url = url
        self.conn = psycopg.connect(url, autocommit=True)

    def settings(self, **values):
        return Settings(dataset="events", database_url=SecretStr(self.url), table_key="type", **values)

    def load(self, *messages, **values):
        settings = self.settings(**values)
        parts = Parts(settings, make_database(settings), Impatience())
        intake = parts.intake()
        lane, learning_lane = parts.lane("load", intake), parts.lane("learn", intake, parts.settled)
        learning = Learning(learning_lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None)
        for loaded in lane.store(MessageBatch(intake, messages)):
            if loaded.misfits:
                learning.add(loaded.misfits)
        learning.finish()
        learning.run()
        lane.close()
        learning_lane.close()

    def rows(self, query):
        return self.conn.execute(query).fetchall()

    def loader(self, *arguments, **environ):
        environment = {**os.environ, "LOADER_DATABASE_URL": self.url, "LOADER_TABLE_KEY": "type", **environ}
        return subprocess.run(
            [sys.executable, "-m", "loader", *arguments],
            input="",
            capture_output=True,
            text=True,
            env=environment,
            timeout=90,
        )
