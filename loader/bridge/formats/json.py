"""JSON payloads: orjson where it is exact, and every digit of every number where a stage changes the payload."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

import orjson
import simplejson

from loader.bridge.frame import Undecodable
from loader.message.limits import is_too_deep

# A number of 17 digits and more may not be what a double can hold; 16 always are.
_LONG_NUMBER = re.compile(rb"[0-9](?:\.?[0-9]){16}|[0-9][eE]")
_DIGITS = 4300
"""Longest integer, as in Python's own limit and the loader's."""


class Json:
    """RFC 8259. Of two equal keys in one object the last one counts. NaN and Infinity are refused."""

    name = "json"

    def decode(self, value: bytes) -> Any:
        """The fields. Integers beyond 64 bit and fractions beyond double precision are rounded: good enough to compare
        with most things, and `decode_exactly` has the rest. Raises Undecodable."""
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            return self._by_stdlib(value, error)

    def decode_exactly(self, value: bytes, fields: Any) -> Any:
        """The fields with every digit of every number."""
        return self._by_stdlib(value, None) if _LONG_NUMBER.search(value) else fields

    def encode(self, fields: Any) -> bytes:
        """Compact JSON. Raises Undecodable if the fields hold what JSON has no word for."""
        try:
            return orjson.dumps(fields)
        except TypeError:
            pass  # an integer beyond 64 bit, a Decimal, or a lone surrogate: the slower writer has them
        try:
            text = simplejson.dumps(
                fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False, use_decimal=True, for_json=False
            )
            try:
                return text.encode()
            except UnicodeEncodeError:
                # A lone surrogate has no bytes in UTF-8, but it came as an escape and can leave as one.
                return simplejson.dumps(fields, separators=(",", ":"), allow_nan=False, use_decimal=True).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise Undecodable(f"cannot be written as JSON: {error}") from None

    def _by_stdlib(self, value: bytes, error: Exception | None) -> Any:
        try:
            text = value.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            raise Undecodable(f"not JSON: not UTF-8 at byte {fault.start}") from None
        # The parser below recurses, and its stack must not depend on what somebody sends.
        if is_too_deep(value):
            raise Undecodable("not JSON that can be read: nested too deeply")
        try:
            return _strict.decode(text)
        except (ValueError, RecursionError) as fault:
            raise Undecodable(f"not JSON: {error or fault}") from None


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _fraction(text: str) -> float | Decimal:
    number = float(text)
    exact = Decimal(text)
    # What a double writes back must be what came, by value; 1.10 may leave as 1.1.
    if Decimal(repr(number)) == exact if number - number == 0 else False:
        return number
    return exact


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_strict = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=_constant)
