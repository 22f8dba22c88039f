"""What a group of concurrent roles may ask for: warps, registers, cluster barriers."""

from __future__ import annotations

from phalanx.analysis.ranks import Evaluator, ranks
from phalanx.errors import Error
from phalanx.ir.archs import WARPGROUP, entry_registers
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Rendezvous, Span
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, Role, Roles, Scope, While, span_text
from phalanx.ir.values import Label, constant_of

FEWEST_REGISTERS, MOST_REGISTERS = 24, 256
"""The range of setmaxnreg, in steps of 8."""


def check_warps(function: Function, roles: Roles) -> None:
    """Every role has warps of the CTA, and no warp has two roles at the same time."""
    for position, role in enumerate(roles.regions):
        if role.count < 1 or role.first < 0:
            raise Error(
                f"{role.call} names no warps",
                location=role.loc,
                remedy="the first warp is 0 or more, the number of warps 1 or more",
            )
        end = role.first + role.span
        if end > function.warps:
            raise Error(
                f"{role.call} asks for {span_text(role.first, role.span)}, "
                f"the CTA has {function.warps} warp{'s' * (function.warps != 1)}",
                location=role.loc,
                remedy=f"give the kernel warps={end}, or name warps below {function.warps}",
            )
        for other in roles.regions[:position]:
            first, last = max(role.first, other.first), min(end, other.first + other.span)
            if first < last:
                raise Error(
                    f"{span_text(first, last - first)} would run two roles at the same time: {role.call} "
                    f"overlaps its neighbour {other.call}",
                    location=role.loc,
                    remedy="neighbouring roles run concurrently and need disjoint warps; "
                    "to run one after the other, write px.sync() between them",
                )


def check_registers(function: Function, roles: Roles, *, first: Roles) -> None:
    """The rules of `regs=`: whole warpgroups, setmaxnreg's range, one group, at the kernel's end, within the budget."""
    for role in roles.regions:
        if role.regs is not None:
            _check_role_registers(function, roles, role, role.regs)
    asking = next(role for role in roles.regions if role.regs is not None)
    if roles is not first:
        raise Error(
            "a second group of roles with regs= in one kernel",
            location=asking.loc,
            remedy="registers are moved between warpgroups once: keep regs= on one group of neighbouring roles",
        )
    if roles.joins:
        raise Error(
            "code follows the roles with regs=",
            location=asking.loc,
            remedy="registers are not given back: move what follows into the roles, or drop regs=",
        )
    _check_budget(function, roles, asking)


def _check_role_registers(function: Function, roles: Roles, role: Role, regs: int) -> None:
    """Registers are handed out to warpgroups: a role with `regs` has its own to itself, idle warps included."""
    end = role.first + role.held
    if role.first % WARPGROUP:
        raise Error(
            f"regs= needs whole warpgroups, {role.call} begins inside one",
            location=role.loc,
            remedy="begin at a multiple of 4 warps; the warps that the role leaves of its last warpgroup stay idle",
        )
    if end > function.warps:
        raise Error(
            f"regs= needs whole warpgroups: of {span_text(role.first, role.held)}, of which {role.call} is a part, "
            f"the CTA has {function.warps - role.first}",
            location=role.loc,
            remedy=f"give the kernel warps={end}: the warps that the role leaves stay idle",
        )
    for other in roles.regions:
        if other is not role and other.first < end and role.first < other.first + other.span:
            raise Error(
                f"regs= needs whole warpgroups: {role.call} shares {span_text(role.first, role.held)} with {other.call}",
                location=role.loc,
                remedy="setmaxnreg is for all four warps of a warpgroup: let the other role begin at a multiple of 4 "
                "warps, or give it to one of the idle warps without regs= on either",
            )
    if not FEWEST_REGISTERS <= regs <= MOST_REGISTERS or regs % 8:
        raise Error(
            f"regs={regs} is not a multiple of 8 from {FEWEST_REGISTERS} to {MOST_REGISTERS}",
            location=role.loc,
            remedy=f"use {min(MOST_REGISTERS, max(FEWEST_REGISTERS, regs // 8 * 8))}",
        )


def _check_budget(function: Function, roles: Roles, asking: Role) -> None:
    entry = entry_registers(function.warps, function.ctas_per_sm)
    rows = []
    total = 0
    for role in sorted(roles.regions, key=lambda role: role.first):
        regs = entry if role.regs is None else role.regs
        total += regs * role.held
        rows.append(f"{span_text(role.first, role.held)}: {role.held} x {regs}" + " (no regs=)" * (role.regs is None))
    idle = function.warps - sum(role.held for role in roles.regions)
    if idle:
        total += idle * entry
        rows.append(f"warps without a role: {idle} x {entry}")
    budget = function.warps * entry
    if total > budget:
        raise Error(
            f"the roles ask for {total} registers per lane, the CTA's {function.warps} warps start with {budget} "
            f"({function.warps} x {entry})",
            location=asking.loc,
            details="\n".join(rows),
            remedy="lower regs= of the roles that only copy (24 or 40 is usual), so that the sum fits",
        )


def check_cluster_barriers(function: Function, roles: Roles) -> None:
    """A cluster barrier counts all threads of the cluster: all warps must run it, equally often."""
    tallies = [_Tally(function, role, copy) for role in roles.regions for copy in range(role.copies)]
    first = next((tally.first for tally in tallies if tally.first is not None), None)
    if first is None:
        return
    name = f"px.{first.mnemonic}"
    covered = sum(role.span for role in roles.regions)
    if covered < function.warps:
        raise Error(
            f"{name} inside a role, but only {covered} of the CTA's {function.warps} warps run a role here",
            location=first.loc,
            kind="deadlock",
            remedy="all threads must take part: call it outside the roles, or give every warp a role that calls it",
        )
    for tally in tallies[1:]:
        if (tally.arrives, tally.waits) != (tallies[0].arrives, tallies[0].waits):
            raise Error(
                f"{name} inside a role: not all concurrent roles run the cluster barrier equally often",
                location=first.loc,
                kind="deadlock",
                details="\n".join(
                    f"{span_text(t.role.first_of(t.copy), t.role.count)}: {t.arrives} arrivals, {t.waits} waits"
                    for t in tallies
                ),
                remedy="call it outside the roles, or the same number of times in each of them",
            )


class _Tally:
    """How often one copy of a role arrives at and waits for the cluster's barrier, known at compile time or refused."""

    def __init__(self, function: Function, role: Role, copy: int) -> None:
        self.function = function
        self.role = role
        self.copy = copy
        self.first: Op | None = None
        self.arrives = self.waits = 0
        self._block(role.body, times=1, unknown=None)

    def _block(self, block: Block, times: int, unknown: str | None) -> None:
        for op in block:
            meetings = _meets(op)
            if meetings and unknown:
                raise Error(
                    f"px.{op.mnemonic} inside a role, under {unknown}: how often it runs is not known at compile time",
                    location=op.loc,
                    remedy="call it outside the roles, or where the role runs it a fixed number of times",
                )
            for meeting in meetings:
                self.first = self.first or op
                self.arrives += times * meeting.arrives
                self.waits += times * meeting.waits
            decided = self._decided(op) if isinstance(op, If) else None
            if isinstance(op, If) and decided is not None:
                self._block(op.then if decided else op.orelse, times, unknown)
                continue
            inner, why = self._inside(op)
            for nested in op.blocks():
                self._block(nested, times * inner, unknown or why)

    def _decided(self, op: If) -> bool | None:
        """What the condition is in this copy, if that alone decides it."""
        if self.role.copies == 1 or not any(_meets(inner) for block in op.blocks() for inner in block.walk()):
            return None
        found = set()
        for rank in ranks(self.function):
            values = Evaluator(self.function, rank)
            values.copy = self.copy
            found.add(values.number(op.cond))
        known = found.pop()
        return None if found or known is None else bool(known)

    def _inside(self, op: Op) -> tuple[int, str | None]:
        """How often the blocks of `op` run per run of `op`, or why that is not known."""
        if isinstance(op, Scope):
            return 1, "an early return" if _is_left(op.body, op.label) else None
        if isinstance(op, For):
            trips = trip_count(op)
            if trips is None:
                return 1, "a run-time loop"
            return trips, "a loop that may end early" if _is_left(op.body, op.label) else None
        return 1, f"a run-time {op.mnemonic}" if isinstance(op, (If, While)) else None


def _meets(op: Op) -> list[Rendezvous]:
    return [meeting for meeting in op.effects().rendezvous if meeting.span is Span.CLUSTER]


def _is_left(block: Block, label: Label) -> bool:
    return any(isinstance(op, (Break, Continue, Leave)) and op.label is label for op in block.walk())


def trip_count(loop: For) -> int | None:
    """How often a loop with constant bounds runs; None where they are run-time values."""
    bounds = [constant_of(value) for value in (loop.start, loop.stop, loop.step)]
    if any(bound is None for bound in bounds):
        return None
    start, stop, step = (int(bound) for bound in bounds if bound is not None)
    return len(range(start, stop, step))
