"""Ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A loopback port that nobody listens on at the moment; whoever wants it should use it soon."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
