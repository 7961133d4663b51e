"""What dlt leaves behind at its first use must not keep a bundle in memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import gc, sys, weakref
from loader.learn.learner import Learner
from loader.plan.book import PlanRules
from loader.settings.contract import SchemaContract

class Bundle:
    pass

def load(learner):
    bundle = Bundle()
    learner.warm_up()  # as the first misfits of a dataset do
    return weakref.ref(bundle)

learner = Learner("events", PlanRules(), SchemaContract(), "a test")
if sys.argv[1] == "warm":
    learner.warm_up()
gc.collect()
gc.disable()
print("kept" if load(learner)() is not None else "let go")
"""


@pytest.mark.parametrize(("start", "found"), [("warm", "let go"), ("cold", "kept")])
def test_only_the_first_use_of_dlt_keeps_the_frames_of_its_caller(start: str, found: str) -> None:
    """The second case says when the warm-up is no longer needed."""
    run = subprocess.run([sys.executable, "-c", _SCRIPT, start], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.returncode) == (found, 0), run.stderr
