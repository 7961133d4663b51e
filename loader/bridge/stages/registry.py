"""Finds the stages: each module of this folder that defines STAGE."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from loader.bridge import stages
from loader.bridge.config.model import StageSpec
from loader.bridge.config.reference import resolve
from loader.bridge.stages.stage import Stage, StageContext


@cache
def kinds() -> Mapping[str, type[Stage]]:
    """Every kind of stage by name."""
    found = {}
    for module in pkgutil.iter_modules(stages.__path__):
        stage = getattr(importlib.import_module(f"{stages.__name__}.{module.name}"), "STAGE", None)
        if stage is not None:
            found[stage.name] = stage
    return dict(sorted(found.items()))


def build(spec: StageSpec, context: StageContext) -> Stage:
    """The stage that a block describes. `spec` is one that the configuration's reader has checked.

    Raises ConfigurationError for a variable or secret that is not there."""
    return kinds()[spec.kind](resolve(spec.options), context)
