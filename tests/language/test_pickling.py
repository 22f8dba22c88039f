"""Kernels, functions and structs travel by module and name; bound launches with their grid."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import phalanx as px


@px.func
def twice(x):
    return x * 2


@px.struct
class Pair:
    a: int
    b: int = 2


@px.kernel(warps=1)
def double(X, *, F=twice):
    px.store(X[0:8], F(px.load(X[0:8])))


def launched(bound: Any) -> list[float]:
    x = np.arange(8, dtype=np.float32)
    bound(x)
    return x.tolist()


@pytest.mark.parametrize("made", [double, twice, Pair], ids=["kernel", "func", "struct"])
def test_it_is_the_same_object_again(made: Any) -> None:
    assert pickle.loads(pickle.dumps(made)) is made
    assert copy.deepcopy(made) is made


def test_a_bound_launch_keeps_its_grid() -> None:
    launched(double[(1,)])
    bound = pickle.loads(pickle.dumps(double[(1,)]))
    assert bound.kernel is double and bound.grid == (1,)


@pytest.mark.share(2)
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_other_processes_launch_it(how: str) -> None:
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {how}")
    with multiprocessing.get_context(how).Pool(1) as pool:
        assert pool.apply(launched, (double[1],)) == [2.0 * i for i in range(8)]


def test_what_no_module_has_says_so() -> None:
    @px.kernel
    def local(X):
        pass

    with pytest.raises(pickle.PicklingError, match="define it at the top of a module"):
        pickle.dumps(local)


def test_checks_in_processes_need_no_importable_functions() -> None:
    @px.func
    def inner(x):
        return x + 1

    from concurrent.futures import ProcessPoolExecutor

    x = np.zeros(8, np.float32)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        assert px.check(double[1], x, F=inner, schedules=3, executor=pool).ok
