"""Which layouts register tiles get, where they are converted, and that the user is told."""

from __future__ import annotations

import phalanx as px
from phalanx.cuda.lower.layout_rules import wishes_of
from phalanx.cuda.lower.register_layouts import infer_register_layouts
from phalanx.ir.core import Function, Note, Op
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.ops.memory import AtomicAdd, Load, Store
from phalanx.ir.ops.tile import Arange, Binary, ConvertLayout, CumSum, Full, Reduce, Transpose
from phalanx.ir.types import TileType, bf16, i32
from phalanx.ir.values import Value
from phalanx.language.kernel import Kernel
from phalanx.layouts import RegisterLayout, blocked
from support.front import Types, array, prepared


class Inferred:
    def __init__(self, kernel: Kernel, types: Types, **constants: object) -> None:
        self.function: Function
        self.layouts: dict[Value, RegisterLayout]
        self.notes: tuple[Note, ...]
        self.function, self.layouts, self.notes = infer_register_layouts(prepared(kernel, types, **constants))

    def ops(self, kind: type[Op]) -> list:
        return [op for op in self.function.walk() if isinstance(op, kind)]

    def only(self, kind: type[Op]):
        (op,) = self.ops(kind)
        return op

    def check(self) -> None:
        """Every tile has a layout of its shape; no instruction meets a tile in another layout than it needs."""
        for op in self.function.walk():
            for value in (*op.operands(), *op.defined_values()):
                if isinstance(value.type, TileType):
                    assert self.layouts[value].shape == value.type.shape, op
        for op in self.function.walk():
            if not isinstance(op, Binary | Assign | ReadVar | CumSum | AtomicAdd):
                continue
            for wish in wishes_of(op):
                if type(wish).__name__ == "Same":
                    assert len({self.layouts[value] for value in wish.values}) == 1, op


@px.kernel(warps=4)
def scale(X, Y, *, M=64, N=64):
    px.store(Y[0:M, 0:N], px.load(X[0:M, 0:N]) * 2.0)


def test_global_tiles_are_coalesced_in_vectors_of_16_bytes() -> None:
    inferred = Inferred(scale, (array(2), array(2)))
    inferred.check()
    layout = inferred.layouts[inferred.only(Load).result]
    assert layout == blocked((64, 64), 4, vector=4)
    assert layout == inferred.layouts[inferred.only(Store).value]


def vector_of(inferred: Inferred) -> int:
    layout = inferred.layouts[inferred.only(Load).result]
    return layout.vector_width(layout.rank - 1, 64)


def test_facts_limit_the_vector() -> None:
    assert vector_of(Inferred(scale, (array(2, bf16), array(2, bf16)))) == 8
    assert vector_of(Inferred(scale, (array(2, aligned=False), array(2, aligned=False)))) == 1
    assert vector_of(Inferred(scale, (array(2, unit_inner=False), array(2, unit_inner=False)))) == 1
    assert vector_of(Inferred(scale, (array(2), array(2)), M=4, N=64)) == 2, "no thread is left without elements"


@px.kernel(warps=4)
def row_sums(X, Y, *, M=16, N=1024):
    px.store(Y[0:M], px.sum(px.load(X[0:M, 0:N]), 1))


@px.kernel(warps=4)
def column_sums(X, Y, *, M=64, N=512):
    px.store(Y[0:N], px.sum(px.load(X[0:M, 0:N]), 0))


def test_reductions_stay_inside_warps_where_they_can() -> None:
    for kernel, axis in ((row_sums, 1), (column_sums, 0)):
        inferred = Inferred(kernel, (array(2), array(1)))
        inferred.check()
        reduce = inferred.only(Reduce)
        assert inferred.layouts[reduce.x].bits_along(axis).warp == ()
        assert inferred.layouts[reduce.result] == inferred.layouts[reduce.x].slice(axis).layout
        assert not inferred.ops(ConvertLayout), "a short vector is stored as it is"


@px.kernel(warps=4)
def softmax(X, Y, *, M=8, N=256):
    x = px.load(X[0:M, 0:N])
    e = px.exp(x - px.max(x, 1).reshape(M, 1))
    px.store(Y[0:M, 0:N], e / px.sum(e, 1, keepdims=True))


def test_reduced_tiles_broadcast_without_conversion() -> None:
    inferred = Inferred(softmax, (array(2), array(2)))
    inferred.check()
    assert not inferred.ops(ConvertLayout)
    assert not inferred.notes


@px.kernel(warps=4)
def mixed(X, W, Y, *, M=32, N=128):
    px.store(Y[0:M, 0:N], px.load(X[0:M, 0:N]).to(px.f32) * px.load(W[0:M, 0:N]) + px.load(W[0, 0:N]))


def test_one_layout_for_tiles_of_different_types() -> None:
    inferred = Inferred(mixed, (array(2, bf16), array(2), array(2)))
    inferred.check()
    assert not inferred.ops(ConvertLayout)


@px.kernel(warps=4)
def accumulates(X, Y, n, *, M=32, N=64):
    total = px.zeros((M, N), px.f32)
    for k in range(0, n, N):
        total = total + px.load(X[0:M, k:k + N])
    px.store(Y[0:M, 0:N], total)


def test_cells_have_the_layout_of_what_the_loop_brings() -> None:
    from phalanx.ir.types import I32

    inferred = Inferred(accumulates, (array(2), array(2), I32))
    inferred.check()
    assert not inferred.ops(ConvertLayout)
    load = inferred.only(Load)
    for assign in inferred.ops(Assign):
        if isinstance(assign.var.type, TileType):
            assert inferred.layouts[assign.var] == inferred.layouts[load.result]


@px.kernel(warps=4)
def masks(X, Y, n, *, M=32, N=64):
    rows = px.arange(M).reshape(M, 1)
    columns = px.arange(N)
    zero = px.zeros((M, N), px.f32)
    keep = (rows + 1 > columns) & (columns < n)
    px.store(Y[0:M, 0:N], px.where(keep, px.load(X[0:M, 0:N]), zero))
    px.store(X[0:N, 0:M], px.where(keep.T, 1.0, px.load(X[0:N, 0:M])))


def test_constants_and_ranges_are_computed_again_not_converted() -> None:
    from phalanx.ir.types import I32

    inferred = Inferred(masks, (array(2), array(2), I32))
    inferred.check()
    assert not inferred.ops(ConvertLayout)
    assert len(inferred.ops(Arange)) > 2
    assert {inferred.layouts[op.result].shape for op in inferred.ops(Full)} <= {(32, 64)}


@px.kernel(warps=4)
def transpose(X, Y, *, M=64, N=64):
    px.store(Y[0:N, 0:M], px.load(X[0:M, 0:N]).T)


def test_a_slow_store_becomes_a_conversion_and_a_note() -> None:
    inferred = Inferred(transpose, (array(2), array(2)))
    inferred.check()
    convert = inferred.only(ConvertLayout)
    assert convert.how.startswith("shared: ") and "2 barriers" in convert.how
    assert "shared memory" in str(inferred.notes[0]) and "f32[64, 64]" in str(inferred.notes[0])
    assert inferred.notes[0].loc.line == convert.loc.line
    flipped = inferred.only(Transpose)
    assert inferred.layouts[flipped.result] == inferred.layouts[flipped.x].transpose((1, 0))
    store = inferred.only(Store)
    assert inferred.layouts[store.value].vector_width(1, 4) == 4


@px.kernel(warps=4)
def awkward(X, Y, *, M=6, N=10):
    px.store(Y[0:15, 0:4], px.load(X[0:M, 0:N]).reshape(15, 4))


def test_a_reshape_that_moves_elements_is_noted() -> None:
    inferred = Inferred(awkward, (array(2), array(2)))
    inferred.check()
    assert any("reshape moves a tile through shared memory" in str(note) for note in inferred.notes)


@px.kernel(warps=4)
def gather(X, R, Y, *, M=32, N=64):
    px.store(Y[0:M, 0:N], px.load(X[px.load(R[0:M]), 0:N]))


def test_index_tiles_follow_their_data() -> None:
    inferred = Inferred(gather, (array(2), array(1, i32), array(2)))
    inferred.check()
    rows, data = (op.result for op in inferred.ops(Load))
    assert inferred.layouts[rows] == inferred.layouts[data].slice(1).layout


@px.kernel(warps=8)
def roles(X, Y, *, M=32, N=64):
    with px.warps(0, 4):
        px.store(Y[0:M, 0:N], px.load(X[0:M, 0:N]))
    with px.warps(4, 3):
        px.store(Y[0:M, N:2 * N], px.cumsum(px.load(X[0:M, 0:N]), 1))


def test_each_role_has_its_own_number_of_warps() -> None:
    inferred = Inferred(roles, (array(2), array(2)))
    inferred.check()
    assert [inferred.layouts[op.result].warps for op in inferred.ops(Load)] == [4, 3]
    scan = inferred.only(CumSum)
    assert inferred.layouts[scan.x] == inferred.layouts[scan.result]


@px.kernel(warps=4)
def twice(X, Y, Z, *, M=64, N=64):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:N, 0:M], x.T)
    px.store(Z[0:N, 0:M], x.T * 1.0)


def test_conversions_are_not_repeated_needlessly() -> None:
    inferred = Inferred(twice, (array(2), array(2), array(2)))
    inferred.check()
    assert len(inferred.ops(ConvertLayout)) <= 2


@px.kernel(warps=4)
def counts(Y):
    px.store(Y[0:1, 2:12], px.cumsum(px.arange(10).reshape(1, 10), 0))


def test_running_sums_of_what_is_computed_again() -> None:
    """The operand of the scan is made in the layout that its result has."""
    Inferred(counts, (array(2, i32),)).check()


@px.kernel(warps=4)
def exchanges(X, Y, Z, *, M=64, N=64):
    old = px.atomic_add(Y[0:N, 0:M], px.load(X[0:M, 0:N]).T)
    px.store(Z[0:M, 0:N], old.T)


def test_old_values_follow_an_operand_that_was_converted() -> None:
    """The addition runs along the rows of memory, in another layout than its operand came in, and so do the old values."""
    inferred = Inferred(exchanges, (array(2, i32),) * 3)
    inferred.check()
    assert inferred.ops(ConvertLayout)


@px.kernel(warps=4)
def scaled(X, S, Y, *, COLUMNS, M=64, N=64):
    s = px.shared((N,), px.f32)
    px.store(s, px.load(S[0:N]))
    px.sync()
    acc = px.dot(px.load(X[0:M, 0:32]), px.load(X[0:N, 0:32]).T)
    row = px.load(s)
    px.store(Y[0:M, 0:N], acc * (row.reshape(1, N) if COLUMNS else row.reshape(N, 1)))


def test_a_row_is_loaded_as_the_larger_tile_wants_it_after_a_reshape() -> None:
    """It was loaded in a layout of its own first, and moved through shared memory."""
    types = (array(2, bf16), array(1), array(2))
    for columns in (True, False):
        found = Inferred(scaled, types, COLUMNS=columns)
        moved = [op for op in found.ops(ConvertLayout) if op.x.type.shape in ((64,), (1, 64), (64, 1))]
        assert not moved, found.notes


@px.kernel(warps=4)
def by_columns(X, Y, *, ROWS, COLUMNS=8):
    x = px.load(X[0:ROWS, 0:256])
    top = px.zeros((ROWS, COLUMNS), px.f32)
    for column in px.static_range(COLUMNS):
        value = px.max(x, axis=1, keepdims=True)
        x = px.where(x == value, -float("inf"), x)
        top = px.where(px.arange(COLUMNS)[None, :] == column, value, top)
    px.store(Y[0:ROWS, 0:COLUMNS], top)


def test_a_small_tile_that_larger_ones_fill_lies_where_they_are_reduced() -> None:
    """Every lane of a row's warp has its maximum: its columns are those lanes'."""
    for rows in (16, 24, 100):
        found = Inferred(by_columns, (array(2), array(2)), ROWS=rows)
        found.check()
        assert not found.ops(ConvertLayout), found.notes


@px.kernel(warps=4)
def chosen(X, Y, *, K=3):
    values, _ = px.topk(px.load(X[0:3, 0:7]), K, 0)
    px.store(Y[0:7, 0:K], values.T)


def test_a_note_about_what_the_language_writes_names_the_line_of_the_call() -> None:
    found = Inferred(chosen, (array(2), array(2)))
    assert {op.loc.file for op in found.function.walk()} == {__file__}
    assert {op.loc.text.strip() for op in found.ops(Reduce)} == {"values, _ = px.topk(px.load(X[0:3, 0:7]), K, 0)"}
