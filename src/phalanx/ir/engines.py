"""Engines: the parts of the machine that go on working while the threads that gave them work do something else.

Each is described once: who gives it work, whether two of its operations happen in the order in which they were given, how
one learns that they are over, and which words users know it by. Effects name the engine; nobody asks for a family.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from phalanx.frozen import frozen


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

REGISTER_FENCES: dict[Engine, Callable[..., Any]] = {}
"""The instruction, made with `loc=`, that orders an agent's register accesses before the engine's that follow."""
