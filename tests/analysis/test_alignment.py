"""Regions that the copy engine refuses wherever they begin."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.analysis.alignment import breaks_alignment
from phalanx.ir.types import ArrayType
from phalanx.language.reader.reading import read_kernel


@px.kernel(warps=1)
def copy(X, *, N):
    tile, full = px.shared((8, N), X.dtype), px.barrier()
    full.arrive_and_expect_tx(tile.nbytes)
    px.tma.load(X[0:8, 0:N], tile, full)
    full.wait(0)


@px.kernel(warps=1)
def prefetch(X, *, N):
    if X.shape[0] > 8:
        px.tma.prefetch(X[0:8, 0:N])


@pytest.mark.parametrize("kernel", [copy, prefetch], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(
    ("array", "columns", "misaligned"),
    [
        (ArrayType(2, px.f32), 64, False),
        (ArrayType(2, px.f32), 4, False),
        (ArrayType(2, px.f32), 6, True),
        (ArrayType(2, px.f16), 4, True),
        (ArrayType(2, px.f32, aligned=False), 64, True),
        (ArrayType(2, px.f32, unit_inner=False), 64, True),
    ],
    ids=str,
)
def test_array_and_width(kernel, array: ArrayType, columns: int, misaligned: bool) -> None:
    view, = (op.src for op in read_kernel(kernel, (array,), {"N": columns}).function.walk() if op.family == "tma")
    assert breaks_alignment(view) is misaligned
