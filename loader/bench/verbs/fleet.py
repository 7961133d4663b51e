"""`loader bench fleet`: many workers on a backlog while a controller preempts, kills, restarts and cuts."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, Results, Save, deliver, number
from loader.commands.options import Json

_DATABASE = "LOADER_DATABASE_URL"
_PUBSUB = "PUBSUB_EMULATOR_HOST"


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("fleet")(fleet)


def fleet(
    messages: Annotated[int, typer.Option("--messages", min=100, metavar="N", help="The backlog.")] = 1_000_000,
    minimum: Annotated[int, typer.Option("--min", min=1, metavar="N", help="Workers at least.")] = 1,
    maximum: Annotated[int, typer.Option("--max", min=1, metavar="N", help="Workers at most.")] = 4,
    assignment: Annotated[
        int | None,
        typer.Option("--assignment", min=1, metavar="N", help="Backlog a worker. Default: a third of it, over --max."),
    ] = None,
    compress: Annotated[
        float, typer.Option("--compress", min=1, metavar="TIMES", help="Fleet seconds in a real one.")
    ] = 30.0,
    boot: Annotated[float, typer.Option("--boot", min=0, metavar="SECONDS", help="Of a VM, in fleet time.")] = 120.0,
    late: Annotated[
        float, typer.Option("--late", min=0, metavar="SECONDS", help="The backlog is seen this late at most.")
    ] = 120.0,
    preemptions: Annotated[
        float, typer.Option("--preemptions", min=0, metavar="N", help="Of each worker an hour of fleet time.")
    ] = 3.0,
    outright: Annotated[
        float, typer.Option("--outright", min=0, max=1, metavar="SHARE", help="Of them, kill -9 without SIGTERM.")
    ] = 0.5,
    kills: Annotated[int, typer.Option("--kills", min=0, metavar="N", help="kill -9 of a worker besides.")] = 2,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, metavar="N", help="Of Postgres; every second is a kill -9.")
    ] = 2,
    cuts: Annotated[int, typer.Option("--cuts", min=0, metavar="N", help="All streams end at once.")] = 6,
    redeliveries: Annotated[
        int | None, typer.Option("--redeliveries", min=0, metavar="N", help="Deliveries doubled. Default: as --twice.")
    ] = None,
    twice: Annotated[float, typer.Option("--twice", min=0, max=0.49, metavar="SHARE", help="Published twice.")] = 0.01,
    poison: Annotated[
        float, typer.Option("--poison", min=0, max=0.49, metavar="SHARE", help="Never loadable.")
    ] = 0.001,
    window: Annotated[float, typer.Option("--window", min=0.1, metavar="SECONDS", help="LOADER_WINDOW_SECONDS.")] = 5.0,
    bundle: Annotated[
        int | None,
        typer.Option("--bundle", min=1, metavar="N", help="LOADER_MAX_BUNDLE_MESSAGES. Default: up to 50 in all."),
    ] = None,
    calibrate: Annotated[
        int | None,
        typer.Option("--calibrate", min=0, metavar="N", help="Messages to measure the ideal with; 0: no ideal."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the events and of what is drawn.")] = 1,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            envvar=_DATABASE,
            metavar="URL",
            help="Use this Postgres (a fresh database of it, no restarts) instead of our own.",
        ),
    ] = None,
    emulator: Annotated[
        str | None,
        typer.Option("--emulator", envvar=_PUBSUB, metavar="HOST:PORT", help="Use this instead of a server of ours."),
    ] = None,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """A backlog over 20 drifting tables, a fleet of real workers, and a controller that breaks things. Exit code 1
    unless every message is accounted for.

    The controller plays the managed instance group in compressed time: ceil(backlog / assignment) with a metric that is
    sampled each minute and late, 10 minutes of scale-in memory, boots, preemptions (SIGTERM, SIGKILL 30 s later; or
    kill -9). What the processes do takes real time: their start, windows, leases (10 s), those 30 s.

    At set shares of the backlog Postgres restarts, all streams are cut, deliveries are doubled. At the end each
    event's content is compared with what was published, value by value in every table.

    The ideal is the time of --max workers that nobody disturbs, there from the start: the slower of --max times one
    worker's rate, and what they load together on this machine, whose cores they share with both servers.

    With --json: {"benchmark", …, "parameters", "results": {"receipt": {"balanced", "lines", …}, "drain", "ideal",
    "faults", "over_time": {"seconds", "backlog", "target", "workers", "age"}}}.

    Examples:

        loader bench fleet --messages 60000

        loader bench fleet --max 8 --preemptions 20 --restarts 4

        loader bench fleet --preemptions 0 --kills 0 --restarts 0 --cuts 0
    """
    from loader.bench.fleet.broker import open_broker
    from loader.bench.fleet.fleet import parameters, run_fleet
    from loader.bench.fleet.interrupt import Interrupt
    from loader.bench.fleet.plan import FleetPlan
    from loader.bench.record import make_record
    from loader.bench.server import database
    from loader.commands.output import note
    from loader.errors import ConfigurationError, LoaderError

    try:
        plan = FleetPlan(
            messages=messages,
            twice=twice,
            poison=poison,
            seed=seed,
            workers_min=minimum,
            workers_max=maximum,
            assignment=assignment,
            compress=compress,
            boot_seconds=boot,
            metric_late=late,
            preemptions_per_hour=preemptions,
            outright=outright,
            kills=kills,
            restarts=restarts,
            cuts=cuts,
            redeliveries=redeliveries,
            window_seconds=window,
            bundle=bundle,
            calibrate=calibrate,
        )
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    with Interrupt() as interrupt, contextlib.ExitStack() as stack:
        with interrupt.hold():
            server = stack.enter_context(database(database_url))
            broker = stack.enter_context(open_broker(emulator, note))
        if server.ours is None and restarts:
            note("the Postgres server is not ours: no restarts")
        found = run_fleet(server, broker, plan, note, interrupt.hold)
        values = parameters(plan)
        record = make_record(
            "fleet", _command(plan, values), values, found, {"postgres": server.version, "pubsub": found["pubsub"]}
        )
    if not as_json:
        show(found, plan.compress)
    deliver(record, as_json, save, results)
    if not found["receipt"]["balanced"]:
        raise LoaderError(f"the receipt does not balance: {found['receipt']['complaint']}")


def _command(plan: Any, values: dict[str, Any]) -> str:
    return (
        f"loader bench fleet --messages {plan.messages} --min {plan.workers_min} --max {plan.workers_max}"
        f" --assignment {values['assignment']:.0f} --compress {plan.compress:g} --boot {plan.boot_seconds:g}"
        f" --late {plan.metric_late:g} --preemptions {plan.preemptions_per_hour:g} --outright {plan.outright:g}"
        f" --kills {plan.kills} --restarts {plan.restarts} --cuts {plan.cuts} --redeliveries {values['redeliveries']}"
        f" --twice {plan.twice:g} --poison {plan.poison:g} --window {plan.window_seconds:g} --bundle {values['bundle']}"
        f" --calibrate {values['calibrate']} --seed {plan.seed}"
    )


def show(found: dict[str, Any], compress: float) -> None:
    """The chart, the tables and the receipt of a run."""
    from loader.bench.fleet.chart import chart
    from loader.commands.output import print_table

    drain, faults, ideal = found["drain"], found["faults"], found["ideal"]
    typer.echo(chart(found["over_time"], compress))
    print_table(
        ["DRAINED IN s", "FLEET min", "MSG/s", "MSG/s A WORKER", "WORKERS", "WORKER-HOURS", "WORKER s REAL", "AGE s"],
        [
            (
                number(drain["seconds"]),
                number(drain["fleet_minutes"]),
                number(drain["messages_per_second"], 0),
                number(drain["messages_per_second_a_worker"], 0),
                f"up to {drain['workers_most']}",
                number(drain["worker_hours_fleet"], 2),
                number(drain["worker_seconds_real"], 0),
                number(drain["age_most_seconds"]),
            )
        ],
        title=f"fleet: a backlog over {found['tables']} tables; worker-hours in fleet time",
    )
    if ideal:
        print_table(
            ["IDEAL s", "BOUND BY", "ONE ALONE msg/s", f"{ideal['workers']} TOGETHER msg/s", "TIMES THE IDEAL"],
            [
                (
                    number(ideal["seconds"]),
                    ideal["bound_by"],
                    number(ideal["one_worker_messages_per_second"], 0),
                    number(ideal["workers_together_messages_per_second"], 0),
                    number(ideal["times_ideal"], 2),
                )
            ],
            title="the same number of workers, there from the start and undisturbed",
        )
    reference = found["reference"]
    print_table(
        ["", "WORKERS", "MSG/s A WORKER", "BACKLOG", "MINUTES"],
        [
            (name, reference["workers"], number(rate, 0), f"{reference['backlog_messages']:,}", number(minutes))
            for name, rate, minutes in (
                ("reference, by its own account", reference["messages_per_second_a_worker"], reference["minutes"]),
                ("at our rate", drain["messages_per_second_a_worker"], reference["minutes_at_our_rate_a_worker"]),
            )
        ],
        title="15 hours of backlog; ours as far as Postgres keeps up",
    )
    print_table(
        ["WHAT HAPPENED", "TIMES"],
        [
            (name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,}")
            for name, value in faults.items()
        ],
        title="under fire",
    )
    receipt = found["receipt"]
    print_table(
        ["RECEIPT", "FOUND", ""],
        [(line["demand"], line["found"], "met" if line["met"] else "NOT MET") for line in receipt["lines"]],
        title=f"receipt: {receipt['duplicates_averted']:,} duplicates averted",
    )
