"""CloudEvents 1.0 in the Pub/Sub protocol binding: structured, batched and binary mode become the same record.

The record has the context attributes at top level under their own names and the payload under `data`
(`data_base64` for bytes), as the CloudEvents JSON format has it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from loader.message.message import Refused

_REQUIRED = ("specversion", "id", "source", "type")


def mode(attributes: Mapping[str, str]) -> str | None:
    """`structured`, `batch` or `binary`; None for a message that is not a CloudEvent.

    Binary mode takes `ce-specversion`, `ce-id`, `ce-source` and `ce-type`, none of them empty: a message that only
    has some of them is an ordinary message with attributes.
    """
    content_type = _content_type(attributes).lower()
    if content_type.startswith("application/cloudevents-batch"):
        return "batch"
    if content_type.startswith("application/cloudevents"):
        return "structured"
    if all(attributes.get("ce-" + name) for name in _REQUIRED):
        return "binary"
    return None


def check_format(attributes: Mapping[str, str]) -> None:
    """Refuse an event format other than JSON (`application/cloudevents+avro`); none at all counts as JSON."""
    media_type = _media_type(attributes)
    if "+" in media_type and not media_type.endswith("+json"):
        raise Refused("bad CloudEvent", f"the event format {media_type[:100]} is not supported, only JSON is")


def check_envelope(record: dict[str, Any], where: str) -> None:
    """Refuse an envelope without its required attributes. `where` names it, e.g. `the CloudEvent`."""
    for name in _REQUIRED:
        value = record.get(name)
        if value is None:
            raise Refused("bad CloudEvent", f"{where} has no {name}")
        if type(value) is not str or not value:
            raise Refused("bad CloudEvent", f"the {name} of {where} is not a text with something in it")


def has_json_data(attributes: Mapping[str, str]) -> bool:
    """Whether the body of a binary-mode event is JSON by its content type; without one it is."""
    media_type = _media_type(attributes)
    return not media_type or media_type.endswith(("/json", "+json"))


def text_data(attributes: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The `data` or `data_base64` of a binary-mode event whose body is not JSON."""
    if not body:
        return {}
    if _media_type(attributes).startswith("text/") or _media_type(attributes).endswith(("/xml", "+xml")):
        try:
            return {"data": body.decode()}
        except UnicodeDecodeError:
            pass  # not a fault: a text in another charset is kept as bytes, which lose nothing
    return {"data_base64": base64.b64encode(body).decode()}


def context(attributes: Mapping[str, str]) -> dict[str, Any]:
    """The context attributes of a binary-mode event; all of them are text in this mode, extensions too."""
    record: dict[str, Any] = {
        name[3:]: value for name, value in attributes.items() if name.startswith("ce-") and name[3:]
    }
    # A context attribute may not be called data; should one be, the payload is what stays.
    record.pop("data", None)
    record.pop("data_base64", None)
    if content_type := _content_type(attributes):
        record["datacontenttype"] = content_type
    return record


def identity(record: dict[str, Any]) -> str:
    """Source and id, which together identify an event, as one text: `<source> <id>`.

    A source is a URI reference and cannot hold a space. One that does all the same is escaped behind a leading
    space, so that no two pairs give one text.
    """
    source = record["source"]
    if " " in source:
        source = " " + source.replace("%", "%25").replace(" ", "%20")
    return f"{source} {record['id']}"


def _content_type(attributes: Mapping[str, str]) -> str:
    return attributes.get("content-type") or attributes.get("Content-Type") or ""


def _media_type(attributes: Mapping[str, str]) -> str:
    return _content_type(attributes).partition(";")[0].strip().lower()
