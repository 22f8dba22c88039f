"""`px.pipelined`: a loop whose loads run ahead of it."""

from __future__ import annotations

import dataclasses

from phalanx.ir.ops.control import Pipelining
from phalanx.language.auto import auto
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import describe
from phalanx.language.ranges import RangeObject
from phalanx.language.requirements import is_constant_integer

LEAST_STAGES = 2


@builtin("pipelined")
def pipelined(
    ctx: Builder, items: object, stages: object = auto, producer: object = True, multicast: object = True
) -> RangeObject:
    """A run-time range whose loop lets its loads of global memory run ahead: ``for k in px.pipelined(range(n)):``.

    Any agent; any GPU; no PTX of its own. The loop means what it means without the word (``pipelined=False`` at a launch, in
    `px.check` and in `px.compile` leaves it out). With it, the loads of the body go through a ring of `stages` in shared
    memory (``px.auto``: as many as fit), issued by a role of its own, which comes on top of the kernel's warps, or by the
    same warps with ``producer=False``; waits and releases are the compiler's, and products of what was loaded overlap with
    the copies. With `multicast` the CTAs of a cluster fetch what they have in common once. `Compiled.notes` says of each
    load how it is staged, or why it is not. ``while``, ``return``, barriers, roles and pipes have no place in the body; what
    CTAs of a cluster tell each other (`px.cluster.reduce`, `gather`, `copy`, `sync`) has, and a ``break`` whose condition
    those who fetch can evaluate.
    Example: ``acc = px.dot(px.load(A[m:m+64, k:k+64]), px.load(B[k:k+64, n:n+64]), acc)`` in it.
    """
    if not isinstance(items, RangeObject) or items.bounds.dealt:
        ctx.fail(
            f"px.pipelined takes range(...), not {describe(items)}",
            "write: for k in px.pipelined(range(0, n, BK)); px.persistent goes around it",
        )
    if items.bounds.unroll:
        ctx.fail("px.pipelined of px.unroll", "leave px.unroll out: the ring decides how the loop is written")
    if stages is not auto and (not is_constant_integer(stages) or stages < LEAST_STAGES):
        ctx.fail(
            f"stages= of px.pipelined is {describe(stages)}",
            f"it is px.auto, or a constant from {LEAST_STAGES} on: with fewer nothing runs ahead",
        )
    for name, flag in (("producer", producer), ("multicast", multicast)):
        if not isinstance(flag, bool):
            ctx.fail(f"{name}= of px.pipelined is {describe(flag)}", "it is True or False, known at compile time")
    how = Pipelining(None if stages is auto else stages, producer, multicast)  # type: ignore[arg-type]
    return RangeObject(dataclasses.replace(items.bounds, pipelined=how))
