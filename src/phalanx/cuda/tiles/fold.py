"""Folds and scans by a function of the user's: the function becomes a lambda of the text, which joins two blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.cuda.text.registry import emit_block
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.index import atom, element, slot_loop
from phalanx.cuda.tiles.ordered import (
    Joiner,
    PartExchange,
    assign,
    each,
    elements,
    exchange_bytes,
    join_lanes,
    only_if,
    shuffled,
)
from phalanx.cuda.tiles.scan import emit_scan
from phalanx.ir.core import Block
from phalanx.ir.ops.tile import ReduceBy, ScanBy
from phalanx.ir.types import TileType
from phalanx.layouts.axes import Run, families, runs_along
from phalanx.layouts.registers import RegisterLayout


class _Function(Joiner):
    """The function of a fold or scan, declared as a lambda at the current line."""

    def __init__(self, w: Writer, op: ReduceBy | ScanBy) -> None:
        self.dtypes = tuple(scalar_dtype(x) for x in op.xs)
        by = op.by
        self.name = w.unique(by.name or "joined")
        w.count_uses(by.ops, by.results)
        with w.scope():
            values = by.params[: 2 * len(op.xs)]
            parameters = [f"const {w.ctype(scalar_dtype(value))} {w.name(value)}" for value in values]
            results = [w.unique(f"result_{number}") for number in range(len(self.dtypes))]
            parameters += [f"{w.ctype(dtype)}& {name}" for dtype, name in zip(self.dtypes, results, strict=True)]
            with w.block(f"const auto {self.name} = [&]({', '.join(parameters)})", "};"):
                for inner, outer in zip(by.params[len(values) :], op.taken, strict=True):
                    w.define(inner, w.name(outer))
                emit_block(w, Block(by.ops))
                w.line(assign(results, [w.name(value) for value in by.results]))

    def join(self, low: Sequence[str], high: Sequence[str], out: Sequence[str]) -> str:
        return f"{self.name}({', '.join([*low, *high, *out])});"


def fold_scratch_bytes(op: ReduceBy | ScanBy, layout: RegisterLayout) -> int:
    """Scratch bytes of a fold or scan."""
    return exchange_bytes([scalar_dtype(x) for x in op.xs], layout, op.axis)


def emit_scan_by(w: Writer, op: ScanBy) -> None:
    """Writes a scan; the results have the operands' layout."""
    names = [w.declare_tile(result) for result in op.results]
    with w.block():
        joiner = _Function(w, op)
        emit_scan(
            w, op, w.plan.layouts[op.xs[0]], op.axis, joiner,
            lambda i: [element(w.name(x), i) for x in op.xs],
            lambda i, values: assign(elements(names, i), values),
        )


def emit_reduce_by(w: Writer, op: ReduceBy) -> None:
    """Writes a fold; the results are tiles in the sliced layout, or scalars."""
    layout = w.plan.layouts[op.xs[0]]
    projection = layout.slice(op.axis)
    folded = []
    for result in op.results:
        if isinstance(result.type, TileType):
            folded.append(w.declare_tile(result))
        else:
            folded.append(w.unique(f"{result.name or op.by.name or 'folded'}_all"))
            w.line(f"{w.ctype(scalar_dtype(result))} {folded[-1]}[1];")
    with w.block():
        fold = _Fold(w, op, layout)
        fold.run()
        rows = [(projection.register_map[slot], slot) for slot in fold.slots]
        with each(w, rows, ("to", "from")) as (target, source):
            w.line(assign(elements(folded, target), elements(fold.values, source)))
    for result, name in zip(op.results, folded, strict=True):
        if not isinstance(result.type, TileType):
            w.define(result, f"{name}[0]")


class _Fold:
    """Joins the blocks of a tile along an axis until one is left; `slots` are those that hold the blocks now."""

    def __init__(self, w: Writer, op: ReduceBy, layout: RegisterLayout) -> None:
        self.w, self.op, self.layout, self.axis = w, op, layout, op.axis
        self.joiner = _Function(w, op)
        self.coordinates = Coordinates(w, layout)
        self.is_cut = op.axis in self.coordinates.masked_dims()
        """Whether some threads hold blocks beyond the end of the axis."""
        self.keys = list(layout.live_registers())
        self.values = [w.unique(f"part_{number}" if number else "part") for number in range(len(op.xs))]

    @property
    def slots(self) -> list[int]:
        return [self.layout.slots[key] for key in self.keys]

    def run(self) -> None:
        w, count = self.w, self.layout.num_registers
        for name, dtype in zip(self.values, self.joiner.dtypes, strict=True):
            w.line(f"{w.ctype(dtype)} {name}[{count}];")
        with slot_loop(w, count) as i:
            w.line(assign(elements(self.values, i), [element(w.name(x), i) for x in self.op.xs]))
        steps: dict[str, Callable[[Run], None]] = {
            "register": self.registers, "lane": self.lanes, "warp": self.warps,
        }
        for dim in range(self.layout.rank):
            self.coordinates.declare(dim)
        for run in runs_along(self.layout, self.axis):
            steps[run.kind](run)

    def begins_inside(self, block: str, position: int) -> str:
        """A condition: whether the block of that number, of 2**position elements, begins before the axis ends."""
        start = f"({atom(block)} << {position})" if position else atom(block)
        return f"{start} < {self.layout.shape[self.axis]}" if self.is_cut else ""

    def block_of(self, slot: str, position: int) -> str:
        coordinate = atom(self.coordinates.at(self.axis, slot))
        return f"({coordinate} >> {position})" if position else coordinate

    def registers(self, run: Run) -> None:
        slots = self.layout.slots
        found = families(self.keys, run)
        rows = [(slots[members[0]], slots[other]) for members in found.values() for other in members[1:]]
        if rows:
            with each(self.w, rows, ("low", "high")) as (low, high):
                inside = self.begins_inside(self.block_of(high, run.position), run.position)
                first = elements(self.values, low)
                only_if(self.w, inside, self.joiner.join(first, elements(self.values, high), first))
        self.keys = [members[0] for members in found.values()]

    def lanes(self, run: Run) -> None:
        """Lanes that differ in one bit exchange their blocks, bit after bit; both get the same result."""
        w = self.w
        for place, bit in enumerate(run.bits):
            position = run.position + place
            with each(w, [(slot,) for slot in self.slots], ("slot",), scope=True) as (slot,):
                value = elements(self.values, slot)
                upper, other = shuffled(w, self.joiner, value, str(1 << bit))
                inside = self.begins_inside(f"({self.block_of(slot, position)} | 1)", position)  # the upper one of the two
                kept = [f"{upper} ? {b} : {a}" for a, b in zip(value, other, strict=True)]  # else it is the lower one
                joined = join_lanes(self.joiner, upper, value, other, value)
                only_if(w, inside, joined, assign(value, kept) if self.is_cut else "")

    def warps(self, run: Run) -> None:
        """Each warp writes its blocks; then every thread reads and joins all of them."""
        w = self.w
        with w.block():
            exchange = PartExchange(w, self.op, self.layout, self.axis, run, self.joiner, self.coordinates)
            exchange.write([(slot, slot) for slot in self.slots], self.values)
            with each(w, [(slot,) for slot in self.slots], ("slot",), scope=True) as (slot,):
                value = elements(self.values, slot)
                with exchange.neighbours(slot) as (j, _, block, other):
                    with w.block(f"if ({j} == 0)"):
                        w.line(assign(value, other))
                    with w.block("else"):
                        only_if(w, self.begins_inside(block, run.position), self.joiner.join(value, other, value))
