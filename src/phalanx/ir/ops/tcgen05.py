"""Blackwell's tensor cores: products of one thread into tensor memory, and what moves data to and from there.

A product reads its operands and adds to its accumulator until a commit behind it has arrived on a barrier. Loads and
stores of tensor memory are every thread's own and end with a wait, which the compiler places, as it does the fences around
what threads hand to each other through barriers.
"""

from __future__ import annotations

import dataclasses
from math import prod
from typing import ClassVar

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import Feature
from phalanx.ir.core import Op
from phalanx.ir.effects import (
    Access,
    Arrival,
    Effects,
    Executor,
    FenceKind,
    Group,
    GroupAction,
    Mode,
    Proxy,
    Target,
    Use,
    When,
)
from phalanx.ir.engines import HANDOVER_FENCES, MMA_ENGINE, TENSOR_LOADS, TENSOR_STORES
from phalanx.ir.tensor_kinds import Kind, kind_of
from phalanx.ir.tensor_memory import is_folded
from phalanx.ir.type_rules import need, need_alike, need_same_tiles, needs_no_type_rule, type_rules
from phalanx.ir.types import DType
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import BarrierArray, BarrierRef, SharedView, TensorBuffer, TensorView, in_shared
from phalanx.markers import attribute, defined, operand, storage

BLACKWELL = Target(
    (Feature.TCGEN05,), alternative="use px.dot: where there is no tcgen05 it runs as wgmma or mma.sync", family="tcgen05"
)

@frozen(eq=False, repr=False)
class TmemAlloc(Op):
    """Allocates tensor memory for the whole kernel, and puts its address into shared memory.

    `buffers` say at which of the columns each begins. `pair`: both CTAs of a pair take part. Written by the compiler.
    """

    mnemonic: ClassVar[str] = "tmem.alloc"
    columns: int = attribute()
    address: SharedView = operand()
    buffers: tuple[TensorBuffer, ...] = storage()
    pair: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Writes the address; one warp runs it."""
        return Effects(accesses=(Access(Mode.WRITE, self.address),), executor=Executor.ONE, target=BLACKWELL)


@frozen(eq=False, repr=False)
class TmemTake(Op):
    """Takes the address of the tensor memory over from the warp that allocated it. Written by the compiler."""

    mnemonic: ClassVar[str] = "tmem.take"
    address: SharedView = operand()

    def effects(self) -> Effects:
        """Reads the address."""
        return Effects(accesses=(Access(Mode.READ, self.address),), target=BLACKWELL)


@frozen(eq=False, repr=False)
class TmemFree(Op):
    """Gives the tensor memory back, when nobody uses it any more. Written by the compiler."""

    mnemonic: ClassVar[str] = "tmem.free"
    columns: int = attribute()
    views: tuple[TensorView, ...] = operand()
    pair: bool = attribute(default=False)

    def effects(self) -> Effects:
        """Ends the memory: nobody's access may be in flight then; one warp runs it."""
        ends = tuple(Access(Mode.WRITE, view, Proxy.ASYNC, use=Use.RELEASE) for view in self.views)
        return Effects(accesses=ends, executor=Executor.ONE, target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05Mma(Op):
    """`acc += a @ b` (`acc -= a @ b` with `negate`), without the old `acc` where `accumulate` is false; one thread.

    `a` is (M, K), in shared or tensor memory, `b` is (K, N) in shared memory, `acc` (M, N) in tensor memory. With scales,
    blocks along K of both operands are multiplied by theirs. With `peer`, the rank of the other CTA of a pair, the product
    is the pair's: its rows are those of both CTAs, its columns the halves that both have of `b`. `types` are those of the
    elements of `a` and `b`, `depth` the elements along K: packed operands become views of bytes before text is written.
    `written` is what the user called.
    """

    mnemonic: ClassVar[str] = "tcgen05.mma"
    a: SharedView | TensorView = operand()
    b: SharedView = operand()
    acc: TensorView = operand()
    accumulate: Value = operand()
    types: tuple[DType, DType] = attribute()
    depth: int = attribute()
    scale_a: TensorView | None = operand(default=None)
    scale_b: TensorView | None = operand(default=None)
    peer: Value | None = operand(default=None)
    negate: bool = attribute(default=False)
    written: str = attribute(default="tcgen05.mma")

    @property
    def pair(self) -> bool:
        """Whether it is a product of two CTAs."""
        return self.peer is not None

    @property
    def pairing(self) -> bool:
        """A product of two CTAs, or of one."""
        return self.pair

    @property
    def block(self) -> int:
        """The elements of K that share a scale; 0 without scales."""
        return 0 if self.scale_a is None else self.depth // self.scale_a.shape[1]

    @property
    def kind(self) -> Kind:
        """The kind of product, which its element types and scales decide."""
        scale = None if self.scale_a is None else self.scale_a.dtype
        found = kind_of(*self.types, scale, self.block or None, self.a.buffer.padded and self.b.buffer.padded)
        assert isinstance(found, Kind), found
        return found

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows and columns of this CTA's accumulator, and the depth of the product: (M, N, K)."""
        m, n = self.acc.shape
        return m, n, self.depth

    def effects(self) -> Effects:
        """Reads operands and scales and adds to the accumulator, in both CTAs of a pair, until a commit has arrived."""
        operands: list[tuple[Use, SharedView | TensorView]] = [(Use.OPERAND, self.a), (Use.OPERAND, self.b)]
        operands += [(Use.SCALE, view) for view in (self.scale_a, self.scale_b) if view is not None]
        accesses = [_in_flight(Mode.READ, view, use) for use, view in operands]
        for n, view in enumerate((self.a, self.b)):
            accesses[n] = dataclasses.replace(accesses[n], across=_runs_across(view, n))
        if constant_of(self.accumulate) != 0:
            condition = None if constant_of(self.accumulate) is not None else self.accumulate
            old = _in_flight(Mode.READ, self.acc, Use.ACCUMULATOR)
            accesses.append(dataclasses.replace(old, only_if=condition))
        accesses.append(_in_flight(Mode.WRITE, self.acc, Use.ACCUMULATOR))
        return Effects(accesses=_in_both(accesses, self.peer), executor=Executor.ONE, target=target_of(self.kind))


def _runs_across(view: SharedView | TensorView, rows_axis: int) -> bool:
    """Whether rows of memory run along M or N, axis `rows_axis` of the view, instead of along K."""
    return in_shared(view) and view.kept[rows_axis] == len(view.buffer.shape) - 1


def target_of(kind: Kind) -> Target:
    """What a product of a kind needs: those of integers and those with scales are not wherever there is tensor memory."""
    extra = (Feature.TCGEN05_I8,) * (kind.name == "i8") + (Feature.BLOCK_SCALE,) * kind.scaled
    if not extra:
        return BLACKWELL
    return dataclasses.replace(BLACKWELL, needs=(*BLACKWELL.needs, *extra), family=f"tcgen05.mma of kind {kind}")


def _in_flight(mode: Mode, view: SharedView | TensorView, use: Use) -> Access:
    return Access(mode, view, Proxy.ASYNC, When.COMMIT, use=use, engine=MMA_ENGINE)


def _in_both(accesses: list[Access], peer: Value | None) -> tuple[Access, ...]:
    """Accesses of this CTA's memory, and with a `peer` the same in the other CTA of the pair."""
    if peer is None:
        return tuple(accesses)
    return (*accesses, *(dataclasses.replace(a, region=a.region.replaced(cta=peer)) for a in accesses))


@frozen(eq=False, repr=False)
class Tcgen05Commit(Op):
    """The tensor cores arrive on a barrier, here or in every CTA of the mask, when all work of this role is over.

    `pair`: the work was given by the even CTA of a pair. `releases`: the arrival gives back a stage that copies fill which
    complete on that array; without `multicast` the compiler finds out whose.
    """

    mnemonic: ClassVar[str] = "tcgen05.commit"
    bar: BarrierRef = operand()
    multicast: Value | None = operand(default=None)
    pair: bool = attribute(default=False)
    releases: BarrierArray | None = storage(default=None)

    @property
    def pairing(self) -> bool:
        """For the work of two CTAs, or of one."""
        return self.pair

    def effects(self) -> Effects:
        """Makes one arrival in each CTA of the mask, later."""
        arrival = Arrival(self.bar, Const(1), self.multicast, gives_back=self.releases, after=MMA_ENGINE)
        return Effects(arrivals=(arrival,), executor=Executor.ONE, target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05Copy(Op):
    """Shared memory into tensor memory, by the tensor cores' own engine; over with a commit.

    A matrix is read as the operand of a product is; scales come in blocks, which have more axes. With `peer` both CTAs of a
    pair copy, each from its own shared memory to its own columns.
    """

    mnemonic: ClassVar[str] = "tcgen05.copy"
    src: SharedView = operand()
    dst: TensorView = operand()
    peer: Value | None = operand(default=None)

    @property
    def pair(self) -> bool:
        """Whether both CTAs of a pair copy."""
        return self.peer is not None

    @property
    def pairing(self) -> bool:
        """A copy in two CTAs, or in one."""
        return self.pair

    def effects(self) -> Effects:
        """Reads shared and writes tensor memory, until a commit has arrived."""
        how = Use.OPERAND if len(self.src.shape) == 2 else Use.COPY
        accesses = [_in_flight(Mode.READ, self.src, how), _in_flight(Mode.WRITE, self.dst, Use.COPY)]
        return Effects(accesses=_in_both(accesses, self.peer), executor=Executor.ONE, target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05Load(Op):
    """Tensor memory into registers: every warp its own lanes. The tile is there after a wait for loads.

    `warps` from warp `first` of the CTA on run it.
    """

    mnemonic: ClassVar[str] = "tcgen05.load"
    src: TensorView = operand()
    first: int = attribute()
    warps: int = attribute()
    result: Value = defined()

    def effects(self) -> Effects:
        """Reads tensor memory until loads have been waited for."""
        access = Access(Mode.READ, self.src, Proxy.ASYNC, When.GROUP, engine=TENSOR_LOADS)
        return Effects(accesses=(access,), target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05WaitLoads(Op):
    """Waits for all loads of tensor memory by these threads; `results` are the `tiles`, as they are then.

    Written by the compiler: before a tile is used, and before anybody is told that it was loaded.
    """

    mnemonic: ClassVar[str] = "tcgen05.wait.load"
    tiles: tuple[Value, ...] = operand()
    results: tuple[Value, ...] = defined()

    def effects(self) -> Effects:
        """Ends the loads before it."""
        groups = (Group(TENSOR_LOADS, GroupAction.COMMIT), Group(TENSOR_LOADS, GroupAction.WAIT))
        return Effects(groups=groups, target=BLACKWELL)

    def updates(self) -> tuple[tuple[Value, Value], ...]:
        """Each tile becomes what it is after the wait."""
        return tuple(zip(self.tiles, self.results, strict=True))

    def handing_on(self, pairs: list[tuple[Value, Value]]) -> Tcgen05WaitLoads:
        """A wait that hands on these tiles, (old, new) each."""
        return dataclasses.replace(
            self, tiles=tuple(tile for tile, _ in pairs), results=tuple(result for _, result in pairs)
        )


@frozen(eq=False, repr=False)
class Tcgen05Store(Op):
    """Registers into tensor memory: every warp its own lanes. It is there after a wait for stores.

    `warps` from warp `first` of the CTA on run it.
    """

    mnemonic: ClassVar[str] = "tcgen05.store"
    dst: TensorView = operand()
    tile: Value = operand()
    first: int = attribute()
    warps: int = attribute()

    def effects(self) -> Effects:
        """Writes tensor memory until stores have been waited for."""
        access = Access(Mode.WRITE, self.dst, Proxy.ASYNC, When.GROUP, engine=TENSOR_STORES)
        return Effects(accesses=(access,), target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05WaitStores(Op):
    """Waits for all stores to tensor memory by these threads. Written by the compiler, before anybody is told of them."""

    mnemonic: ClassVar[str] = "tcgen05.wait.store"

    def effects(self) -> Effects:
        """Ends the stores before it."""
        groups = (Group(TENSOR_STORES, GroupAction.COMMIT), Group(TENSOR_STORES, GroupAction.WAIT))
        return Effects(groups=groups, target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05FenceBefore(Op):
    """Orders accesses of tensor memory before it with a signal to other threads behind it. Written by the compiler."""

    mnemonic: ClassVar[str] = "tcgen05.fence.before"

    def effects(self) -> Effects:
        """Is a fence of the thread's own accesses of tensor memory."""
        return Effects(fences=(FenceKind.TENSOR_BEFORE,), target=BLACKWELL)


@frozen(eq=False, repr=False)
class Tcgen05FenceAfter(Op):
    """Orders a wait for other threads before it with accesses of tensor memory behind it. Written by the compiler."""

    mnemonic: ClassVar[str] = "tcgen05.fence.after"

    def effects(self) -> Effects:
        """Is a fence of the thread's own accesses of tensor memory."""
        return Effects(fences=(FenceKind.TENSOR_AFTER,), target=BLACKWELL)


# What the simulator and the text refuse alike, since they know how tensor memory lies.


def out_of_reach(op: Tcgen05Load | Tcgen05Store, view: TensorView, problem: str) -> Error:
    """The error for a load or store of a region that its warps do not reach, or not with these instructions."""
    remedy = "take whole accumulators, or columns and rows in powers of two"
    if is_folded(view.buffer) and view.shape[1] < view.buffer.shape[-1]:
        half = view.buffer.shape[-1] // 2
        remedy = (
            f"with 64 rows in each CTA of a pair columns {half} to {2 * half - 1} lie in the upper lanes: take all columns "
            "with four warps, or parts of the first half in px.warps(0, 2) and of the second in px.warps(2, 2)"
        )
    return Error(f"{op.call} can't reach this region of {view.buffer.name}: {problem}", location=op.loc, remedy=remedy)


def no_such_product(op: Tcgen05Mma, problem: str) -> Error:
    """The error for a product whose accumulator or operand lies in tensor memory as no instruction takes it."""
    return Error(
        f"px.tcgen05.mma can't use '{op.acc.buffer.name}' so: {problem}", location=op.loc,
        remedy="give each product a whole accumulator, stages of one buffer say: acc = px.tmem((2, rows, columns), px.f32)",
    )


def no_such_copy(op: Tcgen05Copy, problem: str) -> Error:
    """The error for a copy into tensor memory that no shape of the instruction does."""
    remedy = "scales lie in blocks of 512 bytes, one per 128 rows and 4 scales: px.kernels.pack_scales"
    if op.dst.buffer.purpose is not Use.SCALE:
        remedy = "copy 128 rows or a multiple, 64 in each CTA of a pair, from a buffer with rows of a multiple of 32 bytes"
    what = f"px.tcgen05.copy can't bring {op.src.buffer.name} to {op.dst.buffer.name}"
    return Error(f"{what}: {problem}", location=op.loc, remedy=remedy)


HANDOVER_FENCES[FenceKind.TENSOR_BEFORE] = Tcgen05FenceBefore
HANDOVER_FENCES[FenceKind.TENSOR_AFTER] = Tcgen05FenceAfter


# What the types of operands and results must be.


@type_rules(Tcgen05Load)
def _check_load(op: Tcgen05Load) -> None:
    need_alike(op, op.src, op.result)


@type_rules(Tcgen05Store)
def _check_store(op: Tcgen05Store) -> None:
    need_alike(op, op.dst, op.tile)


@type_rules(Tcgen05WaitLoads)
def _check_wait(op: Tcgen05WaitLoads) -> None:
    need_same_tiles(op, op.tiles, op.results)


@type_rules(Tcgen05Mma)
def _check_product(op: Tcgen05Mma) -> None:
    (m, depth), (rows, n) = op.a.shape, op.b.shape
    need(depth == rows, op, f"{m} x {depth} times {rows} x {n}")
    columns = 2 * n if op.pair else n
    need(op.acc.shape == (m, columns), op, f"{m} x {depth} times {rows} x {columns} into {op.acc.shape}")


@type_rules(Tcgen05Copy)
def _check_copy(op: Tcgen05Copy) -> None:
    """A matrix is copied as it is; scales come in blocks of 128 rows by 4 columns, the last of them padded."""
    rows, columns = op.dst.shape
    blocks = 128 * -(-rows // 128) * 4 * -(-columns // 4)
    fits = op.src.shape == op.dst.shape or prod(op.src.shape) == blocks
    need(fits, op, f"from a region of shape {op.src.shape} to one of {op.dst.shape}")


needs_no_type_rule(TmemAlloc, TmemTake, TmemFree, Tcgen05Commit)
