"""Two products a step with arithmetic between them: the second one of a step runs beside the first one of the next.

``s = dot(q, k)``, something that makes ``p`` of ``s``, ``o = dot(p, v, f(o))``: as it is written each product waits for the
other. Here the second is put off: a step begins its first product, then the second one of the step before, waits for the
first alone, computes, and waits for the other. The first step is written apart, before the loop, and the last second
product behind it. What each product adds to what is the same, and so are the results.
"""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.ops.control import Assign, For, ReadVar
from phalanx.ir.values import Value, Var
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import Products
from phalanx.passes.pipelining.staging import Staged


@frozen(eq=False)
class Rotation:
    """A loop that is written so: its two products, and the arithmetic in the order in which it runs.

    `before` stands before the first product, `early` behind it, `late` needs the sum of the step before. `cell` holds the
    sum that the second product adds to, `reads` are the values of it.
    """

    loop: For
    first: Op
    second: Op
    write: Op
    cell: Var
    reads: tuple[Op, ...]
    before: tuple[Op, ...]
    early: tuple[Op, ...]
    late: tuple[Op, ...]


def find_rotation(places: Places, operands: Operands, products: Products, loop: For) -> Rotation | None:
    """How a loop is rotated; None where it has not this form."""
    body = loop.body.ops
    found = [op for op in loop.body.walk() if op.product is not None]
    if len(found) != 2 or any(op not in products.found or places.home[op] is not loop.body for op in found):
        return None
    first, second = found
    if first.loc in products.refused or second.loc in products.refused:
        return None
    a, b = products.found[first], products.found[second]
    if a.along is None or b.along is None or not isinstance(b.a, Value) or b.what.acc is None:
        return None
    if not all(_has_own_ring(item) for item in operands.by_load.values() if item.loop is loop):
        return None
    readers = places.readers.get(b.what.result, [])
    write = readers[0] if len(readers) == 1 else None
    if not isinstance(write, Assign) or places.home[write] is not loop.body:
        return None
    loads = (item.load for item in operands.by_load.values())
    skipped = {first, second, write, *operands.views, *products.kept.views, *loads}
    rest = [op for op in body if op not in skipped]
    if not all(map(is_arithmetic, rest)):
        return None
    reads = tuple(op for op in rest if isinstance(op, ReadVar) and op.var is write.var)
    writes = [op for op in rest if isinstance(op, Assign) and op.var is write.var]
    late = _dependents(rest, {op.result for op in reads if isinstance(op, ReadVar)})
    if writes or not reads or any(op in late for op in (a.op, b.op)):
        return None
    known = {value for op in late for value in op.defined_values()} | {op.defines for op in reads}
    if b.what.acc not in known or b.a in known or any(value in known for value in first.operands()):
        return None
    maker = places.makers.get(b.a)
    if maker is not None and maker in rest and places.readers[b.a] == [second] and not isinstance(maker, ReadVar):
        late.add(maker)  # registers of a product in flight are not written: ptxas would let products wait for each other
    own = [op for op in rest if op not in late and op not in reads]
    place = places.index[first]
    before = tuple(op for op in own if places.index[op] < place and not isinstance(op, Assign))
    early = tuple(op for op in own if op not in before)
    return Rotation(
        loop, first, second, write, write.var, reads, before, early, tuple(op for op in rest if op in late),
    )


def _has_own_ring(item: Staged) -> bool:
    """Whether a tile is read by one product, and by nothing else."""
    return len(item.products) == 1 and not item.in_registers


def is_arithmetic(op: Op) -> bool:
    """Whether an instruction may run at another place of the step."""
    if isinstance(op, Assign | ReadVar):
        return True
    load = op.tile_load
    alone = not any(True for _ in op.blocks()) and op.product is None
    return alone and (op.effects().is_pure or (load is not None and load.view.space.readable_ahead))


def _dependents(ops: list[Op], values: set[Value]) -> set[Op]:
    """The instructions that need one of the values, by way of others, too."""
    known, found = set(values), set()
    for op in ops:
        if any(value in known for value in op.operands()):
            found.add(op)
            known.update(op.defined_values())
    return found
