"""How errors reach the user: rendering, call chains, tracebacks, places of last resort."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from phalanx.errors import Error, excerpt, render
from phalanx.location import Location

SCRIPT = """
import numpy as np
import phalanx as px

@px.func
def helper(x):
    return x + missing

@px.kernel
def broken(X):
    px.store(X[0], helper(1.0))

broken[1](np.zeros(4, np.float32))
"""


def stderr_of(script: str, folder: Path, **environment: str) -> str:
    file = folder / "script.py"
    file.write_text(script)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, cwd=folder, env={**os.environ, **environment}
    )
    assert done.returncode == 1
    return done.stderr


def frames(text: str) -> list[str]:
    """The files of a traceback."""
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('  File "')]


def test_a_user_sees_no_frames_of_the_compiler(tmp_path: Path) -> None:
    text = stderr_of(SCRIPT, tmp_path, PHALANX_DEBUG="0")
    assert not [file for file in frames(text) if "language" in file or "passes" in file or "sim" in file]
    assert len(frames(text)) <= 4
    assert text.endswith(
        "phalanx.errors.Error: unknown name 'missing'\n"
        "  --> script.py:7:16\n"
        "  |\n"
        "7 |     return x + missing\n"
        "  |                ^^^^^^^\n"
        "  = called at script.py:11: px.store(X[0], helper(1.0))\n"
        "  = help: names come from the kernel, its parameters or the enclosing scopes\n"
    )


def test_debugging_shows_the_compilers_frames(tmp_path: Path) -> None:
    text = stderr_of(SCRIPT, tmp_path, PHALANX_DEBUG="1")
    assert [file for file in frames(text) if file.endswith("reader.py")]
    assert "unknown name 'missing'" in text


def test_a_failure_of_the_compiler_is_an_error_with_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    import phalanx.language.ops.memory as memory

    def broken(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(memory, "stored_value", broken)
    monkeypatch.delenv("PHALANX_DEBUG", raising=False)

    @px.kernel
    def innocent(X):
        px.store(X[0], 1.0)

    with pytest.raises(Error, match="internal: KeyError: 'lost'") as caught:
        innocent[1](np.zeros(4, np.float32))
    assert caught.value.location.text.strip() == "px.store(X[0], 1.0)"
    assert "PHALANX_DEBUG=1" in str(caught.value.remedy)


def test_a_failure_of_a_pass_is_an_error_at_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:

    def broken(*_: object) -> None:
        raise RuntimeError("no way")

    monkeypatch.setattr("phalanx.cuda.prepare.prepare", broken)
    monkeypatch.delenv("PHALANX_DEBUG", raising=False)

    @px.kernel
    def innocent(X):
        px.store(X[0], 1.0)

    with pytest.raises(Error, match="internal: RuntimeError: no way") as caught:
        innocent[1](np.zeros(4, np.float32))
    assert caught.value.location.text.strip() == "def innocent(X):"


def test_a_users_own_exception_is_shown_as_the_cause() -> None:
    @px.kernel
    def innocent(X, *, N=0):
        px.store(X[0], 1.0)

    def grid(N):
        return 8 // N

    with pytest.raises(Error, match="the grid of kernel 'innocent' failed: ZeroDivisionError") as caught:
        innocent[grid](np.zeros(4, np.float32))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_parts_of_a_message() -> None:
    outer = Location("a.py", 3, text="    g()\n")
    place = Location("b.py", 12, 4, 12, 7, "    abc(1)\n", caller=outer)
    error = Error("it is wrong", location=place, remedy="do right", kind="race", details="one\n\ntwo")
    assert render(error) == (
        "race: it is wrong\n   --> b.py:12:5\n   |\n12 |     abc(1)\n   |     ^^^\n"
        "  = called at a.py:3: g()\n  one\n\n  two\n  = help: do right"
    )


def test_carets_under_tabs_and_several_lines() -> None:
    tabbed = Location("t.py", 1, 2, 1, 3, "\t\tx = 1\n")
    assert excerpt(tabbed)[2:] == ["1 |         x = 1", "  |         ^"]
    spread = Location("t.py", 1, 4, 3, 5, "x = (1,\n")
    assert excerpt(spread)[2:] == ["1 | x = (1,", "  |     ^^^"]
    empty = Location("t.py", 1, 0, 1, 0, "")
    assert excerpt(empty)[3] == "  | ^"


def test_an_error_keeps_the_first_place_it_got() -> None:
    first, second = Location("a.py", 1), Location("b.py", 2)
    error = Error("wrong").at(first).at(second)
    assert error.location is first
    assert str(Error("nowhere")) == "nowhere"
