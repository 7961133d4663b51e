"""What an operator asks for, as plain data. The same request again goes on with a backfill that was interrupted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loader.dead_letter.period import parse_moment
from loader.errors import LoaderError


@dataclass(frozen=True, slots=True)
class Request:
    """A replay through Pub/Sub. Exactly one of `since` and `snapshot` is given; times are kept as they were written,
    for `2h` asked for again an hour later means the backfill that is on."""

    since: str | None = None
    snapshot: str | None = None
    until: str | None = None
    tables: tuple[str, ...] = ()
    replace: bool = False
    aside: bool = False
    into: str | None = None
    allow_duplicates: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For `_backfills.request`: what makes two requests the same."""
        kept = asdict(self)
        del kept["allow_duplicates"]  # it allows the request, it does not change what is done
        kept["tables"] = sorted(self.tables)
        return {name: value for name, value in kept.items() if value}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Request:
        """From what `_backfills.request` keeps."""
        values = {name: value for name, value in kept.items() if name in cls.__dataclass_fields__}
        return cls(**{**values, "tables": tuple(values.get("tables", ()))})

    def spelled(self) -> str:
        """The options that ask for this."""
        parts = [f"--{name} {value}" for name in ("since", "snapshot", "until") if (value := getattr(self, name))]
        parts += [f"--table {table}" for table in self.tables]
        parts += [f"--into {self.into}"] if self.into else ["--aside"] if self.aside else []
        return " ".join([*parts, *(["--replace"] if self.replace else [])])


def moment(text: str, now: datetime.datetime, option: str) -> datetime.datetime:
    """A time as it was written. Raises LoaderError."""
    try:
        return parse_moment(text, now)
    except ValueError as error:
        raise LoaderError(f"{option}: {error}") from None
