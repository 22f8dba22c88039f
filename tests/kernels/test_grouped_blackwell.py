"""Grouped products and those of a mixture of experts on Blackwell: simulated, checked, on the CPU as CUDA text, compiled."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernels.test_moe import make, products
from phalanx.kernels.products import moe
from phalanx.kernels.products.grouped import grouped_matmul
from phalanx.kernels.products.grouped_blackwell import choose_grouped_blackwell
from phalanx.kernels.products.matmul_blackwell_config import BlackwellConfig
from phalanx.kernels.products.moe import moe_gather_matmul, moe_matmul, moe_matmul_scatter
from support.library_launches import LibraryLaunch, launches

module = sys.modules["phalanx.kernels.products.grouped_blackwell"]  # the name is the kernel's, too
BF16 = ml_dtypes.bfloat16
SMALL = {"BN": 64}
SIZES = [[150, 0, 70], [128], [1, 1, 1], [0, 300]]


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(BF16)


def captured(call: Any, *args: Any, run: bool = True, **options: Any) -> tuple[Any, LibraryLaunch]:
    with launches((module, "grouped_blackwell"), run=run) as found:
        got = call(*args, **options)
    [launch] = found
    return got, launch


@pytest.mark.share(4)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_that_are_gathered_or_lie_there(sizes: list[int]) -> None:
    x, w, idx, counts = make(sizes)
    want = rounded(products(x[idx], w, counts))
    assert np.array_equal(moe_gather_matmul(x, idx, w, counts, arch="sm_100a", **SMALL), want)
    assert np.array_equal(moe_matmul(x[idx], w, counts, arch="sm_100a", **SMALL), want)
    assert np.array_equal(grouped_matmul(x[idx], w, sizes, arch="sm_103a"), want)


def test_bias_activation_and_rows_behind_the_last_group() -> None:
    x, w, idx, counts = make([130, 70])
    bias = np.random.default_rng(1).integers(-9, 9, (2, 128)).astype(np.float32)
    out = np.full((220, 128), 7, BF16)
    rows = np.concatenate([x[idx], x[:20]])
    grouped_matmul(rows, w, counts, bias=bias, activation="relu", out=out, arch="sm_100a")
    want = np.maximum(products(x[idx], w, counts) + np.repeat(bias, counts, axis=0), 0)
    assert np.array_equal(out[:200], rounded(want)) and (out[200:] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_sums_by_index(dtype: Any) -> None:
    x, w, idx, counts = make([70, 30])
    idx = idx.astype(np.int64)
    idx[5:8] = (2**32, -1, 200)  # no rows of the result
    there = (idx >= 0) & (idx < 200)
    gate = np.random.default_rng(1).integers(1, 4, 100).astype(np.float32)
    out = np.ones((200, 128), dtype)
    want = np.ones((200, 128), np.float32)
    np.add.at(want, idx[there], (gate[:, None] * products(x[:100], w, counts))[there])
    assert moe_matmul_scatter(x[:100], w, counts, idx, gate, out, arch="sm_100a", **SMALL) is out
    assert np.abs(out.astype(np.float32) - want).max() <= (0 if dtype is np.float32 else 2**-6 * np.abs(want).max())


def scattered(x: np.ndarray, w: np.ndarray, counts: np.ndarray, idx: np.ndarray, **options: Any) -> np.ndarray:
    return moe_matmul_scatter(x, w, counts, idx, np.ones(len(x), np.float32), np.zeros((200, 128), np.float32), **options)


def cut(high: int, across: int = 1) -> BlackwellConfig:
    return BlackwellConfig(64, cluster=(high, across))


CALLS = {
    "rows, alone": lambda x, w, c, i: (grouped_matmul, (x[i], w, c), {"config": cut(1)}),
    "rows, a pair": lambda x, w, c, i: (grouped_matmul, (x[i], w, c), {"config": cut(2), "bias": np.zeros((3, 128), BF16)}),
    "rows, two pairs": lambda x, w, c, i: (grouped_matmul, (x[i], w, c), {"config": cut(2, 2)}),
    "gathered": lambda x, w, c, i: (moe_gather_matmul, (x, i, w, c), {"arch": "sm_100a", **SMALL}),
    "sums": lambda x, w, c, i: (scattered, (x[i], w, c, i), {"arch": "sm_100a", **SMALL}),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n == "rows, two pairs")) for n in CALLS])
def test_everywhere(name: str) -> None:
    x, w, idx, counts = make([130, 0, 10], k=72)
    call, args, options = CALLS[name](x, w, counts, idx)
    got, launch = captured(call, *args, **options)
    want = products(x[idx], w, counts)
    if name == "sums":
        rows, want = want, np.zeros((200, 128), np.float32)
        np.add.at(want, idx, rows)
    assert np.array_equal(got, want.astype(got.dtype))
    report = launch.check(schedules=2, strict=True, arch="sm_100a")
    assert report.ok, report
    got[...] = 0
    launch.on_host()
    assert np.array_equal(got, want.astype(got.dtype))


@pytest.mark.long
@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_100a", pytest.param("sm_103a", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["rows", "gathered", "sums"])
def test_the_chosen_kernels_compile_without_spills(name: str, arch: str) -> None:
    x, w, idx = np.zeros((2048, 1024), BF16), np.zeros((4, 1024, 1024), BF16), np.zeros(2048, np.int32)
    sizes = [512] * 4
    if name == "rows":
        options = {"bias": np.zeros((4, 1024), BF16), "activation": "gelu"}
        _, launch = captured(grouped_matmul, x, w, sizes, run=False, arch="sm_100a", **options)
        assert launch.constants["config"].pair == 2
    elif name == "gathered":
        _, launch = captured(moe_gather_matmul, x, idx, w, sizes, run=False, arch="sm_100a")
        assert launch.constants["config"].pair == 2
    else:
        out, gates = np.zeros((2048, 1024), np.float32), np.zeros(2048, np.float32)
        _, launch = captured(moe_matmul_scatter, x, w, sizes, idx, gates, out, run=False, arch="sm_100a")
    made = launch.compile(arch)
    assert made.spills == 0 and "tcgen05.mma" in made.ptx
    notes = "\n".join(made.notes)
    assert ("tma.gather of 128 rows of A: four rows, gather4 of a box of 1 x 64" in notes) == (name == "gathered")


def test_gathered_rows_of_pairs() -> None:
    x, w, idx, counts = make([300, 260], k=72)
    got, launch = captured(moe_gather_matmul, x, idx, w, counts, arch="sm_100a", BN=64)
    assert launch.constants["config"].pair == 2
    assert np.array_equal(got, rounded(products(x[idx], w, counts)))
    report = launch.check(schedules=1, strict=True, arch="sm_100a")
    assert report.ok, report


def test_choices() -> None:
    assert choose_grouped_blackwell(4096, 8, 4096).pair == 2
    assert choose_grouped_blackwell(1024, 8, 4096).pair == 1
    assert choose_grouped_blackwell(4096, 8, 64).bn == 128


def test_rings_of_hopper_run_as_before() -> None:
    x, w, idx, counts = make([70, 30])
    with launches((moe, "expert_ring")) as found:
        moe_matmul(x[idx], w, counts, STAGES=2, **SMALL)
    assert [launch.kernel.name for launch in found] == ["expert_ring"]
