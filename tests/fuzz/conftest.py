"""The fuzz target's modules under their own names, as the script for atheris imports them too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
