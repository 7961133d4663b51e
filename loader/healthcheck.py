"""`python -m loader.healthcheck`: exit 0 if the worker in this container answers /healthz, or its server is off.

Only the standard library is imported: a container's health is asked every half minute."""

from __future__ import annotations

import http.client
import os
import sys

TIMEOUT_SECONDS = 4.0
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def healthy(host: str, port: int) -> bool:
    """True if /healthz answers 200; an answer of any other kind, or none, is False."""
    connection = http.client.HTTPConnection(ANY_ADDRESS.get(host, host), port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main() -> int:
    """Exit code of the check. A port of 0 means that the server is off by choice: nothing to ask."""
    host = os.environ.get("LOADER_HTTP_HOST", "").strip() or "127.0.0.1"
    text = os.environ.get("LOADER_HTTP_PORT", "").strip()
    # A service called loader-http injects LOADER_HTTP_PORT=tcp://…, which is none of ours.
    port = int(text) if text.isdigit() else 8080
    return 0 if port == 0 or healthy(host, port) else 1


if __name__ == "__main__":
    sys.exit(main())
