"""The root table of an event: any routing value whatever becomes a valid name, by one documented rule."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from dlt.common.normalizers.naming.snake_case import NamingConvention

from loader.message.text import clean_text

_STAND_IN = "events"
"""Put before a name that would start with an underscore, and in place of one of which nothing readable is left."""

_MAX_CACHED_NAMES = 4096
_MAX_CACHED_LENGTH = 256
_READABLE = re.compile(r"[A-Za-z0-9]")

# dlt keeps every name it ever saw in caches without a bound; names come from outside, so we call what is cached.
_shorten = NamingConvention.shorten_identifier.__wrapped__
_snake_case = NamingConvention._to_snake_case
_NOT_IN_A_NAME = NamingConvention.RE_NON_ALPHANUMERIC
_REDUCE_ALPHABET = NamingConvention._TR_REDUCE_ALPHABET


class TableNamer:
    """Turns routing values into root table names. A pure function of the value and the three settings.

    The rule, in order:

    1. A value that is not a string, or a blank one, means the default table (whose name goes through 2 to 6).
    2. The prefix is put in front. The name is spelled by dlt's naming convention `snake_case`: `Order Placed`,
       `order-placed` and `orderPlaced` are one table `order_placed`.
    3. A name with a character that is not ASCII, or without any ASCII letter or digit, gets `_` and eight hex
       digits of a hash of the raw value, for otherwise different names would become one: `café` becomes
       `cafe_` and the digits. If nothing readable is left of it, `events` stands in.
    4. It never starts with an underscore, where dlt's own tables (`_dlt_loads`) and ours are: `events` is put in front,
       so `_dlt_loads` becomes `events_dlt_loads` and `1st` (which dlt spells `_1st`) becomes `events_1st`.
    5. It never contains `__`, which is how dlt names child tables: `orders__items` becomes `orders_items`.
    6. It is at most `max_length` characters: dlt shortens a longer one and puts a tag of its own hash into it.

    Whatever becomes one name shares a table; the routing value itself stays in its column, so nothing is lost.
    """

    def __init__(self, default_table: str = "unknown", prefix: str = "", max_length: int = 63) -> None:
        self._prefix = prefix
        self._max_length = max_length
        self._names: dict[str, str] = {}
        self.default = self._spell(default_table if default_table.strip() else "unknown")
        """Name of the default table."""

    def __call__(self, value: Any) -> str:
        """The root table's name for one routing value of any type."""
        if type(value) is not str:
            return self.default
        name = self._names.get(value)
        if name is not None:
            return name
        name = self._spell(value) if value.strip() else self.default
        if len(value) <= _MAX_CACHED_LENGTH:
            if len(self._names) >= _MAX_CACHED_NAMES:
                self._names.clear()  # a table name per message: slower, but never more memory
            self._names[value] = name
        return name

    def all(self, values: Sequence[Any]) -> list[str]:
        """The names for many routing values."""
        names = {value: self(value) for value in {value for value in values if type(value) is str}}
        return [names[value] if type(value) is str else self.default for value in values]

    def _spell(self, value: str) -> str:
        raw = clean_text(value).strip()
        full = (self._prefix + raw).strip()
        readable = full
        if not full.isascii():
            readable = unicodedata.normalize("NFKD", full).encode("ascii", "ignore").decode()
        name = _snake_case(_NOT_IN_A_NAME.sub("_", readable.translate(_REDUCE_ALPHABET)))
        if not full.isascii() or not _READABLE.search(raw):
            # dlt writes a trailing underscore as x; here the hash follows, so there is no need for it
            kept = _READABLE.search(readable) is not None
            base = _snake_case(_NOT_IN_A_NAME.sub("_", readable).strip("_")) if kept else _STAND_IN
            name = f"{base}_{blake2b(full.encode(), digest_size=4).hexdigest()}"
        if name.startswith("_"):
            name = _STAND_IN + name
        return _shorten(name, full, self._max_length)
