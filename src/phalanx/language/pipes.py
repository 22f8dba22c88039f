"""`px.pipe`: a ring of stages between producers and consumers, with its two barrier arrays and its phases inside."""

from __future__ import annotations

from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, Wait
from phalanx.ir.views import BarrierArray
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.mbarrier import mask_operand, require_bytes, require_count, require_room
from phalanx.language.memory import require_static, unique_name
from phalanx.language.operators import binary, describe
from phalanx.language.structs import NewStruct, advanced
from phalanx.language.values import BarrierValue, Fields, StructClass, StructValue, load_scalar


@frozen
class PipeRegion:
    """`with pipe.produce() as s:` or `with pipe.consume() as s:`, opened by the reader."""

    owner: StructValue
    fills: bool
    kind_name = "a stage of a pipe"


def _stage(fields: Fields, which: str, array: str) -> BarrierValue:
    """The barrier of the stage that is filled or taken next."""
    return BarrierValue(fields[array].array, fields[which])


def _advance(ctx: Builder, fields: Fields, which: str) -> None:
    fields[which], fields[f"{which}_parity"] = advanced(ctx, fields["stages"], fields[which], fields[f"{which}_parity"])


def acquire(ctx: Builder, fields: Fields) -> Any:
    """Waits until the next stage may be filled; gives its index."""
    parity = operand(binary(ctx, "xor", fields["filling_parity"], 1))
    ctx.emit(Wait(_stage(fields, "filling", "empty").ref(ctx), parity, loc=ctx.loc))
    return fields["filling"]


def commit(ctx: Builder, fields: Fields, nbytes: Any = None) -> Any:
    """One arrival for the stage being filled, with `nbytes` expected where copies bring them; goes on to the next."""
    full = _stage(fields, "filling", "full").ref(ctx)
    if nbytes is None:
        ctx.emit(Arrive(full, operand(1), loc=ctx.loc))
    else:
        nbytes = require_bytes(ctx, nbytes)
        ctx.emit(ArriveExpectTx(full, operand(nbytes), loc=ctx.loc))
    _advance(ctx, fields, "filling")


def advance_filling(ctx: Builder, fields: Fields) -> None:
    """Goes on to the next stage to fill."""
    _advance(ctx, fields, "filling")


def wait(ctx: Builder, fields: Fields) -> Any:
    """Waits until the next stage is full; gives its index."""
    ctx.emit(Wait(_stage(fields, "taking", "full").ref(ctx), operand(fields["taking_parity"]), loc=ctx.loc))
    return fields["taking"]


def release(ctx: Builder, fields: Fields) -> Any:
    """Gives the stage back to all who fill it, in every CTA whose copies land in it; goes on to the next stage."""
    empty = _stage(fields, "taking", "empty").ref(ctx)
    mask = mask_operand(ctx, "the mask ctas= of px.pipe", fields["ctas"])
    releases = fields["full"].array if mask is None else None
    ctx.emit(Arrive(empty, operand(1), mask, releases=releases, loc=ctx.loc))
    _advance(ctx, fields, "taking")


def produce(ctx: Builder, fields: Fields) -> Any:
    """`with pipe.produce() as s:` acquires stage s, and commits it with the bytes of the copies inside."""
    return PipeRegion(fields.owner, True)


def consume(ctx: Builder, fields: Fields) -> Any:
    """`with pipe.consume() as s:` waits for stage s, and releases it at the end."""
    return PipeRegion(fields.owner, False)


PIPE = StructClass(
    "pipe",
    ("stages", "full", "empty", "ctas", "filling", "filling_parity", "taking", "taking_parity"),
    {},
    {},
    natives={fn.__name__: fn for fn in (acquire, commit, wait, release, produce, consume)},
)


@builtin("pipe")
def pipe(ctx: Builder, stages: Any, producers: Any = None, consumers: Any = None, ctas: Any = None) -> Any:
    """A ring of `stages` between roles: barriers `.full[s]` and `.empty[s]`, and for each role its own place in it.

    Made outside run-time loops and used by any agent; sm_90 and up; PTX ``mbarrier``, as the calls below say. It holds
    no data: index your buffers with the stage.

    - ``with pipe.produce() as s:`` waits until stage s is free, expects the bytes of the copies inside, which complete
    on
      ``pipe.full[s]``, and goes on. By hand: ``s = pipe.acquire()`` and ``pipe.commit(nbytes)``; ``pipe.commit()``
      after ordinary stores.
    - ``with pipe.consume() as s:`` waits until stage s is full, gives it back at the end of the block, and goes on. By
    hand:
      ``s = pipe.wait()`` and ``pipe.release()``.

    A stage is given back to every CTA whose copies land in it: the compiler enumerates the multicasts on ``pipe.full``.
    ``ctas=mask`` names those CTAs instead, where masks are known only at run time. `producers` and `consumers`: how
    many roles of a CTA commit, and release, a stage; left out they are counted, given they are checked. Example: ``with
    pipe.produce() as s: px.tma.load(A[m:m+64, k:k+64], a[s], pipe.full[s])``.
    """
    require_static(ctx, "px.pipe")
    if not isinstance(stages, int) or isinstance(stages, bool) or stages < 1:
        ctx.fail(f"px.pipe needs a positive constant number of stages, not {describe(stages)}", "e.g. px.pipe(4)")
    require_room(ctx, 2 * stages)
    if producers is not None:
        producers = require_count(ctx, "producers= of px.pipe", producers, constant=True)
    if consumers is not None:
        consumers = require_count(ctx, "consumers= of px.pipe", consumers, constant=True)
    mask = load_scalar(ctx, ctas)
    mask_operand(ctx, "the mask ctas= of px.pipe", mask)
    name = ctx.name_hint or "pipe"
    arrays = []
    for suffix, each in (("full", producers), ("empty", consumers)):
        ctx.name_hint = f"{name}_{suffix}"
        unique = unique_name(ctx, suffix)
        arrays.append(BarrierArray(unique, stages, each=each, loc=ctx.loc, written=f"{name}.{suffix}"))
        ctx.barriers.append(arrays[-1])
    full, empty = map(BarrierValue, arrays)
    return NewStruct(
        PIPE,
        {
            "stages": stages,
            "full": full,
            "empty": empty,
            "ctas": mask,
            "filling": 0,
            "filling_parity": 0,
            "taking": 0,
            "taking_parity": 0,
        },
    )
