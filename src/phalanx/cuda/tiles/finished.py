"""Arithmetic that must be over before a wait for products: what was written between them and the wait.

Users put arithmetic there so that the tensor cores work meanwhile. The assembler knows of no reason to keep it there: it
moves `wgmma.wait_group` up to where the operands of the wait are ready, and the arithmetic runs when the products are over.
So something that it can't move over the wait has to need the results. It is enough to name those from which all others
of them follow: the sums of a softmax, for one, need every exponential.
"""

from __future__ import annotations

from phalanx.cuda.text.writer import Writer
from phalanx.ir.core import Block, Op
from phalanx.ir.effects import Effects
from phalanx.ir.engines import Engine
from phalanx.ir.ops.control import Assign
from phalanx.ir.tables import Marks
from phalanx.ir.types import ScalarType, TileType
from phalanx.ir.values import Value

MOST_WORDS = 64
"""Registers that may be named at a wait: each two of them cost an instruction."""

MOVES = Marks()
"""Instructions with little to compute: it does not matter on which side of the wait they are."""
NEEDS_ALL = Marks()
"""Instructions of whose operands a thread has used all of its registers when it has the whole result."""


def needs_all_registers(*classes: type[Op], moves: bool = False) -> None:
    """Marks such instructions; `moves`: they have little to compute. For the files of `cuda/ops`."""
    NEEDS_ALL.add(*classes)
    if moves:
        MOVES.add(*classes)


def finished_before(w: Writer, wait: Op, engine: Engine) -> tuple[Value, ...]:
    """The values that a wait for `engine` must find computed; none where that would cost too much."""
    window = _window(w.plan.function.body, wait, engine)
    made: dict[Value, Op] = {}
    needs: dict[Value, set[Value]] = {}
    for op in window or ():
        result = op.defines
        if result is not None and op in NEEDS_ALL:
            operands = [value for value in op.operands() if value in made]
            if isinstance(result.type, TileType) or operands:
                made[result] = op
                needs[result] = {*operands, *(deeper for value in operands for deeper in needs[value])}
    alive = [value for value in made if _is_read_later(w, value, window or ())]
    ends = [value for value in alive if not any(value in needs[other] for other in alive)]
    ends = [value for value in ends if not _is_move_of_known(value, made, needs, ends) and _is_number(value)]
    words = sum(_words(w, value) for value in ends)
    return tuple(ends) if words <= MOST_WORDS else ()


def finish(w: Writer, values: tuple[Value, ...]) -> None:
    """Writes what needs these values and does nothing: a store under a condition that never holds, unknown to compilers.

    Not a branch: products in flight over one are serialised. Nor a store of each, which becomes branches as well.
    """
    if not values:
        return
    folded = []
    for value in values:
        if isinstance(value.type, TileType):
            folded.append(f"{w.use('fold_bits')}<{w.registers(value)}>({w.name(value)})")
        else:
            folded.append(f"{w.use('fold_scalar')}({w.name(value)})")
    w.line(f"{w.use('finish')}({' ^ '.join(folded)}, {w.never}, {w.base});")


def _window(block: Block, wait: Op, engine: Engine) -> tuple[Op, ...] | None:
    """What stands between the last instruction for `engine` and the wait, in the wait's own block."""
    for position, op in enumerate(block.ops):
        if op is wait:
            start = position
            while start and not any(_concerns(inner.effects(), engine) for inner in _all_of(block.ops[start - 1])):
                start -= 1
            return block.ops[start:position]
        for inner_block in op.blocks():
            found = _window(inner_block, wait, engine)
            if found is not None:
                return found
    return None


def _all_of(op: Op) -> tuple[Op, ...]:
    return tuple(Block((op,)).walk())


def _concerns(effects: Effects, engine: Engine) -> bool:
    return any(group.engine is engine for group in effects.groups) or any(
        item.engine is engine for item in effects.accumulations
    )


def _is_read_later(w: Writer, value: Value, window: tuple[Op, ...]) -> bool:
    """Whether anything reads the value after the window, or a cell hands it on."""
    inside = 0
    for outer in window:
        for op in _all_of(outer):
            if isinstance(op, Assign) and op.value is value:
                return True
            inside += sum(operand is value for operand in op.operands())
    return w.uses(value) > inside


def _is_move_of_known(value: Value, made: dict[Value, Op], needs: dict[Value, set[Value]], ends: list[Value]) -> bool:
    """Whether it follows, without anything to compute, from what is known to be there."""
    source = value
    while source in made and made[source] in MOVES:
        (source,) = made[source].operands()
    return source not in made or (source is not value and any(source in needs[end] for end in ends if end is not value))


def _is_number(value: Value) -> bool:
    return isinstance(value.type, ScalarType | TileType) and value.type.dtype.kind != "bool"


def _words(w: Writer, value: Value) -> int:
    dtype = value.type.dtype  # type: ignore[union-attr]
    return max(1, w.registers(value) * dtype.itemsize // 4) if isinstance(value.type, TileType) else 1
