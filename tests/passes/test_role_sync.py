"""Barriers inside an agent: each rule by itself, loops and branches, random programs against a brute-force check."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

import phalanx as px
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterArrive, ClusterSync, ClusterWait
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, Scope, Sync, While
from phalanx.ir.ops.mbarrier import BarrierInvalidate, ExpectTx
from phalanx.ir.ops.memory import AtomicAdd, AtomicExch, AtomicMax, FenceAsyncProxy, Store
from phalanx.ir.ops.tile import Binary
from phalanx.ir.ops.tma import TmaCommit, TmaLoad, TmaPrefetch, TmaReduce, TmaStore, TmaWait
from phalanx.ir.types import BOOL, I32, bf16, f32
from phalanx.ir.values import Label, Param, Value
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.role_sync import insert_role_syncs
from phalanx.passes.roles import merge_roles
from support.front import array as array_type
from support.front import prepared
from support.hand_ir import (
    array,
    arrive,
    bar,
    block,
    box,
    const,
    expect,
    fetch,
    kernel,
    load,
    part,
    role,
    store,
    syncs,
    tile,
    wait,
    whole,
    write_back,
)

A = SharedBuffer("a", (2, 64), f32)
B = SharedBuffer("b", (64,), f32)
FULL, EMPTY = BarrierArray("full", 2), BarrierArray("empty", 2)
X, Y = array("X"), array("Y", index=1)
N = Param(I32, "n", 2)
COND = Value(BOOL, "c")
I = Value(I32, "i")
ZEROS = tile((64,), f32, "zeros")


def made(*ops, **options) -> Function:
    options = {"params": (X, Y, N), "buffers": (A, B), "barriers": (FULL, EMPTY)} | options
    return kernel(*ops, **options)


def lines(*ops, **options) -> list[int]:
    """The lines before which a barrier appears; every instruction has a line of its own, from 1."""
    return [line for line, _ in syncs(insert_role_syncs(merge_roles(made(*ops, **options))))]


def put(view) -> Op:
    return Store(view, ZEROS)


def get(view) -> Op:
    return load(view)


def loop(*ops, label: Label | None = None, stop=N) -> For:
    return For(Value(I32, "i"), const(0), const(stop), const(1), block(*ops), label or Label("loop"))


XV, YV = box(X, (0,), (64,)), box(Y, (0,), (64,))

STRAIGHT = {
    "write then read": ([put(whole(B)), get(whole(B))], [2]),
    "write then write": ([put(whole(B)), put(whole(B))], [2]),
    "read then write": ([get(whole(B)), put(whole(B))], [2]),
    "read then read": ([get(whole(B)), get(whole(B))], []),
    "other buffers": ([put(whole(B)), get(part(A, 0))], []),
    "other constant sub-buffers": ([put(part(A, 0)), get(part(A, 1))], []),
    "the same sub-buffer": ([put(part(A, 1)), get(part(A, 1))], [2]),
    "a run-time sub-buffer": ([put(part(A, 1)), get(part(A, I))], [2]),
    "a buffer of some CTA": ([put(part(A, 1)), get(part(A, 1, I))], [2]),
    "a sync of the user": ([put(whole(B)), Sync(), get(whole(B))], []),
    "a cluster sync of the user": ([put(whole(B)), ClusterSync(), get(whole(B))], []),
    "one barrier serves two pairs": (
        [put(whole(B)), put(part(A, 0)), get(whole(B)), get(part(A, 0))],
        [3],
    ),
    "a split cluster barrier orders what is before its first half": (
        [put(whole(B)), ClusterArrive(), put(part(A, 0)), ClusterWait(), get(whole(B)), get(part(A, 0))],
        [6],
    ),
    "half a cluster barrier orders nothing": ([put(whole(B)), ClusterArrive(), get(whole(B))], [3]),
    "a relaxed arrival orders nothing": (
        [put(whole(B)), ClusterArrive(relaxed=True), ClusterWait(), get(whole(B))],
        [4],
    ),
    "atomics commute": ([AtomicAdd(whole(B), ZEROS, None), AtomicAdd(whole(B), ZEROS, None)], []),
    "atomics of two functions do not": ([AtomicAdd(whole(B), ZEROS, None), AtomicMax(whole(B), ZEROS, None)], [2]),
    "nor exchanges": ([AtomicExch(whole(B), ZEROS, None), AtomicExch(whole(B), ZEROS, None)], [2]),
    "nor atomics whose old values are seen": (
        [AtomicAdd(whole(B), ZEROS, tile((64,), f32)), AtomicAdd(whole(B), ZEROS, tile((64,), f32))], [2],
    ),
    "an atomic then a read": ([AtomicAdd(whole(B), ZEROS, None), get(whole(B))], [2]),
    "global write then read": ([put(XV), get(XV)], [2]),
    "global write then read of another array": ([put(XV), get(YV)], []),
    "global regions apart": ([put(XV), get(box(X, (64,), (64,)))], []),
    "global read then write": ([get(XV), put(XV)], [2]),
    "what all read, then an arrival": ([get(whole(B)), arrive(EMPTY)], [2]),
    "what all stored, then an arrival": ([put(YV), arrive(EMPTY)], [2]),
    "reads of an input alone": ([get(XV), arrive(EMPTY)], []),
    "arrivals in a row": ([get(whole(B)), arrive(EMPTY), arrive(FULL)], [2]),
    "a wait of all, then an arrival": ([wait(FULL), arrive(EMPTY)], [2]),
    "a wait of all, then a copy": ([wait(EMPTY), fetch(XV, whole(B), FULL)], [2]),
    "a wait of all, then an expectation and a copy": (
        [wait(EMPTY), expect(FULL, 256), fetch(XV, whole(B), FULL)],
        [2],
    ),
    "a wait of all, then a read of all": ([wait(FULL), get(whole(B))], []),
    "an arrival, then a wait of all": ([arrive(EMPTY), wait(FULL)], []),
    "a wait of all, then a store that completes nothing": ([wait(FULL), write_back(whole(B), YV)], []),
    "a copy over what all read": ([get(whole(B)), fetch(XV, whole(B), FULL)], [2]),
    "a copy elsewhere": ([get(whole(B)), fetch(XV, part(A, 0), FULL)], []),
    "a copy of what all wrote": ([put(whole(B)), FenceAsyncProxy("cta"), write_back(whole(B), YV)], [3]),
    "a fence after the barrier needs no other": (
        [put(whole(B)), Sync(), FenceAsyncProxy("cta"), write_back(whole(B), YV)],
        [],
    ),
    "a copy of what all read": ([get(whole(B)), write_back(whole(B), YV)], []),
    "a copy of a global array all wrote": ([put(XV), fetch(XV, whole(B), FULL)], [2]),
    "a prefetch": ([put(XV), wait(FULL), TmaPrefetch(XV)], []),
    "a group wait, then a write of the source": (
        [write_back(whole(B), YV), TmaCommit(), TmaWait(0, read=True), put(whole(B))],
        [4],
    ),
    "a group wait, then a read of the source": (
        [write_back(whole(B), YV), TmaCommit(), TmaWait(0, read=True), get(whole(B))],
        [],
    ),
    "a group wait, then another buffer": (
        [write_back(whole(B), YV), TmaCommit(), TmaWait(0, read=True), put(part(A, 0))],
        [],
    ),
    "a wait for reads says nothing of the destination": (
        [write_back(whole(B), YV), TmaCommit(), TmaWait(0, read=True), get(YV)],
        [],
    ),
    "a full group wait, then the destination": (
        [write_back(whole(B), YV), TmaCommit(), TmaWait(0), get(YV)],
        [4],
    ),
    "a reduction and atomics commute": (
        [TmaReduce(whole(B), YV, "add"), TmaCommit(), TmaWait(0), AtomicAdd(YV, ZEROS, None)],
        [],
    ),
    "a group wait, then a copy by the same thread": (
        [write_back(whole(B), YV), TmaCommit(), TmaWait(0, read=True), fetch(XV, whole(B), FULL)],
        [],
    ),
    "a barrier dies after all have waited": ([wait(FULL), BarrierInvalidate(bar(FULL))], [2]),
    "bytes announced alone publish nothing": ([wait(FULL), ExpectTx(bar(FULL), const(4))], []),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_straight_line(name):
    ops, expected = STRAIGHT[name]
    assert lines(*ops) == expected


def test_memory_taken_over_with_reuse():
    over = SharedBuffer("over", (64,), f32, reuse=B)
    again = SharedBuffer("again", (16,), f32, reuse=over)
    assert lines(put(whole(B)), load(whole(again)), buffers=(A, B, over, again)) == [2]
    assert lines(put(part(A, 0)), load(whole(again)), buffers=(A, B, over, again)) == []
    bars = SharedBuffer("bars", (4,), f32, reuse=FULL)
    dead = [BarrierInvalidate(bar(FULL)), store(whole(bars))]
    assert lines(*dead, buffers=(A, B, bars)) == [3]


def test_reasons():
    def why(*ops) -> str:
        [(_, reason)] = syncs(insert_role_syncs(made(*ops)))
        return reason

    assert why(put(whole(B)), get(whole(B))) == "b was written at line 1 before b is read"
    assert why(get(whole(B)), fetch(XV, whole(B), FULL)) == "b was read at line 1 before b is written by a copy"
    assert why(get(whole(B)), arrive(EMPTY)) == (
        "all threads are done with b at line 1 before the elected thread arrives"
    )
    assert why(wait(FULL), arrive(EMPTY)) == (
        "all threads have passed the wait at line 1 before the elected thread goes on"
    )
    ops = [write_back(whole(B), YV), TmaWait(0, read=True), put(whole(B))]
    assert why(*ops) == "the elected thread is done with b at line 2 before b is written"


# -- loops and branches ----------------------------------------------------------------------------------


def test_the_next_iteration_counts():
    assert lines(loop(get(whole(B)), put(whole(B)))) == [2, 3]
    assert lines(loop(get(part(A, 0)), get(part(A, 1)))) == []
    assert lines(loop(put(whole(B)))) == [2]


def test_a_ring_needs_one_barrier_per_side():
    producer = role(4, 1, loop(wait(EMPTY), expect(FULL, 256), fetch(XV, part(A, I), FULL)))
    consumer = role(0, 4, loop(wait(FULL), get(part(A, I)), arrive(EMPTY)))
    # lines: role 1, loop 2, wait 3, expect 4, copy 5; role 6, loop 7, wait 8, load 9, arrive 10
    assert lines(producer, consumer, warps=5) == [4, 10]


def test_what_only_the_first_iteration_needs_goes_before_the_loop():
    assert lines(put(whole(B)), loop(get(whole(B)))) == [2]
    assert lines(put(whole(B)), While(block(), COND, block(get(whole(B))), Label("w"))) == [2]
    assert lines(put(whole(B)), loop(loop(get(whole(B))))) == [2]


def test_a_loop_that_may_not_run_hands_on_what_was_before():
    assert lines(put(whole(B)), loop(Sync()), get(whole(B))) == [4]
    assert lines(put(whole(B)), loop(Sync(), stop=3), get(whole(B))) == []


def test_branches_join_by_union():
    assert lines(If(COND, block(put(whole(B))), block()), get(whole(B))) == [3]
    assert lines(put(whole(B)), If(COND, block(Sync()), block()), get(whole(B))) == [4]
    assert lines(put(whole(B)), If(COND, block(Sync()), block(Sync())), get(whole(B))) == []
    assert lines(put(whole(B)), If(COND, block(get(whole(B))), block())) == [3]


def test_exits_carry_what_was_done():
    out, end = Label("out"), Label("end")
    early = If(COND, block(put(whole(B)), Break(out)), block())
    assert lines(loop(early, label=out), get(whole(B))) == [5]
    skip = If(COND, block(get(whole(B)), Continue(out)), block())
    assert lines(loop(skip, put(whole(B)), label=out)) == [3, 5]
    assert lines(Scope(end, block(put(whole(B)), If(COND, block(Leave(end)), block()), Sync())), get(whole(B))) == [6]
    assert lines(Scope(end, block(put(whole(B)), Leave(end), get(whole(B))))) == []


def test_tiles_that_a_loop_moves_on_from():
    """A loop that writes another tile each time needs no barrier between its iterations."""

    def storing(factor: int, size: int, step=1, shift: int = 0) -> list[int]:
        i, start, end = Value(I32, "i"), Value(I32, "m"), Value(I32, "end")
        body = block(
            Binary("mul", i, const(factor), start),
            Binary("add", start, const(shift), end),
            put(box(Y, (start,), (size,))),
            *([put(box(Y, (end,), (size,)))] if shift else []),
        )
        return lines(For(i, const(0), N, const(step), body, Label("loop")))

    assert storing(64, 64) == []
    assert storing(32, 64) == [4]
    assert storing(32, 64, step=2) == []
    assert storing(-64, 64) == []
    assert storing(64, 64, step=N) == []  # a step is never 0
    assert storing(128, 64, shift=64) == []
    assert storing(64, 64, shift=64) == [4]  # the next iteration begins where this one ended
    assert storing(128, 64, shift=32) == [5]


def test_tiles_of_nested_loops():
    i, j, m, n = (Value(I32, name) for name in "ijmn")
    Z = array("Z", 2, index=3)

    def nest(*starts) -> list[int]:
        inner = block(Binary("mul", j, const(64), n), put(box(Z, starts, (64, 64))))
        outer = block(
            Binary("mul", i, const(64), m),
            For(j, const(0), N, const(1), inner, Label("inner")),
        )
        return lines(For(i, const(0), N, const(1), outer, Label("outer")), params=(X, Y, N, Z))

    assert nest(m, n) == []
    assert nest(n, m) == []
    assert nest(m, 0) == [5]
    assert nest(0, n) == [3]  # only a new row of tiles comes back to the old ones: once per outer iteration


# -- roles -----------------------------------------------------------------------------------------------


def test_what_was_before_the_fork_is_ordered_before_the_roles():
    assert lines(put(whole(B)), role(0, 1, get(whole(B))), role(1, 3)) == [2]
    assert lines(put(whole(B)), role(0, 1, get(part(A, 0)))) == []
    assert lines(wait(FULL), role(0, 1, arrive(EMPTY))) == [2]
    assert lines(put(whole(B)), role(0, 1, Sync(), get(whole(B)))) == [2]  # the role's own barrier is too small


def test_another_elected_thread_takes_over_at_the_fork():
    assert lines(ExpectTx(bar(FULL), const(4)), role(1, 1, arrive(FULL))) == [2]
    assert lines(ExpectTx(bar(FULL), const(4)), role(1, 1, arrive(EMPTY))) == []


def test_roles_do_not_see_each_other():
    assert lines(role(0, 2, put(whole(B))), role(2, 2, get(whole(B)))) == []


def test_a_join_is_a_barrier():
    assert lines(role(0, 2, put(whole(B))), get(whole(B))) == []


def test_each_role_waits_for_its_own_groups():
    storing = role(0, 2, write_back(whole(B), YV))
    waiting = role(2, 2, TmaWait(0, read=True), put(whole(B)))
    assert lines(storing, waiting) == []


def test_a_kernel_without_needs_is_left_alone():
    function = made(get(XV), put(YV))
    assert insert_role_syncs(function) is function


# -- random programs -------------------------------------------------------------------------------------
# The check knows nothing of states or fixpoints: it lists the paths through a program, and looks at all pairs on each.


def atoms() -> dict[str, Op]:
    views = {"a0": part(A, 0), "a1": part(A, 1), "b": whole(B)}
    made = {f"{do.__name__} {name}": do(view) for name, view in views.items() for do in (get, put)}
    made |= {f"fetch {name}": fetch(XV, view, FULL) for name, view in views.items()}
    made |= {f"write_back {name}": write_back(view, YV) for name, view in views.items()}
    return made | {"arrive": arrive(EMPTY), "wait": wait(FULL), "group": TmaWait(0, read=True), "sync": Sync()}


def random_block(rng: random.Random, depth: int, loops: tuple[Label, ...]) -> Block:
    ops: list[Op] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if depth and kind < 0.2:
            label = Label("loop")
            body = random_block(rng, depth - 1, (*loops, label))
            ops.append(For(Value(I32, "i"), const(0), N, const(1), body, label))
        elif depth and kind < 0.4:
            orelse = random_block(rng, depth - 1, loops) if rng.random() < 0.5 else Block()
            ops.append(If(COND, random_block(rng, depth - 1, loops), orelse))
        elif loops and kind < 0.48:
            leave = rng.choice((Break, Continue))(rng.choice(loops))
            ops.append(If(COND, block(leave), Block()))
        else:
            ops.append(rng.choice(list(atoms().values())))
    return Block(tuple(ops))


Path = tuple[Op, ...]
MOST_PATHS = 3000


def paths(block: Block, trips: int) -> Iterator[tuple[Path, Op | None]]:
    """Every way through a block as (what ran, the exit it ended in), loops up to `trips` times."""
    if not block.ops:
        yield (), None
        return
    first, rest = block.ops[0], Block(block.ops[1:])
    for done, exit in steps(first, trips):
        if exit is not None:
            yield done, exit
        else:
            for more, later in paths(rest, trips):
                yield done + more, later


def steps(op: Op, trips: int) -> Iterator[tuple[Path, Op | None]]:
    match op:
        case If():
            yield from paths(op.then, trips)
            yield from paths(op.orelse, trips)
        case For():
            yield from rounds(op, trips, trips)
        case Break() | Continue():
            yield (), op
        case _:
            yield (op,), None


def rounds(op: For, left: int, trips: int) -> Iterator[tuple[Path, Op | None]]:
    yield (), None
    if not left:
        return
    for done, exit in paths(op.body, trips):
        if exit is not None and exit.label is not op.label:
            yield done, exit
        elif isinstance(exit, Break):
            yield done, None
        else:
            for more, later in rounds(op, left - 1, trips):
                yield done + more, later


def needs_barrier(first: Op, second: Op, stored: set[object]) -> bool:
    """The rules once more, by instruction instead of by effects."""

    def region(op: Op):
        view = op.dst if isinstance(op, TmaLoad) else op.src if isinstance(op, TmaStore) else op.view
        return view.buffer, view.offsets[0].value if view.buffer is A else None

    if isinstance(second, TmaLoad) or second.mnemonic == "mbarrier.arrive":
        if first.mnemonic == "mbarrier.wait":
            return True
    if first.mnemonic in ("load", "store"):
        if second.mnemonic == "mbarrier.arrive":
            return True
        if second.mnemonic in ("load", "store", "tma.load", "tma.store") and region(first) == region(second):
            return "store" in (first.mnemonic, second.mnemonic) or second.mnemonic == "tma.load"
    if first.mnemonic == "tma.wait" and second.mnemonic == "store":
        return region(second) in stored
    return False


def violations(function: Function, trips: int) -> Iterator[tuple[Op, Op]]:
    stores = [op.src for op in function.walk() if isinstance(op, TmaStore)]
    stored = {(v.buffer, v.offsets[0].value if v.buffer is A else None) for v in stores}
    for path, _ in itertools.islice(paths(function.body, trips), MOST_PATHS):
        for i, first in enumerate(path):
            for second in path[i + 1 :]:
                if second.mnemonic == "sync":
                    break
                if needs_barrier(first, second, stored):
                    yield first, second


def without(block: Block, dropped: Op) -> Block:
    from phalanx.ir.core import map_blocks

    kept = tuple(map_blocks(op, lambda inner: without(inner, dropped)) for op in block if op is not dropped)
    return Block(kept)


def random_program(seed: int, depth: int) -> Function:
    return made(random_block(random.Random(seed), depth, ()).ops)


def check_ordered(seed: int, depth: int, trips: int) -> None:
    function = insert_role_syncs(random_program(seed, depth))
    assert not list(violations(function, trips))


def check_needed(seed: int, depth: int, trips: int) -> int:
    """Every single barrier is there for a pair that nothing else orders."""
    function = insert_role_syncs(random_program(seed, depth))
    inserted = [op for op in function.walk() if isinstance(op, Sync) and op.reason]
    if sum(1 for _ in itertools.islice(paths(function.body, trips), MOST_PATHS)) == MOST_PATHS:
        return 0
    for sync in inserted:
        less = made(without(function.body, sync).ops)
        assert any(True for _ in violations(less, trips)), sync.reason
    return len(inserted)


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_are_ordered(seed):
    check_ordered(seed, depth=seed % 3, trips=2)


@pytest.mark.long
@pytest.mark.parametrize("first", range(150, 3000, 150))
def test_many_random_programs_are_ordered(first):
    for seed in range(first, first + 150):
        check_ordered(seed, depth=seed % 4, trips=3)


@pytest.mark.parametrize("seed", range(60))
def test_no_barrier_is_idle(seed):
    check_needed(seed, depth=seed % 3, trips=2)


def fewest(ops: tuple[Op, ...]) -> int:
    """The smallest number of barriers that order a straight line, by trying all places."""
    for number in range(len(ops)):
        for places in itertools.combinations(range(1, len(ops)), number):
            trial: list[Op] = []
            for position, op in enumerate(ops):
                trial += [Sync("trial"), op] if position in places else [op]
            if not any(True for _ in violations(made(trial), 1)):
                return number
    raise AssertionError("barriers everywhere must do")


@pytest.mark.parametrize("seed", range(100))
def test_straight_lines_get_the_fewest_barriers(seed):
    rng = random.Random(seed)
    ops = tuple(rng.choice(list(atoms().values())) for _ in range(6))
    assert len(lines(*ops)) == fewest(made(ops).body.ops)


@px.kernel(warps=8)
def two_turns(A, B, C, *, M=128, N=64, K=32):
    """Products in flight over a barrier: their operands are overwritten when all warpgroups have waited for them."""
    a, b = px.shared((2, M, K), A.dtype), px.shared((2, N, K), B.dtype)
    turn = 0
    acc = px.zeros((M, N), px.f32)
    for k in range(0, A.shape[1], K):
        px.store(a[turn], px.load(A[0:M, k : k + K]))
        px.store(b[turn], px.load(B[0:N, k : k + K]))
        px.fence.async_proxy()
        px.wgmma(a[turn], b[turn].T, acc)
        px.wgmma_commit()
        px.wgmma_wait(1)
        turn ^= 1
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


def test_a_barrier_is_no_end_of_what_an_engine_still_reads() -> None:
    """One barrier before the product, which reads what all threads stored. The product before it is in flight there: another
    one, behind the wait for it, comes before the next stores."""
    function = prepared(two_turns, (array_type(2, bf16), array_type(2, bf16), array_type(2, f32)))
    (loop,) = [op for op in function.walk() if isinstance(op, For)]
    order = [op.mnemonic for op in loop.body.ops if op.mnemonic in ("sync", "store", "wgmma", "wgmma.wait")]
    assert order == ["sync", "store", "store", "sync", "wgmma", "wgmma.wait"]
