"""Terraform for the tests of this folder: `$TERRAFORM`, else `terraform` on PATH; without either, they skip and say so.

`terraform` (session): a `Terraform`: `.run(folder, *arguments)`.
`tree` (session): a copy of terraform/ and startup/ in which it may leave its own files.
`initialised` (session): `initialised(folder)` readies a folder of the tree; skips where the providers cannot be had.
`render` (session): `render(**variables)` gives the start-up file that the module startup makes of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300

UNREACHABLE = ("could not connect", "failed to query available provider packages", "failed to install provider")


class Terraform:
    """The command, with plain output and no questions."""

    def __init__(self, command: str) -> None:
        self.command = command

    def run(self, folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs it in a folder; fails the test with its output."""
        done = subprocess.run(
            [self.command, *arguments],
            cwd=folder,
            env={**os.environ, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if check and done.returncode != 0:
            pytest.fail(f"terraform {' '.join(arguments)} in {folder}: {done.stdout}{done.stderr}")
        return done


@pytest.fixture(scope="session")
def terraform() -> Terraform:
    command = os.environ.get("TERRAFORM") or shutil.which("terraform")
    if not command:
        pytest.skip("terraform is not on PATH, and TERRAFORM names none")
    return Terraform(command)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("terraform")
    for name in ("terraform", "startup"):
        shutil.copytree(ROOT / name, top / name, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    return top


@pytest.fixture(scope="session")
def initialised(terraform: Terraform) -> Callable[[Path], Path]:
    done: set[Path] = set()

    def ready(folder: Path) -> Path:
        if folder not in done:
            result = terraform.run(folder, "init", "-backend=false", "-no-color", check=False)
            said = " ".join((result.stdout + result.stderr).split())
            if result.returncode != 0 and any(reason in said.lower() for reason in UNREACHABLE):
                pytest.skip(f"terraform's providers cannot be had here: {said[-300:]}")
            assert result.returncode == 0, said
            done.add(folder)
        return folder

    return ready


@pytest.fixture(scope="session")
def render(
    terraform: Terraform, tree: Path, initialised: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    folder = initialised(tree / "terraform/modules/startup")

    def rendered(**variables: Any) -> str:
        work = tmp_path_factory.mktemp("render")
        values = work / "values.tfvars.json"
        values.write_text(json.dumps(variables))
        state = work / "state"
        terraform.run(folder, "apply", "-auto-approve", "-no-color", f"-var-file={values}", f"-state={state}")
        outputs = json.loads(terraform.run(folder, "output", "-json", f"-state={state}").stdout)
        return str(outputs["user_data"]["value"])

    return rendered
