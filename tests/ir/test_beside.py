"""What is kept beside a function: it is found again, and does not keep the function."""

from __future__ import annotations

import gc
import weakref

import numpy as np

import phalanx as px
from phalanx.ir.beside import Beside
from phalanx.ir.core import Function
from phalanx.runtime.launch.specialise import read_arguments, specialise


def doubled(X, *, N=32):
    px.store(X[0:N], px.load(X[0:N]) * 2.0)


def prepared() -> Function:
    """A kernel that was run, checked and compiled, after which nobody has it."""
    kernel, x = px.kernel(warps=1)(doubled), np.ones(32, np.float32)
    kernel[1](x)
    assert x[0] == 2.0 and px.check(kernel[1], x).ok and px.compile(kernel[1], x, arch="sm_90a").source
    return specialise(kernel, read_arguments(kernel, (x,)), {"N": 32}).prepared


def test_what_is_kept_is_found_again() -> None:
    function, numbers, words = prepared(), Beside[int]("number"), Beside[str]("word")
    assert numbers.get(function) is None
    assert numbers.keep(function, 3) == 3 == numbers.get(function)
    assert words.get(function) is None


def test_a_kernel_that_nobody_has_is_gone() -> None:
    """Layouts, code for the simulator and refusals know the function that they are about."""
    function = weakref.ref(prepared())
    gc.collect()
    assert function() is None
