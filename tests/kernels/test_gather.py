"""The row movers of the library in the simulator: against NumPy, clean under the checks, compiled for both targets."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels import gather
from phalanx.kernels.gather import MoveConfig, TileConfig, embedding, gather_rows, scatter_add_rows, scatter_rows
from support.host_cuda import COMPILER
from support.library_launches import launches

DTYPES = [ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, np.int8]
WIDTHS = [64, 4096, 100, 37, 30000]


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-7, 8, shape).astype(dtype)


def gathered(x: np.ndarray, idx: np.ndarray) -> np.ndarray:
    out = np.zeros((len(idx), x.shape[1]), x.dtype)
    there = (idx >= 0) & (idx < len(x))
    out[there] = x[idx[there]]
    return out


@pytest.mark.share(9)
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(dtype: Any, columns: int) -> None:
    rng = np.random.default_rng(2)
    x, idx = random((50, columns), dtype), rng.integers(-3, 55, 33)
    y = gather_rows(x, idx)
    assert y.dtype == x.dtype and np.array_equal(y, gathered(x, idx))
    out, places = random((60, columns), dtype, 1), rng.permutation(70)[:33].astype(np.int32) - 5
    expected = out.copy()
    there = (places >= 0) & (places < 60)
    expected[places[there]] = y[there]
    assert scatter_rows(y, places, out) is out
    assert np.array_equal(out, expected)


@pytest.mark.share(7)
@pytest.mark.parametrize("idx", [[], [5], [3] * 40, list(range(50)), [-1] * 9, [10**12, -(10**12), 0, 49, 50]], ids=len)
def test_gather_of_any_indices(idx: list[int]) -> None:
    x = random((50, 64), np.float32)
    named = np.array(idx, np.int64)
    assert np.array_equal(gather_rows(x, named), gathered(x, named))


def test_gather_from_nothing_is_zeros() -> None:
    assert not gather_rows(np.zeros((0, 16), np.float32), np.array([0, 3])).any()


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "dtype, columns",
    [(np.float32, 64), (np.float32, 1000), (np.int32, 300), (ml_dtypes.bfloat16, 2304), (np.float32, 37)],
)
def test_scatter_add_sums_repeated_rows(dtype: Any, columns: int) -> None:
    x, idx = random((33, columns), dtype), np.random.default_rng(3).integers(-2, 12, 33)
    out = random((10, columns), dtype, 1)
    expected = out.copy()
    for i, row in enumerate(idx.tolist()):
        if 0 <= row < 10:
            expected[row] = (expected[row] + x[i]).astype(dtype)
    assert np.array_equal(scatter_add_rows(x, idx, out), expected)


def test_embedding_keeps_the_shape_of_the_ids() -> None:
    table, ids = random((50, 64), np.float32), np.random.default_rng(4).integers(0, 50, (3, 5), np.int32)
    assert np.array_equal(embedding(table, ids), table[ids])


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "config", [MoveConfig(64, 1, 2, 1), MoveConfig(64, 4, 3, 2, 2), MoveConfig(32, 2, 4, 0), gather.choose(64, 4)]
)
def test_rings_are_clean(config: MoveConfig) -> None:
    x, y = random((50, 64), np.float32), random((33, 64), np.float32)
    idx = np.random.default_rng(5).integers(-3, 55, 33)
    constants = config.constants(64)
    assert px.check(gather.gather_ring[3], x, idx, y, **constants).ok
    assert px.check(gather.scatter_ring[3], y, np.random.default_rng(6).permutation(60)[:33], x, **constants).ok
    assert px.check(gather.scatter_ring[3], y, idx, x, **constants, ADD=True).ok


def test_scatter_of_a_row_twice_is_a_finding() -> None:
    x, y, idx = random((50, 64), np.float32), random((33, 64), np.float32), np.zeros(33, int)
    report = px.check(gather.scatter_ring[3], y, idx, x, **gather.choose(64, 4).constants(64))
    assert {finding.kind for finding in report.findings} == {"race"}


def test_registers_variants_are_clean() -> None:
    x, idx, y = random((50, 37), np.float32), np.arange(33), random((33, 37), np.float32)
    assert px.check(gather.gather_tiles[3, 1], x, idx, y).ok
    assert px.check(gather.scatter_tiles[3, 1], y, idx, x).ok
    assert px.check(gather.scatter_tiles[3, 1], y, idx, x, ADD=True).ok


@pytest.mark.long
@pytest.mark.share(8)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("columns", [64, 40, 4096, 30000])
@pytest.mark.parametrize(
    "kernel, options", [(gather.gather_ring, {}), (gather.scatter_ring, {}), (gather.scatter_ring, {"ADD": True})]
)
def test_compiles(kernel: px.Kernel, options: dict[str, bool], columns: int, arch: str) -> None:
    x, idx, y = px.spec((4096, columns), px.bf16), px.spec((1024,), px.i64), px.spec((1024, columns), px.bf16)
    made = px.compile(kernel[132], x, idx, y, arch=arch, **gather.choose(columns, 2).constants(columns), **options)
    assert made.spills == 0


def test_whole_rows_travel_as_bulk_copies() -> None:
    x, idx = px.spec((4096, 4096), px.bf16), px.spec((1024,), px.i64)
    made = px.compile(gather.gather_ring[132], x, idx, x, arch="sm_90a", **gather.choose(4096, 2).constants(4096))
    assert {str(note).split(": ", 1)[1].split(",")[0] for note in made.notes} == {
        "tma.load of X: bulk copy", "tma.store of Y: bulk copy",
    }


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: gather_rows(np.zeros(4), np.zeros(3, int)), "x has shape (4,)"),
        (lambda: gather_rows(np.zeros((4, 4)), np.zeros(3)), "idx has the element type f64"),
        (lambda: gather_rows(np.zeros((4, 4)), np.zeros((3, 1), int)), "idx has shape (3, 1)"),
        (
            lambda: gather_rows(np.zeros((4, 4)), np.zeros(3, int), out=np.zeros((2, 4))),
            "out has shape (2, 4), the result (3, 4)",
        ),
        (lambda: scatter_rows(np.zeros((4, 4)), np.zeros(3, int), np.zeros((9, 4))), "idx has 3 entries, x has 4 rows"),
        (
            lambda: scatter_rows(np.zeros((3, 4)), np.zeros(3, int), np.zeros((9, 8))),
            "a row of x is 4 f64, a row of out 8 f64",
        ),
        (
            lambda: scatter_add_rows(np.zeros((3, 4), np.int8), np.zeros(3, int), np.zeros((9, 4), np.int8)),
            "x has the element type i8",
        ),
    ],
)
def test_mistakes_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call()
    assert caught.value.message == message and caught.value.remedy


@pytest.mark.share(4)
@pytest.mark.parametrize("columns", (8, 24, 96, 640, 40000))
@pytest.mark.parametrize("ring", (False, True))
def test_both_ways_at_every_width(columns: int, ring: bool) -> None:
    """Rows of 16 bytes to more than one copy moves, some of them twice, some nowhere; the last stage is not full."""
    x = np.arange(37 * columns).reshape(37, columns) % 13
    x, idx = x.astype(ml_dtypes.bfloat16), np.arange(41) * 7 % 40 - 1
    config = gather.choose(columns, 2) if ring else gather.choose_tile(columns, 2, moves=True)
    inside = (idx >= 0) & (idx < 37)
    want = np.where(inside[:, None], x[np.where(inside, idx, 0)], 0)
    got = gather_rows(x, idx, config=config)
    assert (got == want).all()
    sums, exact = np.ones_like(x), np.ones(x.shape, np.float32)
    np.add.at(exact, idx[inside], got[inside].astype(np.float32))
    assert (scatter_add_rows(got, idx, sums, config=config).astype(np.float32) == exact).all()


def test_narrow_rows_pass_through_registers() -> None:
    made = px.compile(
        gather.scatter_tiles[8, 1], px.spec((512, 64), px.bf16), px.spec((512,), px.i64), px.spec((900, 64), px.bf16),
        arch="sm_90a", **gather.choose_tile(64, 2).constants(), ADD=True,
    )
    assert "red.relaxed.gpu.global.add.noftz.v8.bf16" in made.ptx and made.spills == 0


def test_a_ring_for_rows_that_begin_anywhere() -> None:
    with pytest.raises(px.Error, match="a MoveConfig for rows that do not begin at multiples of 16 bytes"):
        gather_rows(np.zeros((4, 37), np.float32), np.arange(3), config=gather.choose(37, 4))


COMBINED = [TileConfig(64, 64, True), TileConfig(64, 16, True), TileConfig(64, 128, True)]


@pytest.mark.share(5)
@pytest.mark.parametrize("named", (1, 5, 40, 3000))
@pytest.mark.parametrize("columns", (8, 37, 64, 200))
@pytest.mark.parametrize("config", COMBINED, ids=lambda config: str(config.width))
def test_rows_of_one_index_are_added_on_chip(config: TileConfig, columns: int, named: int) -> None:
    """Indices that repeat, some of them outside; the sums are small whole numbers, which bf16 has."""
    rng = np.random.default_rng(named)
    x, idx = rng.integers(-2, 3, (150, columns)).astype(ml_dtypes.bfloat16), rng.integers(-2, named, 150)
    out = random((named, columns), ml_dtypes.bfloat16)
    want = out.astype(np.float64)
    inside = idx >= 0
    np.add.at(want, idx[inside], x[inside].astype(np.float64))
    assert np.array_equal(scatter_add_rows(x, idx, out, config=config).astype(np.float64), want)


def test_sums_on_chip_are_rounded_once() -> None:
    """64 halves beside 256: each alone is rounded away in bf16, and their sum is not."""
    x, out = np.full((64, 64), 0.5, ml_dtypes.bfloat16), np.full((3, 64), 256, ml_dtypes.bfloat16)
    scatter_add_rows(x, np.full(64, 1), out, config=COMBINED[0])
    assert (out[1] == 288).all() and (out[[0, 2]] == 256).all()
    apart = np.full((3, 64), 256, ml_dtypes.bfloat16)
    assert (scatter_add_rows(x, np.full(64, 1), apart)[1] == 256).all()


@pytest.mark.parametrize("value", (float("nan"), float("inf"), -float("inf")))
def test_what_is_no_number_stays_in_its_row(value: float) -> None:
    x, idx, out = np.ones((64, 64), np.float16), np.arange(64) % 8, np.zeros((8, 64), np.float16)
    x[3, 5] = value
    scatter_add_rows(x, idx, out, config=COMBINED[0])
    np.testing.assert_array_equal(out[3, 5], np.float16(value))
    out[3, 5] = 8
    assert (out == 8).all()


@pytest.mark.parametrize("dtype", (ml_dtypes.bfloat16, np.float16))
def test_combined_tiles_are_clean_and_right_as_text(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    x, idx = rng.integers(-2, 3, (100, 40)).astype(dtype), rng.integers(-2, 12, 100)
    with launches((gather, "sum_tiles")) as found:
        want = scatter_add_rows(x, idx, np.zeros((10, 40), dtype), config=COMBINED[1])
    (launch,) = found
    launch.check().raise_if_found()
    if COMPILER is not None:
        out = launch.arguments[2]
        out[...] = 0
        launch.on_host("sm_90a")
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("config", COMBINED, ids=lambda config: str(config.width))
def test_combined_tiles_compile(config: TileConfig) -> None:
    x, idx, y = px.spec((512, 100), px.bf16), px.spec((512,), px.i64), px.spec((900, 100), px.bf16)
    made = px.compile(gather.sum_tiles[8], x, idx, y, arch="sm_90a", **config.constants())
    assert made.spills == 0 and "wgmma" in made.ptx and "red.relaxed.gpu.global.add.noftz" in made.ptx


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda x, idx: scatter_rows(x, idx, x.copy(), config=COMBINED[0]),
            "TileConfig(rows=64, width=64, combined=True) for rows of f16 that are stored",
        ),
        (
            lambda x, idx: scatter_add_rows(x.astype(np.float32), idx, np.zeros((9, 64), np.float32), config=COMBINED[0]),
            "TileConfig(rows=64, width=64, combined=True) for rows of f32 that are added",
        ),
        (
            lambda x, idx: scatter_add_rows(x, idx, x.copy(), config=TileConfig(32, 64, True)),
            "TileConfig(rows=32, width=64, combined=True) has tiles whose rows can't be combined",
        ),
        (
            lambda x, idx: scatter_add_rows(x, idx, x.copy(), config=TileConfig(64, 40, True)),
            "TileConfig(rows=64, width=40, combined=True) has tiles whose rows can't be combined",
        ),
        (
            lambda x, idx: gather_rows(x, idx, config=COMBINED[0]),
            "TileConfig(rows=64, width=64, combined=True) for rows of f16 that are stored",
        ),
    ],
)
def test_rows_that_can_not_be_combined_are_refused(call: Any, message: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(np.zeros((9, 64), np.float16), np.arange(9))
    assert caught.value.message == message and caught.value.remedy
