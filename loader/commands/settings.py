"""`loader settings`: every setting, its value now, its default and what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loader.commands.options import Config, Json


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("settings")(settings)


def settings(
    config: Config = None,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference as a Markdown table.")] = False,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Renew the references of settings and metrics in FILE."),
    ] = None,
) -> None:
    """List every setting, its value and its default.

    Secrets are shown as set or unset.

    Examples:

        loader settings

        loader settings --json

        loader settings --write README.md
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, print_table
    from loader.errors import LoaderError
    from loader.observe import reference as metrics
    from loader.settings import reference

    if write is not None:
        try:
            text = write.read_text(encoding="utf-8")
            write.write_text(metrics.renew(reference.renew(text)), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise LoaderError(f"cannot renew the references in {write}: {error}") from error
        note(f"renewed the references in {write}")
        return
    if markdown:
        print(reference.markdown(), end="")
        return
    entries = reference.entries(read_settings(config))
    if as_json:
        print_json({"settings": [entry.as_dict() for entry in entries]})
        return
    print_table(
        ["SETTING", "VALUE", "DEFAULT", "MEANING"],
        [(entry.name, entry.value, entry.default, entry.description) for entry in entries],
    )
