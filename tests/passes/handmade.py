"""Kernels put together by hand, for passes that read barrier traffic.

Every instruction stands on a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterRank
from phalanx.ir.ops.control import Assign, Break, For, If, Leave, ReadVar, Role, Roles, Scope, While
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, TestWait, Transaction, Wait
from phalanx.ir.ops.tile import Binary, Compare, Select
from phalanx.ir.ops.tma import TmaLoad
from phalanx.ir.types import BOOL, I32, ArrayType, u8
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.location import Location

Scalar = int | Value


class Handmade:
    """Collects instructions like the front end does; `line` is where the next one stands in the imagined
    file.
    """

    def __init__(self, cluster: tuple[int, int, int] = (1, 1, 1), warps: int = 4) -> None:
        self.cluster, self.warps, self.line = cluster, warps, 0
        self.barriers: list[BarrierArray] = []
        self.blocks: list[list[Op]] = [[]]
        self.params: list[Param] = [Param(ArrayType(1, u8), "X", 0)]
        self.buffers: list[SharedBuffer] = []

    def loc(self, text: str = "") -> Location:
        self.line += 1
        return Location("made.py", self.line, 0, self.line, len(text), text)

    def function(self) -> Function:
        return Function(
            name="made",
            params=tuple(self.params),
            constants=(),
            warps=self.warps,
            cluster=self.cluster,
            exit_sync=True,
            buffers=tuple(self.buffers),
            barriers=tuple(self.barriers),
            body=Block(tuple(self.blocks[0])),
        )

    def emit(self, op: Op) -> None:
        self.blocks[-1].append(op)

    # Values.

    def argument(self, name: str = "n") -> Param:
        """A scalar known only at run time."""
        self.params.append(Param(I32, name, len(self.params)))
        return self.params[-1]

    def rank(self, dim: int | None = None) -> Value:
        result = Value(I32, "rank")
        self.emit(ClusterRank(dim, result))
        return result

    def binary(self, fn: str, a: Scalar, b: Scalar) -> Value:
        result = Value(I32)
        self.emit(Binary(fn, value(a), value(b), result))
        return result

    def compare(self, fn: str, a: Scalar, b: Scalar) -> Value:
        result = Value(BOOL)
        self.emit(Compare(fn, value(a), value(b), result))
        return result

    def select(self, cond: Value, a: Scalar, b: Scalar) -> Value:
        result = Value(I32)
        self.emit(Select(cond, value(a), value(b), result))
        return result

    def assign(self, var: Var, new: Scalar) -> None:
        self.emit(Assign(var, value(new)))

    def read(self, var: Var) -> Value:
        result = Value(I32)
        self.emit(ReadVar(var, result))
        return result

    def cell(self, start: Scalar) -> Var:
        var = Var(I32, "cell")
        self.assign(var, start)
        return var

    def advance(self, var: Var, n: int) -> None:
        """What `ring.advance()` does to a stage."""
        following = self.binary("add", self.read(var), 1)
        self.assign(var, self.select(self.compare("eq", following, n), 0, following))

    # Barriers.

    def barrier(
        self, name: str, n: int = 1, count: int | None = None, *, checked: bool = True, init: bool = True
    ) -> BarrierArray:
        barrier = BarrierArray(name, n, count, init, checked, self.loc(f"{name} = px.barrier({n})"))
        self.barriers.append(barrier)
        return barrier

    def arrive(self, barrier: BarrierArray, index: Scalar = 0, count: Scalar = 1, ctas: Scalar | None = None) -> None:
        text = f"{barrier.name}.arrive()"
        self.emit(Arrive(ref(barrier, index), value(count), None if ctas is None else value(ctas), loc=self.loc(text)))

    def arm(self, barrier: BarrierArray, index: Scalar, nbytes: Scalar) -> None:
        loc = self.loc(f"{barrier.name}.arrive_and_expect_tx()")
        self.emit(ArriveExpectTx(ref(barrier, index), value(nbytes), loc=loc))

    def wait(self, barrier: BarrierArray, index: Scalar = 0) -> None:
        self.emit(Wait(ref(barrier, index), Const(0), loc=self.loc(f"{barrier.name}.wait(0)")))

    def test_wait(self, barrier: BarrierArray, index: Scalar = 0) -> Value:
        result = Value(BOOL)
        self.emit(TestWait(ref(barrier, index), Const(0), result, loc=self.loc(f"{barrier.name}.test_wait(0)")))
        return result

    def load(self, barrier: BarrierArray, index: Scalar = 0, nbytes: int = 1024, mask: Scalar | None = None) -> None:
        buffer = SharedBuffer("s", (nbytes,), u8)
        self.buffers.append(buffer)
        source = GlobalView(self.params[0], (Const(0),), (nbytes,), (0,))
        target = SharedView(buffer, (Const(0),), (nbytes,), (0,))
        multicast = None if mask is None else value(mask)
        self.emit(TmaLoad(source, target, ref(barrier, index), multicast, loc=self.loc("px.tma.load(...)")))

    # Regions.

    @contextmanager
    def collect(self) -> Iterator[list[Op]]:
        self.blocks.append([])
        yield self.blocks[-1]
        self.blocks.pop()

    @contextmanager
    def branch(self, cond: Value) -> Iterator[None]:
        loc = self.loc("if ...:")
        with self.collect() as ops:
            yield
        self.emit(If(cond, Block(tuple(ops)), Block(), loc=loc))

    @contextmanager
    def orelse(self) -> Iterator[None]:
        """The other arm of the branch just made."""
        with self.collect() as ops:
            yield
        before = self.blocks[-1].pop()
        assert isinstance(before, If)
        self.emit(If(before.cond, before.then, Block(tuple(ops)), loc=before.loc))

    @contextmanager
    def loop(self, stop: Scalar, start: Scalar = 0) -> Iterator[tuple[Value, Label]]:
        loc, index, label = self.loc("for i in range(...):"), Value(I32, "i"), Label("loop")
        with self.collect() as ops:
            yield index, label
        self.emit(For(index, value(start), value(stop), Const(1), Block(tuple(ops)), label, loc=loc))

    def spin(self, barrier: BarrierArray, index: Scalar = 0) -> None:
        loc = self.loc("while not ...test_wait(0):")
        with self.collect() as ops:
            done = self.test_wait(barrier, index)
            going = self.compare("eq", done, Const(False))
        self.emit(While(Block(tuple(ops)), going, Block(), Label("spin"), loc=loc))

    @contextmanager
    def scope(self) -> Iterator[Label]:
        label = Label("scope")
        with self.collect() as ops:
            yield label
        self.emit(Scope(label, Block(tuple(ops))))

    def leave(self, label: Label) -> None:
        self.emit(Leave(label, loc=self.loc("return")))

    def leave_loop(self, label: Label) -> None:
        self.emit(Break(label, loc=self.loc("break")))

    @contextmanager
    def role(self, name: str, first: int, count: int) -> Iterator[None]:
        """A role; it runs beside the role just before it."""
        loc = self.loc(f"with px.warps({first}, {count}):")
        with self.collect() as ops:
            yield
        role = Role(name, first, count, None, Block(tuple(ops)), loc=loc)
        before = self.blocks[-1][-1] if self.blocks[-1] else None
        if isinstance(before, Roles):
            self.blocks[-1].pop()
            self.emit(Roles((*before.regions, role), loc=before.loc))
        else:
            self.emit(Roles((role,), loc=loc))

    @contextmanager
    def transaction(self, barrier: BarrierArray, index: Scalar = 0) -> Iterator[None]:
        loc = self.loc(f"with {barrier.name}.transaction():")
        with self.collect() as ops:
            yield
        self.emit(Transaction(ref(barrier, index), Block(tuple(ops)), loc=loc))


def value(scalar: Scalar) -> Value:
    return scalar if isinstance(scalar, Value) else Const(scalar)


def ref(barrier: BarrierArray, index: Scalar) -> BarrierRef:
    return BarrierRef(barrier, value(index))
