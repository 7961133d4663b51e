"""prepare.sh, run with stand-ins for the system's commands that write down how they were called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "startup/prepare.sh"
IMAGE = "europe-west1-docker.pkg.dev/acme-data/loader/loader:1"

STAND_INS = {
    "sleep": "",
    "chown": "",
    "docker-credential-gcr": "",
    "systemctl": 'echo "$RESTARTS"',
    # -C asks whether the rule is there.
    "iptables": '[[ "$2" != -C || -e "$TOP/open-$7" ]] || exit 1; [[ "$2" == -C ]] || touch "$TOP/open-$7"',
    "docker": '[[ "$1" != "$BROKEN" ]] || exit 1; [[ "$1" != image || -z "$GONE" ]] || exit 1',
}


@pytest.fixture
def prepare(tmp_path):
    """Runs the script: `prepare(restarts=0, broken="", gone="")` gives (exit code, calls)."""
    if not (bash := shutil.which("bash")):
        pytest.skip("bash is not installed")
    binaries = tmp_path / "bin"
    binaries.mkdir()
    log = tmp_path / "calls"
    for name, body in STAND_INS.items():
        # iptables is asked through its wait option: -w -C INPUT -p tcp -s RANGE.
        (binaries / name).write_text(f'#!{bash}\necho "{name} $*" >>"$TOP/calls"\n{body}\n')
        (binaries / name).chmod(0o755)
    text = SCRIPT.read_text().replace("/run/loader", f"{tmp_path}/run").replace("/etc/loader", f"{tmp_path}/etc")
    script = tmp_path / "prepare.sh"
    script.write_text(text)

    def run(restarts: int = 0, broken: str = "", gone: str = "") -> tuple[int, list[str]]:
        log.write_text("")
        done = subprocess.run(
            [bash, script],
            env={
                "PATH": f"{binaries}:{os.environ['PATH']}",
                "TOP": str(tmp_path),
                "RESTARTS": str(restarts),
                "BROKEN": broken,
                "GONE": gone,
                "IMAGE": IMAGE,
                "REGISTRY": "europe-west1-docker.pkg.dev",
                "HEALTH_PORT": "8080",
                "HEALTH_RANGES": "35.191.0.0-16 130.211.0.0-22",  # no slashes: the stand-in makes files of them
            },
            capture_output=True,
            text=True,
            timeout=30,
        )
        return done.returncode, log.read_text().splitlines()

    run.folder = tmp_path  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize(
    ("restarts", "pause"), [(0, None), (1, "1"), (2, "2"), (3, "4"), (5, "16"), (6, "30"), (900, "30")]
)
def test_each_failure_waits_longer_up_to_half_a_minute(prepare, restarts, pause):
    code, calls = prepare(restarts=restarts)
    assert code == 0
    assert [call for call in calls if call.startswith("sleep")] == ([] if pause is None else [f"sleep {pause}"])


def test_the_health_port_is_opened_once(prepare):
    _, first = prepare()
    _, second = prepare(restarts=1)
    opened = [call for call in first if call.startswith("iptables -w -A")]
    assert opened == [
        f"iptables -w -A INPUT -p tcp -s {range_} --dport 8080 -j ACCEPT"
        for range_ in ("35.191.0.0-16", "130.211.0.0-22")
    ]
    assert not [call for call in second if call.startswith("iptables -w -A")]


def test_it_logs_in_and_pulls(prepare):
    _, calls = prepare()
    assert calls.index("docker-credential-gcr configure-docker --registries=europe-west1-docker.pkg.dev") < calls.index(
        f"docker pull --quiet {IMAGE}"
    )


def test_a_registry_that_is_away_keeps_no_worker_down_whose_image_is_here(prepare):
    code, calls = prepare(broken="pull")
    assert code == 0
    assert f"docker image inspect --format {{{{.Id}}}} {IMAGE}" in calls


def test_without_image_and_registry_it_fails_for_systemd_to_try_again(prepare):
    assert prepare(broken="pull", gone="yes")[0] != 0


def test_secrets_are_fetched_by_the_image_into_a_folder_of_its_user(prepare):
    (prepare.folder / "etc").mkdir()
    (prepare.folder / "etc/secrets.json").write_text('{"pgpass": "projects/p/secrets/s/versions/1"}')
    code, calls = prepare()
    assert code == 0
    [fetch] = [call for call in calls if call.startswith("docker run")]
    assert fetch.endswith(
        f"{IMAGE} {prepare.folder}/etc/fetch_secrets.py {prepare.folder}/etc/secrets.json /run/secrets"
    )
    assert f"chown 65532:65532 {prepare.folder}/run/secrets" in calls
    assert (prepare.folder / "run/secrets").stat().st_mode & 0o777 == 0o700


def test_a_secret_that_cannot_be_had_stops_the_start(prepare):
    (prepare.folder / "etc").mkdir()
    (prepare.folder / "etc/secrets.json").write_text("{}")
    assert prepare(broken="run")[0] != 0


def test_without_secrets_nothing_is_fetched(prepare):
    _, calls = prepare()
    assert not [call for call in calls if call.startswith("docker run")]
