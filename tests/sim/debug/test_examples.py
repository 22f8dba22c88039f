"""Sessions over the examples: whatever is asked, at whatever place, there is an answer, and the run is not disturbed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from phalanx.sim.run import simulate
from phalanx.tools.check import declared

FOLDER = Path(__file__).resolve().parents[3] / "examples"
QUICK = ("pipe_copy.py", "split_k.py", "softmax.py")
LONG = (
    "cluster_exchange.py", "demo.py", "multicast_copy.py", "gemm/v3.py", "gemm/v6.py", "attention/v2.py", "attention/v4.py",
    "blackwell/v1.py", "blackwell/v3.py", "simple/norm_matmul.py", "simple/attention.py",
)
LOOK = ("where", "list", "agents all", "variables", "memory", "barriers all", "copies", "waits all", "findings")
GO = ("step 5", "next 3", "instruction 7", "phase", "land", "step", "back", "step 40", "agent 1", "agent 3", "goto 9")


@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_a_session_answers_everywhere(name: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str((FOLDER / name).parent))
    monkeypatch.syspath_prepend(str(FOLDER))
    launch = declared(str(FOLDER / name))[0]
    said: list[str] = []
    session = px.debug(launch.bound, *launch.args, schedule=schedule, seed=5, write=said.append, **launch.constants)
    rng = random.Random(name)
    for _ in range(12):
        session.do(rng.choice(GO), *LOOK)
    text = "\n".join(said)
    assert "there is no command" not in text and "mistake in Phalanx" not in text and len(said) > 100
    session.do("restart", "continue")
    assert said[-1].splitlines()[-1].endswith("0 findings")
    run = session.run
    args = run.start().args
    simulate(run.function, run.dims, args, schedule=run.schedule, sms=run.sms)
    for mine, theirs in zip(run.args, args):
        if isinstance(mine, np.ndarray):
            assert mine.tobytes() == theirs.tobytes()
