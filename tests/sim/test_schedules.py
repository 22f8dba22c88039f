"""The ring copy under every schedule, polling loops, and waves of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.ir import types as ty
from phalanx.ir.core import Block, Function
from phalanx.ir.ops import control, memory
from phalanx.ir.values import Label, Value
from phalanx.sim.run import code_of, simulate
from phalanx.sim.scheduler import Hold, Schedule
from sim.build import Build, at, const, ref, ring_copy, sh

SCHEDULES = [Schedule("late"), Schedule("early"), *(Schedule("random", seed) for seed in range(6))]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("stages", [1, 2, 5])
def test_ring_copy(schedule, stages):
    x = np.random.default_rng(0).standard_normal((44, 72)).astype(np.float32)
    y = np.zeros_like(x)
    simulate(ring_copy(stages, 16), 3, [x, y], schedule=schedule)
    assert np.array_equal(x, y)


def unsafe_ring() -> Function:
    """The consumer frees a slot without waiting for its store to have read it."""
    function = ring_copy(2, 16)
    for role in next(op for op in function.walk() if isinstance(op, control.Roles)).regions:
        for loop in role.body.ops:
            if isinstance(loop, control.For):
                kept = tuple(op for op in loop.body.ops if op.mnemonic != "tma.wait")
                object.__setattr__(loop, "body", Block(kept))
    return function


def test_late_copies_show_a_slot_that_is_freed_too_early():
    x = np.arange(16 * 96, dtype=np.float32).reshape(16, 96)
    y = np.zeros_like(x)
    simulate(unsafe_ring(), 1, [x, y], schedule=Schedule("early"))
    assert np.array_equal(x, y)
    simulate(unsafe_ring(), 1, [x, y], schedule=Schedule("late"))
    assert not np.array_equal(x, y)


def order_under(schedule: Schedule) -> list[int]:
    """In which order four roles draw a number."""
    b = Build(warps=4)
    counter, order = b.array(1, ty.i32), b.array(1, ty.i32)
    with b.roles() as regions:
        for number in range(4):
            with b.role(regions, f"role{number}", number):
                ticket = b.add(memory.AtomicAdd(at(counter, 0), const(1), Value(ty.I32), loc=b.here()))
                b.store(at(order, ticket), number)
    count, got = np.zeros(1, np.int32), np.zeros(4, np.int32)
    simulate(b.done(), 1, [count, got], schedule=schedule)
    return got.tolist()


def test_a_schedule_repeats_itself():
    def orders(seed: int) -> list[int]:
        return order_under(Schedule("random", seed))

    assert [orders(seed) for seed in range(8)] == [orders(seed) for seed in range(8)]
    assert len({tuple(orders(seed)) for seed in range(8)}) > 3


@pytest.mark.parametrize("last", [(), (2,), (0, 2), (2, 0), (3, 0, 1)])
def test_what_is_held_back_comes_last_and_in_its_order(last):
    held = tuple(Hold((0, number + 1)) for number in last)
    others = [number for number in range(4) if number not in last]
    assert order_under(Schedule("starve", held=held)) == [*others, *last]


def test_unknown_schedule():
    with pytest.raises(Error, match="unknown schedule 'lazy'"):
        Schedule("lazy")


def poll(b: Build, ask, *, limit: int | None = None) -> None:
    """`while not ask(): pass`, at most `limit` times."""
    tries = b.var(0)
    label = Label("poll")
    with b.block() as test:
        cond = b.unary("not", ask())
        if limit is not None:
            cond = b.binary("and", cond, b.compare("lt", b.read(tries), limit), ty.bool_)
    with b.block() as body:
        b.assign(tries, b.binary("add", b.read(tries), 1))
    b.add(control.While(Block(tuple(test)), cond, Block(tuple(body)), label, loc=b.here()))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_polling_a_barrier_lets_the_copy_finish(schedule):
    b = Build()
    x, y = b.array(1), b.array(1)
    s, bar = b.shared((8,)), b.barrier()
    b.arrive_expect(ref(bar), 32)
    b.tma_load(at(x, (0, 8)), sh(s), ref(bar))
    poll(b, lambda: b.test_wait(ref(bar), 0))
    b.store(at(y, (0, 8)), b.load(sh(s)))
    data, got = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    simulate(b.done(), 1, [data, got], schedule=schedule)
    assert np.array_equal(data, got)


@pytest.mark.parametrize("schedule", SCHEDULES[:4], ids=str)
def test_polling_that_nobody_ends_is_a_deadlock(schedule):
    b = Build(warps=2)
    bar = b.barrier(1, 2)
    b.arrive(ref(bar))
    with b.roles() as regions:
        with b.role(regions, "asks", 0):
            poll(b, lambda: b.test_wait(ref(bar), 0))
        with b.role(regions, "waits", 1):
            b.wait(ref(bar), 0)
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [], schedule=schedule)
    assert error.value.kind == "deadlock"
    asks, waits = error.value.details.splitlines()
    assert "asks (warp 0)" in asks and "spins" in asks
    assert "waits (warp 1)" in waits and "short of 1 arrival" in waits


def test_many_pollers_in_a_random_schedule_are_a_deadlock_too():
    b = Build(warps=24)
    bar = b.barrier(1, 2)
    with b.roles() as regions:
        for number in range(24):
            with b.role(regions, f"role{number}", number):
                poll(b, lambda: b.test_wait(ref(bar), 0))
    with pytest.raises(Error, match="24 agents wait"):
        simulate(b.done(), 1, [], schedule=Schedule("random", 2))


def test_a_bounded_poll_ends_by_itself():
    b = Build()
    out = b.array(1, ty.i32)
    bar = b.barrier()
    poll(b, lambda: b.test_wait(ref(bar), 0), limit=5000)
    b.store(at(out, 0), 1)
    got = np.zeros(1, np.int32)
    simulate(b.done(), 1, [got])
    assert got[0] == 1


def flag_kernel():
    """Block 0 polls a flag that the last block sets."""
    b = Build()
    flag, out = b.array(1, ty.i32), b.array(1, ty.i32)
    last = b.binary("sub", b.add(control.NumBlocks(0, Value(ty.I32))), 1)
    with b.if_(b.compare("eq", b.block_id(), 0)):
        poll(b, lambda: b.compare("eq", b.load(at(flag, 0)), 1))
        b.store(at(out, 0), 5)
    with b.if_(b.compare("eq", b.block_id(), last)):
        b.store(at(flag, 0), 1)
    return b.done()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_polling_global_memory_lets_other_clusters_run(schedule):
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    simulate(flag_kernel(), 20, [flag, out], schedule=schedule)
    assert out[0] == 5


def test_blocks_that_do_not_fit_at_once_run_in_waves():
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    simulate(flag_kernel(), 500, [flag, out], sms=2)
    assert out[0] == 5
    with pytest.raises(Error, match="1 agent waits") as error:
        simulate(flag_kernel(), 500, [flag * 0, out], sms=1)
    assert error.value.kind == "deadlock"


def grid_barrier():
    """All blocks meet at a counter in global memory, twice."""
    b = Build()
    counter, seen = b.array(1, ty.i32), b.array(1, ty.i32)
    blocks = b.add(control.NumBlocks(0, Value(ty.I32)))
    for turn in range(2):
        b.add(memory.AtomicAdd(at(counter, turn), const(1), None, loc=b.here()))
        poll(b, lambda turn=turn: b.compare("eq", b.load(at(counter, turn)), blocks))
    b.store(at(seen, b.block_id()), b.load(at(counter, 1)))
    return b.done()


@pytest.mark.parametrize("schedule", SCHEDULES[:4], ids=str)
def test_a_barrier_of_the_whole_grid(schedule):
    counter, seen = np.zeros(2, np.int32), np.zeros(9, np.int32)
    simulate(grid_barrier(), 9, [counter, seen], schedule=schedule)
    assert seen.tolist() == [9] * 9


def test_a_grid_barrier_of_more_blocks_than_fit_is_a_deadlock():
    with pytest.raises(Error) as error:
        simulate(grid_barrier(), 9, [np.zeros(2, np.int32), np.zeros(9, np.int32)], sms=4)
    assert error.value.kind == "deadlock"
    assert len(error.value.details.splitlines()) == 4


def test_a_long_loop_of_loads_is_no_deadlock():
    """One role adds up an array with a while loop while the other waits for it."""
    n = 20000
    b = Build(warps=2)
    x, out = b.array(1, ty.i32), b.array(1, ty.i32)
    bar = b.barrier()
    with b.roles() as regions:
        with b.role(regions, "adds", 0):
            i, total = b.var(0), b.var(0)
            with b.block() as test:
                cond = b.compare("lt", b.read(i), n)
            with b.block() as body:
                b.assign(total, b.binary("add", b.read(total), b.load(at(x, b.read(i)))))
                b.assign(i, b.binary("add", b.read(i), 1))
            b.add(control.While(Block(tuple(test)), cond, Block(tuple(body)), Label("sum"), loc=b.here()))
            b.store(at(out, 0), b.read(total))
            b.arrive(ref(bar))
        with b.role(regions, "waits", 1):
            b.wait(ref(bar), 0)
            b.store(at(out, 1), b.load(at(out, 0)))
    got = np.zeros(2, np.int32)
    simulate(b.done(), 1, [np.ones(n, np.int32), got])
    assert got.tolist() == [n, n]


def test_code_is_made_once_and_reads_like_python():
    function = ring_copy(4, 16)
    assert code_of(function) is code_of(function)
    assert code_of(function) is not code_of(function, preempt=True)
    source = code_of(function).source
    assert "# producer" in source and "# consumer" in source
    assert "for v" in source and "yield 0" in source


def test_scalar_parameters_of_every_kind():
    b = Build()
    out = b.array(1, ty.f64)
    for i, dtype in enumerate((ty.f64, ty.f16, ty.u8, ty.bool_)):
        b.store(at(out, i), b.cast(b.scalar(dtype), ty.f64))
    got = np.zeros(4)
    simulate(b.done(), 1, [got, np.float64(0.1), 0.1, 300, np.bool_(True)])
    assert got.tolist() == [0.1, float(np.float16(0.1)), 44, 1]
