"""`px.pipe`: a ring of stages between producers and consumers, with its two barrier arrays and its phases inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from phalanx.frozen import frozen
from phalanx.ir.ops.control import Assume
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, Wait
from phalanx.ir.types import i32
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, BarrierRef
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import KernelObject, Numeric, RegionReader, describe, load_scalar, plural
from phalanx.language.operators import binary, cast, compare, select
from phalanx.language.ops.mbarrier import BarrierValue, check_room, mask_operand, require_bytes, require_constant_count
from phalanx.language.ops.memory import check_outside_loops, unique_name
from phalanx.language.ops.ring import advanced
from phalanx.language.requirements import is_constant_integer
from phalanx.language.structs import Fields, StructClass, StructValue, new_struct
from phalanx.language.values import require_index


@frozen
class PipeRegion(KernelObject):
    """`with pipe.produce() as s:` or `with pipe.consume() as s:`, one stage that is filled or taken inside the block."""

    owner: StructValue
    fills: bool
    kind_name = "a stage of a pipe"
    gives_value = True

    def open(
        self, reader: RegionReader, body: Callable[[], None], bind: Callable[[object], None] | None
    ) -> None:
        """Takes a stage, reads the block, and gives the stage back."""
        ctx, loc = reader.ctx, reader.ctx.loc
        fields = Fields(self.owner, ctx.variables())
        check_free_hands(ctx, fields, self.fills)
        stage = acquire(ctx, fields) if self.fills else wait(ctx, fields)
        if bind is not None:
            bind(stage)
        ctx.loc = loc
        if self.fills:
            reader.transaction(BarrierValue(fields["full"].array, stage).ref(ctx), body)
        else:
            reader.closed(body)  # nothing leaves the block before the stage is released
        if reader.terminated:
            return
        ctx.loc = loc
        fields = Fields(self.owner, ctx.variables())
        if self.fills:
            advance_filling(ctx, fields)
        else:
            release(ctx, fields)


def _oldest(fields: Fields, which: str, array: str) -> BarrierValue:
    """The barrier of the oldest stage in hand, or of the next one where there is none."""
    return BarrierValue(fields[array].array, fields[which])


def _next(ctx: Builder, fields: Fields, which: str) -> tuple[int | Value, Numeric]:
    """The stage behind those in hand, and its parity."""
    stage, parity, held, n = fields[which], fields[f"{which}_parity"], fields[_HELD[which]], fields["stages"]
    if held == 0 and isinstance(held, int):
        return stage, parity
    beyond = require_index(ctx, "a stage", binary(ctx, "add", stage, held))
    wraps = compare(ctx, "ge", beyond, n)
    if isinstance(wraps, bool):
        return (beyond - n, binary(ctx, "xor", parity, 1)) if wraps else (beyond, parity)
    following = operand(select(ctx, wraps, binary(ctx, "sub", beyond, n), beyond))
    return following, binary(ctx, "xor", parity, cast(ctx, wraps, i32))


def _take(ctx: Builder, fields: Fields, which: str, call: str) -> None:
    """One more stage is in hand."""
    ctx.agent.sides.setdefault(fields["full"].array, set()).add(which)
    held = fields[_HELD[which]]
    if isinstance(held, int) and held >= fields["stages"]:
        ctx.fail(
            f"{call} when all {plural(held, 'stage')} of the pipe are in hand: it would wait forever",
            f"{_BACK[which]} gives back the oldest of them",
        )
    fields[_HELD[which]] = binary(ctx, "add", held, 1)


def _expect_one(ctx: Builder, fields: Fields, which: str, call: str | None = None) -> None:
    """There must be a stage in hand to give back, by `call` or the method for it."""
    held = fields[_HELD[which]]
    back = call or _BACK[which]
    if isinstance(held, int):
        if held == 0:
            ctx.fail(
                f"{back} gives back a stage that was not taken",
                f"{_TAKE[which]} takes one, each {back} gives back the oldest that is taken",
            )
    else:
        said = f"{back} gives back a stage that was not taken"
        ctx.emit(Assume(operand(compare(ctx, "gt", held, 0)), said, loc=ctx.loc))


def _give(ctx: Builder, fields: Fields, which: str) -> None:
    """The oldest stage in hand is given back."""
    fields[which], fields[f"{which}_parity"] = advanced(ctx, fields["stages"], fields[which], fields[f"{which}_parity"])
    fields[_HELD[which]] = binary(ctx, "sub", fields[_HELD[which]], 1)


def check_free_hands(ctx: Builder, fields: Fields, fills: bool) -> None:
    """A block has one stage of its own: those taken by hand would be given back in its place."""
    which = "filling" if fills else "taking"
    held = fields[_HELD[which]]
    block = "pipe.produce()" if fills else "pipe.consume()"
    if held == 0 and isinstance(held, int):
        return
    said = f"{block} while a stage taken by {_TAKE[which]} is not given back"
    if isinstance(held, int):
        ctx.fail(said, f"write {_BACK[which]} before it, or {_TAKE[which]} and {_BACK[which]} in place of the block")
    ctx.emit(Assume(operand(compare(ctx, "eq", held, 0)), said, loc=ctx.loc))


def check_hands(ctx: Builder, before: Fields, after: Fields, where: str) -> None:
    """Refuses to end a role while a stage that it took is not given back."""
    first, last = before["taken"], after["taken"]
    if isinstance(first, int) and isinstance(last, int):
        if last > first:
            ctx.fail(
                f"{where} ends with {plural(last - first, 'stage')} of a pipe taken and not given back",
                "write pipe.release() for each pipe.wait(), before the end",
            )
    else:
        said = f"{where} ends with a stage of a pipe taken and not given back"
        ctx.emit(Assume(operand(compare(ctx, "le", last, first)), said, loc=ctx.loc))


_HELD = {"filling": "acquired", "taking": "taken"}
_TAKE = {"filling": "pipe.acquire()", "taking": "pipe.wait()"}
_BACK = {"filling": "pipe.commit()", "taking": "pipe.release()"}


def acquire(ctx: Builder, fields: Fields) -> int | Value:
    """Waits until the next stage may be filled, and takes it; gives its index."""
    stage, parity = _next(ctx, fields, "filling")
    _take(ctx, fields, "filling", "pipe.acquire()")
    empty = BarrierValue(fields["empty"].array, stage).ref(ctx)
    ctx.emit(Wait(empty, operand(binary(ctx, "xor", parity, 1)), loc=ctx.loc))
    return stage


def commit(ctx: Builder, fields: Fields, nbytes: object = None) -> None:
    """One arrival for the oldest stage being filled, with `nbytes` expected where copies bring them."""
    _expect_one(ctx, fields, "filling")
    full = _oldest(fields, "filling", "full").ref(ctx)
    if nbytes is None:
        ctx.emit(Arrive(full, operand(1), loc=ctx.loc))
    else:
        expected = require_bytes(ctx, nbytes)
        ctx.emit(ArriveExpectTx(full, operand(expected), loc=ctx.loc))
    _give(ctx, fields, "filling")


def advance_filling(ctx: Builder, fields: Fields) -> None:
    """The oldest stage being filled is given to those who take it."""
    _give(ctx, fields, "filling")


def wait(ctx: Builder, fields: Fields) -> int | Value:
    """Waits until the next stage is full, and takes it; gives its index."""
    stage, parity = _next(ctx, fields, "taking")
    _take(ctx, fields, "taking", "pipe.wait()")
    ctx.emit(Wait(BarrierValue(fields["full"].array, stage).ref(ctx), operand(parity), loc=ctx.loc))
    return stage


def release(ctx: Builder, fields: Fields) -> None:
    """Gives the oldest stage taken back to all who fill it, in every CTA whose copies land in it."""
    _expect_one(ctx, fields, "taking")
    empty, mask, releases = _given_back(ctx, fields)
    ctx.emit(Arrive(empty, operand(1), mask, releases=releases, loc=ctx.loc))
    _give(ctx, fields, "taking")


def _given_back(ctx: Builder, fields: Fields) -> tuple[BarrierRef, Value | None, BarrierArray | None]:
    """Where one arrives to give the oldest stage back: the barrier, the CTAs, or the array that says whose they are."""
    mask = mask_operand(ctx, "the mask ctas= of px.pipe", fields["ctas"])
    return _oldest(fields, "taking", "empty").ref(ctx), mask, fields["full"].array if mask is None else None


def is_pipe(item: object) -> TypeGuard[StructValue]:
    """Whether a name in a kernel stands for a `px.pipe`."""
    return isinstance(item, StructValue) and item.cls is PIPE


def hand_on(
    ctx: Builder, what: str, item: StructValue, everywhere: Callable[[], Value | None],
    emit: Callable[[BarrierRef, Value | None, BarrierArray | None], None],
) -> None:
    """Lets an engine signal for the oldest stage that this role has of a pipe, and goes on to the next.

    A stage that the role takes is given back to all who fill it; one that it fills is full in the CTAs of `everywhere`.
    `emit` gets the barrier, the mask of CTAs, and the array whose copies say what the mask is.
    """
    fields = Fields(item, ctx.variables())
    sides = ctx.agent.sides.get(fields["full"].array, set())
    if len(sides) != 1:
        both = "both fills and takes stages of this pipe" if sides else "has no stage of this pipe"
        ctx.fail(
            f"{what}: the role {both}",
            "use two pipes, or fill and take stages in different roles" if sides
            else "s = pipe.wait() takes the next full stage, s = pipe.acquire() the next one to fill",
        )
    (which,) = sides
    _expect_one(ctx, fields, which, f"{what}(pipe)")
    if which == "taking":
        emit(*_given_back(ctx, fields))
    else:
        emit(_oldest(fields, "filling", "full").ref(ctx), everywhere(), None)
    _give(ctx, fields, which)


def produce(ctx: Builder, fields: Fields) -> PipeRegion:
    """`with pipe.produce() as s:` acquires stage s, and commits it with the bytes of the copies inside."""
    return PipeRegion(fields.owner, True)


def consume(ctx: Builder, fields: Fields) -> PipeRegion:
    """`with pipe.consume() as s:` waits for stage s, and releases it at the end."""
    return PipeRegion(fields.owner, False)


PIPE = StructClass(
    "pipe",
    ("stages", "full", "empty", "ctas", "filling", "filling_parity", "acquired", "taking", "taking_parity", "taken"),
    {},
    {},
    natives={fn.__name__: fn for fn in (acquire, commit, wait, release, produce, consume)},
    at_role_end=check_hands,
)


@builtin("pipe")
def pipe(
    ctx: Builder, stages: object, producers: object = None, consumers: object = None, ctas: object = None,
    count: object = None,
) -> StructValue:
    """A ring of `stages` between roles: barriers `.full[s]` and `.empty[s]`, and for each role its own place in it.

    Made outside run-time loops and used by any agent; sm_90 and up; PTX ``mbarrier``, as the calls below say. It holds
    no data: index your buffers with the stage.

    - ``with pipe.produce() as s:`` waits until stage s is free, expects the bytes of the copies inside, which complete on
      ``pipe.full[s]``, and goes on. By hand: ``s = pipe.acquire()`` and ``pipe.commit(nbytes)``; ``pipe.commit()``
      after ordinary stores.
    - ``with pipe.consume() as s:`` waits until stage s is full, gives it back at the end of the block, and goes on. By
      hand: ``s = pipe.wait()`` and ``pipe.release()``.

    By hand a role may have several stages: each ``wait()`` takes the next one, each ``release()`` gives back the oldest
    that is taken; ``acquire()`` and ``commit()`` likewise. To give back more than was taken, or to end a role with a stage
    taken, is an error.

    Where the tensor cores fill or read the stages, ``px.tcgen05.commit(pipe)`` stands for ``commit()`` and ``release()``:
    they do it when their work is over.

    A stage is given back to every CTA whose copies land in it: the compiler enumerates the multicasts on ``pipe.full``.
    ``ctas=mask`` names those CTAs instead, where masks are known only at run time. `producers` and `consumers`: how many
    roles of a CTA commit, and release, a stage; left out they are counted, given they are checked. `count`, where ``ctas``
    is known only at run time: how many releases, of all CTAs together, give a stage back to a CTA that fills it;
    ``count=(full, empty)`` says both numbers, of commits and of releases.
    Example: ``with pipe.produce() as s: px.tma.load(A[m:m+64, k:k+64], a[s], pipe.full[s])``.
    """
    check_outside_loops(ctx, "px.pipe")
    if not is_constant_integer(stages) or stages < 1:
        ctx.fail(f"px.pipe needs a positive constant number of stages, not {describe(stages)}", "e.g. px.pipe(4)")
    check_room(ctx, 2 * stages)
    fill = None if producers is None else require_constant_count(ctx, "producers= of px.pipe", producers)
    take = None if consumers is None else require_constant_count(ctx, "consumers= of px.pipe", consumers)
    filled, emptied = count if isinstance(count, tuple) and len(count) == 2 else (None, count)
    arrivals = [
        None if number is None else require_constant_count(ctx, f"the number of {what} in count= of px.pipe", number)
        for what, number in (("commits", filled), ("releases", emptied))
    ]
    mask = load_scalar(ctx, ctas)
    mask_operand(ctx, "the mask ctas= of px.pipe", mask)
    name = ctx.name_hint or "pipe"
    arrays = []
    for (suffix, each), written in zip((("full", fill), ("empty", take)), arrivals):
        ctx.name_hint = f"{name}_{suffix}"
        unique = unique_name(ctx, suffix)
        title = f"{name}.{suffix}"
        arrays.append(BarrierArray(unique, stages, written, each=each, loc=ctx.loc, written=title))
        ctx.barriers.append(arrays[-1])
    full, empty = map(BarrierValue, arrays)
    return new_struct(
        ctx,
        PIPE,
        {
            "stages": stages,
            "full": full,
            "empty": empty,
            "ctas": mask,
            "filling": 0,
            "filling_parity": 0,
            "acquired": 0,
            "taking": 0,
            "taking_parity": 0,
            "taken": 0,
        },
    )
