"""What all tests share: an environment without settings, and hypothesis set for machines of any speed."""

from __future__ import annotations

import os

import hypothesis
import pytest

_SETTINGS = (
    "LOADER_",
    "PUBSUB_",
    "PG",
    "DESTINATION_",
    "DATASET_NAME",
    "WINDOW_SIZE_SECS",
    "MAX_BUNDLE_SIZE",
    "TABLE_NAME_",
)

hypothesis.settings.register_profile("default", deadline=None, database=None)
hypothesis.settings.register_profile(
    "ci", deadline=None, database=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config: pytest.Config) -> None:
    """Drop what the shell sets for the loader: a test must not load the developer's own subscription."""
    for name in list(os.environ):
        if name.startswith(_SETTINGS) and not name.startswith("LOADER_TEST_"):
            del os.environ[name]
