"""Mutants: a kernel with one synchronisation removed or changed, to see whether the checks notice.

What can be changed is read from the effects of each instruction: a new instruction with declared effects has mutants at
once. Barriers of threads inside one role, and `wgmma.fence`, are below the model (compute-sanitizer looks after them).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.ops.tile import Binary, Compare
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Value
from phalanx.location import Location
from sanitizer.leaving_out import leave_out

BYTES = 16
"""By how much a number of bytes is changed."""
MANY = 7
"""As many groups as a wait may leave open."""


@frozen
class Mutant:
    """A kernel that differs from the original in one place."""

    what: str
    """`mbarrier.wait removed`."""
    loc: Location
    function: Function

    def __str__(self) -> str:
        return f"line {self.loc.line}: {self.what}" if self.loc.line else self.what


replace: Any = dataclasses.replace
Change = tuple[str, list[Op]]
"""What was done, and the instructions that replace the original one."""


def mutants(function: Function) -> Iterator[Mutant]:
    """Every mutant of a kernel, read or prepared; of the instructions that appear in it, in their order."""
    sizes = {array.n for array in function.barriers if array.n > 1}
    for op in list(function.walk()):
        for what, replacement in changes(op, sizes):
            yield Mutant(what, op.loc, replaced(function, op, replacement))
        if hands_on(op):
            yield Mutant(f"{op.mnemonic} removed", op.loc, leave_out(function, partial(operator.is_, op)))


def replaced(function: Function, target: Op, replacement: list[Op]) -> Function:
    body = rewrite(function.body, lambda op: replacement if op is target else None)
    return dataclasses.replace(function, body=body)


def changes(op: Op, sizes: set[int]) -> Iterator[Change]:
    """What can be done to one instruction."""
    effects = op.effects()
    if is_removable(op, effects):
        yield f"{op.mnemonic} removed", []
    for wait in effects.waits:
        yield from changed(op, wait.parity, "parity flipped", lambda v: v ^ 1, lambda v: [("xor", v, 1)])
    for arrival in effects.arrivals:
        yield from changed(op, arrival.count, "one arrival more", lambda v: v + 1, lambda v: [("add", v, 1)])
    for expect in effects.expects:
        yield from changed(op, expect.nbytes, "bytes missing", lambda v: v - BYTES, lambda v: [("sub", v, BYTES)])
        yield from changed(op, expect.nbytes, "too many bytes", lambda v: v + BYTES, lambda v: [("add", v, BYTES)])
    masks = [part.mask for part in effects.arrivals] + [part.mask for part in effects.completes]
    for mask in {id(mask): mask for mask in masks}.values():
        if mask is not None:
            lowest, rest = "only the lowest CTA of the mask", "without the lowest CTA of the mask"
            yield from changed(op, mask, lowest, lambda v: v & -v, lambda v: [("sub", 0, v), ("and", v, None)])
            yield from changed(op, mask, rest, lambda v: v & (v - 1), lambda v: [("sub", v, 1), ("and", v, None)])
    if effects.handshakes:
        yield f"{op.mnemonic} relaxed", [replace(op, ordered=False)]
    yield from changed_fields(op, effects)
    yield from changed_stages(op, sizes)


def is_removable(op: Op, effects: fx.Effects) -> bool:
    """Whether the instruction does nothing but synchronise."""
    if op.defines is not None or effects.accesses or list(op.blocks()):
        return False
    groups: list[Any] = [*effects.groups]
    if op.defined_values() and not groups:
        return False
    return bool(
        effects.waits or effects.arrivals or effects.expects or effects.fences
        or any(group.action is not fx.GroupAction.FENCE for group in groups)
        or any(meeting.span is fx.Span.CLUSTER for meeting in effects.rendezvous)
    ) and not op.defined_values()


def hands_on(op: Op) -> bool:
    """Whether the instruction only waits, for all there is, and hands the tiles on that were on their way."""
    waits = any(group.action is fx.GroupAction.WAIT for group in op.effects().groups)
    return waits and bool(op.updates()) and not any(field.name == "n" for field in dataclasses.fields(op))


def changed(
    op: Op, value: Value, what: str, compute: Callable[[int], int], emit: Callable[[Value], list[tuple[str, Any, Any]]]
) -> Iterator[Change]:
    """The instruction with another number: computed here for a constant, by instructions before it otherwise."""
    names = [field.name for field in dataclasses.fields(op) if getattr(op, field.name) is value]
    if not names:
        return
    text = f"{op.mnemonic}: {what}"
    if isinstance(value, Const):
        number = compute(int(value.value))
        if number == value.value:
            return
        assert isinstance(value.type, ScalarType)
        yield text, [replace(op, **{name: Const(number, value.type) for name in names})]
        return
    before: list[Op] = []
    last: Value = value

    def operand(item: Any) -> Value:
        return last if item is None else item if isinstance(item, Value) else Const(item, value.type)  # type: ignore[arg-type]

    for fn, a, b in emit(value):
        result = Value(value.type)
        before.append(Binary(fn, operand(a), operand(b), result, loc=op.loc))
        last = result
    yield text, [*before, replace(op, **{name: last for name in names})]


def changed_fields(op: Op, effects: fx.Effects) -> Iterator[Change]:
    """Numbers that are attributes: counts at init, groups that may stay open, relaxed and read-only forms."""
    names = {field.name for field in dataclasses.fields(op)}
    if effects.lifecycle and getattr(op, "counts", ()):
        counts = op.counts  # type: ignore[attr-defined]
        yield f"{op.mnemonic}: count one higher", [
            replace(op, counts=tuple(tuple(n + 1 for n in row) for row in counts))
        ]
        if any(n > 1 for row in counts for n in row):
            lower = tuple(tuple(max(1, n - 1) for n in row) for row in counts)
            yield f"{op.mnemonic}: count one lower", [replace(op, counts=lower)]
    groups: list[Any] = [*effects.groups]
    for group in groups:
        if group.action in (fx.GroupAction.WAIT, fx.GroupAction.WAIT_READ) and "n" in names:
            yield f"{op.mnemonic}: one group more stays open", [replace(op, n=group.pending + 1)]
            if op.defined_values():  # it can't be removed: what it defines is read
                yield f"{op.mnemonic}: waits for nothing", [replace(op, n=MANY)]
        if group.action is fx.GroupAction.WAIT and "read" in names:
            yield f"{op.mnemonic}: waits for the reads only", [replace(op, read=True)]
    meets = any(m.span is fx.Span.CLUSTER and m.arrives and m.releases for m in effects.rendezvous)
    if "relaxed" in names and (meets or any(arrival.releases for arrival in effects.arrivals)):
        yield f"{op.mnemonic}: relaxed", [replace(op, relaxed=True)]
    if any(complete.leaders for complete in effects.completes):
        yield f"{op.mnemonic}: bytes on the CTA's own barrier", [replace(op, pair=False)]
    signals: list[Any] = [*effects.arrivals, *effects.waits]
    if any(signal.scope is fx.Span.CLUSTER for signal in signals):
        yield f"{op.mnemonic}: of CTA scope", [replace(op, scope=fx.Span.CTA)]


def changed_stages(op: Op, sizes: set[int]) -> Iterator[Change]:
    """The size at which a ring wraps: it is compared with the next stage, or an attribute of who counts."""
    if isinstance(op, Compare) and op.fn == "eq" and isinstance(op.b, Const) and op.b.value in sizes:
        for number in (int(op.b.value) - 1, int(op.b.value) + 1):
            yield f"a ring of {op.b.value} wraps at {number}", [
                replace(op, b=Const(number, op.b.type))  # type: ignore[arg-type]
            ]
    turns = getattr(op, "turns", None)
    if turns is not None:
        for number in (turns - 1, turns + 1):
            yield f"{op.mnemonic}: a ring of {turns} wraps at {number}", [replace(op, turns=number)]


@dataclass
class Verdict:
    """What became of a mutant: `how` is the kind of the finding, "refused", "equivalent" or "survived"."""

    mutant: Mutant
    how: str
    detail: str = ""

    @property
    def is_explained(self) -> bool:
        return self.how != "survived"


def judge(
    mutant: Mutant, original: bytes, grid: Any, args: list[Any], *, prepared: bool = True, schedules: int = 3,
    limit: int = 2000,
) -> Verdict:
    """Checks a mutant of a kernel, which is `prepared` or as it was read.

    One that is clean under a few schedules has to be shown equivalent: no order of events deadlocks, and all end as the
    original does (`original` is its outcome). If some do not, the whole of `px.check` has to report it.
    """
    from phalanx.cuda.prepare import prepare_for
    from phalanx.errors import Error
    from phalanx.ir.verifier import verify
    from phalanx.runtime.checking import check_function
    from phalanx.sanitizer.exploration import Search, Start
    from phalanx.sanitizer.report import Report
    from phalanx.sanitizer.runs import copies_of, run_checked, schedules_of
    from phalanx.sim.steps import Steps

    function = mutant.function
    try:
        if prepared:
            verify(function)
        else:
            function = prepare_for(function)
        for schedule in schedules_of(schedules, 0):
            findings = run_checked(function, grid, copies_of(args), schedule, quiet=True)
            if findings:
                return Verdict(mutant, findings[0].kind, findings[0].message)
    except Error as error:
        return Verdict(mutant, "refused", error.message)
    found = Search(Steps(function, grid, copies_of(args)), Start(), limit).run()
    same = found.complete and not found.deadlocks and not found.errors and set(found.outcomes) == {original}
    seen = (
        f"{found.explored} orders, complete: {found.complete}, {len(found.outcomes)} outcomes, "
        f"{len(found.deadlocks)} deadlocks, {len(found.errors)} errors"
    ) + (", another result" if set(found.outcomes) - {original} else "")
    if same:
        return Verdict(mutant, "equivalent", seen)
    report = Report(function.name)
    check_function(function, grid, copies_of(args), report, schedules)  # as px.check: what is in doubt is held back
    if report.findings:
        return Verdict(mutant, report.findings[0].kind, report.findings[0].message)
    return Verdict(mutant, "survived", seen)


def outcome_of(function: Function, grid: Any, args: list[Any]) -> bytes:
    """The one outcome of a correct kernel."""
    from phalanx.sanitizer.exploration import Search, Start
    from phalanx.sanitizer.runs import copies_of
    from phalanx.sim.steps import Steps

    found = Search(Steps(function, grid, copies_of(args)), Start(), 100).run()
    assert len(found.outcomes) == 1 and not found.deadlocks and not found.errors, found
    return next(iter(found.outcomes))
