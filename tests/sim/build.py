"""A small builder of IR for simulator tests: methods append instructions, `with` opens blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phalanx.ir import types as ty
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops import cluster, control, mbarrier, memory, tile, tma
from phalanx.ir.types import ArrayType, DType, ScalarType, TileType
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.location import Location

Number = int | float | bool | Value


def const(value: Number, dtype: DType | None = None) -> Value:
    if isinstance(value, Value):
        return value
    return Const(value, ScalarType(dtype) if dtype is not None else None)


class Build:
    """Collects instructions; the line number of an instruction's location is its number."""

    def __init__(self, *, warps: int = 4, cluster: tuple[int, int, int] = (1, 1, 1)) -> None:
        self.warps = warps
        self.cluster = cluster
        self.params: list[Param] = []
        self.buffers: list[SharedBuffer] = []
        self.barriers: list[BarrierArray] = []
        self.ops: list[Op] = []
        self.line = 0

    # --- declarations -----------------------------------------------------------------------------------------------

    def array(self, rank: int, dtype: DType = ty.f32, name: str = "") -> Param:
        self.params.append(Param(ArrayType(rank, dtype), name or f"A{len(self.params)}", len(self.params)))
        return self.params[-1]

    def scalar(self, dtype: DType, name: str = "") -> Param:
        self.params.append(Param(ScalarType(dtype), name or f"s{len(self.params)}", len(self.params)))
        return self.params[-1]

    def shared(self, shape: tuple[int, ...], dtype: DType = ty.f32, name: str = "s", reuse: Any = None) -> SharedBuffer:
        self.buffers.append(SharedBuffer(name, shape, dtype, reuse=reuse))
        return self.buffers[-1]

    def barrier(self, n: int = 1, count: int | tuple[int, ...] | None = 1, name: str = "bar") -> BarrierArray:
        """Initialised with `count` (a tuple: per rank) unless it is None."""
        array = BarrierArray(name, n)
        self.barriers.append(array)
        if count is not None:
            x, y, z = self.cluster
            per_rank = count if isinstance(count, tuple) else (count,) * (x * y * z)
            self.add(mbarrier.BarrierInit(array, counts=tuple((c,) * n for c in per_rank), loc=self.here()))
        return array

    # --- instructions -----------------------------------------------------------------------------------------------

    def here(self) -> Location:
        self.line += 1
        return Location("kernel.py", self.line, 0, self.line, 4, f"line {self.line}", "kernel")

    def add(self, op: Op) -> Any:
        self.ops.append(op)
        return op.defines

    def _result(self, cls: type[Op], type_: Any, *operands: Any) -> Value:
        return self.add(cls(*operands, Value(type_), loc=self.here()))

    def block_id(self, dim: int = 0) -> Value:
        return self._result(control.BlockId, ty.I32, dim)

    def rank(self, dim: int | None = None) -> Value:
        return self._result(cluster.ClusterRank, ty.I32, dim)

    def binary(self, fn: str, a: Number, b: Number, dtype: DType = ty.i32) -> Value:
        a, b = const(a, dtype), const(b, dtype)
        return self._result(tile.Binary, broadcast(a, b, dtype), fn, a, b)

    def compare(self, fn: str, a: Number, b: Number, dtype: DType = ty.i32) -> Value:
        a, b = const(a, dtype), const(b, dtype)
        return self._result(tile.Compare, broadcast(a, b, ty.bool_), fn, a, b)

    def unary(self, fn: str, x: Value) -> Value:
        return self._result(tile.Unary, x.type, fn, x)

    def cast(self, x: Value, dtype: DType) -> Value:
        shape = x.type.shape
        return self._result(tile.Cast, TileType(shape, dtype) if shape else ScalarType(dtype), x)

    def var(self, value: Number, dtype: DType = ty.i32) -> Var:
        cell = Var(ScalarType(dtype), "var")
        self.assign(cell, value)
        return cell

    def assign(self, cell: Var, value: Number) -> None:
        self.add(control.Assign(cell, const(value, cell.type.dtype), loc=self.here()))

    def read(self, cell: Var) -> Value:
        return self.add(control.ReadVar(cell, Value(cell.type), loc=self.here()))

    def load(self, view: Any, fill: float = 0) -> Value:
        type_ = TileType(view.shape, view.dtype) if view.shape else ScalarType(view.dtype)
        return self.add(memory.Load(view, const(fill, view.dtype), Value(type_), loc=self.here()))

    def store(self, view: Any, value: Number) -> None:
        self.add(memory.Store(view, const(value, view.dtype), loc=self.here()))

    def print(self, *parts: Any) -> None:
        self.add(control.Print(parts, loc=self.here()))

    def arrive(self, ref: BarrierRef, count: Number = 1, ctas: Number | None = None) -> None:
        mask = None if ctas is None else const(ctas)
        self.add(mbarrier.Arrive(ref, const(count), mask, loc=self.here()))

    def expect(self, ref: BarrierRef, nbytes: Number) -> None:
        self.add(mbarrier.ExpectTx(ref, const(nbytes), loc=self.here()))

    def arrive_expect(self, ref: BarrierRef, nbytes: Number, ctas: Number | None = None) -> None:
        mask = None if ctas is None else const(ctas)
        self.add(mbarrier.ArriveExpectTx(ref, const(nbytes), mask, loc=self.here()))

    def wait(self, ref: BarrierRef, parity: Number) -> None:
        self.add(mbarrier.Wait(ref, const(parity), loc=self.here()))

    def test_wait(self, ref: BarrierRef, parity: Number) -> Value:
        return self.add(mbarrier.TestWait(ref, const(parity), Value(ty.BOOL), loc=self.here()))

    def tma_load(self, src: GlobalView, dst: SharedView, ref: BarrierRef, multicast: Number | None = None) -> None:
        mask = None if multicast is None else const(multicast)
        self.add(tma.TmaLoad(src, dst, ref, mask, loc=self.here()))

    def tma_store(self, src: SharedView, dst: GlobalView) -> None:
        self.add(tma.TmaStore(src, dst, loc=self.here()))

    def commit(self) -> None:
        self.add(tma.TmaCommit(loc=self.here()))

    def tma_wait(self, n: int, read: bool = False) -> None:
        self.add(tma.TmaWait(n, read, loc=self.here()))

    def cluster_sync(self) -> None:
        self.add(cluster.ClusterSync(loc=self.here()))

    # --- blocks -----------------------------------------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[list[Op]]:
        outer, self.ops = self.ops, []
        inner = self.ops
        yield inner
        self.ops = outer

    @contextmanager
    def for_(self, start: Number, stop: Number, step: Number = 1) -> Iterator[tuple[Value, Label]]:
        index, label, loc = Value(ty.I32, "i"), Label("loop"), self.here()
        with self.block() as body:
            yield index, label
        self.add(control.For(index, const(start), const(stop), const(step), Block(tuple(body)), label, loc=loc))

    @contextmanager
    def forever(self) -> Iterator[Label]:
        label, loc = Label("loop"), self.here()
        with self.block() as body:
            yield label
        self.add(control.While(Block(), const(True), Block(tuple(body)), label, loc=loc))

    @contextmanager
    def if_(self, cond: Value) -> Iterator[None]:
        loc = self.here()
        with self.block() as body:
            yield
        self.add(control.If(cond, Block(tuple(body)), Block(), loc=loc))

    @contextmanager
    def scope(self) -> Iterator[Label]:
        label, loc = Label("scope"), self.here()
        with self.block() as body:
            yield label
        self.add(control.Scope(label, Block(tuple(body)), loc=loc))

    def break_(self, label: Label) -> None:
        self.add(control.Break(label, loc=self.here()))

    def continue_(self, label: Label) -> None:
        self.add(control.Continue(label, loc=self.here()))

    def leave(self, label: Label) -> None:
        self.add(control.Leave(label, loc=self.here()))

    @contextmanager
    def roles(self) -> Iterator[list[control.Role]]:
        regions: list[control.Role] = []
        loc = self.here()
        yield regions
        self.add(control.Roles(tuple(regions), loc=loc))

    @contextmanager
    def role(self, regions: list[control.Role], name: str, first: int, count: int = 1) -> Iterator[None]:
        loc = self.here()
        with self.block() as body:
            yield
        regions.append(control.Role(name, first, count, None, Block(tuple(body)), loc=loc))

    def done(self, name: str = "kernel") -> Function:
        return Function(
            name, tuple(self.params), (), self.warps, self.cluster, True, tuple(self.buffers), tuple(self.barriers),
            Block(tuple(self.ops)), Location("kernel.py", 0, text="def kernel():"),
        )


def broadcast(a: Value, b: Value, dtype: DType) -> Any:
    import numpy as np

    shape = np.broadcast_shapes(a.type.shape, b.type.shape)
    return TileType(shape, dtype) if shape else ScalarType(dtype)


def at(array: Param, *places: Number | tuple[Number, int]) -> GlobalView:
    """A box of a global array: a number drops its axis, a pair is (offset, extent)."""
    offsets = tuple(const(p[0] if isinstance(p, tuple) else p) for p in places)
    extents = tuple(p[1] if isinstance(p, tuple) else 1 for p in places)
    kept = tuple(axis for axis, p in enumerate(places) if isinstance(p, tuple))
    return GlobalView(array, offsets, extents, kept)


def sh(buffer: SharedBuffer, *places: Number | tuple[Number, int], cta: Number | None = None,
       kept: tuple[int, ...] | None = None) -> SharedView:
    """A box of a shared buffer; axes that are not given are whole."""
    full = (*places, *((0, size) for size in buffer.shape[len(places):]))
    offsets = tuple(const(p[0] if isinstance(p, tuple) else p) for p in full)
    extents = tuple(p[1] if isinstance(p, tuple) else 1 for p in full)
    order = tuple(axis for axis, p in enumerate(full) if isinstance(p, tuple)) if kept is None else kept
    return SharedView(buffer, offsets, extents, order, None if cta is None else const(cta))


def ref(array: BarrierArray, index: Number = 0) -> BarrierRef:
    return BarrierRef(array, const(index))


def ring_copy(
    stages: int = 4, tile_size: int = 64, *, arrive_empty: bool = True, expected: int | None = None
) -> Function:
    """Every CTA copies one row of tiles through a ring of shared buffers: a producer and a consumer role."""
    b = Build(warps=2)
    src, dst = b.array(2, name="X"), b.array(2, name="Y")
    buffer = b.shared((stages, tile_size, tile_size))
    full, empty = b.barrier(stages, 1, "full"), b.barrier(stages, 1, "empty")
    columns = b.add(memory.Extent(src, 1, Value(ty.I32), loc=b.here()))
    more = b.binary("add", columns, tile_size - 1)
    tiles = b.binary("floordiv", more, tile_size)
    row = b.binary("mul", b.block_id(), tile_size)

    def ring_step(index: Value) -> tuple[Value, Value, Value]:
        stage = b.binary("mod", index, stages)
        turn = b.binary("floordiv", index, stages)
        return stage, b.binary("and", turn, 1), b.binary("mul", index, tile_size)

    nbytes = tile_size * tile_size * 4 if expected is None else expected
    with b.roles() as regions:
        with b.role(regions, "producer", 0):
            with b.for_(0, tiles) as (i, _):
                stage, parity, column = ring_step(i)
                b.wait(ref(empty, stage), b.binary("xor", parity, 1))
                b.arrive_expect(ref(full, stage), nbytes)
                b.tma_load(at(src, (row, tile_size), (column, tile_size)), sh(buffer, stage), ref(full, stage))
        with b.role(regions, "consumer", 1):
            with b.for_(0, tiles) as (i, _):
                stage, parity, column = ring_step(i)
                b.wait(ref(full, stage), parity)
                b.tma_store(sh(buffer, stage), at(dst, (row, tile_size), (column, tile_size)))
                b.commit()
                b.tma_wait(0, read=True)
                if arrive_empty:
                    b.arrive(ref(empty, stage))
            b.tma_wait(0)
    return b.done("ring_copy")
