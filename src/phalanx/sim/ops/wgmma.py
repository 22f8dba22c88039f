"""Tensor cores: products that read their operands late, and accumulators that nobody may look at before the wait.

A product is carried out when its group retires: at the wait that covers it, or at its issue under the "early"
schedule. In between its accumulator is an `InFlight`, which refuses to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.engines import TENSOR_CORES
from phalanx.ir.ops.wgmma import STEP_BYTES, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from phalanx.ir.types import DType, f16, f32
from phalanx.sim.agents import Agent
from phalanx.sim.ops.tile import Unwritten
from phalanx.sim.places import BufferPlace
from phalanx.sim.registry import meaning

Widen = Callable[[np.ndarray], np.ndarray]


class InFlight:
    """An accumulator that the tensor cores hold. `array` is its value once all products up to now are done."""

    __slots__ = ("array", "op", "owned", "pending")

    def __init__(self, op: Wgmma, array: np.ndarray | None, owned: bool) -> None:
        self.op = op
        self.array = array
        self.owned = owned
        self.pending = 0

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        error = Error(
            f"the accumulator of the product at {self.op.loc.short} is read while it is in flight", kind="wgmma-hazard",
            remedy="wait for its group first: px.wgmma_commit(), then px.wgmma_wait(0)",
        )
        error.other = self.op.loc
        raise error

    @property
    def shape(self) -> tuple[int, ...]:
        """The accumulator's shape, where it may be read."""
        return self.__array__().shape

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__array__(), name)


class Product:
    """One `wgmma` between its issue and its retirement."""

    __slots__ = ("a", "accumulate", "b", "flight", "meaning")

    def __init__(self, meaning: Multiply, a: Any, b: BufferPlace, flight: InFlight, accumulate: bool) -> None:
        self.meaning = meaning
        self.a = a
        self.b = b
        self.flight = flight
        self.accumulate = accumulate

    def retire(self) -> None:
        """Reads the operands, now, and adds their product."""
        how, flight = self.meaning, self.flight
        a = how.widen_a(self.a.array if isinstance(self.a, BufferPlace) else self.a)
        b = how.widen_b(self.b.array)
        if how.rounds:
            flight.array = rounded_sum(a, b, flight.array if self.accumulate else None, how.step, how.op.negate)
            flight.owned = True
            flight.pending -= 1
            return
        product = a @ b
        if how.op.negate:
            np.negative(product, out=product)
        if not self.accumulate:
            flight.array = product
        elif flight.owned:
            np.add(flight.array, product, out=flight.array)  # type: ignore[arg-type]
        else:
            flight.array = np.add(flight.array, product)  # type: ignore[arg-type]
        flight.owned = True
        flight.pending -= 1


class Multiply:
    """What all executions of one instruction share."""

    def __init__(self, op: Wgmma) -> None:
        self.op = op
        self.widen_a = widen(op.a_dtype)
        self.widen_b = widen(op.b.dtype)
        self.rounds = op.result.type.dtype == f16
        self.step = STEP_BYTES // op.b.dtype.itemsize


class Groups:
    """The products of one agent: those of the open group, and the committed groups that have not retired."""

    __slots__ = ("committed", "open")

    def __init__(self) -> None:
        self.open: list[Product] = []
        self.committed: list[list[Product]] = []

    def retire(self, newest: int) -> None:
        """All groups but the `newest`, oldest first."""
        while len(self.committed) > newest:
            for product in self.committed.pop(0):
                product.retire()


def groups_of(agent: Agent) -> Groups:
    """The agent's products in flight; made at the first one."""
    found = agent.mma
    if found is None:
        found = agent.mma = Groups()
    return found


@meaning(Wgmma)
def wgmma(op: Wgmma, agent: Agent) -> Callable[..., InFlight]:
    """Issues a product, which runs when its group retires, or at once in an early schedule."""
    how = Multiply(op)
    machine = agent.cta.cluster.machine
    early, monitor = machine.early, machine.monitor
    if not machine.values:
        return without_values(op, agent)

    def run(a: Any, b: BufferPlace, acc: Any, accumulate: bool) -> InFlight:
        if isinstance(acc, InFlight):
            flight = acc
        else:
            if accumulate and isinstance(acc, Unwritten):
                acc.refuse()
            flight = InFlight(op, acc, owned=False)
        flight.op = op
        flight.pending += 1
        product = Product(how, a, b, flight, bool(accumulate))
        if monitor is not None:
            monitor.work_given(agent, op, agent.issuing)
        if early:
            product.retire()
        else:
            groups_of(agent).open.append(product)
        return flight

    return run


def without_values(op: Wgmma, agent: Agent) -> Callable[..., Any]:
    """A product of which only the time is asked for."""
    monitor = agent.cta.cluster.machine.monitor
    zeros = np.zeros(op.result.type.shape, op.result.type.dtype.numpy)  # type: ignore[union-attr]

    def run(a: Any, b: BufferPlace, acc: Any, accumulate: bool) -> np.ndarray:
        if monitor is not None:
            monitor.work_given(agent, op, agent.issuing)
        return zeros

    return run


@meaning(WgmmaFence)
def wgmma_fence(op: WgmmaFence, agent: Agent) -> Callable[..., None]:
    """Does nothing: registers are in order here."""
    return lambda: None


@meaning(WgmmaCommit)
def wgmma_commit(op: WgmmaCommit, agent: Agent) -> Callable[..., None]:
    """Closes the agent's group of products."""

    def run() -> None:
        groups = groups_of(agent)
        groups.committed.append(groups.open)
        groups.open = []

    return run


@meaning(WgmmaWait)
def wgmma_wait(op: WgmmaWait, agent: Agent) -> Callable[..., tuple[Any, ...]]:
    """Retires all groups but the newest `n`, and gives their accumulators."""
    monitor = agent.cta.cluster.machine.monitor

    def run(accs: tuple[Any, ...]) -> tuple[Any, ...]:
        groups_of(agent).retire(op.n)
        if monitor is not None:
            monitor.groups_passed(agent, op, TENSOR_CORES, op.n, False)
        return tuple(map(landed, accs))

    return run


def landed(acc: Any) -> Any:
    """An accumulator after a wait: its array, if nothing of it is in flight any more."""
    if not isinstance(acc, InFlight) or acc.pending:
        return acc
    return acc.array


def rounded_sum(a: np.ndarray, b: np.ndarray, acc: np.ndarray | None, step: int, negate: bool) -> np.ndarray:
    """`acc + a @ b` in an f16 accumulator: each instruction adds the exact products of its `step` columns of `a` in
    f32, to the accumulator as f16 left it, and rounds the sum to f16."""
    with np.errstate(over="ignore"):
        for k in range(0, a.shape[1], step):
            product = a[:, k : k + step] @ b[k : k + step]
            if negate:
                np.negative(product, out=product)
            if acc is not None:
                product += acc
            acc = product.astype(np.float16)
    assert acc is not None
    return acc


def scaled_product(a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray) -> np.ndarray:
    """`a @ b` in f32, where the products of a block along K count with the block's scales of both operands.

    `scale_a` and `scale_b` have a row for each row of `a` and column of `b`. A sum counts as often as the product of its two
    scales says, of which each alone may be more than f32 holds beside an element: 2**127 times 2 beside 2**-127.
    """
    depth = a.shape[1]
    left, right = (np.repeat(scale.astype(np.float64), depth // scale.shape[1], axis=1) for scale in (scale_a, scale_b))
    left *= a
    right *= b.T
    with np.errstate(over="ignore"):
        return (left @ right.T).astype(np.float32)


# --- operands in f32 --------------------------------------------------------------------------------------------------


def widen(dtype: DType) -> Widen:
    """Elements as the tensor cores see them, in f32 (8-bit integers in i32, whose products are exact)."""
    if dtype.name == "bf16":
        return _widen_bf16
    if dtype == f32:
        return _as_tf32
    if dtype.is_storage:
        table = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
        return lambda x: table[x.view(np.uint8)]
    if dtype.is_integer:
        return lambda x: x.astype(np.int32)
    return lambda x: x.astype(np.float32)


def _widen_bf16(x: np.ndarray) -> np.ndarray:
    wide = x.view(np.uint16).astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def _as_tf32(x: np.ndarray) -> np.ndarray:
    """The hardware ignores the lowest 13 bits."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
