"""Results of pipelined loops: sums that begin without zeros in registers, and tiles that leave in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda import prepare
from phalanx.cuda.lower import lower
from phalanx.passes.pipelining import epilogue


@px.kernel(warps=4)
def across(A, B, C, *, BM=80, BN=64, BK=32):
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BN, BM), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            acc = px.dot(px.load(B[n : n + BN, k : k + BK]), px.load(A[m : m + BM, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.T.to(C.dtype))


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n, 64)).astype(np.float16) for n in (100, 72))
    return a, b, np.ones((100, 72), np.float16)


@pytest.mark.share(2)
@pytest.mark.parametrize("most", [epilogue.MOST_BYTES, 5120])
def test_a_transposed_tile_leaves_by_rows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads hold its rows as they held the columns of the sum; cut the other way it would have to move between them."""
    monkeypatch.setattr(epilogue, "_size", lambda view, axis, room: SIZE(view, axis, min(room, most)))
    a, b, c = operands()
    fresh = px.kernel(warps=4)(across.fn)
    fresh[2](a, b, c)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    assert px.check(fresh[2], a, b, c).ok
    made = px.compile(fresh[2], a, b, c, arch="sm_90a")
    parts, matrices = ("in 2 parts through 5120", 4) if most == 5120 else ("through 10240", 5)
    assert any(f"px.store of C: leaves {parts} bytes" in note for note in made.notes)
    assert made.ptx.count("stmatrix.sync.aligned.m8n8.x4.trans") == matrices, "but for pieces of 8 rows"
    assert made.spills == 0


SIZE = epilogue._size


def view(rows: int, columns: int) -> Any:
    class Tile:
        shape, nbytes, dtype = (rows, columns), 2 * rows * columns, px.f16

    return Tile()


@pytest.mark.parametrize(
    ("rows", "columns", "axis", "most", "size"),
    [
        (128, 256, 1, 65536, 256), (128, 256, 1, 65535, 128), (256, 192, 1, 40000, 64), (256, 96, 1, 40000, None),
        (184, 256, 0, 32768, 64), (184, 256, 0, 62000, 96), (184, 256, 0, 94208, 184), (184, 256, 0, 4095, None),
    ],
)
def test_the_sizes_of_parts(rows: int, columns: int, axis: int, most: int, size: int | None) -> None:
    assert epilogue._size(view(rows, columns), axis, most) == size


def test_registers_are_cut_at_powers_of_two() -> None:
    assert list(epilogue._pieces(0, 96)) == [(0, 64), (64, 32)]
    assert list(epilogue._pieces(96, 184)) == [(96, 32), (128, 32), (160, 16), (176, 8)]


@px.kernel(warps=4)
def some(A, B, C, steps, *, BK=32):
    acc = px.zeros((64, 64), px.f32)
    for k in px.pipelined(range(0, steps * BK, BK), stages=2):
        acc = px.dot(px.load(A[0:64, k : k + BK]), px.load(B[0:64, k : k + BK]).T, acc)
    px.store(C[0:64, 0:64], acc)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_sums_begin_without_zeros_in_registers(steps: int) -> None:
    """The first product adds to nothing; without one there are zeros, and not what the registers had."""
    a, b, _ = operands()
    a, b = a[:64], np.ascontiguousarray(b[:64])
    c = np.ones((64, 64), np.float32)
    some[1](a, b, c, steps)
    np.testing.assert_array_equal(c, (a[:, : 32 * steps].astype(np.float32) @ b[:, : 32 * steps].astype(np.float32).T))
    report = px.check(some[1], a, b, c, steps)
    assert report.ok, str(report)
    assert "accumulate=%later" in px.compile(some[1], a, b, c, steps, arch="sm_90a").ir


def test_room_for_larger_parts_is_given_back_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where scratch needs what the rings left over: parts are as small as before, rings as long."""
    written: list[Any] = []
    write, problem = prepare.write_loops, lower.ring_problem

    def watched(*args: Any) -> Any:
        written.append(write(*args))
        return written[-1]

    monkeypatch.setattr(prepare, "write_loops", watched)
    monkeypatch.setattr(lower, "ring_problem", lambda *args: 1 if written[-1].grown else problem(*args))
    spec = px.spec((512, 512), px.bf16)
    kernel = px.kernel(warps=8)(across.fn)
    notes = px.compile(kernel[px.auto], spec, spec, spec, arch="sm_90a", BM=184, BN=256, BK=64).notes
    assert [made.grown for made in written] == [True, False]
    assert any("leaves in 3 parts through 32768 bytes" in note for note in notes)


@px.kernel(warps=8)
def by_rows(X, W, ROWS, Y, *, BM=128, BN=128, BK=64):
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK)):
        acc = px.dot(px.load(X[0:BM, k : k + BK]), px.load(W[0:BN, k : k + BK]).T, acc)
    px.store(Y[px.load(ROWS[0:BM]), 0:BN], acc.to(Y.dtype))


def test_rings_that_lack_room_are_not_the_products_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that loops are written, the kernel is prepared once: nobody tries other products first."""
    prepared: list[Any] = []
    written: list[Any] = []
    for name, seen in (("prepare_common", prepared), ("write_loops", written)):
        call = getattr(prepare, name)
        monkeypatch.setattr(prepare, name, lambda *args, call=call, seen=seen: seen.append(call(*args)) or seen[-1])
    spec = px.spec((512, 512), px.bf16)
    px.compile(by_rows[1], spec, spec, px.spec((128,), px.i32), spec, arch="sm_100a")
    assert len(prepared) == len(written) == 2
