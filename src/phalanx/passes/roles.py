"""Neighbouring roles become one `Roles` instruction: a fork, concurrent regions, a join.

Also the rules that only the whole kernel can check: warps that overlap or do not exist, roles inside roles, exits
across a role's edge, register budgets, cluster barriers inside roles.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op, map_blocks, rewrite
from phalanx.ir.ops.control import Assign, Break, Continue, For, Leave, ReadVar, Role, Roles, Scope, While
from phalanx.ir.values import Label, Var
from phalanx.passes.role_rules import check_cluster_barriers, check_registers, check_warps


def merge_roles(function: Function) -> Function:
    """Every `Role` of the kernel in a `Roles` with its neighbours; the last group of the kernel does not join."""
    return dataclasses.replace(function, body=_Merger(function).block(function.body, tail=True, ends=frozenset()))


@dataclass
class _Merger:
    function: Function
    budgeted: list[Roles] = field(default_factory=list)
    """Groups with `regs=` seen so far; a kernel may have one."""

    def block(self, block: Block, *, tail: bool, ends: frozenset[Label]) -> Block:
        """`block` with its roles grouped, here and below.

        `tail`: after the block nothing but the kernel's exit runs. `ends`: the scopes of which that is true as well.
        """
        grouped = _group_neighbours(block.ops)
        working = [position for position, op in enumerate(grouped) if not _is_idle(op, ends)] if tail else []
        out: list[Op] = []
        for position, op in enumerate(grouped):
            last = tail and (not working or position >= working[-1])
            out.append(self._roles(op, last, ends) if isinstance(op, Roles) else self._nested(op, last, ends))
        return Block(tuple(out))

    def _nested(self, op: Op, last: bool, ends: frozenset[Label]) -> Op:
        is_loop = isinstance(op, (For, While))
        if isinstance(op, Scope) and last:
            ends |= {op.label}
        return map_blocks(op, lambda inner: self.block(inner, tail=last and not is_loop, ends=ends))

    def _roles(self, roles: Roles, last: bool, ends: frozenset[Label]) -> Roles:
        check_warps(self.function, roles)
        for role in roles.regions:
            _refuse_nested(role)
        regions = tuple(_keep_exits_inside(role, ends if last else frozenset()) for role in roles.regions)
        roles = dataclasses.replace(roles, regions=regions, joins=not last)
        check_cluster_barriers(self.function, roles)
        if any(role.regs is not None for role in regions):
            self.budgeted.append(roles)
            check_registers(self.function, roles, first=self.budgeted[0])
        return roles


def _group_neighbours(ops: tuple[Op, ...]) -> list[Op]:
    """Runs of adjacent roles as one `Roles` each.

    Arithmetic between two roles (the arguments of an inlined call, say) does not part them if they could run at the
    same time: it moves to before the group, where it computes the same.
    """
    out: list[Op] = []
    group: list[Role] = []
    between: list[Op] = []

    def close() -> None:
        if group:
            out.append(Roles(tuple(group), loc=group[0].loc))
            out.extend(between)
        group.clear()
        between.clear()

    for op in ops:
        if isinstance(op, Role):
            if between and any(_common_warps(op, role) for role in group):
                close()
            out.extend(between)
            between.clear()
            group.append(op)
        elif group and _can_move_before(op, group):
            between.append(op)
        else:
            close()
            out.append(op)
    close()
    return out


def _common_warps(a: Role, b: Role) -> bool:
    return a.first < b.first + b.span and b.first < a.first + a.span


def _is_arithmetic(op: Op) -> bool:
    return op.defines is not None and op.effects().is_pure and not any(True for _ in op.blocks())


def _can_move_before(op: Op, group: list[Role]) -> bool:
    if isinstance(op, Assign):
        return op.var not in _cells(group, written_only=False)
    if isinstance(op, ReadVar):
        return op.var not in _cells(group, written_only=True)
    return _is_arithmetic(op)


def _cells(group: list[Role], *, written_only: bool) -> set[Var]:
    """The cells that the roles write, and, unless `written_only`, those that they read."""
    ops = [op for role in group for op in role.body.walk()]
    written = {op.var for op in ops if isinstance(op, Assign)}
    return written if written_only else written | {op.var for op in ops if isinstance(op, ReadVar)}


def _is_idle(op: Op, ends: frozenset[Label]) -> bool:
    """An instruction that leaves nothing to run before the kernel's exit."""
    if isinstance(op, Leave):
        return op.label in ends
    return isinstance(op, Assign) or _is_arithmetic(op)


def _refuse_nested(role: Role) -> None:
    for op in role.body.walk():
        if isinstance(op, Role):
            raise Error(
                f"{op.call} inside the role {role.name}: roles do not nest",
                location=op.loc,
                remedy="end the outer role first; neighbouring roles run at the same time",
            )


def _keep_exits_inside(role: Role, ends: frozenset[Label]) -> Role:
    """The role with a `return` turned into the end of the role, where that is the kernel's end as well."""
    inside = {op.label for op in role.body.walk() if isinstance(op, (Scope, For, While))}
    own = Label("role")
    retargeted = False

    def visit(op: Op) -> list[Op] | None:
        nonlocal retargeted
        if not isinstance(op, (Break, Continue, Leave)) or op.label in inside:
            return None
        if isinstance(op, Leave) and op.label in ends:
            retargeted = True
            return [Leave(own, loc=op.loc)]
        if isinstance(op, Leave):
            word, what = "return", "more code follows the role"
        else:
            word, what = "break" if isinstance(op, Break) else "continue", "the loop is outside the role"
        raise Error(
            f"{word} inside a role ({role.name}), but {what}",
            location=op.loc,
            remedy="the other warps can't follow: put the rest of the role under an if instead",
        )

    body = rewrite(role.body, visit)
    if retargeted:
        body = Block((Scope(own, body, loc=role.loc),))
    return role if body is role.body else dataclasses.replace(role, body=body)
