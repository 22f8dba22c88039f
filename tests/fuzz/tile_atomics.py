"""Statements of random tile kernels that update memory atomically, and rows of shared memory by index."""

from __future__ import annotations

import math
from dataclasses import replace

from fuzz.tile_arrays import content_for, facts_of
from fuzz.tile_memory import Memory
from fuzz.tile_operations import computes
from fuzz.tile_values import ANYTHING, ATOMIC, FP8, INTEGERS, Facts, Grid, Value, is_float
from fuzz.tile_writing import Buffer

UPDATES = ("add", "add", "max", "min", "exch", "cas")
COMMUTING = ("add", "max", "min")
"""Updates of which the order does not show, unless old values are asked for."""


class Atomics(Memory):
    """Mixed into the program."""

    def atomic(self) -> Value | None:
        """Updates whose order does not show: of integers, of floats that are never rounded, or one for each element."""
        value = self.some(lambda v: computes(v) and v.dtype in ATOMIC)
        if value is None or self.repeats > 1 or len(value.shape) > 3:
            return None
        rng, update = self.rng, self.rng.choice(UPDATES)
        shared = self.blocks > 1 and self.chance(0.5) and update in COMMUTING
        rows = value.shape[0] <= 64 and self.chance(0.25) and update in COMMUTING
        times = (self.blocks if shared else 1) * (value.shape[0] if rows else 1)
        content = content_for(value.dtype, False)
        start = facts_of(content, value.dtype)
        if (update == "cas" and is_float(value.dtype)) or (update == "add" and not self.adds_up(value, start, times)):
            return None
        extents = [max(1, n + rng.choice([0, 0, 3, -1])) for n in value.shape]
        items = [self.slice_of(self.output_start(n), n) for n in value.shape]
        if rows:
            extents[0], items[0] = rng.choice([8, 12]), self.index_tile(value.shape[0], "indices").name
        if not shared:
            extents.insert(0, self.blocks)
            items.insert(0, "b")
        number = self.new_array("A", tuple(extents), value.dtype, content, True)
        plan = self.arrays[number]
        self.arrays[number] = replace(plan, facts=Facts(zeros=update == "exch" and value.facts.zeros))
        call = f"px.atomic_{update}({plan.name}[{', '.join(items)}], {self.compared(update, value)}{value.name})"
        if shared or rows or self.chance(0.5):
            self.line(call)
            return value
        return self.assign(call, value.shape, value.dtype, start)

    @staticmethod
    def adds_up(value: Value, start: Facts, times: int) -> bool:
        """Whether so many additions are never rounded."""
        if not is_float(value.dtype):
            return True
        if value.facts.grid is None or start.grid is None:
            return False
        low, high = min(value.facts.grid.low, start.grid.low), max(value.facts.grid.high, start.grid.high)
        return Grid(low, high + math.ceil(math.log2(times + 1))).fits(value.dtype)

    def compared(self, update: str, value: Value) -> str:
        """The first element of a compare-and-swap: a number, or a tile."""
        if update != "cas":
            return ""
        other = self.some(lambda v: v.shape == value.shape and v.dtype == value.dtype)
        return f"{other.name}, " if other is not None and self.chance(0.4) else f"{self.rng.randrange(0, 4)}, "

    def shared_atomic(self) -> Value | None:
        """An update of a buffer; integers only, since a buffer's floats may lie anywhere."""
        ready = [s for s in self.buffers if s.facts is not None and s.dtype in ATOMIC and s.dtype in INTEGERS]
        if not ready or self.repeats > 1:
            return None
        buffer, update = self.rng.choice(ready), self.rng.choice(UPDATES)
        value = self.some(lambda v: v.shape == buffer.shape and v.dtype == buffer.dtype)
        if value is None:
            return None
        buffer.facts = ANYTHING
        place = buffer.name
        if update in COMMUTING and self.chance(0.3):
            place = self.indexed(buffer, "indices", buffer.shape[0])
            self.line(f"px.atomic_{update}({place}, {value.name})")
            return value
        call = f"px.atomic_{update}({place}, {self.compared(update, value)}{value.name})"
        if self.chance(0.5):
            self.line(call)
            return value
        return self.assign(call, buffer.shape, buffer.dtype, ANYTHING)

    # Rows of shared memory.

    def indexed(self, buffer: Buffer, content: str, count: int) -> str:
        """Rows of a buffer that a tile names."""
        rows = self.index_tile(count, content).name
        return f"{buffer.name}[{', '.join([rows, *[':'] * (len(buffer.shape) - 1)])}]"

    def shared_rows(self) -> Value | None:
        """Rows of a buffer by index: loaded in any order, or stored, each at most once."""
        ready = [s for s in self.buffers if s.facts is not None and s.shape[0] <= 256]
        if not ready or self.repeats > 1:
            return self.shared_store()
        buffer = self.rng.choice(ready)
        assert buffer.facts is not None
        if self.chance(0.4):
            value = self.some(lambda v: v.shape == buffer.shape and v.dtype == buffer.dtype)
            if value is None:
                return None
            self.line(f"px.store({self.indexed(buffer, f'rows{buffer.shape[0]}', buffer.shape[0])}, {value.name})")
            buffer.facts = buffer.facts.meet(value.facts)
            return value
        count = self.rng.choice([1, 2, 5, 8, 16, buffer.shape[0]])
        shape = (count, *buffer.shape[1:])
        if not self.affordable(shape, buffer.dtype):
            return None
        fill, facts = ("", buffer.facts) if buffer.dtype in FP8 else self.fill_for(buffer.dtype, buffer.facts)
        return self.assign(f"px.load({self.indexed(buffer, 'indices', count)}{fill})", shape, buffer.dtype, facts)

    def assumed(self) -> None:
        a = self.some(lambda v: v.dtype in INTEGERS)
        self.line("px.assume(b >= 0)" if a is None or self.chance(0.5) else f"px.assume({a.name} == {a.name})")
