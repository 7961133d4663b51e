"""Makes the format that a pipeline names. What a format imports is imported only by those who use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loader.bridge.config.blocks import FORMATS
from loader.bridge.config.finding import allowed
from loader.bridge.config.reference import resolve
from loader.bridge.frame import Format
from loader.errors import ConfigurationError


def make_format(name: str, options: Mapping[str, Any]) -> Format:
    """Raises ConfigurationError for an unknown name or options that cannot be used (a file that is not there)."""
    if name == "raw":
        from loader.bridge.formats.raw import Raw

        return Raw()
    if name == "json":
        from loader.bridge.formats.json import Json

        return Json()
    if name == "protobuf":
        from loader.bridge.formats.protobuf import make

        return make(resolve(options))
    if name == "avro":
        from loader.bridge.formats.avro import make as make_avro

        return make_avro(resolve(options))
    raise ConfigurationError(f"unknown format {name!r}{allowed(name, FORMATS)}")
