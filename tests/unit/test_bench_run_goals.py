"""`bench run` judges a rate only where enough messages made it."""

from __future__ import annotations

import pytest

from loader.bench.verbs.run import show


def _result(messages: int) -> dict[str, object]:
    cost = {
        "messages": messages,
        "cpu_us_per_message": 14.0,
        "messages_per_second_one_core": 70_000,
        "messages_per_second_wall": 900,
        "postgres_cpu_us_per_message": 7.0,
        "peak_resident_mb": 190.0,
    }
    return {"memory": {"loader": cost, "share_of_ceilings": {"wall": 0.03}}}


@pytest.mark.parametrize(("messages", "verdict"), [(5_000, "too few messages to judge"), (300_000, "MISSED")])
def test_a_rate_of_few_messages_is_not_judged(capsys: pytest.CaptureFixture[str], messages: int, verdict: str) -> None:
    show(_result(messages))
    lines = [line for line in capsys.readouterr().out.splitlines() if "sustained" in line or "ceiling" in line]
    assert len(lines) == 2
    assert all(line.rstrip().endswith(verdict) for line in lines)
