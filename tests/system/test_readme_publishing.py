"""The README's sections on publishing and on keeping tables small, with the code that stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

README = (Path(__file__).parents[2] / "README.md").read_text()


def code_block(section: str, language: str) -> str:
    text = re.search(rf"^##+ {re.escape(section)}\n(.*?)(?=^##)", README, re.MULTILINE | re.DOTALL)
    assert text is not None, section
    block = re.search(rf"```{language}\n(.*?)```", text[1], re.DOTALL)
    assert block is not None, language
    return block[1]


def test_the_python_publisher_gives_the_table_that_is_shown(
    database: Any, topic: Any, worker: Callable[..., Any]
) -> None:
    snippet = code_block("Publishing", "python").replace("my-project", topic.project)
    environment = {**os.environ, "PUBSUB_EMULATOR_HOST": topic.server.endpoint}
    for _ in range(2):  # the second is a duplicate, by the publisher's own identity
        subprocess.run([sys.executable, "-c", snippet], env=environment, check=True, timeout=60, capture_output=True)
    worker(table_key="type", event_id_attribute="event_id", window_seconds=0.2)
    topic.until_settled()
    types = dict(
        database.rows(
            "select table_name || '.' || column_name, data_type from information_schema.columns"
            " where table_schema = 'events'"
        )
    )
    assert types["order_placed.type"] == "character varying"
    assert types["order_placed.order_id"] == "bigint"
    assert types["order_placed.total"] == "double precision"
    assert types["order_placed.placed_at"] == "timestamp with time zone"
    assert types["order_placed._event_digest"] == "bigint"
    assert types["order_placed._published_at"] == "timestamp with time zone"
    assert database.rows("select type, order_id, total, customer__id, customer__city, _event_id from order_placed") == [
        ("order_placed", 7, 19.5, "c-1", "Berlin", "order-7")
    ]
    children = "select i.sku, i.qty, i._dlt_list_idx from order_placed__items i join order_placed o"
    assert database.rows(f"{children} on o._dlt_id = i._dlt_parent_id order by 3") == [("tea", 2, 0), ("cup", 1, 1)]


def test_old_rows_are_deleted_with_their_child_rows_by_the_statements_shown(
    database: Any, topic: Any, worker: Callable[..., Any]
) -> None:
    topic.publish([b'{"type":"order_placed","items":[{"sku":"a"}]}', b'{"type":"order_placed","items":[{"sku":"b"}]}'])
    worker(table_key="type", window_seconds=0.2)
    topic.until_settled()
    database.execute("update order_placed set _published_at = now() - interval '91 days' where ctid = '(0,1)'")
    for statement in code_block("Keeping tables small", "sql").split(";"):
        if statement.strip():
            database.execute(statement)
    assert database.count("order_placed") == 1
    assert database.count("order_placed__items") == 1
