"""Options and steps that several verbs share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from loader.settings.declaration import Settings

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="TOML file of settings; LOADER_* variables win over it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def read_settings(config: Path | None) -> Settings:
    """The settings of this process; what there is to warn about goes to stderr. Raises ConfigurationError."""
    from loader.commands.output import note
    from loader.settings.environment import load_settings

    settings, warnings = load_settings(config, os.environ)
    for warning in warnings:
        note(f"warning: {warning}")
    return settings
