"""Mutable cells in the text: where each is declared, which reads need no copy, which expressions may move.

A cell is declared in the innermost block that holds all its reads and writes. A read whose value is used up before
the next write, as far as its own block goes, is the cell itself under another name; other reads are copies. A cell of
8- or 16-bit elements that fill whole words is held as words: what crosses a loop or a branch takes no more registers than
its bits need, and a tensor core finds its operand packed. Writes pack and reads unpack, which costs nothing where
both ends work on words (the compiler sees through it). A scalar
that is read once, in its own block, with no write to the cells it depends on in between, may be computed where it is
read, unless that would lose a name of the user's.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from phalanx.cuda.text.registry import EXPRESSIONS
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, For, If, ReadVar, While
from phalanx.ir.types import ScalarType, TileType
from phalanx.ir.values import Value, Var

if TYPE_CHECKING:
    from phalanx.layouts import RegisterLayout


@frozen
class Cells:
    """`declared[block]`: the cells declared at that block's start; `declaring`: the assignments that declare theirs.

    `aliases[read]`: the cell that a read stands for. `movable`: the scalars that may be computed where they are read.
    `packed`: accumulators of 16-bit elements, which the tensor cores hold two to a register. `words`: the cells whose
    elements are held as 32-bit words.
    """

    declared: Mapping[Block, tuple[Var, ...]]
    declaring: frozenset[Op]
    aliases: Mapping[Value, Value]
    movable: frozenset[Value]
    packed: frozenset[Value]
    words: frozenset[Value]

    def source(self, value: Value) -> Value:
        """The value whose registers `value` has."""
        while (found := self.aliases.get(value)) is not None:
            value = found
        return value


def find_cells(body: Block, layouts: Mapping[Value, RegisterLayout]) -> Cells:
    """The cells of a kernel's body."""
    paths: dict[Var, tuple[Block, ...]] = {}
    _common_paths(body, (body,), paths)
    declared: dict[Block, list[Var]] = {}
    declaring: set[Op] = set()
    summaries: dict[Op, _Summary] = {}
    for var, path in paths.items():
        first = next(op for op in path[-1].ops if var in _summary(op, summaries).cells)
        if isinstance(first, Assign):
            declaring.add(first)
        else:
            declared.setdefault(path[-1], []).append(var)
    uses = Counter(value for op in body.walk() for value in op.operands())
    chains = find_chains(body, layouts)
    words = _find_words(body, paths, layouts)
    aliases: dict[Value, Value] = {}
    _find_aliases(body, layouts, aliases, summaries, chains, words)
    aliases.update(chains)
    movable: dict[Value, frozenset[Var]] = {}
    _find_movable(body, uses, aliases, movable, summaries)
    cells = Cells(
        {block: tuple(found) for block, found in declared.items()}, frozenset(declaring), aliases, frozenset(movable),
        frozenset(), words,
    )
    halves = {cells.source(value) for op in body.walk() for pair in op.updates() for value in pair if _is_narrow(value)}
    return dataclasses.replace(cells, packed=frozenset(halves))


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, TileType) and value.type.dtype.bits == 16


def _find_words(body: Block, cells: Iterable[Var], layouts: Mapping[Value, RegisterLayout]) -> frozenset[Value]:
    """The cells of narrow elements that fill words, but for accumulators: the tensor cores work on those in place."""
    in_place = {value for op in body.walk() for pair in op.updates() for value in pair}
    updated = {op.var for op in body.walk() if isinstance(op, ReadVar) and op.result in in_place}
    updated |= {op.var for op in body.walk() if isinstance(op, Assign) and op.value in in_place}
    return frozenset(var for var in cells if var not in updated and _fills_words(var, layouts))


def _fills_words(var: Var, layouts: Mapping[Value, RegisterLayout]) -> bool:
    if not isinstance(var.type, TileType) or var.type.dtype.kind == "bool" or var.type.dtype.bits not in (8, 16):
        return False
    return layouts[var].num_registers * var.type.dtype.itemsize % 4 == 0


def _common_paths(block: Block, path: tuple[Block, ...], paths: dict[Var, tuple[Block, ...]]) -> None:
    for op in block.ops:
        if isinstance(op, Assign | ReadVar):
            old = paths.get(op.var, path)
            shared = 0
            while shared < min(len(old), len(path)) and old[shared] is path[shared]:
                shared += 1
            paths[op.var] = path[:shared]
        for inner in op.blocks():
            _common_paths(inner, (*path, inner), paths)


@frozen
class _Summary:
    """All values an instruction reads, all cells it writes, all cells it names; nested blocks included."""

    reads: frozenset[Value]
    writes: frozenset[Var]
    cells: frozenset[Var]


def _summary(op: Op, known: dict[Op, _Summary]) -> _Summary:
    found = known.get(op)
    if found is None:
        reads = set(op.operands())
        writes = {op.var} if isinstance(op, Assign) else set()
        cells = {op.var} if isinstance(op, Assign | ReadVar) else set()
        for block in op.blocks():
            for inner in block.ops:
                part = _summary(inner, known)
                reads |= part.reads
                writes |= part.writes
                cells |= part.cells
        found = known[op] = _Summary(frozenset(reads), frozenset(writes), frozenset(cells))
    return found


def _find_aliases(
    block: Block, layouts: Mapping[Value, object], aliases: dict[Value, Value], known: dict[Op, _Summary],
    chains: Mapping[Value, Value], words: frozenset[Value], follow: tuple[Op, ...] = (),
) -> None:
    """`follow`: what else may read the block's values (a loop's body, for the block of its test)."""
    for position, op in enumerate(block.ops):
        if isinstance(op, ReadVar) and op.var not in words and layouts.get(op.var) == layouts.get(op.result):
            if _used_up_before_write(op, block.ops[position + 1 :] + follow, known, chains):
                aliases[op.result] = op.var
        for inner in op.blocks():
            after = op.body.ops if isinstance(op, While) and inner is op.test else ()
            _find_aliases(inner, layouts, aliases, known, chains, words, after)


def _used_up_before_write(
    read: ReadVar, after: tuple[Op, ...], known: dict[Op, _Summary], chains: Mapping[Value, Value]
) -> bool:
    family = {read.result}  # with what is computed in its place
    for result, source in chains.items():
        if source in family:
            family.add(result)
    written = False
    for op in after:
        part = _summary(op, known)
        if not family.isdisjoint(part.reads):
            if written:
                return False
            if read.var in part.writes and not isinstance(op, Assign):
                return False
        written = written or read.var in part.writes
    return True


def find_chains(body: Block, layouts: Mapping[Value, object]) -> dict[Value, Value]:
    """Accumulators that are updated in place: from the result of a product or a wait to the tile that it replaces.

    The update is the last to read that tile on its way through the kernel, and happens once for each time the tile is made.
    """
    updated = {old for op in body.walk() for old, _ in op.updates()}
    last: dict[Value, set[Op]] = {old: set() for old in updated}
    _find_last_readers(body, updated, set(), last)
    chains: dict[Value, Value] = {}
    around: dict[Value, tuple[Op, ...]] = {}

    def visit(block: Block, loops: tuple[Op, ...]) -> None:
        for op in block.ops:
            for old, new in op.updates():
                alone = op in last[old] and op.operands().count(old) == 1
                if alone and around.get(old) == loops and layouts.get(old) == layouts.get(new):
                    chains[new] = old
            for value in op.defined_values():
                around[value] = loops
            inside = (*loops, op) if isinstance(op, For | While) else loops
            for inner in op.blocks():
                visit(inner, inside)

    visit(body, ())
    return chains


def _find_last_readers(block: Block, values: set[Value], later: set[Value], last: dict[Value, set[Op]]) -> None:
    """Fills `last` with the instructions behind which none reads a value: one for each arm of a branch that reads it.

    `later`: those of the `values` that are read behind the block; at the end also those that are read in it.
    """
    for op in reversed(block.ops):
        if isinstance(op, If):
            ways = [set(later) for _ in op.blocks()]
            for inner, way in zip(op.blocks(), ways):
                _find_last_readers(inner, values, way, last)
            later.update(*ways)
        else:
            for inner in reversed(tuple(op.blocks())):
                _find_last_readers(inner, values, later, last)
        read = values.intersection(op.operands())
        for value in read - later:
            last[value].add(op)
        later |= read


def _find_movable(
    block: Block,
    uses: Counter[Value],
    aliases: Mapping[Value, Value],
    movable: dict[Value, frozenset[Var]],
    known: dict[Op, _Summary],
    condition: Value | None = None,
) -> None:
    """Fills `movable` with the cells that each movable scalar depends on; `condition` is read at the block's end."""
    for position, op in enumerate(block.ops):
        value = op.defines
        if value is not None and op in EXPRESSIONS and uses[value] == 1 and isinstance(value.type, ScalarType):
            cells: set[Var] = set()
            for operand in op.operands():
                cells |= movable.get(operand, frozenset())
                source = aliases.get(operand)
                if isinstance(source, Var):
                    cells.add(source)
            if _reaches_use(value, cells, block.ops[position + 1 :], known, condition):
                movable[value] = frozenset(cells)
        for inner in op.blocks():
            cond = op.cond if isinstance(op, While) and inner is op.test else None
            _find_movable(inner, uses, aliases, movable, known, cond)


def _reaches_use(
    value: Value, cells: set[Var], after: tuple[Op, ...], known: dict[Op, _Summary], condition: Value | None
) -> bool:
    for op in after:
        writes = _summary(op, known).writes
        if value in op.operands():  # an assignment reads before it writes; a loop may read again after its body wrote
            return isinstance(op, Assign) or not (value.name or cells & writes)
        if cells & writes or value in _summary(op, known).reads:
            return False
    return value is condition
