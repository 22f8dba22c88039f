"""Hopper's tensor cores: asynchronous products of a warpgroup, in groups that are committed and waited for."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.archs import Feature
from phalanx.ir.core import Op
from phalanx.ir.effects import (
    Access,
    Accumulation,
    Effects,
    Group,
    GroupAction,
    Mode,
    Proxy,
    Target,
    Use,
    When,
)
from phalanx.ir.engines import REGISTER_COMMITS, REGISTER_FENCES, REGISTER_WAITS, TENSOR_CORES
from phalanx.ir.type_rules import dtype_of, need, need_same_tiles, shape_of, type_rules
from phalanx.ir.types import DType, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, u8
from phalanx.ir.values import Value
from phalanx.ir.views import SharedView
from phalanx.markers import attribute, defined, operand

HOPPER = Target(
    (Feature.WGMMA,), alternative="use px.dot: where there is no wgmma it runs as mma.sync", family="wgmma"
)
ROWS = 64
"""Rows of one instruction; a role's warpgroups share the rows of a tile in steps of it."""
STEP_BYTES = 32
"""Bytes of K that one instruction takes from each operand, whatever the type."""

ACCUMULATORS: dict[tuple[DType, DType], tuple[DType, ...]] = {
    (bf16, bf16): (f32,),
    (f16, f16): (f32, f16),
    (f32, f32): (f32,),  # as tf32: the lowest 13 bits of the mantissa are not looked at
    **{(a, b): (f32, f16) for a in (f8e4m3, f8e5m2) for b in (f8e4m3, f8e5m2)},
    **{(a, b): (i32,) for a in (i8, u8) for b in (i8, u8)},
}
"""Operand types that the tensor cores take, and the types their accumulator may have; the first if none is given."""


@frozen(eq=False, repr=False)
class Wgmma(Op):
    """`result = acc + a @ b` (`- a @ b` with `negate`), without `acc` where `accumulate` is false.

    `a` is (M, K), in shared memory or a register tile, `b` is (K, N) in shared memory. It runs on until its group is
    waited for: operands and accumulator belong to the tensor cores until then. `warps` run it together: each
    warpgroup of four does its share of the rows, or of the columns with `along` "n". `fused`: nothing but its commit
    and its wait follows.
    """

    mnemonic: ClassVar[str] = "wgmma"
    a: SharedView | Value = operand()
    b: SharedView = operand()
    acc: Value = operand()
    accumulate: Value = operand()
    warps: int = attribute()
    result: Value = defined()
    negate: bool = attribute(default=False)
    along: str = attribute(default="m")
    fused: bool = attribute(default=False)

    @property
    def written(self) -> str:
        """What users call it: `px.dot` where its commit and its wait follow at once."""
        return "dot" if self.fused else self.mnemonic

    @property
    def replaceable(self) -> bool:
        """Whether another instruction may stand for it: nothing but its commit and its wait follows."""
        return self.fused

    def effects(self) -> Effects:
        """Reads its operands in shared memory and adds to the accumulator, until its group has been waited for."""
        operands = (self.b,) if self.a_view is None else (self.a_view, self.b)
        return Effects(
            accesses=tuple(
                Access(Mode.READ, view, Proxy.ASYNC, When.GROUP, use=Use.OPERAND, engine=TENSOR_CORES)
                for view in operands
            ),
            accumulations=(Accumulation(self.acc, self.result, TENSOR_CORES),),
            target=HOPPER,
        )

    @property
    def a_view(self) -> SharedView | None:
        """`a` where it lies in shared memory; None where it is a register tile."""
        return self.a if isinstance(self.a, SharedView) else None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and depth of the product: (M, N, K)."""
        m, k = self.a.shape if isinstance(self.a, SharedView) else self.a.type.shape  # type: ignore[union-attr]
        return m, self.b.shape[1], k

    @property
    def a_dtype(self) -> DType:
        """The element type of `a`."""
        return self.a.dtype if isinstance(self.a, SharedView) else self.a.type.dtype


@frozen(eq=False, repr=False)
class WgmmaFence(Op):
    """Orders register accesses of the warpgroup before the tensor cores' that follow. Written by the compiler."""

    mnemonic: ClassVar[str] = "wgmma.fence"

    def effects(self) -> Effects:
        """Orders register accesses before those of the products that follow."""
        return Effects(groups=(Group(TENSOR_CORES, GroupAction.FENCE),), target=HOPPER)


REGISTER_FENCES[TENSOR_CORES] = WgmmaFence


@frozen(eq=False, repr=False)
class WgmmaCommit(Op):
    """Closes the group of products issued since the last commit."""

    mnemonic: ClassVar[str] = "wgmma.commit"

    @property
    def written(self) -> str:
        """What users call it: a function of its own."""
        return "wgmma_commit"

    def effects(self) -> Effects:
        """Closes the group of products that is open."""
        return Effects(groups=(Group(TENSOR_CORES, GroupAction.COMMIT),), target=HOPPER)


@frozen(eq=False, repr=False)
class WgmmaWait(Op):
    """Waits until at most `n` groups are unfinished; groups finish in order.

    `results` are the accumulators `accs` as they are then: what reads one of them can't move before the wait.
    """

    mnemonic: ClassVar[str] = "wgmma.wait"
    n: int = attribute()
    accs: tuple[Value, ...] = operand()
    results: tuple[Value, ...] = defined()

    @property
    def written(self) -> str:
        """What users call it: a function of its own."""
        return "wgmma_wait"

    def effects(self) -> Effects:
        """Waits for groups of products."""
        return Effects(groups=(Group(TENSOR_CORES, GroupAction.WAIT, self.n),), target=HOPPER)

    def updates(self) -> tuple[tuple[Value, Value], ...]:
        """Each accumulator becomes what it is after the wait."""
        return tuple(zip(self.accs, self.results, strict=True))

    def handing_on(self, pairs: list[tuple[Value, Value]]) -> WgmmaWait:
        """A wait that hands on these accumulators, (old, new) each."""
        return dataclasses.replace(self, accs=tuple(acc for acc, _ in pairs), results=tuple(result for _, result in pairs))


REGISTER_COMMITS[TENSOR_CORES] = WgmmaCommit
REGISTER_WAITS[TENSOR_CORES] = lambda n, accs, results, loc: WgmmaWait(n, accs, results, loc=loc)


# What the types of operands and results must be.


@type_rules(Wgmma)
def _check_product(op: Wgmma) -> None:
    (m, depth), (rows, n) = shape_of(op.a), shape_of(op.b)
    need(depth == rows, op, f"{m} x {depth} times {rows} x {n}")
    need(shape_of(op.result) == (m, n), op, f"{m} x {depth} times {rows} x {n} into {shape_of(op.result)}")
    need(op.acc.type == op.result.type, op, "a result unlike its accumulator")
    taken = ACCUMULATORS.get((op.a_dtype, op.b.dtype), ())
    need(dtype_of(op.result) in taken, op, f"{op.a_dtype} times {op.b.dtype} into {dtype_of(op.result)}")


@type_rules(WgmmaWait)
def _check_wait(op: WgmmaWait) -> None:
    need_same_tiles(op, op.accs, op.results)
