"""The README's section 'On your laptop', run as it is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def laptop_commands() -> str:
    section = re.search(r"^## On your laptop\n(.*?)^## ", README.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    block = re.search(r"```sh\n(.*?)```", section[1], re.DOTALL)
    assert block is not None
    first, rest = block[1].split("\n", 1)
    # The first line installs what these tests run in already.
    assert "pip install" in first
    return rest


def test_the_laptop_section_works_as_written(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None, "the section is written for a POSIX shell with job control: bash is missing"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LOADER_", "PUBSUB_"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    script = laptop_commands().replace(
        "loader local down",
        'psql_free_check() { python3 -c \'import os, psycopg; c = psycopg.connect(os.environ["LOADER_DATABASE_URL"]); '
        'print("ROWS", c.execute("select count(*) from events.\\"order\\"").fetchone()[0], '
        'c.execute("select count(*) from events.order__items").fetchone()[0])\'; }\n'
        "psql_free_check\nloader local down",
    )
    done = subprocess.run(
        [bash, "-e", "-c", f"trap 'loader local down >/dev/null 2>&1' EXIT\n{script}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ROWS 1 2" in done.stdout, done.stdout + done.stderr
    assert 'CREATE TABLE "events"."order"' in done.stdout, "loader plan shows the DDL"
