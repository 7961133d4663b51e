"""Every module is formatted, valid, documented and passes the tests beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [".", *sorted(f"modules/{path.name}" for path in (ROOT / "terraform/modules").iterdir() if path.is_dir())]
BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)


def test_files_are_formatted(terraform, tree):
    assert terraform.run(tree, "fmt", "-check", "-recursive", "-diff", "terraform", check=False).stdout == ""


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_valid(terraform, tree, initialised, module):
    terraform.run(initialised(tree / "terraform" / module), "validate", "-no-color")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("module", MODULES)
def test_a_modules_own_tests_pass(terraform, tree, initialised, module):
    folder = initialised(tree / "terraform" / module)
    tests = list(folder.glob("*.tftest.hcl"))
    assert tests, f"{module} has no tests"
    wanted = sum(len(re.findall(r"^run ", path.read_text(), re.MULTILINE)) for path in tests)
    result = terraform.run(folder, "test", "-no-color", check=False)
    assert f"{wanted} passed, 0 failed" in result.stdout, result.stdout[-4000:] + result.stderr[-2000:]


@pytest.mark.parametrize("module", MODULES)
def test_variables_are_typed_and_everything_is_described(module):
    for file in ("variables.tf", "outputs.tf"):
        for kind, name, body in BLOCK.findall((ROOT / "terraform" / module / file).read_text()):
            assert re.search(r"^  description += \"\S.*\.", body, re.MULTILINE), f"{module}: {kind} {name}: description"
            if kind == "variable":
                assert re.search(r"^  type +=", body, re.MULTILINE), f"{module}: variable {name}: type"


@pytest.mark.parametrize("module", MODULES)
def test_every_variable_that_is_validated_has_a_test_of_its_refusal(module):
    folder = ROOT / "terraform" / module
    refused = set(
        re.findall(r"expect_failures = \[var\.(\w+)\]", "".join(p.read_text() for p in folder.glob("*.tftest.hcl")))
    )
    validated = {
        name
        for kind, name, body in BLOCK.findall((folder / "variables.tf").read_text())
        if kind == "variable" and "validation {" in body
    }
    assert validated == refused


def test_alphabetical_variables():
    for module in MODULES:
        names = [name for _, name, _ in BLOCK.findall((ROOT / "terraform" / module / "variables.tf").read_text())]
        assert names == sorted(names), module


def test_the_agent_that_works_no_more_is_configured_nowhere():
    # The name may stand in a refusal and its test only.
    for path in [*(ROOT / "terraform").rglob("*.tf"), *(ROOT / "startup").iterdir()]:
        text = re.sub(r"validation \{.*?\n  \}", "", path.read_text(), flags=re.DOTALL)
        assert "gce-container-declaration" not in text, path


def test_no_group_has_a_target_size():
    for path in (ROOT / "terraform").rglob("*.tf"):
        assert not re.search(r"^\s*target_size\s*=", path.read_text(), re.MULTILINE), path


def test_every_setting_that_is_named_is_one_of_the_loaders():
    from loader.settings.declaration import Settings

    known = {f"LOADER_{name.upper()}" for name in Settings.model_fields}
    texts = [path.read_text() for path in [*(ROOT / "terraform").rglob("*.tf"), *(ROOT / "startup").iterdir()]]
    texts.append((ROOT / "terraform/README.md").read_text())
    named = set(re.findall(r"\bLOADER_[A-Z_]*[A-Z]\b", "\n".join(texts)))
    assert "LOADER_SUBSCRIPTION" in named
    assert named <= known
