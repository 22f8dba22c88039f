"""Instructions and cells that nobody needs go away, in loops and branches too; what has an effect stays."""

from __future__ import annotations

from itertools import pairwise

from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, For, If, ReadVar, Sync, While
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Label, Value, Var
from phalanx.language.reader.cleanup import remove_dead

A, B, C = Value(I32, "a"), Value(I32, "b"), Value(I32, "c")
ONE = Const(1)


def add(x: Value, result: Value) -> Binary:
    return Binary("add", x, ONE, result)


def left(*ops: Op) -> list[Op]:
    return list(remove_dead(Block(ops)).walk())


def test_a_chain_that_ends_nowhere() -> None:
    assert left(add(ONE, A), add(A, B), add(B, C)) == []


def test_what_is_used_stays() -> None:
    x = Var(I32, "x")
    needed, store, read = add(ONE, A), Assign(x, A), ReadVar(x, B)
    branch = If(B, Block((sync := Sync(),)), Block())
    assert left(needed, store, add(A, C), read, branch) == [needed, store, read, branch, sync]


def test_a_block_that_needs_nothing_removed_is_the_same() -> None:
    block = Block((Sync(), If(Value(BOOL, "p"), Block((Sync(),)), Block())))
    assert remove_dead(block) is block


def test_cells_that_only_feed_cells_that_are_never_read() -> None:
    cells = [Var(I32, f"x{n}") for n in range(20)]
    ops: list[Op] = [Assign(cells[0], ONE)]
    for n, (before, after) in enumerate(pairwise(cells)):
        value = Value(I32, f"v{n}")
        ops += [ReadVar(before, value), Assign(after, value)]
    assert left(*ops) == []
    last = Value(I32, "last")
    branch = If(last, Block((Sync(),)), Block())
    assert left(*ops, ReadVar(cells[-1], last), branch)[: len(ops)] == ops


def test_inside_loops_and_branches() -> None:
    index, label = Value(I32, "i"), Label("loop")
    inner = If(Value(BOOL, "p"), Block((add(index, A), keep := Sync())), Block((add(A, B),)))
    loop = For(index, ONE, ONE, ONE, Block((inner,)), label)
    found = left(loop)
    assert [type(op) for op in found] == [For, If, Sync] and found[-1] is keep


def test_an_empty_loop_stays() -> None:
    loop = For(Value(I32, "i"), ONE, ONE, ONE, Block((add(ONE, A),)), Label("loop"))
    assert [type(op) for op in left(loop)] == [For], "its index is no reason to drop it"


def test_a_condition_computed_in_its_loop() -> None:
    test = add(ONE, A)
    loop = While(Block((test, add(ONE, B))), A, Block(), Label("loop"))
    assert left(loop)[1:] == [test]


def test_a_cell_that_feeds_itself_stays() -> None:
    x = Var(I32, "x")
    ops = [Assign(x, ONE), ReadVar(x, A), add(A, B), Assign(x, B)]
    assert left(*ops) == ops, "it is read, as far as counting goes"
