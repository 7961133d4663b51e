"""Why the in-memory Pub/Sub server refuses a request."""

from __future__ import annotations


class Refusal(Exception):
    """`code` is the name of a gRPC status code, `detail` names the resource and what is wrong with it."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def not_found(name: str) -> Refusal:
    """The resource does not exist."""
    return Refusal("NOT_FOUND", f"Resource not found (resource={name}).")


def already_exists(name: str) -> Refusal:
    """The resource exists."""
    return Refusal("ALREADY_EXISTS", f"Resource already exists (resource={name}).")


def invalid(detail: str) -> Refusal:
    """The request cannot be right."""
    return Refusal("INVALID_ARGUMENT", detail)
