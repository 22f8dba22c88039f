"""Running results along an axis: in a thread one element after the other, then lanes by shuffles, then warps.

Upward, each run of bits finds the total of its blocks and, for each block, what the blocks before it come to (its
prefix). Downward, the prefix of a block is put before those of its parts, and at last before the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.index import slot_loop
from phalanx.cuda.tiles.ordered import (
    Joiner,
    PartExchange,
    assign,
    each,
    elements,
    join_lanes,
    lane_bits,
    only_if,
    shuffled,
    stretches,
)
from phalanx.ir.core import Op
from phalanx.layouts.axes import Run, families, runs_along
from phalanx.layouts.registers import RegisterLayout

ALWAYS, NEVER = "true", ""
"""Conditions under which a block has something before it."""


@dataclass
class _Level:
    """The prefixes of the blocks that one run of bits brings together: arrays, and when each of them is there.

    `parents[i]`: the position of the block that block i becomes part of.
    """

    prefix: list[str]
    there: list[str]
    parents: list[int]


class _Scan:
    def __init__(self, w: Writer, op: Op, layout: RegisterLayout, axis: int, joiner: Joiner, values: list[str]) -> None:
        self.w, self.op, self.layout, self.axis, self.joiner, self.values = w, op, layout, axis, joiner, values
        self.coordinates = Coordinates(w, layout)
        self.keys = list(layout.live_registers())
        self.totals: list[str] = []
        self.levels: list[_Level] = []

    def declare(self, hint: str, count: int) -> list[str]:
        names = [self.w.unique(f"{hint}_{number}" if number else hint) for number in range(len(self.joiner.dtypes))]
        for name, dtype in zip(names, self.joiner.dtypes, strict=True):
            self.w.line(f"{self.w.ctype(dtype)} {name}[{count}];")
        return names

    def slots_of(self, keys: Sequence[int]) -> list[int]:
        """The first slot of each block."""
        return [self.layout.slots[key] for key in keys]

    def run(self) -> None:
        w, runs = self.w, list(runs_along(self.layout, self.axis))
        ends = {key: self.layout.slots[key] for key in self.keys}  # a block's total is that of its last slot
        if runs and runs[0].kind == "register":
            found = families(self.keys, runs.pop(0))
            slots = self.layout.slots
            steps = [(slots[a], slots[b]) for members in found.values() for a, b in pairwise(members)]
            if steps:
                with each(w, steps, ("low", "high")) as (low, high):
                    high_values = elements(self.values, high)
                    w.line(self.joiner.join(elements(self.values, low), high_values, high_values))
            ends = {key: slots[members[-1]] for key, members in found.items()}
            parents = {member: place for place, members in enumerate(found.values()) for member in members}
            belongs = [parents[key] for key in self.keys]
            self.keys = list(found)
        else:
            belongs = list(range(len(self.keys)))
        if not runs:
            return
        self.totals = self.declare("total", len(self.keys))
        with each(w, list(enumerate(ends[key] for key in self.keys)), ("item", "slot")) as (item, slot):
            w.line(assign(elements(self.totals, item), elements(self.values, slot)))
        for run in runs:
            last = run is runs[-1]
            {"register": self.registers, "lane": self.lanes, "warp": self.warps}[run.kind](run, last)
        self.down(belongs)

    # -- upward

    def registers(self, run: Run, last: bool) -> None:
        w = self.w
        found = families(self.keys, run)
        at = {key: place for place, key in enumerate(self.keys)}
        rows = [[at[member] for member in members] for members in found.values()]
        prefix = self.declare("prefix", len(self.keys))
        seconds = [(row[0], row[1]) for row in rows if len(row) > 1]
        later = [(a, b) for row in rows for a, b in pairwise(row[1:])]
        if seconds:
            with each(w, seconds, ("low", "high")) as (low, high):
                w.line(assign(elements(prefix, high), elements(self.totals, low)))
        if later:
            with each(w, later, ("low", "high")) as (low, high):
                before, total = elements(prefix, low), elements(self.totals, low)
                w.line(self.joiner.join(before, total, elements(prefix, high)))
        there, parents = [NEVER] * len(self.keys), [0] * len(self.keys)
        for place, row in enumerate(rows):
            for number, child in enumerate(row):
                there[child], parents[child] = ALWAYS if number else NEVER, place
        self.levels.append(_Level(prefix, there, parents))
        if not last:
            totals = self.declare("total", len(rows))
            alone = [(place, row[0]) for place, row in enumerate(rows) if len(row) == 1]
            joined = [(place, row[-1]) for place, row in enumerate(rows) if len(row) > 1]
            if alone:
                with each(w, alone, ("item", "low")) as (item, low):
                    w.line(assign(elements(totals, item), elements(self.totals, low)))
            if joined:
                with each(w, joined, ("item", "low")) as (item, low):
                    end = elements(self.totals, low)
                    w.line(self.joiner.join(elements(prefix, low), end, elements(totals, item)))
            self.totals = totals
        self.keys = list(found)

    def lanes(self, run: Run, _: bool) -> None:
        """Lanes that differ in one bit exchange their totals, bit after bit; the upper one has the other before it."""
        w, below = self.w, 0
        prefix = self.declare("prefix", len(self.keys))
        rows = [(place,) for place in range(len(self.keys))]
        for bits in stretches(run.bits):
            with lane_bits(w, bits) as mask, each(w, rows, ("item",), scope=True) as (item,):
                total, before = elements(self.totals, item), elements(prefix, item)
                upper, other = shuffled(w, self.joiner, total, mask)
                lower = f"{mask} - {1 << bits[0]}" if len(bits) > 1 else ""  # the bits of this stretch that are done
                done = " | ".join(filter(None, (f"({lower})" if lower and below else lower, str(below) if below else "")))
                with w.block(f"if ({upper})"):
                    self.put_before(other, before, f"{w.lane} & ({done})" if done else NEVER)
                w.line(join_lanes(self.joiner, upper, total, other, total))
            below |= sum(1 << bit for bit in bits)
        self.same_blocks(prefix, f"({w.lane} & {run.mask}) != 0")

    def warps(self, run: Run, last: bool) -> None:
        w = self.w
        prefix = self.declare("prefix", len(self.keys))
        with w.block():
            for dim in range(self.layout.rank):
                self.coordinates.declare(dim)
            exchange = PartExchange(w, self.op, self.layout, self.axis, run, self.joiner, self.coordinates)
            rows = list(enumerate(self.slots_of(self.keys)))
            exchange.write(rows, self.totals)
            with each(w, rows, ("item", "slot"), scope=True) as (item, slot):
                total, before = elements(self.totals, item), elements(prefix, item)
                with exchange.neighbours(slot) as (j, mine, _, other):
                    with w.block(f"if ({j} < {mine})"):
                        self.put_after(before, other, f"{j} > 0")
                    if not last:
                        self.put_after(total, other, f"{j} > 0")
            self.coordinates = Coordinates(w, self.layout)  # what was declared ends with this block
        self.same_blocks(prefix, f"({w.warp} & {run.mask}) != 0")

    def same_blocks(self, prefix: list[str], there: str) -> None:
        """A level that leaves a thread's blocks as many as they are."""
        count = len(self.keys)
        self.levels.append(_Level(prefix, [there] * count, list(range(count))))

    def put_before(self, first: Sequence[str], block: Sequence[str], there: str) -> None:
        """`first` before what `block` holds, if it holds something."""
        self.either(there, self.joiner.join(first, block, block), assign(block, first))

    def put_after(self, block: Sequence[str], more: Sequence[str], there: str) -> None:
        self.either(there, self.joiner.join(block, more, block), assign(block, more))

    def either(self, condition: str, then: str, orelse: str) -> None:
        w = self.w
        if condition == ALWAYS:
            w.line(then)
        elif condition == NEVER:
            w.line(orelse)
        else:
            only_if(w, condition, then, orelse)

    # -- downward

    def down(self, belongs: list[int]) -> None:
        """`belongs[slot]`: the block of the lowest level that a slot is in."""
        above = _Level([], [], [])
        for level in reversed(self.levels):
            if above.prefix:
                level.there = self.join_levels(above, level)
            above = level
        rows = list(enumerate(belongs))

        def put(slot: str, item: str) -> None:
            value = elements(self.values, slot)
            self.w.line(self.joiner.join(elements(above.prefix, item), value, value))

        self.by_condition(rows, lambda slot, item: above.there[item], put)

    def join_levels(self, above: _Level, level: _Level) -> list[str]:
        """Puts the prefixes of the level above before those of its parts; when each is then there."""
        rows = list(enumerate(level.parents))

        for local_there in dict.fromkeys(level.there):

            def put(item: str, parent: str, there: str = local_there) -> None:
                self.put_before(elements(above.prefix, parent), elements(level.prefix, item), there)

            chosen = [(item, parent) for item, parent in rows if level.there[item] == local_there]
            self.by_condition(chosen, lambda item, parent: above.there[parent], put)
        return [_or(above.there[parent], level.there[item]) for item, parent in rows]

    def by_condition(
        self, rows: list[tuple[int, int]], condition: Callable[[int, int], str], put: Callable[[str, str], None]
    ) -> None:
        """`put` for the rows whose condition holds."""
        for there in dict.fromkeys(condition(*row) for row in rows):
            chosen = [row for row in rows if condition(*row) == there]
            if there == NEVER:
                continue
            if there == ALWAYS:
                with each(self.w, chosen, ("to", "from")) as (item, parent):
                    put(item, parent)
                continue
            with self.w.block(f"if ({there})"), each(self.w, chosen, ("to", "from")) as (item, parent):
                put(item, parent)


def _or(a: str, b: str) -> str:
    if ALWAYS in (a, b):
        return ALWAYS
    return f"{a} || {b}" if a and b else a or b


def emit_scan(
    w: Writer, op: Op, layout: RegisterLayout, axis: int, joiner: Joiner, read: Callable[[str], list[str]],
    write: Callable[[str, list[str]], str],
) -> None:
    """Writes running results; `read(i)` is what slot i holds before, `write(i, values)` stores what it holds then."""
    with w.block():
        values = [w.unique(f"running_{number}" if number else "running") for number in range(len(joiner.dtypes))]
        slots = layout.num_registers
        for name, dtype in zip(values, joiner.dtypes, strict=True):
            w.line(f"{w.ctype(dtype)} {name}[{slots}];")
        with slot_loop(w, slots) as i:
            w.line(assign(elements(values, i), read(i)))
        _Scan(w, op, layout, axis, joiner, values).run()
        with slot_loop(w, slots) as i:
            w.line(write(i, elements(values, i)))
