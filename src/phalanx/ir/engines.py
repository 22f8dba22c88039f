"""Engines: the parts of the machine that go on working while the threads that gave them work do something else.

Each is described once: who gives it work, whether two of its operations happen in the order in which they were given, how
one learns that they are over, and which words users know it by. Effects name the engine; nobody asks for a family.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.spaces import FenceKind
from phalanx.ir.uses import Use


class Executor(Enum):
    """Who runs an instruction: every thread of the agent, or one elected thread on behalf of all."""

    ALL = "all"
    ONE = "one"


@frozen(eq=False)
class Engine:
    """One engine; two of them are the same only if they are one object.

    `name`: who does the work, in findings. `work`: one piece of its work, in findings. `issuer`: who gives it work.
    `by_warpgroup`: its work begins when all warps of a warpgroup have come to it, and is over for all of them. `in_order`:
    what one agent gives it happens in that order; else each piece of work is over by itself. `reads_apart`: its groups can
    be waited for until they have read their sources, before they have written. `commit`, `wait`, `wait_reads`: what users
    write to close a group and to wait for groups, with `n` for the groups that may be open. `first`: the remedy where its
    work may not be over, with `{role}` for who gave it; `first_reads` where only its reads are meant. `hazard`: the kind of
    a finding where the agent that gave it work touches what the work is about; "" where that is a race like any other.
    `keeps`: where its work is in order only as far as certain accesses are concerned, which pairs of accesses of one agent
    are, by what they are for; `usually_keeps`: pairs that no document promises and all rely on, which strict checks report.
    `waits_late`: waits for it are the compiler's, which puts each as late as its results and signals to others allow.
    """

    name: str
    work: str
    issuer: Executor
    in_order: bool
    commit: str
    wait: str
    first: str
    wait_reads: str = ""
    first_reads: str = ""
    by_warpgroup: bool = False
    reads_apart: bool = False
    hazard: str = ""
    keeps: frozenset[tuple[Use, Use]] | None = None
    usually_keeps: frozenset[tuple[Use, Use]] = frozenset()
    waits_late: bool = False


COPY_ENGINE = Engine(
    name="TMA engine", work="copy", issuer=Executor.ONE, in_order=False, reads_apart=True,
    commit="px.tma.commit()", wait="px.tma.wait({n})", wait_reads="px.tma.wait({n}, read=True)",
    first="commit the copy and call px.tma.wait(n) in {role} first",
    first_reads="commit the copy and call px.tma.wait(n, read=True) in {role} first",
)
"""Copies between global and shared memory and from CTA to CTA: over when a barrier has their bytes, or with their group."""

TENSOR_CORES = Engine(
    name="tensor cores", work="product", issuer=Executor.ALL, by_warpgroup=True, in_order=True,
    hazard="wgmma-hazard",
    commit="px.wgmma_commit()", wait="px.wgmma_wait({n})", wait_reads="px.wgmma_wait({n})",
    first="px.wgmma_commit() and px.wgmma_wait(n) first", first_reads="px.wgmma_commit() and px.wgmma_wait(n) first",
)
"""Products of a warpgroup (`wgmma`): over with their group; the groups of a role retire in order."""

_ACCUMULATOR, _OPERAND, _SCALE, _COPY = Use.ACCUMULATOR, Use.OPERAND, Use.SCALE, Use.COPY
MMA_ENGINE = Engine(
    name="tensor cores", work="product", issuer=Executor.ONE, in_order=True,
    keeps=frozenset({(_ACCUMULATOR, _ACCUMULATOR), (_COPY, _OPERAND), (_COPY, _SCALE), (_COPY, _ACCUMULATOR)}),
    usually_keeps=frozenset({(_SCALE, _COPY)}),
    commit="px.tcgen05.commit(bar)", wait="bar.wait(parity)", wait_reads="bar.wait(parity)",
    first="px.tcgen05.commit(bar) in {role} and bar.wait(parity) first",
    first_reads="px.tcgen05.commit(bar) in {role} and bar.wait(parity) first",
)
"""Products of one thread and copies into tensor memory (`tcgen05`): over when a commit behind them has arrived on a barrier.

A product follows the one before it on the same accumulator, and the copies before it; nothing else keeps its order.
"""

TENSOR_LOADS = Engine(
    name="tensor memory", work="load", issuer=Executor.ALL, in_order=False, waits_late=True,
    commit="tcgen05.wait.load", wait="tcgen05.wait.load", first="tcgen05.wait.load in {role} first",
    first_reads="tcgen05.wait.load in {role} first",
)
"""Loads of tensor memory into registers (`tcgen05.ld`): over with the wait that the compiler puts behind them."""

TENSOR_STORES = Engine(
    name="tensor memory", work="store", issuer=Executor.ALL, in_order=False, waits_late=True,
    commit="tcgen05.wait.store", wait="tcgen05.wait.store", first="tcgen05.wait.store in {role} first",
    first_reads="tcgen05.wait.store in {role} first",
)
"""Stores of registers into tensor memory (`tcgen05.st`): over with the wait that the compiler puts behind them."""

HANDOVER_FENCES: dict[FenceKind, Callable[..., Any]] = {}
"""The instruction, made with `loc=`, that is a fence of that kind, for those that only the compiler writes."""

REGISTER_FENCES: dict[Engine, Callable[..., Any]] = {}
"""The instruction, made with `loc=`, that orders an agent's register accesses before the engine's that follow."""

REGISTER_COMMITS: dict[Engine, Callable[..., Any]] = {}
"""The instruction, made with `loc=`, that closes a group of an engine's work on registers."""

REGISTER_WAITS: dict[Engine, Callable[..., Any]] = {}
"""The instruction after which at most so many groups of work on registers are unfinished: made with that number,
accumulators, what they are called from then on, and `loc=`."""
