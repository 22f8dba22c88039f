"""Between the halves of the barrier-init sync go loads of global memory; `ctas_per_sm` and `once` reach the text."""

from __future__ import annotations

import pytest

import phalanx as px


@px.kernel(warps=2, cluster=2, ctas_per_sm=4)
def row_sum(X, Y, *, N=512):
    row = px.cluster.id()
    first = px.cluster.rank() * N
    x = px.keep(px.load(X[row, first : first + N], once=True))
    total = px.cluster.reduce(px.sum(x.to(px.f32), axis=0), "sum")
    px.store(Y[row, first : first + N], (x.to(px.f32) * total).to(Y.dtype), once=True)


def compiled(columns: int) -> px.Compiled:
    x = px.spec((4, columns), px.bf16)
    return px.compile(row_sum[8], x, x)


def test_loads_go_between_the_halves_of_the_first_sync() -> None:
    lines = compiled(1024).ir.splitlines()
    names = ("cluster.arrive", "load X", "cluster.wait")
    at = {name: next(n for n, line in enumerate(lines) if name in line) for name in names}
    assert at["cluster.arrive"] < at["load X"] < at["cluster.wait"]


def test_options_reach_the_text() -> None:
    made = compiled(1024)
    assert "__launch_bounds__(64, 4)" in made.source and "4 CTAs per SM" in made.ir
    assert "ld.global.L1::no_allocate" in made.ptx and "st.global.L1::no_allocate" in made.ptx


def test_rows_of_whole_vectors_have_no_scalar_way() -> None:
    whole, ragged = compiled(1024), compiled(1001)
    assert "bf16[?, ?*8]" in whole.ir and "bf16[?, ?*8]" not in ragged.ir
    assert "ptx::pack_words" not in whole.source and "ld.global.u16" not in whole.ptx
    assert "L1::no_allocate" not in ragged.ptx, "element by element"


def test_too_many_ctas_for_an_sm() -> None:
    @px.kernel(warps=16, ctas_per_sm=5)
    def crowd(X):
        px.store(X[0:32], px.zeros((32,), px.f32))

    with pytest.raises(px.Error, match="asks for 5 CTAs of 16 warps on an SM"):
        px.compile(crowd[1], px.spec((32,), px.f32))
