"""Steps whose products run while other steps compute: the next one its operands, the one before with its results.

A step is cut into pieces. *Early* is what its products need, *late* what needs their results; late code of a step runs
behind the early code and the products of the next one. So the tensor cores always have work: a loop of
``acc = dot(a, f(load), acc)`` computes the next right operand beside the product, and one of ``acc = acc + dot(a, b) * s``
adds while the next product runs. Two steps in turn have registers and shared memory of their own: nothing that a product
in flight reads or writes is touched.
"""

from __future__ import annotations

from math import prod

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.types import I32, TileType
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import SharedBuffer, SharedView
from phalanx.passes.operand_forms import OperandForm, OperandForms
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import Products, StagedProduct
from phalanx.passes.pipelining.rotation import is_arithmetic
from phalanx.passes.rank_code import fresh_name
from phalanx.passes.resident_accumulators import find_residences

SLOTS = 2
"""Steps whose operands are in shared memory at a time: the one that products read, and the one that is written."""


@frozen(eq=False)
class Lane:
    """Products of a step that add to one sum, which is `result` behind them.

    It goes on from step to step in `cell`; without one it begins as nothing in each step.
    """

    products: tuple[Op, ...]
    cell: Var | None
    result: Value


@frozen(eq=False)
class Written:
    """A right operand that the steps compute: `buffer` has a place for each of two steps in turn."""

    form: OperandForm
    buffer: SharedBuffer

    def view(self, slot: Value) -> SharedView:
        """The operand of a step, as the product reads it."""
        return self.stored(slot).replaced(kept=(2, 1) if self.form.turned else (1, 2))

    def stored(self, slot: Value) -> SharedView:
        """Gives the part of the buffer in which a step stores the operand."""
        zero = Const(0, I32)
        return SharedView(self.buffer, (slot, zero, zero), (1, *self.form.shape), (1, 2))


@frozen(eq=False)
class Alternation:
    """A loop that is written so: its products, those with a right operand that is written, and the code around them.

    `beside` is early code for the late one alone: it runs while the products do. `carried` are the values of it, of the
    early code and of the loop that the late code reads.
    """

    loop: For
    lanes: tuple[Lane, ...]
    products: tuple[StagedProduct, ...]
    written: dict[Op, Written]
    early: tuple[Op, ...]
    beside: tuple[Op, ...]
    late: tuple[Op, ...]
    carried: tuple[Value, ...]

    @property
    def buffers(self) -> tuple[SharedBuffer, ...]:
        """The memory of its written operands."""
        return tuple(dict.fromkeys(item.buffer for item in self.written.values()))

    def begins_anew(self, op: Op) -> bool:
        """Whether the sum of a product is used in its step, and not added to by the next one."""
        return any(op in lane.products and lane.cell is None for lane in self.lanes)


def find_alternation(
    places: Places, operands: Operands, products: Products, loop: For, taken: set[str]
) -> Alternation | None:
    """How the steps of a loop alternate; None where it has not this form, or nothing to gain.

    Memory that it needs gets names that are not `taken`.
    """
    inside = [op for op in loop.body.walk() if op.product is not None]
    if not inside or any(op.loc in products.refused or places.home[op] is not loop.body for op in inside):
        return None
    staged = [item for item in operands.by_load.values() if item.loop is loop]
    if any(item.home is not loop.body for item in staged):
        return None
    found = _lanes(places, loop, inside)
    if found is None:
        return None
    lanes, moves = found
    described = _described(places, products, loop, inside, taken)
    if described is None:
        return None
    made, written = described
    skipped = {*inside, *moves, *operands.views, *products.kept.views, *(item.load for item in staged)}
    rest = [op for op in loop.body.ops if op not in skipped]
    if not all(map(is_arithmetic, rest)):
        return None
    late = _late(rest, {lane.result for lane in lanes if lane.cell is None})
    defined = {value for op in late for value in op.defined_values()}
    if any(value in defined for op in inside for value in op.operands()):
        return None  # a product needs what another one of its step has given
    computes = any(isinstance(item.a, Value) for item in made) or bool(written)
    if not computes and all(lane.cell is not None for lane in lanes):
        return None
    late |= _only_for_late(places, rest, late)
    needed = _needed([op for op in rest if op not in late], {value for op in inside for value in op.operands()})
    beside = [op for op in rest if op not in late and op not in needed]
    early, behind = ([op for op in rest if op in chosen] for chosen in (needed, late))
    return Alternation(
        loop, lanes, made, written, tuple(early), tuple(beside), tuple(behind), _carried(places, loop, late)
    )


def _lanes(places: Places, loop: For, inside: list[Op]) -> tuple[tuple[Lane, ...], set[Op]] | None:
    """The sums that the products of a step add to, and the moves of those that stay in cells over the loop."""
    known = {op: product for op in inside if (product := op.product) is not None}
    around = Block(places.home[loop].ops[: places.index[loop] + 1])
    homes = [home for home in find_residences(around, places.function.body, known, places.makers) if home.loop is loop]
    lanes = [Lane(home.products, home.var, known[home.products[-1]].result) for home in homes]
    moves = {op for home in homes for op in home.moves}
    stay = {op for home in homes for op in home.products}
    chains: dict[Value, tuple[Op, ...]] = {}
    for op in inside:
        if op in stay:
            continue
        acc = known[op].acc
        before: tuple[Op, ...] = ()
        if acc is not None:
            if acc not in chains or places.readers[acc] != [op]:
                return None
            before = chains.pop(acc)
        chains[known[op].result] = (*before, op)
    lanes += [Lane(ops, None, result) for result, ops in chains.items()]
    return tuple(lanes), moves


def _described(
    places: Places, products: Products, loop: For, inside: list[Op], taken: set[str]
) -> tuple[tuple[StagedProduct, ...], dict[Op, Written]] | None:
    """The products as `wgmma`, with places for the right operands that steps compute; None where one can't be that."""
    forms = OperandForms(places.makers)
    made: list[StagedProduct] = []
    written: dict[Op, Written] = {}
    shared: dict[tuple[Value, bool], Written] = {}
    for op in inside:
        what, right = op.product, None
        assert what is not None
        given = products.side(op, what.b)
        if isinstance(given, Value):
            form = forms.of(given, 0)
            item = shared.get((form.tile, form.transposed))
            if item is None:
                name = fresh_name(f"{form.tile.name or 'b'}_tiles", taken)
                item = Written(form, SharedBuffer(name, (SLOTS, *form.shape), form.dtype, op.loc))
                shared[form.tile, form.transposed] = item
            written[op] = Written(form, item.buffer)
            right = written[op].view(Const(0, I32))
        described = products.describe(op, right)
        if described.along is None:
            return None
        made.append(described)
    return tuple(made), written


def _late(ops: list[Op], results: set[Value]) -> set[Op]:
    """The instructions that need results of products, by way of others and of cells too."""
    values, cells, found = set(results), set[Var](), set[Op]()
    while True:
        more = [
            op for op in ops
            if op not in found
            and (any(v in values for v in op.operands()) or (isinstance(op, Assign | ReadVar) and op.var in cells))
        ]
        if not more:
            return found
        for op in more:
            found.add(op)
            values.update(op.defined_values())
            if isinstance(op, Assign):
                cells.add(op.var)


def _only_for_late(places: Places, ops: list[Op], late: set[Op]) -> set[Op]:
    """Arithmetic for late code alone, where what it is made of takes no more registers: that is carried instead."""
    found: set[Op] = set()
    for op in reversed(ops):
        if op in late or isinstance(op, Assign | ReadVar) or not op.effects().is_pure or op.defines is None:
            continue
        readers = places.readers.get(op.defines, [])
        if not readers or any(reader not in late and reader not in found for reader in readers):
            continue
        made_of = [value for value in dict.fromkeys(op.operands()) if value in places.makers]
        if sum(map(_elements, made_of)) <= _elements(op.defines):
            found.add(op)
    return found


def _needed(ops: list[Op], values: set[Value]) -> set[Op]:
    """The early code that defines these values, or what they follow from. Moves between cells keep their order."""
    values, found = set(values), set[Op]()
    for op in reversed(ops):
        if isinstance(op, Assign | ReadVar) or not values.isdisjoint(op.defined_values()):
            found.add(op)
            values.update(op.operands())
    return found


def _elements(value: Value) -> int:
    return prod(value.type.shape) if isinstance(value.type, TileType) else 1


def _carried(places: Places, loop: For, late: set[Op]) -> tuple[Value, ...]:
    """What late code reads of the early code of its step."""
    found: dict[Value, None] = {}
    for op in sorted(late, key=places.order.__getitem__):
        for value in op.operands():
            maker = places.makers.get(value)
            early = maker is not None and maker not in late and maker.product is None and loop in places.around[maker]
            if early or value is loop.index:
                found[value] = None
    return tuple(found)
