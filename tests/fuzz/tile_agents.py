"""Statements of random tile kernels in which warps share the work: roles, barriers between them, products."""

from __future__ import annotations

import math

from fuzz.tile_atomics import Atomics
from fuzz.tile_memory import MOST_SHARED
from fuzz.tile_operations import computes
from fuzz.tile_values import Facts, Grid, Value, bytes_of
from fuzz.tile_writing import Buffer

PRODUCTS = {"bf16": "f32", "f16": "f32", "f8e4m3": "f32", "f8e5m2": "f32", "i8": "i32", "u8": "i32"}
"""Element types of the operands of a product, and of its sums."""


class Agents(Atomics):
    """Mixed into the program."""

    def statements(self, most: int) -> None:
        raise NotImplementedError

    # Roles.

    def roles(self) -> None:
        """Up to three groups of warps side by side.

        What they leave in shared memory is there afterwards; the second may wait for what the first leaves there.
        """
        first, left = 0, self.warps
        groups: list[tuple[int, int]] = []
        while left > 0 and len(groups) < 3:
            count = self.rng.randrange(1, left + 1)
            if not self.chance(0.15):
                groups.append((first, count))
            first, left = first + count, left - count
        if not groups:
            return
        if any("with px.warps" in line for line in self.lines):
            self.line("px.sync()")  # else they might run beside the roles right before them
        boxes = [self.box() for _ in groups]
        signal = ""
        if len(groups) > 1 and boxes[0] is not None and self.chance(0.5):
            signal = self.fresh("bar")
            self.needs.add("mbarrier")
            self.line(f"{signal} = px.barrier()")
        values, buffers, warps = self.values, self.buffers, self.warps
        for number, ((start, count), box) in enumerate(zip(groups, boxes, strict=True)):
            self.values, self.buffers, self.in_role, self.warps = [], [], True, count
            with self.block(f"with px.warps({start}, {count}):"):
                if number == 1 and signal and boxes[0] is not None:
                    self.line(f"{signal}.wait(0)")
                    self.buffers = [boxes[0]] if boxes[0].facts is not None else []
                    self.shared_load()
                self.load()
                self.statements(3)
                self.leave(box)
                if number == 0 and signal:
                    self.line(f"{signal}.arrive()")
                for value in self.values[-1:]:
                    self.store(value)
        self.values, self.buffers, self.in_role, self.warps = values, buffers, False, warps
        self.buffers += [box for box in boxes if box is not None and box.facts is not None]

    def box(self) -> Buffer | None:
        """A shared buffer into which a role will put something."""
        shape, dtype = self.shape if self.chance(0.5) else self.a_shape(512), self.dtype()
        used = sum(math.prod(s.shape) * bytes_of(s.dtype) for s in self.buffers)
        size = math.prod(shape) * bytes_of(dtype)
        if not self.affordable(shape, dtype) or used + 3 * size > MOST_SHARED:
            return None
        name = self.fresh("s")
        self.line(f"{name} = px.shared(({', '.join(map(str, shape))},), px.{dtype})")
        return Buffer(name, shape, dtype)

    def leave(self, box: Buffer | None) -> None:
        """Puts something into the buffer, if there is one."""
        if box is None or self.load(box.shape, box.dtype) is None:
            return
        found = self.some(lambda v: v.shape == box.shape and v.dtype == box.dtype)
        assert found is not None
        self.line(f"px.store({box.name}, {found.name})")
        box.facts = found.facts

    # Products.

    def product(self) -> Value | None:
        """Of small integers, which the tensor cores add without rounding; one operand may come from shared memory."""
        rng = self.rng
        dtype = rng.choice(list(PRODUCTS))
        m, n = rng.choice([16, 32, 48]), rng.choice([8, 16, 24, 40])
        k = rng.choice([1, 2, 3, 4]) * (16 // bytes_of(dtype)) * (2 if bytes_of(dtype) == 1 else 1)
        total = PRODUCTS[dtype]
        if self.repeats > 1 or self.loops or not self.affordable((m, n), total):
            return None
        self.needs.add("mma")
        a, b = self.operand((m, k), dtype), self.operand((k, n), dtype)
        if a is None or b is None:
            return None
        left = a.name
        if self.chance(0.5) and not self.in_role:
            left = self.fresh("s")
            shape, stored = ((m, k), a.name) if self.chance(0.5) else ((k, m), f"{a.name}.T")
            self.line(f"{left} = px.shared({shape}, px.{dtype})")
            self.line(f"px.store({left}, {stored})")
            left += "" if shape == (m, k) else ".T"
        facts = Facts(Grid(-2, 8 + math.ceil(math.log2(k))), zeros=False)
        text = f"px.dot({left}, {b.name})"
        start = self.some(lambda v: computes(v) and v.shape == (m, n) and v.dtype == total and v.facts.grid == Grid(-2, 4))
        if start is None and self.chance(0.5):
            start = self.assign(f"px.full(({m}, {n}), 3, px.{total})", (m, n), total, Facts(Grid(-2, 4)))
        if start is not None:
            text = f"px.dot({left}, {b.name}, {start.name})"
        return self.assign(text, (m, n), total, facts)

    def operand(self, shape: tuple[int, int], dtype: str) -> Value | None:
        """A tile of small integers."""
        number = self.new_array("X", shape, dtype, "small" if dtype in ("i8", "u8") else "grid0", False)
        plan = self.arrays[number]
        return self.assign(f"px.load({plan.name}[0:{shape[0]}, 0:{shape[1]}])", shape, dtype, plan.facts)
