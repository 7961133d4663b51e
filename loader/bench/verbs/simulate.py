"""`loader bench simulate`: a day of the managed instance group without processes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, Results, Save, deliver, number
from loader.commands.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("simulate")(simulate)


def simulate(
    rate: Annotated[
        float, typer.Option("--rate", min=1, metavar="N", help="Messages a second that a VM really loads.")
    ] = 3_000.0,
    least: Annotated[float, typer.Option("--least", min=0, metavar="N", help="Messages a second at night.")] = 200.0,
    most: Annotated[float, typer.Option("--most", min=1, metavar="N", help="Messages a second at noon.")] = 500.0,
    spike: Annotated[float, typer.Option("--spike", min=1, metavar="TIMES", help="1 for none.")] = 50.0,
    spike_minutes: Annotated[float, typer.Option("--spike-minutes", min=0, metavar="N", help="Its length.")] = 10.0,
    preemptions: Annotated[
        float, typer.Option("--preemptions", min=0, metavar="N", help="Of each spot VM an hour.")
    ] = 0.05,
    fleet_preemption: Annotated[
        float, typer.Option("--fleet-preemption", metavar="HOUR", help="Every spot VM goes; negative for never.")
    ] = 10.0,
    outage: Annotated[
        float, typer.Option("--outage", min=0, metavar="MINUTES", help="No spot capacity after it.")
    ] = 10.0,
    boot: Annotated[float, typer.Option("--boot", min=0, metavar="SECONDS", help="Creation, boot, image.")] = 120.0,
    late: Annotated[
        float, typer.Option("--late", min=0, metavar="SECONDS", help="The backlog is seen this late at most.")
    ] = 120.0,
    cpu_full: Annotated[
        float, typer.Option("--cpu-at-full-rate", min=0, metavar="SHARE", help="What a VM that is busy shows.")
    ] = 1.0,
    minimum: Annotated[int, typer.Option("--min", min=0, metavar="N", help="workers.min")] = 2,
    maximum: Annotated[int, typer.Option("--max", min=1, metavar="N", help="workers.max")] = 10,
    floor: Annotated[int, typer.Option("--standard-floor", min=0, metavar="N", help="workers.standard_floor")] = 0,
    stated: Annotated[
        float, typer.Option("--messages-per-second", min=1, metavar="N", help="workers.messages_per_second")
    ] = 3_000.0,
    drain: Annotated[float, typer.Option("--drain-seconds", min=1, metavar="N", help="workers.drain_seconds")] = 60.0,
    cpu_target: Annotated[
        float, typer.Option("--cpu-target", min=0, max=1, metavar="SHARE", help="workers.cpu_target; 0: no CPU signal.")
    ] = 0.7,
    scale_in: Annotated[
        int, typer.Option("--scale-in-replicas", min=1, metavar="N", help="workers.scale_in_replicas")
    ] = 1,
    scale_in_seconds: Annotated[
        float, typer.Option("--scale-in-seconds", min=60, max=3600, metavar="N", help="workers.scale_in_seconds")
    ] = 300.0,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Change each setting in turn and say what is best (about 20 s of CPU).")
    ] = False,
    minute: Annotated[
        float, typer.Option("--minute", min=0, metavar="DOLLARS", help="A month's worth of a minute's wait.")
    ] = 1.0,
    spot_hour: Annotated[float, typer.Option("--spot-hour", min=0, metavar="DOLLARS", help="Of a VM.")] = 0.0051,
    standard_hour: Annotated[
        float, typer.Option("--standard-hour", min=0, metavar="DOLLARS", help="Of a VM.")
    ] = 0.0168,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of what is drawn.")] = 1,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """A day of traffic and an autoscaler that follows Google's rule: ages, workers, a month's cost. No processes.

    Settings go by the names of terraform's variable `workers` and have its defaults. The day is played four times: with
    and without the spike, with every spot VM taken back at once, and the same with one standard VM more. Ages are from
    publish to commit, a whole window of 5 s included. --sweep plays days with two bursts (30 minutes apart), with ten
    times the traffic and a tenth of the burst (busy), and each without a burst (steady, calm).

    With --json: {"benchmark", …, "parameters", "results": {"days": {NAME: {"age_p50", "age_p99", "age_max",
    "spot_hours", "standard_hours", "dollars_a_month", "workers_most", "preempted", "arrived", "loaded", "waiting",
    "redelivered", "backlog_most"}}, "over_time": {"backlog", "workers", "age"}, "sweep": [{"name", "burst", "again",
    "busy", "steady", "calm", "dollars", "score", "refused"}]}}.

    Examples:

        loader bench simulate

        loader bench simulate --sweep

        loader bench simulate --rate 1000 --messages-per-second 1000 --drain-seconds 180 --max 30
    """
    from dataclasses import asdict

    from loader.bench.record import make_record
    from loader.bench.simulation.autoscaler import Policy
    from loader.bench.simulation.day import Scenario
    from loader.bench.simulation.days import days
    from loader.bench.simulation.price import Price
    from loader.bench.simulation.sweep import sweep as try_all
    from loader.bench.simulation.traffic import Traffic
    from loader.commands.output import note
    from loader.errors import ConfigurationError

    try:
        policy = Policy(minimum, maximum, stated, drain, cpu_target or None, scale_in, scale_in_seconds)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    scenario = Scenario(
        Traffic(least, most, spike=spike, spike_seconds=spike_minutes * 60),
        rate,
        floor,
        boot_seconds=boot,
        metric_late=late,
        cpu_at_full_rate=cpu_full,
        preemptions_per_hour=preemptions,
        fleet_preemption_at=fleet_preemption if fleet_preemption >= 0 else None,
        fleet_outage_seconds=outage * 60,
        seed=seed,
    )
    price = Price(spot_hour, standard_hour)
    played = days(policy, scenario, price)
    found: dict[str, Any] = {
        "days": {name: day.figures() for name, day in played.items()},
        "over_time": next(iter(played.values())).over_time,
    }
    if sweep:
        calmer = _coarse(scenario)
        found["sweep"] = [asdict(each) for each in try_all(policy, calmer, price, minute, say=note)]
    command = f"loader bench simulate --rate {rate:g} --least {least:g} --most {most:g} --spike {spike:g}"
    command += (
        f" --spike-minutes {spike_minutes:g} --preemptions {preemptions:g} --fleet-preemption {fleet_preemption:g}"
    )
    command += f" --outage {outage:g} --boot {boot:g} --late {late:g} --cpu-at-full-rate {cpu_full:g}"
    command += f" --min {minimum} --max {maximum} --standard-floor {floor} --messages-per-second {stated:g}"
    command += f" --drain-seconds {drain:g} --cpu-target {cpu_target:g} --scale-in-replicas {scale_in}"
    command += f" --scale-in-seconds {scale_in_seconds:g} --spot-hour {spot_hour:g} --standard-hour {standard_hour:g}"
    command += f" --minute {minute:g} --seed {seed}" + (" --sweep" if sweep else "")
    parameters = {"policy": asdict(policy), "scenario": asdict(scenario), "price": asdict(price), "minute": minute}
    record = make_record("simulate", command, parameters, found, {})
    if not as_json:
        show(found)
    deliver(record, as_json, save, results)


def _coarse(scenario: Any) -> Any:
    """For many days: steps of 10 s, and no fleet-wide preemption, which no setting of the autoscaler mends."""
    from dataclasses import replace

    return replace(scenario, step=10, fleet_preemption_at=None)


def show(found: dict[str, Any]) -> None:
    """The tables and the chart of a run."""
    from loader.bench.simulation.chart import chart
    from loader.commands.output import print_table

    print_table(
        ["DAY", "AGE p50 s", "p99 s", "MOST s", "WORKERS", "WORKER-HOURS", "$ A MONTH", "PREEMPTED", "MOST BACKLOG"],
        [
            (
                name,
                number(day["age_p50"], 0),
                number(day["age_p99"], 0),
                number(day["age_max"], 0),
                f"up to {day['workers_most']}",
                number(day["spot_hours"] + day["standard_hours"]),
                number(day["dollars_a_month"], 2),
                day["preempted"],
                number(day["backlog_most"], 0),
            )
            for name, day in found["days"].items()
        ],
        title="simulate: a day of the fleet",
    )
    over = found["over_time"]
    for title, name in (("backlog, messages", "backlog"), ("workers", "workers"), ("wait for a worker, s", "age")):
        typer.echo(chart(title, over[name]))
    if "sweep" not in found:
        return
    print_table(
        ["SETTING", "BURST s", "SECOND s", "BUSY s", "STEADY s", "CALM s", "$ A MONTH", "SCORE", ""],
        [
            (
                each["name"],
                *(number(each[key], 0) for key in ("burst", "again", "busy", "steady", "calm")),
                number(each["dollars"], 2),
                number(each["score"], 2),
                each["refused"],
            )
            for each in found["sweep"]
        ],
        title="each setting changed alone: worst ages; best first",
    )
