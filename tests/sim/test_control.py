"""Structured control flow against plain Python, roles, printing, assertions."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import Error
from phalanx.ir import types as ty
from phalanx.ir.core import Block
from phalanx.ir.ops import control, tile
from phalanx.ir.values import Label, Value
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from sim.build import Build, at, const

TRACE = 4000


class Exit(Exception):
    def __init__(self, target: int, action: str) -> None:
        self.target = target
        self.action = action


def statements(depth: int):
    leaf = st.one_of(
        st.tuples(st.just("mark"), st.integers(0, 9)),
        st.tuples(st.just("exit"), st.integers(0, 3), st.sampled_from(["break", "continue"])),
    )
    if depth == 0:
        return st.lists(leaf, max_size=3)
    inner = statements(depth - 1)
    nested = st.one_of(
        leaf,
        st.tuples(st.just("for"), st.integers(0, 3), inner),
        st.tuples(st.just("while"), st.integers(0, 3), inner),
        st.tuples(st.just("scope"), inner),
        st.tuples(st.just("if"), st.integers(1, 3), inner, inner),
    )
    return st.lists(nested, max_size=4)


def reference(program) -> list[int]:
    """Runs the program with exceptions for exits. `if k` holds when the number of marks so far divides by k."""
    trace: list[int] = []

    def block(items, frames):
        for item in items:
            step(item, frames)

    def loop_body(items, frames, me):
        """Whether the loop goes on."""
        try:
            block(items, [*frames, ("loop", me)])
        except Exit as leaving:
            if leaving.target is not me:
                raise
            return leaving.action == "continue"
        return True

    def step(item, frames):
        kind = item[0]
        if kind == "mark":
            trace.append(item[1])
        elif kind == "exit":
            if frames:
                what, me = frames[max(0, len(frames) - 1 - item[1])]
                raise Exit(me, item[2] if what == "loop" else "break")
        elif kind in ("for", "while"):
            me = object()
            for _ in range(item[1]):
                if not loop_body(item[2], frames, me):
                    break
        elif kind == "scope":
            me = object()
            try:
                block(item[1], [*frames, ("scope", me)])
            except Exit as leaving:
                if leaving.target is not me:
                    raise
        else:
            block(item[2] if len(trace) % item[1] == 0 else item[3], frames)

    block(program, [])
    return trace


def build(program):
    b = Build()
    out = b.array(1, ty.i32)
    count = b.var(0)

    def block(items, frames):
        for item in items:
            step(item, frames)

    def step(item, frames):
        kind = item[0]
        if kind == "mark":
            place = b.read(count)
            b.store(at(out, place), item[1])
            b.assign(count, b.binary("add", place, 1))
        elif kind == "exit":
            if frames:
                what, label = frames[max(0, len(frames) - 1 - item[1])]
                if what == "scope":
                    b.leave(label)
                elif item[2] == "break":
                    b.break_(label)
                else:
                    b.continue_(label)
        elif kind == "for":
            with b.for_(0, item[1]) as (_, label):
                block(item[2], [*frames, ("loop", label)])
        elif kind == "while":
            rounds, label = b.var(0), Label("while")
            with b.block() as test:
                cond = b.compare("lt", b.read(rounds), item[1])
                b.assign(rounds, b.binary("add", b.read(rounds), 1))
            with b.block() as body:
                block(item[2], [*frames, ("loop", label)])
            b.add(control.While(Block(tuple(test)), cond, Block(tuple(body)), label))
        elif kind == "scope":
            with b.scope() as label:
                block(item[1], [*frames, ("scope", label)])
        else:
            cond = b.compare("eq", b.binary("mod", b.read(count), item[1]), 0)
            with b.block() as then:
                block(item[2], frames)
            with b.block() as orelse:
                block(item[3], frames)
            b.add(control.If(cond, Block(tuple(then)), Block(tuple(orelse))))

    block(program, [])
    return b.done()


def goes_where_python_would_go(program):
    expected = reference(program)
    trace = np.full(TRACE, -1, np.int32)
    simulate(build(program), 1, [trace])
    assert trace[: len(expected)].tolist() == expected
    assert (trace[len(expected) :] == -1).all()


@settings(max_examples=80, deadline=None)
@given(statements(3))
def test_exits_go_where_python_would_go(program):
    goes_where_python_would_go(program)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(statements(3))
def test_exits_of_many_programs_go_where_python_would_go(program):
    goes_where_python_would_go(program)


def test_continue_through_a_scope_and_an_inner_loop():
    program = [("for", 2, [("scope", [("for", 2, [("mark", 1), ("exit", 2, "continue")]), ("mark", 2)]), ("mark", 3)])]
    assert reference(program) == [1, 1]
    trace = np.zeros(8, np.int32)
    simulate(build(program), 1, [trace])
    assert trace.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_negative_step_and_empty_range():
    b = Build()
    out = b.array(1, ty.i32)
    count = b.var(0)
    for start, stop, step in ((5, 0, -2), (3, 3, 1), (4, 3, 1)):
        with b.for_(start, stop, step) as (i, _):
            place = b.read(count)
            b.store(at(out, place), i)
            b.assign(count, b.binary("add", place, 1))
    trace = np.zeros(5, np.int32)
    simulate(b.done(), 1, [trace])
    assert trace.tolist() == [5, 3, 1, 0, 0]


def test_roles_copy_scalars_and_keep_their_changes():
    b = Build(warps=2)
    out = b.array(1, ty.i32)
    x = b.var(5)
    with b.roles() as regions:
        for number in range(2):
            with b.role(regions, f"role{number}", number):
                b.assign(x, b.binary("add", b.read(x), number + 1))
                b.store(at(out, number), b.read(x))
    b.store(at(out, 2), b.read(x))
    result = np.zeros(3, np.int32)
    simulate(b.done(), 1, [result])
    assert result.tolist() == [6, 7, 5]


def test_roles_in_a_loop_fork_and_join_every_time():
    b = Build(warps=2)
    out = b.array(1, ty.i32)
    with b.for_(0, 3) as (i, _):
        with b.roles() as regions:
            for number in range(2):
                with b.role(regions, f"role{number}", number):
                    place = b.binary("add", b.binary("mul", i, 3), number)
                    b.store(at(out, place), i)
        place = b.binary("mul", i, 3)
        left = b.load(at(out, place))
        right = b.load(at(out, b.binary("add", place, 1)))
        b.store(at(out, b.binary("add", place, 2)), b.binary("add", left, right))
    result = np.full(9, -1, np.int32)
    simulate(b.done(), 1, [result], schedule=Schedule("random", 5))
    assert result.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 4]


def test_blocks_and_grid():
    b = Build()
    out = b.array(3, ty.i32)
    x, y, z = (b.block_id(d) for d in range(3))
    sizes = [b.add(control.NumBlocks(d, Value(ty.I32))) for d in range(3)]
    linear = b.binary("add", x, b.binary("mul", sizes[0], b.binary("add", y, b.binary("mul", sizes[1], z))))
    b.store(at(out, z, y, x), linear)
    result = np.full((2, 3, 4), -1, np.int32)
    simulate(b.done(), (4, 3, 2), [result])
    assert np.array_equal(result, np.arange(24).reshape(2, 3, 4))


def test_print_writes_a_line_per_agent():
    b = Build(warps=2)
    numbers = b.add(tile.Arange(Value(ty.TileType((3,), ty.i32))))
    half = b.binary("mul", const(0.5), const(3.0), ty.f32)
    b.print("block", b.block_id(), "has", numbers, half, b.compare("lt", b.block_id(), 1))
    out = io.StringIO()
    simulate(b.done(), 2, [], out=out)
    assert out.getvalue() == (
        "block (0, 0, 0), all warps: block 0 has [0 1 2] 1.5 True\n"
        "block (1, 0, 0), all warps: block 1 has [0 1 2] 1.5 False\n"
    )


def test_print_goes_to_stdout(capsys):
    b = Build()
    b.print("hello", const(7))
    simulate(b.done(), 1, [])
    assert capsys.readouterr().out == "block (0, 0, 0), all warps: hello 7\n"


def test_device_assert():
    b = Build()
    x = b.array(1, ty.f32)
    values = b.load(at(x, (0, 4)))
    b.add(control.DeviceAssert(b.compare("gt", values, 0.0, ty.f32), "all positive", loc=b.here()))
    simulate(b.done(), 1, [np.ones(4, np.float32)])
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [np.array([1, 2, 0, 4], np.float32)])
    assert error.value.kind == "assert"
    assert error.value.message == "all positive (block (0, 0, 0), all warps)"
    assert error.value.location.line == b.line


def test_what_is_assumed_is_checked():
    b = Build()
    n = b.scalar(ty.i32)
    b.add(control.Assume(b.compare("ge", n, 0, ty.i32), "what px.assume says is false", loc=b.here()))
    simulate(b.done(), 1, [0])
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [-1])
    assert error.value.kind == "assert" and error.value.location.line == b.line
    assert error.value.message == "what px.assume says is false (block (0, 0, 0), all warps)"


def test_division_by_zero_has_a_place():
    b = Build()
    n = b.scalar(ty.i32)
    out = b.array(1, ty.i32)
    quotient = b.binary("floordiv", 7, n)
    line = b.line
    b.store(at(out, 0), quotient)
    with pytest.raises(Error, match="an integer is divided by 0") as error:
        simulate(b.done(), 1, [0, np.zeros(1, np.int32)])
    assert error.value.location.line == line
