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


def tfvars() -> str:
    return re.search(r"^cat > terraform/terraform.tfvars <<'END'\n(.*?)^END$", README, re.MULTILINE | re.DOTALL)[1]


def test_the_shortest_apply_sets_what_is_required_and_what_names_the_table():
    variables = re.findall(
        r'^variable "(\w+)" \{\n(.*?)^\}', (ROOT / "terraform/variables.tf").read_text(), re.MULTILINE | re.DOTALL
    )
    required = {name for name, body in variables if not re.search(r"^  default +=", body, re.MULTILINE)}
    given = set(re.findall(r"^(\w+) +=", tfvars(), re.MULTILINE))
    assert given == required | {"settings"}
    assert "LOADER_TABLE_KEY" in tfvars()


def test_the_shortest_apply_plans(terraform, tree, initialised, tmp_path_factory):
    names = re.findall(r"^(\w+) +=", tfvars(), re.MULTILINE)
    folder = tmp_path_factory.mktemp("shortest")
    given = "".join(f"  {name} = var.{name}\n" for name in names)
    declared = "".join(f'variable "{name}" {{}}\n' for name in names)
    (folder / "main.tf").write_text(f'{declared}module "loader" {{\n  source = "{tree / "terraform"}"\n{given}}}\n')
    (folder / "terraform.tfvars").write_text(tfvars())
    (folder / "example.tftest.hcl").write_text(TEST)
    result = terraform.run(initialised(folder), "test", "-no-color", check=False)
    assert "1 passed, 0 failed" in result.stdout, result.stdout + result.stderr


def test_commands_on_a_vm_use_what_the_vm_has():
    unit = (ROOT / "startup/cloud-init.yaml.tftpl").read_text()
    for each in ("--name=loader ", "--env-file=/etc/loader/worker.env", "--volume=/run/loader/secrets:/run/secrets:ro"):
        assert each in unit
    for each in (
        "docker exec loader",
        "--env-file=/etc/loader/worker.env",
        "--volume=/run/loader/secrets:/run/secrets:ro",
    ):
        assert each in README


def test_each_terraform_command_of_the_text_says_where_its_files_are():
    text = README.replace("`terraform apply` here gives", "")
    assert (
        re.findall(r"\bterraform (?:apply|destroy|init|output)\b.*", text.replace("-chdir=terraform ", "-chdir=")) == []
    )
