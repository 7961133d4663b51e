"""All checks in one go; one that cannot be made does not keep the others from being made."""

from __future__ import annotations

import os
from collections.abc import Callable

from loader.checks.database import inspect_database
from loader.checks.finding import Finding
from loader.checks.flow import judge_flow
from loader.checks.subscription import inspect_subscription
from loader.database.connection import Database
from loader.database.conninfo import parse_conninfo
from loader.errors import ConfigurationError
from loader.pull.channel import Stub, open_channel
from loader.settings.declaration import Settings
from loader.settings.limits import require_subscription


def survey(read: Callable[[], Settings]) -> list[Finding]:
    """Findings about the settings that `read` gives, their subscription and their database."""
    try:
        settings = read()
    except ConfigurationError as error:
        return [Finding("settings", "valid", "configuration", str(error))]
    findings = [Finding("settings", "valid", "ok", "every name is known, every value fits"), *judge_flow(settings)]
    for area, look in (("subscription", _subscription), ("database", _database)):
        try:
            findings += look(settings)
        except ConfigurationError as error:
            findings.append(Finding(area, "configured", "configuration", str(error)))
    return findings


def _subscription(settings: Settings) -> list[Finding]:
    name = require_subscription(settings)
    with open_channel() as channel:
        return inspect_subscription(Stub(channel), name)


def _database(settings: Settings) -> list[Finding]:
    url = settings.database_url
    info = parse_conninfo(url.get_secret_value() if url else None, os.environ)
    return inspect_database(Database(info, iam_auth=settings.iam_auth), settings.dataset)
