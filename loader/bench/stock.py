"""The baseline: stock dlt, one `pipeline.run` for each 5,000 messages.

As the reference worker (pubsub-dlt-stream) does it: dlt's JSON reader, one resource a table. Telemetry is off."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from loader.bench.messages import TABLE_KEY
from loader.bench.prefill import prefill

BUNDLE = 5_000
_TEACHING = 1_000
# Before dlt is configured: nothing leaves the machine, nothing is read from a user's dlt folder.
_ENVIRONMENT = {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "ERROR",
}


def _as_url(conninfo: str) -> str:
    """dlt takes URLs only."""
    parts = conninfo_to_dict(conninfo)
    quoted = {name: quote(str(value), safe="") for name, value in parts.items()}
    return (
        f"postgresql://{quoted.get('user', '')}:{quoted.get('password', '')}@{quoted.get('host', 'localhost')}"
        f":{quoted.get('port', '5432')}/{quoted.get('dbname', '')}"
    )


class StockPipeline:
    """A dlt pipeline into one dataset of a Postgres. Working files are temporary."""

    def __init__(self, url: str, dataset: str) -> None:
        os.environ.update(_ENVIRONMENT)
        self._folder = tempfile.mkdtemp(prefix="loader-bench-dlt-")
        os.environ["DLT_DATA_DIR"] = self._folder
        import dlt

        logging.getLogger("dlt").setLevel(logging.ERROR)
        self.url = url
        self.dataset = dataset
        self.pipeline = dlt.pipeline(
            pipeline_name=dataset,
            destination=dlt.destinations.postgres(_as_url(url)),
            dataset_name=dataset,
            pipelines_dir=str(Path(self._folder) / "pipelines"),
        )

    def run(self, bodies: Sequence[bytes]) -> None:
        """Parse, group by table and load: what the reference worker does with a window of messages."""
        import dlt
        from dlt.common.json import json

        tables: dict[str, list[Any]] = {}
        for body in bodies:
            record = json.loadb(body)
            tables.setdefault(record[TABLE_KEY], []).append(record)

        @dlt.source(name="bundle")
        def bundle() -> Any:
            for name, records in tables.items():
                yield dlt.resource(records, name=name, table_name=name, write_disposition="append")

        self.pipeline.run(bundle())

    def prepare(self, bodies: Sequence[bytes], prefilled: int) -> None:
        """Make the tables from the first bodies and fill them as ours are filled."""
        self.run(bodies[:_TEACHING])
        with psycopg.connect(self.url, autocommit=True) as conn:
            found = conn.execute(
                "select tablename from pg_catalog.pg_tables where schemaname = %s and left(tablename, 1) <> '_'",
                (self.dataset,),
            )
            prefill(conn, self.dataset, [row[0] for row in found], prefilled)

    def close(self) -> None:
        """Remove the working files."""
        shutil.rmtree(self._folder, ignore_errors=True)
