"""Which fields of a record and of its list's elements become which fields of a row, told by the schema alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from loader.bridge.stages.flat import Flat


class Layout(NamedTuple):
    """A row holds `parents`, then `elements`, each (field, name in the row), then the element itself as `raw`."""

    each: str
    parents: list[tuple[str, str]]
    elements: list[tuple[str, str]]
    raw: str | None

    @property
    def order(self) -> list[str]:
        """The row's names."""
        return [name for _, name in (*self.parents, *self.elements)] + ([self.raw] if self.raw else [])


def layout(schema: Any, plan: Flat) -> Layout | None:
    """None where it takes the values to tell. The schema is a record's, the plan's paths are of one step."""
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    array = fields.get(plan.each[0])
    if isinstance(array, list):
        others = [one for one in array if one != "null"]
        array = others[0] if len(others) == 1 else None
    if not isinstance(array, dict) or array["type"] != "array":
        return None
    element = array["items"]
    if not isinstance(element, dict) or element["type"] != "record":
        return None
    inner = {field["name"]: field["type"] for field in element["fields"]}
    if plan.fields is None and plan.raw and any(_perhaps_list(each) for each in inner.values()):
        return None  # null is no list: the way that sees values keeps it
    names = plan.names(tuple(fields), tuple(inner), lambda key: _is_list(inner[key]))
    parents = [(path[0], name) for path, name in names.parents if path[0] in fields]
    elements = [(path[0], name) for path, name in names.elements if path[0] in inner]
    return Layout(plan.each[0], parents, elements, plan.raw)


def _is_list(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] == "array"


def _perhaps_list(schema: Any) -> bool:
    return isinstance(schema, list) and any(_is_list(each) for each in schema)
