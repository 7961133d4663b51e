"""terraform/README.md: its tables are current, and its examples are what Terraform accepts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "terraform/README.md").read_text()
EXAMPLES = re.findall(r"^```hcl\n(.*?)^```", README, re.MULTILINE | re.DOTALL)

TEST = """
mock_provider "google" {}

override_data {
  target = module.loader.data.google_compute_subnetwork.this
  values = { private_ip_google_access = true }
}

run "example" {
  command = plan
}
"""


def test_tables_are_current():
    done = subprocess.run([sys.executable, ROOT / "terraform/readme.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run: python terraform/readme.py {done.stderr}"


def test_there_are_the_examples_that_are_promised():
    assert len(EXAMPLES) == 4
    assert sum("existing_database" in example for example in EXAMPLES) == 2
    assert sum("bridge" in example for example in EXAMPLES) == 1


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_plans(terraform, tree, initialised, tmp_path_factory, number):
    folder = tmp_path_factory.mktemp("example")
    source = f'source = "{tree / "terraform"}"'
    text = EXAMPLES[number].replace('source = "./terraform"', source)
    assert source in text
    (folder / "main.tf").write_text(text)
    (folder / "bridge.hcl").write_text("# the bridge's file\n")
    (folder / "example.tftest.hcl").write_text(TEST)
    result = terraform.run(initialised(folder), "test", "-no-color", check=False)
    assert "1 passed, 0 failed" in result.stdout, result.stdout + result.stderr


def test_the_shell_example_sets_only_variables_that_are_required():
    given = re.findall(r"-var=(\w+)=", README)
    variables = re.findall(
        r'^variable "(\w+)" \{\n(.*?)^\}', (ROOT / "terraform/variables.tf").read_text(), re.MULTILINE | re.DOTALL
    )
    required = {name for name, body in variables if not re.search(r"^  default +=", body, re.MULTILINE)}
    assert set(given) == required == {"project_id", "region", "image"}
