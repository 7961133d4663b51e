"""Makes a Python function for each schema that turns a datum into the JSON of its rows, without a look at the schema.

fastavro asks for each value what its type is, and what it gives is looked through again for times and to be put into
rows. A function that was written for one schema knows all of that beforehand: neighbours of a fixed width are read by
one call, a time becomes its text where it is read, and a row is written without a record being made first.

Only what is plain is read so. Whatever is odd in a datum - a time of another length than those from 1970 to 2039, a
block with its size, bytes left over - raises, and fastavro reads that datum and says whether it is good or bad.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any

import orjson

from loader.bridge.formats.avro_convert import types_of
from loader.bridge.formats.avro_guard import needs_guard
from loader.bridge.formats.avro_layout import Layout
from loader.bridge.formats.avro_values import MILLIS_ENDS, leaf, millis, second

Maker = Callable[[bytes], "list[bytes] | None"]
"""The bodies of a framed datum's rows; None: it has to be read the other way."""

_START = 5
_MOST_LINES = 3_000
_MOST_NESTED = 6
"""Loops and branches within each other; Python compiles 20 of them."""
_ODD = (IndexError, StructError, TypeError, ValueError, OverflowError)

# A time in milliseconds takes six bytes from July 1970 to 2039. The last four say which window of 8,192 milliseconds it
# is in, and windows come again and again; the first two say where in it. What is no such number meets a None, which no
# sum takes, or a window that there is none of.
_WINDOW = 8_192
_MOST_WINDOWS = 4_096
_LOW: list[int | None] = [None] * 65_536
for _low in range(0, 128, 2):  # an odd one is of a negative number
    for _high in range(128):
        _LOW[_low | 128 | (_high | 128) << 8] = (_low | _high << 7) >> 1
_ENDS = [MILLIS_ENDS[each % 1_000] for each in range(1_000 + _WINDOW)]


class _Windows(dict[int, tuple[list[str], int]]):
    """Last four bytes of a time → the seconds of its window as texts, and by how much it begins after the first."""

    def __missing__(self, number: int) -> tuple[list[str], int]:
        if number & 0x80808080 != 0x00808080:
            raise ValueError
        start = 0
        for each in number.to_bytes(4, "big"):
            start = start << 7 | each & 127
        seconds, rest = divmod(start * _WINDOW, 1_000)
        if len(self) >= _MOST_WINDOWS:
            self.clear()
        found = self[number] = ([second(seconds + each) for each in range(_WINDOW // 1_000 + 2)], rest)
        return found


_windows = _Windows()


class _Plain(Exception):
    """This schema is better read the other way."""


def row_maker(schema: Any, layout: Layout) -> Maker | None:
    """For a schema in one piece, a record's. None if it is not for this way."""
    if needs_guard(schema):
        return None
    try:
        return _Source(schema, layout).function()
    except (_Plain, SyntaxError, RecursionError):
        return None


def _more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """The rest of a number whose first byte goes on, and where it ends."""
    number &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        if byte < 128:
            number |= byte << shift
            if number >> 64:
                raise ValueError
            return number, at
        number |= (byte & 127) << shift
        shift += 7


class _Source:
    """The text of one function."""

    def __init__(self, schema: Any, layout: Layout) -> None:
        self._types = types_of(schema)
        self._lines: list[str] = []
        self._count = 0
        self._globals: dict[str, Any] = {
            "more": _more,
            "dumps": orjson.dumps,
            "low": _LOW,
            "windows": _windows,
            "ends": _ENDS,
            "odd": _ODD,
        }
        self._whole(schema, layout)

    def function(self) -> Maker:
        """Raises SyntaxError where it nests too deep for Python."""
        arguments = ", ".join(f"{name}={name}" for name in self._globals if name != "odd")  # local names are faster
        text = "\n".join([f"def rows(data, *, {arguments}):", *self._lines])
        exec(compile(text, "<avro rows>", "exec"), self._globals)
        made: Maker = self._globals["rows"]
        return made

    def _say(self, depth: int, *lines: str) -> None:
        self._lines += ["    " * depth + line for line in lines]
        if len(self._lines) > _MOST_LINES:
            raise _Plain

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _constant(self, kind: str, value: Any) -> str:
        name = self._name(kind)
        self._globals[name] = value
        return name

    def _whole(self, schema: Any, layout: Layout) -> None:
        self._say(1, "try:", f"    at = {_START}")
        names = {field["name"]: self._name("v") for field in schema["fields"]}
        self._fields(2, [(names[field["name"]], field["type"]) for field in schema["fields"]])
        self._say(2, "if at != len(data):", "    return None")
        element = self._name("e")
        parts = [f"{name!r}: {names[field]}" for field, name in layout.parents]
        parts += [f"{name!r}: {element}[{field!r}]" for field, name in layout.elements]
        if layout.raw:
            parts.append(f"{layout.raw!r}: {element}")
        made = f"[dumps({{{', '.join(parts)}}}) for {element} in {names[layout.each]} or ()]"
        self._say(2, f"return {made}")
        self._say(1, "except odd:", "    return None")

    # Values

    def _definition(self, schema: Any) -> Any:
        return self._types.get(schema, schema) if isinstance(schema, str) else schema

    def _width(self, schema: Any) -> str | None:
        """How `struct` spells a value whose width is known, six bytes for a time; None for the others."""
        schema = self._definition(schema)
        kind = schema if isinstance(schema, str) else schema["type"] if isinstance(schema, dict) else None
        if kind in ("float", "double"):
            return "f" if kind == "float" else "d"
        return "HI" if kind == "long" and leaf(schema) is millis else None

    def _fields(self, depth: int, fields: list[tuple[str, Any]], nested: int = 0) -> None:
        """Read values one after the other into variables."""
        run: list[tuple[str, Any]] = []
        for target, schema in [*fields, ("", None)]:
            if schema is not None and self._width(schema):
                run.append((target, schema))
                continue
            if run:
                self._run(depth, run)
                run = []
            if schema is not None:
                self._value(depth, target, schema, nested)

    def _run(self, depth: int, run: list[tuple[str, Any]]) -> None:
        pattern, targets, after = self._unpacked(run)
        struct = Struct(pattern)
        unpack = self._constant("u", struct.unpack_from)
        self._say(depth, f"{', '.join(targets)}, = {unpack}(data, at)", f"at += {struct.size}")
        self._say(depth, *after)

    def _unpacked(self, run: list[tuple[str, Any]]) -> tuple[str, list[str], list[str]]:
        """Pattern, variables and what is to be done with them."""
        pattern, targets, after = "<", [], []
        for target, schema in run:
            width = self._width(schema) or ""
            pattern += width
            if width == "HI":
                within, window = target + "t", target + "w"
                targets += [within, window]
                after += [f"texts, rest = windows[{window}]", f"rest += low[{within}]"]
                after += [f"{target} = texts[rest // 1000] + ends[rest]"]
            else:
                targets.append(target)
        return pattern, targets, after

    def _value(self, depth: int, target: str, schema: Any, nested: int) -> None:
        schema = self._definition(schema)
        if nested > _MOST_NESTED:
            raise _Plain
        if isinstance(schema, list):
            self._union(depth, target, schema, nested + 1)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if self._width(schema):
            self._run(depth, [(target, schema)])
        elif kind == "null":
            self._say(depth, f"{target} = None")
        elif kind == "boolean":
            self._say(depth, f"{target} = (False, True)[data[at]]", "at += 1")
        elif kind in ("int", "long", "enum"):
            self._number(depth, target)
            if kind == "enum":
                # A negative one would count from the end.
                symbols = self._constant("k", tuple(schema["symbols"]))
                self._say(depth, f"if {target} & 1:", "    raise ValueError", f"{target} = {symbols}[{target} >> 1]")
            else:
                self._say(depth, f"{target} = ({target} >> 1) ^ -({target} & 1)")
                self._converted(depth, target, schema)
        elif kind in ("string", "bytes"):
            self._length(depth, "n")
            self._say(depth, "e = at + (n >> 1)")
            self._say(depth, f"{target} = data[at:e]" + (".decode()" if kind == "string" else ""), "at = e")
            self._converted(depth, target, schema)
        elif kind == "fixed":
            size = int(schema["size"])
            self._say(depth, f"{target} = data[at : at + {size}]", f"at += {size}")
            # A slice beyond the end raises nothing, and an array of such would go on for as long as it says.
            self._say(depth, "if at > len(data):", "    raise ValueError")
            self._converted(depth, target, schema)
        elif kind == "record":
            self._record(depth, target, schema, nested)
        elif kind in ("array", "map"):
            self._blocks(depth, target, schema, nested + 2)
        else:
            raise _Plain

    def _number(self, depth: int, target: str) -> None:
        """A number as it stands, its sign in the last bit."""
        self._say(depth, f"{target} = data[at]", "at += 1")
        self._say(depth, f"if {target} > 127:", f"    {target}, at = more(data, at, {target})")

    def _length(self, depth: int, target: str) -> None:
        """Twice a length, which is not negative."""
        self._number(depth, target)
        self._say(depth, f"if {target} & 1:", "    raise ValueError")

    def _converted(self, depth: int, target: str, schema: Any) -> None:
        convert = leaf(schema)
        if convert is not None:
            self._say(depth, f"{target} = {self._constant('c', convert)}({target})")

    def _union(self, depth: int, target: str, branches: list[Any], nested: int) -> None:
        branch = self._name("b")
        self._length(depth, branch)
        for number, schema in enumerate(branches):
            self._say(depth, f"{'elif' if number else 'if'} {branch} == {number * 2}:")
            self._value(depth + 1, target, schema, nested)
        self._say(depth, "else:", "    raise ValueError")

    def _record(self, depth: int, target: str, schema: Any, nested: int) -> None:
        fields = [(self._name("v"), field) for field in schema["fields"]]
        self._fields(depth, [(name, field["type"]) for name, field in fields], nested)
        self._say(depth, f"{target} = {_object(fields)}")

    def _blocks(self, depth: int, target: str, schema: Any, nested: int) -> None:
        is_map = schema["type"] == "map"
        count, each, key = self._name("n"), self._name("v"), self._name("v")
        self._say(depth, f"{target} = {'{}' if is_map else '[]'}")
        add = None
        if not is_map:
            add = self._name("a")
            self._say(depth, f"{add} = {target}.append")
        self._say(depth, "while True:")
        self._length(depth + 1, count)
        self._say(depth + 1, f"if not {count}:", "    break", f"{count} >>= 1")
        if not is_map and self._fixed(depth + 1, add or "", count, schema["items"]):
            return
        self._say(depth + 1, f"for _ in range({count}):")
        if is_map:
            self._value(depth + 2, key, "string", nested)
        self._value(depth + 2, each, schema["values" if is_map else "items"], nested)
        self._say(depth + 2, f"{target}[{key}] = {each}" if is_map else f"{add}({each})")

    def _fixed(self, depth: int, add: str, count: str, schema: Any) -> bool:
        """Records of a width that is known, all of a block by one call: a track is an array of such."""
        schema = self._definition(schema)
        if not isinstance(schema, dict) or schema["type"] != "record" or not schema["fields"]:
            return False
        if not all(self._width(field["type"]) for field in schema["fields"]):
            return False
        fields = [(self._name("v"), field) for field in schema["fields"]]
        pattern, targets, after = self._unpacked([(name, field["type"]) for name, field in fields])
        struct = Struct(pattern)
        unpack = self._constant("u", struct.iter_unpack)
        # A block that is not all there ends beyond the datum, which is found out at the end.
        self._say(depth, f"e = at + {struct.size} * {count}", f"for {', '.join(targets)}, in {unpack}(data[at:e]):")
        self._say(depth + 1, *after, f"{add}({_object(fields)})")
        self._say(depth, "at = e")
        return True


def _object(fields: list[tuple[str, Any]]) -> str:
    return "{" + ", ".join(f"{field['name']!r}: {name}" for name, field in fields) + "}"
