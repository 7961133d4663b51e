"""Which part of the file this instance runs: by flags, variables, else the metadata server of Google Compute Engine."""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loader.errors import ConfigurationError

REGION = "BRIDGE_REGION"
ENVIRONMENT = "BRIDGE_ENVIRONMENT"
METADATA_HOST = "GCE_METADATA_HOST"
"""Variable that names another metadata server, as Google's own libraries have it."""

METADATA_ADDRESS = "169.254.169.254"
"""Its fixed address: elsewhere than on Google Cloud, resolving its name may take a resolver's whole patience."""

TIMEOUT_SECONDS = 1.0

Metadata = Callable[[str], str | None]
"""Takes a path such as `instance/zone`; None if there is no server or no such entry."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Where this instance is, and how that is known."""

    region: str
    environment: str
    known_by: str

    def runs(self, region: str, environment: str) -> bool:
        """Whether pipelines whose source is there are run here."""
        return (region, environment) == (self.region, self.environment)


def find_instance(
    region: str | None = None,
    environment: str | None = None,
    environ: Mapping[str, str] | None = None,
    metadata: Metadata | None = None,
) -> Instance:
    """The instance's region and environment: each from the flag, else the variable, else the metadata server (the
    zone's region; the attribute `environment`). Raises ConfigurationError that names these ways."""
    environ = os.environ if environ is None else environ
    ask = metadata or (lambda path: ask_metadata(path, environ.get(METADATA_HOST) or METADATA_ADDRESS))
    ways = []
    answers: dict[str, str | None] = {}
    for what, flag, variable in (("region", region, REGION), ("environment", environment, ENVIRONMENT)):
        if flag:
            answers[what] = flag
            ways.append(f"{what} by --{what}")
        elif environ.get(variable):
            answers[what] = environ[variable]
            ways.append(f"{what} by {variable}")
        else:
            found = ask("instance/zone" if what == "region" else "instance/attributes/environment")
            answers[what] = _region(found) if what == "region" else found
            ways.append(f"{what} by the metadata server")
    missing = [what for what, value in answers.items() if not value]
    if missing:
        how = "; ".join(
            f"set --{what}, or the variable {REGION if what == 'region' else ENVIRONMENT}, "
            + ("or run on Compute Engine" if what == "region" else "or the instance's metadata attribute environment")
            for what in missing
        )
        raise ConfigurationError(f"the bridge does not know its {' and its '.join(missing)}: {how}")
    return Instance(str(answers["region"]), str(answers["environment"]), ", ".join(ways))


def ask_metadata(path: str, host: str) -> str | None:
    """One entry of the metadata server, None when there is no server: that is no fault, and must not take long."""
    name, _, port = host.partition(":")
    connection = http.client.HTTPConnection(name, int(port or 80), timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"})
        answer = connection.getresponse()
        # Some other server may answer under this name; the real one says who it is.
        if answer.status != 200 or answer.headers.get("Metadata-Flavor") != "Google":
            return None
        return answer.read(1024).decode("utf-8", "replace").strip() or None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _region(zone: str | None) -> str | None:
    """`projects/1/zones/europe-west1-b` → `europe-west1`."""
    if not zone:
        return None
    return zone.rpartition("/")[2].rpartition("-")[0] or None
