"""`px.torch` where there is no torch, or an old one: an error that says what to install; nothing else asks for torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys, types
{torch}
import phalanx as px
try:
    px.torch
except px.Error as error:
    print(error.message)
    print(error.remedy)
"""
MISSING = "sys.modules['torch'] = None"
OLD = "sys.modules['torch'] = types.SimpleNamespace(__version__='2.5.1+cu124')"


@pytest.mark.parametrize(
    "torch, printed",
    [
        (MISSING, ["px.torch needs torch, which is not installed", 'pip install "phalanx-gpu[torch]"']),
        (OLD, ["px.torch needs torch 2.6 or newer, this is 2.5.1+cu124", 'pip install "torch>=2.6"']),
    ],
)
def test_what_to_install(torch: str, printed: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", CODE.format(torch=torch)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == printed


def test_the_library_runs_without_it() -> None:
    call = "print(px.kernels.softmax(np.zeros((1, 4), np.float32)))"
    code = f"import sys\n{MISSING}\nimport numpy as np, phalanx as px\n{call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[[0.25 0.25 0.25 0.25]]", done.stderr
