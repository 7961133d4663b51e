"""`loader bench bridge`: from Kafka through stages to Pub/Sub."""

from __future__ import annotations

from typing import Annotated

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, Results, Save, deliver
from loader.commands.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("bridge")(bridge)


def bridge(
    messages: Annotated[int, typer.Option("--messages", min=10_000, metavar="N", help="Messages a figure.")] = 300_000,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, metavar="N", help="Runs a figure.")] = 3,
    memory: Annotated[bool, typer.Option("--memory/--no-memory", help="Measure a stalled sink's memory too.")] = True,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """Messages a second of CPU from Kafka to Pub/Sub: as they are, filtered, rewritten, and by the convenience client.

    CPU is this process's own, both clients included; broker and server are processes of their own. All variants run
    in turn, figures are medians.

    With --json: {"benchmark", "command", "date", "machine", "cpu", "cores", "load_average", "python", "versions",
    "parameters", "results": {"messages_per_second_of_cpu": {NAME: N}, "spread", "pass_through_against_convenience",
    "pass_through_against_ceiling", "lazy_saves_orjson", "lazy_saves_stdlib", "orjson_against_stdlib", "reads_shared",
    "reads_apart", "stalled_sink_peak_bytes"}}.

    Examples:

        loader bench bridge

        loader bench bridge --messages 100000 --repetitions 1 --no-memory
    """
    from loader.bench.record import make_record
    from loader.bench.router import RouterPlan, run_router
    from loader.commands.output import note, print_table

    found = run_router(RouterPlan(messages, repetitions, memory), note)
    command = f"loader bench bridge --messages {messages} --repetitions {repetitions}{'' if memory else ' --no-memory'}"
    parameters = {"messages": messages, "repetitions": repetitions, "memory": memory}
    record = make_record("bridge", command, parameters, found, {})
    if not as_json:
        rates = found["messages_per_second_of_cpu"]
        print_table(["variant", "messages/s of CPU"], [[name, f"{rate:,}"] for name, rate in rates.items()])
        print_table(
            ["figure", "value"],
            [
                [name, str(value)]
                for name, value in found.items()
                if name not in ("messages_per_second_of_cpu", "spread")
            ],
        )
    deliver(record, as_json, save, results)
