"""`loader bridge FILE.hcl`: pipelines from Kafka, files and Pub/Sub to Pub/Sub and beyond, and what helps with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from loader.commands import generate
from loader.commands.options import Json
from loader.words import counted

if TYPE_CHECKING:
    from loader.bridge.config.instance import Instance
    from loader.bridge.config.model import Configuration

File = Annotated[Path, typer.Argument(metavar="FILE.hcl", help="The bridge's file.")]
Region = Annotated[
    str | None, typer.Option("--region", help="Region of this instance; else BRIDGE_REGION, else the metadata server.")
]
Environment = Annotated[
    str | None,
    typer.Option("--environment", help="Environment of this instance; else BRIDGE_ENVIRONMENT, else the metadata."),
]

_FAILED = 1
_INVALID = 78


class _FileOrVerb(TyperGroup):
    """`loader bridge FILE` runs a file; `loader bridge test FILE` and the like are verbs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    bridge = typer.Typer(
        name="bridge",
        cls=_FileOrVerb,
        help="Take messages from Kafka, files or Pub/Sub through stages to Pub/Sub, Kafka, HTTP or files. "
        "`loader bridge FILE.hcl` runs a file, and `loader bridge run --help` lists its options.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    bridge.command("run")(run)
    bridge.command("test")(try_out)
    bridge.command("top")(top)
    bridge.command("reference")(reference)
    generate.register(bridge)
    app.add_typer(bridge)


def run(
    file: File,
    check: Annotated[bool, typer.Option("--check", help="Only check the file: every finding, one a line.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only print what this instance would run, and why.")] = False,
    explain: Annotated[
        Path | None,
        typer.Option("--explain", metavar="MESSAGE.json", help="Only say what becomes of a message, stage by stage."),
    ] = None,
    show_defaults: Annotated[
        bool, typer.Option("--show-defaults", help="Only print every option with its value or default.")
    ] = False,
    region: Region = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Run the pipelines of FILE.hcl whose source is in this instance's region and environment.

    SIGTERM drains and leaves; SIGHUP reads the file again, and restarts the pipelines that changed.

    Of the loader's settings it reads LOADER_HTTP_HOST, LOADER_HTTP_PORT (/metrics, /healthz, /readyz, /debug/profile;
    0: none), LOADER_HTTP_TOKEN, LOADER_SHUTDOWN_SECONDS (from SIGTERM to the exit), LOADER_LOG_LEVEL and LOADER_LOG_TO.

    --check exits with 78 if the file has an error; it asks Kafka's client about properties, and no broker. --explain
    takes {"topic", "key", "headers", "value", "partition", "offset", "timestamp"}, of which only value is needed; it
    fetches the lookups once and sends nothing.

    With --json: --check: {"findings": [{"severity", "file", "line", "column", "text"}]}; --plan: {"region",
    "environment", "known_by", "consumers": [{"group", "source", "start", "why", "pipelines"}], "left": {NAME: WHY}};
    --explain: {"pipelines": [{"pipeline", "steps", "sent", "refused", "decodes"}]}; --show-defaults: {"options":
    [{"block", "option", "value", "default"}]}.

    Examples:

        loader bridge router.hcl --region europe-west1 --environment prod

        loader bridge --check router.hcl

        loader bridge router.hcl --explain order.json
    """
    if sum([check, plan, explain is not None, show_defaults]) > 1:
        raise typer.BadParameter("--check, --plan, --explain and --show-defaults exclude each other")
    if check:
        raise typer.Exit(_check(file, as_json))
    from loader.bridge.config.load import load_configuration

    configuration = load_configuration(file)
    if show_defaults:
        _defaults(configuration, as_json)
    elif explain is not None:
        _explain(configuration, explain, region, environment, as_json)
    else:
        from loader.bridge.config.instance import find_instance

        instance = find_instance(region, environment)
        if plan:
            _plan(configuration, instance, as_json)
        else:
            raise typer.Exit(_run(configuration, instance, file))


def try_out(file: File, as_json: Json = False) -> None:
    """Run the test blocks of FILE.hcl: messages in, expected messages out. Needs no broker and sends nothing.

    Exits with 1 if a test fails, and if the file has no test block.

    With --json: {"tests": [{"name", "place", "passed", "differences": [TEXT]}]}.

    Examples:

        loader bridge test router.hcl
    """
    from loader.bridge.config.load import load_configuration
    from loader.bridge.trial.testing import run_tests
    from loader.commands.output import note, print_json, printable

    verdicts = run_tests(load_configuration(file))
    if as_json:
        print_json(
            {
                "tests": [
                    {
                        "name": verdict.name,
                        "place": verdict.place,
                        "passed": verdict.passed,
                        "differences": list(verdict.differences),
                    }
                    for verdict in verdicts
                ]
            }
        )
    else:
        for verdict in verdicts:
            print(printable(f"{'ok  ' if verdict.passed else 'FAIL'} {verdict.name} ({verdict.place})"))
            for difference in verdict.differences:
                for line in difference.split("\n"):
                    print(printable(f"     {line}"))
    failed = sum(not verdict.passed for verdict in verdicts)
    note(f"{counted(len(verdicts), 'test')}, {failed} failed" if verdicts else f"{file} has no test block")
    if failed or not verdicts:
        raise typer.Exit(_FAILED)


def top(
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Metrics of a running bridge.")
    ] = "http://127.0.0.1:8080/metrics",
    interval: Annotated[float, typer.Option("--interval", min=0.2, max=60, help="Seconds between readings.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table of totals and end.")] = False,
) -> None:
    """Watch a running bridge: one line a pipeline, counters as rates a second. Ends with Ctrl-C.

    Examples:

        loader bridge top

        loader bridge top --url http://10.0.0.7:8080/metrics --interval 5
    """
    from loader.bridge.top import table
    from loader.commands.interrupt import Interrupt
    from loader.commands.output import print_table, terminal

    before = None
    with Interrupt() as interrupt:
        while True:
            now = _reading(url)
            if before is not None or once:
                if terminal() and not once:
                    print("\x1b[H\x1b[2J", end="")
                print_table(*table(before, now))
            if once:
                return
            before = now
            interrupt.pause(interval)


def reference() -> None:
    """Print the reference of blocks, stages and functions as Markdown.

    Examples:

        loader bridge reference > bridge.md
    """
    from loader.bridge.config.document import markdown

    print(markdown(), end="")


def _run(configuration: Configuration, instance: Instance, file: Path) -> int:
    import importlib.util

    from loader.bridge.config.hcl import MISSING
    from loader.bridge.config.load import load_configuration
    from loader.errors import ConfigurationError

    if importlib.util.find_spec("confluent_kafka") is None:
        raise ConfigurationError(MISSING)
    from loader.bridge.engine.run import run as run_engine

    return run_engine(configuration, instance, reload=lambda: load_configuration(file))


def _check(file: Path, as_json: bool) -> int:
    from loader.bridge.config.load import examine
    from loader.commands.output import note, print_json, printable

    findings = examine(file)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        print_json(
            {
                "findings": [
                    {
                        "severity": finding.severity,
                        "file": finding.place.file,
                        "line": finding.place.line,
                        "column": finding.place.column,
                        "text": finding.text,
                    }
                    for finding in findings
                ]
            }
        )
    else:
        for finding in findings:
            print(printable(str(finding)))
        warnings = sum(each.severity == "warning" for each in findings)
        note(f"{file}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    return _INVALID if errors else 0


def _plan(configuration: Configuration, instance: Instance, as_json: bool) -> None:
    from loader.bridge.config.plan import make_plan
    from loader.commands.output import note, print_json, print_table

    plan = make_plan(configuration, instance)
    if as_json:
        print_json(
            {
                "region": instance.region,
                "environment": instance.environment,
                "known_by": instance.known_by,
                "consumers": [
                    {
                        "group": consumer.group,
                        "source": consumer.source.name,
                        "start": consumer.start,
                        "why": consumer.why,
                        "pipelines": [pipeline.name for pipeline in consumer.pipelines],
                    }
                    for consumer in plan.consumers
                ],
                "left": dict(plan.left),
            }
        )
        return
    note(f"this instance is in {instance.region}/{instance.environment} ({instance.known_by})")
    print_table(
        ["pipeline", "source", "stages", "sinks", "criticality", "consumer group", "shared because / alone because"],
        [
            [
                pipeline.name,
                consumer.source.name,
                " → ".join(spec.kind for spec in pipeline.stages) or "–",
                ", ".join(pipeline.sinks),
                pipeline.criticality,
                consumer.group,
                consumer.why,
            ]
            for consumer in plan.consumers
            for pipeline in consumer.pipelines
        ],
    )
    for name, why in plan.left.items():
        note(f"not here: {name}: {why}")
    if not plan.consumers:
        note("nothing would run here")


def _explain(
    configuration: Configuration, path: Path, region: str | None, environment: str | None, as_json: bool
) -> None:
    from loader.bridge.config.instance import find_instance
    from loader.bridge.trial.explain import explain, fetched, read_message
    from loader.commands.output import note, print_json, printable

    # Without flags it explains the whole file: on a laptop there is no instance to be.
    instance = find_instance(region, environment) if region or environment else None
    found = explain(configuration, read_message(str(path)), instance, fetched(configuration))
    if as_json:
        print_json({"pipelines": found})
        return
    for each in found:
        print(printable(f"pipeline {each['pipeline']} (decoded {counted(each['decodes'], 'time')})"))
        for step in each["steps"]:
            print(printable(f"  {step['stage']} (line {step['line']}): {step['did']}: {step['why']}"))
        for sent in each["sent"]:
            how = "byte for byte" if sent["untouched"] else "changed"
            print(printable(f"  → {sent['sink']}, {how}: {sent['value']}"))
            for name, value in sent["headers"].items():
                print(printable(f"      {name}: {value}"))
        for refused in each["refused"]:
            print(printable(f"  ✗ refused by {refused['by']}: {refused['reason']}"))
        if not each["sent"] and not each["refused"]:
            print("  goes nowhere")
    if not found:
        note("no pipeline reads messages of this topic")


def _defaults(configuration: Configuration, as_json: bool) -> None:
    from loader.bridge.config.defaults import rows
    from loader.commands.output import print_json, print_table

    names = ("block", "option", "value", "default")
    if as_json:
        print_json({"options": [dict(zip(names, row, strict=True)) for row in rows(configuration)]})
    else:
        print_table(names, rows(configuration))


def _reading(url: str) -> Any:
    import time

    import urllib3

    from loader.bridge.top import NotABridge, read
    from loader.errors import LoaderError

    try:
        answer = urllib3.request("GET", url, timeout=5.0, retries=False)
        if answer.status == 200:
            return read(answer.data.decode("utf-8", "replace"), time.monotonic())
        reason = f"HTTP {answer.status}"
    except NotABridge:
        raise LoaderError(f"what answers at {url} is no bridge: its metrics have none of a bridge (--url)") from None
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        reason = type(error).__name__
    raise LoaderError(f"no metrics at {url}: {reason}; is the bridge running? (--url)")
