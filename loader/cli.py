"""The command `loader`. Each verb is a module of loader.commands and is loaded lightly; what it needs, when it runs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Annotated

import typer

from loader import __version__
from loader.errors import LoaderError

VERBS = (
    *("run", "check", "plan", "status", "schema", "reconcile", "dead_letters", "prune", "adopt"),
    *("backfill", "snapshot", "publish", "local", "demo", "bench", "bridge", "settings"),
)

app = typer.Typer(
    name="loader",
    help="Load JSON messages from Google Pub/Sub into Postgres: dlt infers and evolves the schema, COPY loads.",
    no_args_is_help=True,
    add_completion=False,
    # Rich tracebacks show local variables, and passwords among them.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Settings are LOADER_* variables: `loader settings` lists them. To try it on this machine: `loader demo`.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"loader {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _register() -> None:
    for verb in VERBS:
        name = f"loader.commands.{verb}"
        # Only a module that is not there is left out; one that fails to import is a fault to be seen.
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name).register(app)


_register()


def main() -> None:
    """Run the command and exit: 0, 1 on a fault, 2 on wrong usage, 78 on wrong settings, 130 when interrupted."""
    try:
        app()
    except LoaderError as error:
        sys.exit(_fail(str(error), error.exit_code))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader has seen enough. What is still buffered must not fail again at exit.
        sys.stdout = None  # type: ignore[assignment]
        sys.exit(1)
    except Exception as error:
        if _from_the_database(error):
            sys.exit(_fail(f"database: {error}", 1))
        answer = _from_pubsub(error)
        if answer is None:
            raise
        sys.exit(_fail(f"Pub/Sub: {answer}", 1))


def _fail(text: str, code: int) -> int:
    from loader.logs import Redaction

    line = " ".join(Redaction().text(text).split())
    sys.stderr.write(f"loader: {line}\n")
    return code


def _from_the_database(error: Exception) -> bool:
    psycopg = sys.modules.get("psycopg")  # not imported for the sake of an error that it cannot have raised
    return psycopg is not None and isinstance(error, psycopg.OperationalError)


def _from_pubsub(error: Exception) -> str | None:
    """What Pub/Sub answered, None when the error is none of its. Asks only if gRPC was loaded at all."""
    grpc = sys.modules.get("grpc")
    if grpc is None or not isinstance(error, grpc.RpcError):
        return None
    return f"{error.code().name}: {error.details()}"
