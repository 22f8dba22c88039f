"""Kernels with copies of a role, each beside its twin with the roles written one by one, and what both must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from phalanx.analysis.trace import Nodes, TracedAgent, steps, trace
from phalanx.ir.core import Function
from phalanx.ir.ops.control import Roles
from phalanx.ir.ops.mbarrier import BarrierInit
from phalanx.language.kernel import Kernel
from support.front import array, prepared


def counts(function: Function) -> dict[str, Any]:
    """The arrivals that complete a phase, by barrier array, rank and element; those of the user's arrays."""
    inits = (op for op in function.walk() if isinstance(op, BarrierInit))
    return {op.barrier.name: op.counts for op in inits if not op.barrier.exchange}


def traffic(function: Function) -> list[list[tuple[Any, ...]]]:
    """All signals and waits by rank: who, on which barrier, how often, where."""
    return [list(_steps(trace(function, rank))) for rank in range(function.cluster_size)]


def _steps(nodes: Nodes) -> Iterator[tuple[Any, ...]]:
    for step in steps(nodes):
        for signal in (*step.arrivals, *step.expects, *step.completes):
            if signal.barrier.exchange:
                continue
            index = signal.index if isinstance(signal.index, int) else None
            yield str(step.agent), step.op.mnemonic, signal.barrier.name, index, signal.amount, signal.ranks
        for wait in (wait for wait in step.waits if not wait.barrier.exchange):
            yield str(step.agent), "wait", wait.barrier.name, wait.index if isinstance(wait.index, int) else None


def agents(function: Function) -> list[str]:
    """The roles' agents, copy by copy."""
    regions = [role for op in function.walk() if isinstance(op, Roles) for role in op.regions]
    return [str(TracedAgent(role, copy)) for role in regions for copy in range(role.copies)]


@dataclass(frozen=True)
class Pair:
    """The same choreography twice."""

    copied: Kernel
    unrolled: Kernel
    types: tuple[Any, ...]
    constants: dict[str, Any]

    @property
    def functions(self) -> tuple[Function, Function]:
        """Both, prepared."""
        return prepared(self.copied, self.types, **self.constants), prepared(self.unrolled, self.types, **self.constants)


@px.func
def taker(c, N, n, buf, s, full, empty, turn, Y):
    """A consumer that takes turns with its neighbours: all of its barriers and buffers are chosen by `c`."""
    acc = px.zeros((32,), px.f32)
    mine = 1 if c == 0 else 0
    for t in range(N):
        full[c].wait(t & 1)
        turn[c].wait(mine)
        mine ^= 1
        acc = acc + px.sum(px.load(buf[c]), axis=1)
        turn[(c + 1) % n].arrive()
        empty[c].arrive()
    px.store(s[c], acc)
    px.store(Y[c * 32 : c * 32 + 32], px.load(s[c]) + px.sum(acc))


@px.kernel(warps=lambda COPIES, COUNT: 4 + COPIES * COUNT)
def turns_copied(X, Y, *, COPIES=2, COUNT=4, N=3):
    buf, s = px.shared((COPIES, 32, 32), px.f32), px.shared((COPIES, 32), px.f32)
    full, empty, turn = px.barrier(COPIES), px.barrier(COPIES), px.barrier(COPIES)
    with px.warps(0, 1):
        for t in range(N):
            for c in px.static_range(COPIES):
                empty[c].wait((t & 1) ^ 1)
                with full[c].transaction():
                    row = (t * COPIES + c) * 32
                    px.tma.load(X[row : row + 32, 0:32], buf[c], full[c])
    with px.warps(4, COUNT, copies=COPIES) as c:
        taker(c, N, COPIES, buf, s, full, empty, turn, Y)


@px.kernel(warps=lambda COPIES, COUNT: 4 + COPIES * COUNT)
def turns_unrolled(X, Y, *, COPIES=2, COUNT=4, N=3):
    buf, s = px.shared((COPIES, 32, 32), px.f32), px.shared((COPIES, 32), px.f32)
    full, empty, turn = px.barrier(COPIES), px.barrier(COPIES), px.barrier(COPIES)
    with px.warps(0, 1):
        for t in range(N):
            for c in px.static_range(COPIES):
                empty[c].wait((t & 1) ^ 1)
                with full[c].transaction():
                    row = (t * COPIES + c) * 32
                    px.tma.load(X[row : row + 32, 0:32], buf[c], full[c])
    for c in px.static_range(COPIES):
        with px.warps(4 + COUNT * c, COUNT):
            taker(c, N, COPIES, buf, s, full, empty, turn, Y)


def turns(copies: int = 2, count: int = 4) -> Pair:
    """Consumers that take turns, fed one by one."""
    types = (array(2), array(1))
    return Pair(turns_copied, turns_unrolled, types, dict(COPIES=copies, COUNT=count))


def turns_arguments(copies: int, steps: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Input, room for the output, and what belongs there."""
    x = np.random.default_rng(copies).integers(-8, 8, (steps * copies * 32, 32)).astype(np.float32)
    rows = x.reshape(steps, copies, 32, 32).sum(axis=(0, 3))
    return x, np.zeros(copies * 32, np.float32), (rows + rows.sum(axis=1, keepdims=True)).reshape(-1)


@px.kernel(warps=12)
def products(A, B, C, *, STEPS=3):
    """Each copy multiplies rows of its own, fed by one warp."""
    a, b = px.shared((2, 64, 64), px.bf16), px.shared((2, 64, 64), px.bf16)
    full, free = px.barrier(2), px.barrier(2)
    with px.warps(0, 1, regs=24):
        for t in range(STEPS):
            for c in px.static_range(2):
                free[c].wait((t & 1) ^ 1)
                with full[c].transaction():
                    px.tma.load(A[c * 64 : c * 64 + 64, t * 64 : t * 64 + 64], a[c], full[c])
                    px.tma.load(B[t * 64 : t * 64 + 64, 0:64], b[c], full[c])
    with px.warps(4, 4, copies=2, regs=240) as c:
        acc = px.zeros((64, 64), px.f32)
        for t in range(STEPS):
            full[c].wait(t & 1)
            acc = px.dot(a[c], b[c], acc)
            free[c].arrive()
        px.store(C[c * 64 : c * 64 + 64, 0:64], acc)


def products_arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Both factors, room for the product, and what belongs there."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((128, 192), (192, 64)))
    want = a.astype(np.float32) @ b.astype(np.float32)
    return a, b, np.zeros_like(want), want
