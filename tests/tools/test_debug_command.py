"""`phalanx debug`: scripts of commands from a file, questions at a prompt, exit codes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.tools.cli import app
from phalanx.tools.debug import interruptible

KERNELS = '''
import numpy as np
import phalanx as px


@px.kernel(warps=1)
def double(X, Y, *, N=4):
    x = px.load(X[0:N])
    px.breakpoint(x > 2.0)
    px.store(Y[0:N], x * 2)


@px.kernel(warps=1)
def waits(X):
    full = px.barrier()
    full.wait(0)
    full.arrive()


@px.example
def small():
    return double[1], (np.arange(4, dtype=np.float32), np.zeros(4, np.float32))


@px.example
def stuck():
    return waits[1], (np.zeros(4, np.float32),)
'''
SAID = """\
all warps, CTA 0, cluster 0, at kernels.py:8 (tick 1)
    8 |     x = px.load(X[0:N])
(phalanx) continue
px.breakpoint
all warps, CTA 0, cluster 0, at kernels.py:9 (tick 3)
    9 |     px.breakpoint(x > 2.0)
(phalanx) print x
x: f32[4]
[0. 1. 2. 3.]
(phalanx) continue
the run is over (tick 6): 0 findings
(phalanx) print Y
Y: f32[4]
[0. 2. 4. 6.]
(phalanx) quit
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return str(path)


def test_commands_come_from_a_file(file: str, tmp_path: Path) -> None:
    script = tmp_path / "commands.txt"
    script.write_text("# to the breakpoint\ncontinue\nprint x\n\ncontinue\nprint Y\nquit\nprint X\n")
    result = CliRunner().invoke(app, ["debug", file, "--commands", str(script)])
    assert (result.stdout, result.exit_code) == (SAID, 0)
    assert result.stderr == "double; FILE:KERNEL takes another: waits\n"


def test_commands_are_asked_for(file: str) -> None:
    result = CliRunner().invoke(app, ["debug", f"{file}:waits"], input="continue\nwaits\n")
    assert "deadlock: no agent can ever go on" in result.output and result.exit_code == 1
    assert "all warps of CTA 0 itself would arrive at kernels.py:17, behind this wait" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "there is no file 'missing.py'"),
        (["FILE:triple"], "has no example of a kernel named 'triple'"),
        (["FILE", "--schedule", "fast"], "schedule='fast'"),
        (["FILE", "--arch", "sm_1"], "sm_1"),
    ],
)
def test_what_can_not_be_done(file: str, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["debug", *(each.replace("FILE", file) for each in arguments)])
    assert result.exit_code == 2 and message in result.output


def test_a_file_of_commands_that_is_not_there(file: str) -> None:
    result = CliRunner().invoke(app, ["debug", file, "--commands", "nothing.txt"])
    assert result.exit_code != 0


def test_control_c_stops_a_run_and_not_the_session() -> None:
    """At the prompt, where nothing runs, it ends the session."""

    class Running:
        running = True
        interrupted = False

    session, before = Running(), signal.getsignal(signal.SIGINT)
    with interruptible(session):  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)
        assert session.interrupted
        session.running = False
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_file_that_launches_is_enough(tmp_path: Path) -> None:
    path, script = tmp_path / "launches.py", tmp_path / "commands.txt"
    path.write_text(
        "import numpy as np\nimport phalanx as px\n\n\n@px.kernel(warps=1)\ndef twice(X):\n"
        "    px.store(X[0:4], px.load(X[0:4]) * 2)\n\n\ntwice[1](np.ones(4, np.float32))\n"
    )
    script.write_text("continue\nprint X[0:2]\n")
    result = CliRunner().invoke(app, ["debug", str(path), "--commands", str(script)])
    assert result.stdout.splitlines()[-2:] == ["X[0:2]: f32[2]", "[2. 2.]"] and result.exit_code == 0
