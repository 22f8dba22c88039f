"""The walk over structured control flow, with toy domains: which marks control may have passed, and the last one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from phalanx.analysis.flow import Cycle, ExitKind, ExitTarget, OpWalk, Outcome
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, Print, Role, Roles, Scope, While
from phalanx.ir.ops.mbarrier import Transaction
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Label, Param, Value
from phalanx.ir.views import BarrierArray, BarrierRef

Marks = frozenset[str]
COND = Param(BOOL, "cond", 0)
LOOP, OUTER, SCOPE = Label("loop"), Label("outer"), Label("scope")


class Passed(OpWalk[Marks]):
    """The marks that control may have passed on its way; a mark in capitals forgets the others, `-` ends the way."""

    def __init__(self, *, surely: bool = False) -> None:
        self.surely = surely
        self.visits: list[str] = []

    def transfer(self, node: Op, state: Marks) -> Marks | None:
        assert isinstance(node, Print | Transaction)
        mark = str(node.parts[0]) if isinstance(node, Print) else "("
        self.visits.append(mark)
        if mark == "-":
            return None
        return frozenset({mark}) if mark.isupper() else state | {mark}

    def join(self, states: Sequence[Marks]) -> Marks:
        return frozenset().union(*states)

    def fork(self, roles: Roles, state: Marks) -> Outcome[Marks]:
        parts = [self.run(role.body, state) for role in roles.regions]
        return Outcome(self.meet(part.out for part in parts))

    def runs_surely(self, cycle: Cycle[Op]) -> bool:
        return self.surely


class Counted(Passed):
    """The same, with a note of the state before every mark."""

    def step(self, node: Op, state: Marks) -> Outcome[Marks]:
        outcome = super().step(node, state)
        outcome.notes[node] = "".join(sorted(state))
        return outcome


def block(*parts: str | Op) -> Block:
    """Instructions; a string is a mark for each of its characters."""
    ops: list[Op] = []
    for part in parts:
        ops += [Print((mark,)) for mark in part] if isinstance(part, str) else [part]
    return Block(tuple(ops))


def either(then: Block, orelse: Block | None = None) -> If:
    return If(COND, then, orelse or Block())


def loop(*parts: str | Op, label: Label = LOOP) -> For:
    return For(Value(I32, "i"), Const(0), Const(8), Const(1), block(*parts), label)


def spin(test: Block, *parts: str | Op) -> While:
    return While(test, COND, block(*parts), LOOP)


def scope(*parts: str | Op) -> Scope:
    return Scope(SCOPE, block(*parts))


def after(*parts: str | Op, walk: Passed | None = None) -> str | None:
    """The marks after the code, in order; None if its end is never reached."""
    out = (walk or Passed()).run(block(*parts), frozenset()).out
    return None if out is None else "".join(sorted(out))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), ""),
        (("abc",), "abc"),
        (("aBc",), "Bc"),
        (("a", either(block("b"), block("c")), "d"), "abcd"),
        (("a", either(block("B"))), "Ba"),
        (("a", either(block("B"), block("C"))), "BC"),
        ((scope("a", either(block("b", Leave(SCOPE))), "C"), "d"), "Cabd"),
        ((scope("a", Leave(SCOPE)), "b"), "ab"),
        (("a", loop("b"), "c"), "abc"),
        (("a", loop("B"), "c"), "Bac"),
        (("a", loop(either(block("b", Break(LOOP))), "C"), "d"), "Cabd"),
        (("a", loop(either(block("b", Continue(LOOP))), "C"), "d"), "Cabd"),
        (("a", loop("b", Break(LOOP))), "ab"),
        (("a", spin(block("T"), "b"), "c"), "Tc"),
        (("a", spin(block("T"), "b", Break(LOOP)), "c"), "Tbc"),
        (("a", loop(loop("b", Break(OUTER)), "C", label=OUTER), "d"), "Cabd"),
    ],
    ids=str,
)
def test_ways_meet(parts: tuple[str | Op, ...], expected: str) -> None:
    assert after(*parts) == expected


@pytest.mark.parametrize(
    "parts",
    [
        ("a", Leave(SCOPE), "b"),
        ("a-b",),
        (either(block("-"), block(Leave(SCOPE))), "b"),
        (spin(block("-"), "b"), "b"),
        (spin(block(Leave(SCOPE)), "b"), "b"),
        (scope("-"), "b"),
        (loop("b", Leave(SCOPE)), "-", "b"),
    ],
    ids=str,
)
def test_what_is_never_reached_is_not_walked(parts: tuple[str | Op, ...]) -> None:
    walk = Passed()
    assert after(*parts, walk=walk) is None
    reached = "b" if isinstance(parts[0], For) else ""
    assert "".join(walk.visits).count("b") == len(reached)


def test_nothing_is_walked_where_the_beginning_is_not_reached() -> None:
    walk = Passed()
    assert walk.run(block("a"), None).out is None
    assert not walk.visits


def test_a_loop_that_surely_runs_ends_after_its_body() -> None:
    assert after("a", loop("B"), "c", walk=Passed(surely=True)) == "Bc"
    left = loop(either(block("b", Break(LOOP))), "C")
    assert after("a", left, walk=Passed(surely=True)) == "Cab"


def test_a_loop_begins_with_what_came_round() -> None:
    first = block("x")
    outcome = Counted().run(block("a", loop(*first.ops, "b")), frozenset())
    assert outcome.notes[first.ops[0]] == "abx"


def test_a_loop_is_run_until_nothing_new_comes_round() -> None:
    walk = Passed()
    after("a", loop("b", loop("c", label=OUTER)), walk=walk)
    assert "".join(walk.visits) == "a" + "bcc" + "bc", "the inner loop settles twice in the first run, once in the second"


class Stop(Counted):
    """A domain in which more before means less after: the mark `s` forgets everything if `c` is there."""

    def transfer(self, node: Op, state: Marks) -> Marks | None:
        if isinstance(node, Print) and node.parts[0] == "s":
            return frozenset() if "c" in state else state
        return super().transfer(node, state)


def test_a_loop_takes_the_smaller_state_at_its_head_if_it_holds() -> None:
    seen = block("x")
    outcome = Stop().run(block("a", loop(*seen.ops, "s", "c")), frozenset())
    assert outcome.notes[seen.ops[0]] == "ac", "x came round once, in a run that the next one replaced"
    assert outcome.out == {"a", "c"}


def test_exits_of_what_is_not_inside_go_on() -> None:
    outcome = Passed().run(block("a", either(block("b", Leave(SCOPE)), block("c", Break(OUTER))), "d"), frozenset())
    assert outcome.out is None
    assert outcome.exits == {
        ExitTarget(SCOPE, ExitKind.LEAVE): [frozenset("ab")],
        ExitTarget(OUTER, ExitKind.BREAK): [frozenset("ac")],
    }


def test_exits_to_one_place_are_kept_in_program_order() -> None:
    leaving = [either(block(mark, Leave(SCOPE))) for mark in "AB"]
    outcome = Passed().run(block(*leaving), frozenset())
    assert outcome.exits[ExitTarget(SCOPE, ExitKind.LEAVE)] == [frozenset("A"), frozenset("B")]


def test_what_is_inside_an_instruction_follows_it() -> None:
    bar = BarrierRef(BarrierArray("bar", 1), Const(0))
    assert after("a", Transaction(bar, block("b", either(block("C")))), "d") == "(Cabd"


def test_roles_are_the_domains_own() -> None:
    roles = Roles((Role("one", 0, 1, None, block("b")), Role("two", 1, 1, None, block("C"))))
    assert after("a", roles, "d") == "Cabd"
    endless = Roles((Role("one", 0, 1, None, block("-")), Role("two", 1, 1, None, block("-"))))
    assert after("a", endless, "d") is None
