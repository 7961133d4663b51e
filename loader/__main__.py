"""`python -m loader`, the same as the command `loader`."""

from __future__ import annotations

from loader.cli import main

if __name__ == "__main__":
    main()
