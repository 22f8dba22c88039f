"""Roles: which ones run together, where they join, and what they may not do."""

from __future__ import annotations

import pytest

from phalanx.errors import Error
from phalanx.ir.archs import entry_registers
from phalanx.ir.core import Block, Function
from phalanx.ir.ops.cluster import ClusterArrive, ClusterSync, ClusterWait
from phalanx.ir.ops.control import (
    Assign,
    BlockId,
    Break,
    Continue,
    For,
    If,
    Leave,
    Print,
    ReadVar,
    Roles,
    Scope,
    Sync,
)
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Label, Param, Value, Var
from phalanx.passes.roles import merge_roles
from support.hand_ir import block, const, kernel, role


def groups(function: Function) -> list[tuple[list[str], bool]]:
    return [([r.name for r in op.regions], op.joins) for op in merge_roles(function).walk() if isinstance(op, Roles)]


def refused(function: Function) -> tuple[str, str, int]:
    with pytest.raises(Error) as caught:
        merge_roles(function)
    error = caught.value
    assert error.remedy
    return error.message, error.remedy, error.location.line


def loop(*ops, label: Label | None = None, stop: int | Value = 4) -> For:
    return For(Value(I32, "i"), const(0), const(stop), const(1), block(*ops), label or Label("loop"))


def count_param() -> Param:
    return Param(I32, "n", 0)


def branch(*ops) -> If:
    return If(Value(BOOL, "c"), block(*ops), Block())


# -- grouping --------------------------------------------------------------------------------------------


def test_adjacent_roles_run_together_and_the_last_group_does_not_join():
    function = kernel(role(0, 4, Sync()), role(4, 1), Sync(), role(0, 2), role(2, 2), warps=5)
    assert groups(function) == [(["warps 0-3", "warp 4"], True), (["warps 0-1", "warps 2-3"], False)]


def test_a_single_role_is_a_group_too():
    assert groups(kernel(role(0, 1))) == [(["warp 0"], False)]
    assert groups(kernel(role(0, 1), Sync())) == [(["warp 0"], True)]


def test_roles_join_inside_loops_and_before_code_after_their_scope():
    assert groups(kernel(loop(role(0, 4)))) == [(["warps 0-3"], True)]
    assert groups(kernel(Scope(Label("call"), block(role(0, 4))), Sync())) == [(["warps 0-3"], True)]
    assert groups(kernel(role(0, 4), scope=Label("kernel"))) == [(["warps 0-3"], False)]
    assert groups(kernel(branch(role(0, 4)))) == [(["warps 0-3"], False)]


def test_arithmetic_between_roles_moves_before_them():
    n = Value(I32, "n")
    function = kernel(role(0, 4), BlockId(0, n), role(4, 4, Binary("add", n, n, Value(I32))), warps=8)
    assert groups(function) == [(["warps 0-3", "warps 4-7"], False)]
    assert [op.mnemonic for op in merge_roles(function).body] == ["block_id", "roles"]


def test_arithmetic_parts_roles_that_share_warps():
    function = kernel(role(0, 4), BlockId(0, Value(I32, "n")), role(0, 4), warps=8)
    assert groups(function) == [(["warps 0-3"], True), (["warps 0-3"], False)]


def test_a_cell_that_the_first_role_reads_is_not_assigned_before_it():
    cell = Var(I32, "i")
    reads = ReadVar(cell, Value(I32))
    apart = kernel(role(0, 4, reads), Assign(cell, const(1)), role(4, 4), warps=8)
    assert groups(apart) == [(["warps 0-3"], True), (["warps 4-7"], False)]
    together = kernel(role(0, 4), Assign(cell, const(1)), role(4, 4, reads), warps=8)
    assert groups(together) == [(["warps 0-3", "warps 4-7"], False)]


def test_merging_twice_changes_nothing():
    once = merge_roles(kernel(role(0, 4), role(4, 1), Sync(), warps=5))
    assert groups(once) == [(["warps 0-3", "warp 4"], True)]


# -- warps -----------------------------------------------------------------------------------------------


def test_overlap():
    assert refused(kernel(role(0, 4), role(2, 4), warps=8)) == (
        "warps 2-3 would run two roles at the same time: px.warps(2, 4) overlaps its neighbour px.warps(0, 4)",
        "neighbouring roles run concurrently and need disjoint warps; "
        "to run one after the other, write px.sync() between them",
        2,
    )


def test_more_warps_than_the_cta_has():
    assert refused(kernel(role(4, 4), warps=4)) == (
        "px.warps(4, 4) asks for warps 4-7, the CTA has 4 warps",
        "give the kernel warps=8, or name warps below 4",
        1,
    )


@pytest.mark.parametrize(("first", "count"), [(0, 0), (-1, 2)])
def test_no_warps(first, count):
    assert refused(kernel(role(first, count)))[0] == f"px.warps({first}, {count}) names no warps"


def test_nested():
    assert refused(kernel(role(0, 4, loop(role(0, 1))))) == (
        "px.warps(0, 1) inside the role warps 0-3: roles do not nest",
        "end the outer role first; neighbouring roles run at the same time",
        3,
    )


# -- exits -----------------------------------------------------------------------------------------------


def test_return_in_the_last_roles_ends_the_role():
    end = Label("kernel")
    merged = merge_roles(kernel(role(0, 4, branch(Leave(end)), Sync()), role(4, 1), warps=5, scope=end))
    roles = merged.body.ops[0].body.ops[0]
    scope = roles.regions[0].body.ops[0]
    assert isinstance(scope, Scope) and scope.label is not end
    assert [op.label for op in scope.body.walk() if isinstance(op, Leave)] == [scope.label]
    assert roles.regions[1].body.ops == ()


def test_return_before_more_code():
    end = Label("kernel")
    assert refused(kernel(role(0, 4, Leave(end)), Sync(), scope=end)) == (
        "return inside a role (warps 0-3), but more code follows the role",
        "the other warps can't follow: put the rest of the role under an if instead",
        2,
    )


@pytest.mark.parametrize(("exit", "word"), [(Break, "break"), (Continue, "continue")])
def test_leaving_a_loop_from_inside_a_role(exit, word):
    outer = Label("outer")
    message, _, line = refused(kernel(loop(role(0, 4, exit(outer)), label=outer)))
    assert message == f"{word} inside a role (warps 0-3), but the loop is outside the role"
    assert line == 3


def test_loops_and_scopes_of_the_role_itself_may_be_left():
    inner, helper = Label("inner"), Label("helper")
    body = (loop(Break(inner), label=inner), Scope(helper, block(Leave(helper))))
    assert groups(kernel(role(0, 4, *body), Sync())) == [(["warps 0-3"], True)]


# -- registers -------------------------------------------------------------------------------------------


def test_entry_registers_of_the_usual_sizes():
    assert {warps: entry_registers(warps) for warps in (4, 8, 12, 16)} == {4: 255, 8: 255, 12: 168, 16: 128}


@pytest.mark.parametrize("shares", [(24, 240, 240), (40, 232, 232), (None, 168, 168)])
def test_budgets_that_fit(shares):
    roles = [role(4 * i, 4, regs=regs) for i, regs in enumerate(shares)]
    assert len(groups(kernel(*roles, warps=12))) == 1


def test_budget_exceeded():
    function = kernel(role(0, 4), role(4, 8, regs=232), warps=12)
    with pytest.raises(Error) as caught:
        merge_roles(function)
    assert caught.value.message == (
        "the roles ask for 2528 registers per lane, the CTA's 12 warps start with 2016 (12 x 168)"
    )
    assert caught.value.details == "warps 0-3: 4 x 168 (no regs=)\nwarps 4-11: 8 x 232"
    assert caught.value.location.line == 2


def test_an_odd_warp_costs_its_quarter_of_the_sm():
    """Thirteen warps start with 128 registers, not with 65536 / 416: this one hung on a GPU."""
    with pytest.raises(Error) as caught:
        merge_roles(kernel(role(0, 4, regs=232), role(4, 4, regs=40), warps=13))
    assert caught.value.message == (
        "the roles ask for 1728 registers per lane, the CTA's 13 warps start with 1664 (13 x 128)"
    )


def test_warps_without_a_role_keep_their_registers():
    with pytest.raises(Error) as caught:
        merge_roles(kernel(role(0, 4, regs=176), warps=12))
    assert caught.value.details == "warps 0-3: 4 x 176\nwarps without a role: 8 x 168"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (kernel(role(2, 4, regs=40), warps=8), "regs= needs whole warpgroups, px.warps(2, 4) begins inside one"),
        (
            kernel(role(4, 1, regs=24), warps=6),
            "regs= needs whole warpgroups: of warps 4-7, of which px.warps(4, 1) is a part, the CTA has 2",
        ),
        (
            kernel(role(0, 1, regs=24), role(1, 1), role(4, 4, regs=240), warps=8),
            "regs= needs whole warpgroups: px.warps(0, 1) shares warps 0-3 with px.warps(1, 1)",
        ),
        (
            kernel(role(0, 4, regs=24), role(4, 1, copies=3, regs=40), role(7, 1), warps=8),
            "regs= needs whole warpgroups: px.warps(4, 1, copies=3) shares warps 4-7 with px.warps(7, 1)",
        ),
        (kernel(role(0, 4, regs=20)), "regs=20 is not a multiple of 8 from 24 to 256"),
        (kernel(role(0, 4, regs=36)), "regs=36 is not a multiple of 8 from 24 to 256"),
        (kernel(role(0, 4, regs=264)), "regs=264 is not a multiple of 8 from 24 to 256"),
        (kernel(role(0, 4, regs=40), Sync()), "code follows the roles with regs="),
        (kernel(loop(role(0, 4, regs=40))), "code follows the roles with regs="),
        (
            kernel(If(Value(BOOL), block(role(0, 4, regs=40)), block(role(0, 4, regs=40)))),
            "a second group of roles with regs= in one kernel",
        ),
    ],
)
def test_rules_of_regs(function, message):
    assert refused(function)[0] == message


# -- cluster barriers ------------------------------------------------------------------------------------


def test_cluster_barriers_in_all_roles_equally_often():
    a = role(0, 4, ClusterSync(), loop(ClusterArrive(), ClusterWait(), stop=2))
    b = role(4, 1, ClusterSync(), ClusterSync(), Scope(Label("f"), block(ClusterSync())))
    assert len(groups(kernel(a, b, warps=5, cluster=2))) == 1


def test_cluster_barrier_in_some_warps_only():
    assert refused(kernel(role(0, 4, ClusterSync()), warps=8, cluster=2)) == (
        "px.cluster.sync inside a role, but only 4 of the CTA's 8 warps run a role here",
        "all threads must take part: call it outside the roles, or give every warp a role that calls it",
        2,
    )


def test_cluster_barrier_not_equally_often():
    function = kernel(role(0, 4, ClusterSync(), ClusterSync()), role(4, 4, ClusterSync()), warps=8, cluster=2)
    with pytest.raises(Error) as caught:
        merge_roles(function)
    assert caught.value.message == (
        "px.cluster.sync inside a role: not all concurrent roles run the cluster barrier equally often"
    )
    assert caught.value.details == "warps 0-3: 2 arrivals, 2 waits\nwarps 4-7: 1 arrivals, 1 waits"


@pytest.mark.parametrize(
    ("wrap", "what"),
    [
        (lambda op: branch(op), "a run-time if"),
        (lambda op: loop(op, stop=count_param()), "a run-time loop"),
        (lambda op: loop(Break(LEFT), op, label=LEFT), "a loop that may end early"),
        (lambda op: Scope(LEFT, block(branch(Leave(LEFT)), op)), "an early return"),
    ],
)
def test_cluster_barrier_an_unknown_number_of_times(wrap, what):
    assert refused(kernel(role(0, 4, wrap(ClusterWait())), cluster=2))[:2] == (
        f"px.cluster.wait inside a role, under {what}: how often it runs is not known at compile time",
        "call it outside the roles, or where the role runs it a fixed number of times",
    )


LEFT = Label("left")


def test_code_that_cannot_move_ends_a_group():
    assert [joins for _, joins in groups(kernel(role(0, 4), Print(("x",)), role(4, 4), warps=8))] == [True, False]
