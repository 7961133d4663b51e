from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import psycopg
import pytest
import typer

from loader.commands import demo as verb
from loader.demo import demo, parts, worker
from loader.demo.demo import Outcome
from loader.demo.progress import Progress
from loader.demo.publisher import Published
from loader.demo.survey import Survey
from loader.errors import LoaderError
from loader.local.stack import Stack
from loader.pull import protocol as pb

pytestmark = pytest.mark.slow


def command(*arguments):
    return [sys.executable, "-m", "loader", "demo", *arguments]


def run_demo(pubsub, *arguments, **options):
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env={**os.environ, **pubsub.environment, "PYTHONPATH": root},
        timeout=110,
        **options,
    )


def topics(pubsub):
    return {topic.name for topic in pubsub.stub.list_topics(pb.ListTopicsRequest(project="projects/demo")).topics}


def test_the_demo_shows_what_it_promises_and_its_receipt_balances(pubsub):
    before = topics(pubsub)
    done = run_demo(pubsub, "--seconds", "3", "--rate", "200", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    receipt = document["receipt"]
    links = document["published"]["links"]
    assert links > 0
    assert document["published"]["messages"] == 600
    assert receipt["published"] == 600 + links
    assert receipt["balanced"]
    assert receipt["repeats"] > 0
    assert receipt["duplicates"] == receipt["repeats"]
    tables = {table["name"]: table for table in document["tables"]}
    roots = {name for name, table in tables.items() if table["parent"] is None}
    assert roots == {
        "page_viewed",
        "order_placed",
        "payment_captured",
        "courier_position",
        "support_ticket_opened",
        "gps_links",
    }
    # Behind the bridge: the vehicles' links beside page views that took the router.
    assert tables["gps_links"]["rows"] == links
    assert {column["name"]: column["type"] for column in tables["gps_links"]["columns"]}["path"] == "jsonb"
    assert receipt["loaded"] == sum(tables[name]["rows"] for name in roots)
    assert tables["order_placed__items__discounts"]["parent"] == "order_placed__items"
    assert tables["payment_captured__refunds"]["rows"] > 0
    types = {column["name"]: column["type"] for column in tables["courier_position"]["columns"]}
    assert (types["battery"], types["battery__v_text"]) == ("bigint", "varchar")
    assert "gift_note" in {column["name"] for column in tables["order_placed"]["columns"]}
    assert sorted(letter["reason"] for letter in document["dead_letters"]) == ["not JSON", "not an object"]
    # Every row's age was found, each from the moment at which the worker told its commit.
    assert {name: ages["events"] for name, ages in document["ages"].items()} == {
        name: tables[name]["rows"] for name in roots
    }
    assert all(0 < ages["p50"] <= ages["p99"] for ages in document["ages"].values())
    assert topics(pubsub) == before


def test_deliveries_that_pubsub_repeats_are_recognised_and_told_apart(pubsub):
    pubsub.faults.duplicate(50)
    done = run_demo(pubsub, "--seconds", "2", "--rate", "200", "--json")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)["receipt"]
    assert receipt["balanced"]
    assert receipt["redelivered"] > 0


def test_an_interrupted_demo_ends_with_its_receipt(pubsub):
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        command("--seconds", "600", "--rate", "200"),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **pubsub.environment, "PYTHONPATH": root, "PYTHONUNBUFFERED": "1"},
    )
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if "+ table" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
        assert process.wait(60) == 0, "".join(seen) + rest
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    figures = re.findall(r"published ([\d,]+)  loaded ([\d,]+)", "".join(seen) + rest)
    assert figures, "there is a line of figures each second"
    assert all(int(loaded.replace(",", "")) <= int(published.replace(",", "")) for published, loaded in figures)
    assert "Stopping: what is on the way is still loaded" in rest
    assert "It balances" in rest


def test_kept_servers_stay_and_a_second_demo_takes_a_dataset_of_its_own(pubsub, tmp_path):
    folder = tmp_path / ".local" / "demo"
    try:
        for dataset in ("demo", "demo_2"):
            done = run_demo(pubsub, "--seconds", "1", "--rate", "40", "--keep", "--json", cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            document = json.loads(done.stdout)
            variables = document["kept"]["environment"]
            assert variables["LOADER_DATASET"] == dataset
            with psycopg.connect(variables["LOADER_DATABASE_URL"]) as connection:
                count = connection.execute(f"select count(*) from {dataset}.page_viewed").fetchone()[0]
            assert count == next(one["rows"] for one in document["tables"] if one["name"] == "page_viewed")
    finally:
        state = Stack(folder)
        data = state.status().get("postgres", {}).get("folder")
        state.down()
        if data:
            shutil.rmtree(data, ignore_errors=True)


def test_a_worker_that_cannot_run_ends_the_demo_with_its_words(pubsub, monkeypatch):
    class Silent:
        def say(self, text):
            pass

    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.endpoint)
    monkeypatch.setattr(worker, "WINDOW_SECONDS", -1)
    with pytest.raises(LoaderError, match=r"exit code 78: .*LOADER_WINDOW_SECONDS=-1"):
        demo.run(demo.Wish(1, 20), Silent(), threading.Event(), threading.Event())


def test_a_receipt_that_does_not_balance_is_exit_code_1(monkeypatch, capsys):
    made = parts.Parts("p", "q", "e", "u", "d", "t", "s")
    published = Published(messages=40)
    found = Survey([], [], 0, 0)

    def run(wish, *_):
        return Outcome(wish, made, published, Progress(), found, found.receipt(published), 0.0, 0.0, False)

    monkeypatch.setattr(demo, "run", run)
    with pytest.raises(typer.Exit) as raised:
        verb.demo(seconds=2, rate=20)
    assert raised.value.exit_code == 1
    assert "It does not balance: 40 published events are not accounted for." in capsys.readouterr().out


def test_without_an_emulator_the_demo_brings_its_own_servers_and_takes_them_away(monkeypatch):
    def missing():
        raise LoaderError("not installed")

    monkeypatch.setattr(parts, "find_emulator", missing)
    with parts.temporary() as made:
        assert made.pubsub == "the in-memory server"
        assert made.dataset == "demo"
        channel = grpc.insecure_channel(made.endpoint)
        grpc.channel_ready_future(channel).result(10)
        channel.close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(made.database_url)
    with grpc.insecure_channel(made.endpoint) as channel, pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(0.5)
