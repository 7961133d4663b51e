"""The dashboards as files. `python -m loader.observability.dashboard` writes them beside this module."""

from __future__ import annotations

import json
from pathlib import Path

from loader.observability import dataset, overview, region

FOLDER = Path(__file__).parent


def files() -> dict[str, str]:
    """File name → content."""
    made = {
        "overview.json": overview.dashboard(),
        "loader.json": dataset.dashboard(),
        "bridge.json": region.dashboard(),
    }
    return {name: json.dumps(content, indent=1) + "\n" for name, content in made.items()}


if __name__ == "__main__":
    for name, content in files().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
