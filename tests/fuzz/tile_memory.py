"""Statements of random tile kernels that touch memory: arrays of every stride, rows by index, shared buffers."""

from __future__ import annotations

import math
from dataclasses import replace

from fuzz.tile_arrays import ArrayPlan, content_for, facts_of
from fuzz.tile_functions import Functions
from fuzz.tile_operations import AWKWARD, DYADIC
from fuzz.tile_values import (
    ANYTHING,
    FP8,
    INTEGERS,
    Facts,
    Value,
    bytes_of,
    converted,
    integer_limits,
    is_float,
    rounded,
)
from fuzz.tile_writing import Buffer, Output, as_literal, number_facts, promoted

MOST_SHARED = 64 * 1024
HUGE = (2**31 - 1, 2**31 - 33, 2**31 - 64, 2**30 + 5)
"""Extents of axes whose ends are near what 32 bits count; their elements share memory, with a stride of 0."""


class Memory(Functions):
    """Mixed into the program."""

    # Arrays.

    def strides_for(self, shape: tuple[int, ...], written: bool) -> tuple[tuple[int, ...], int, int]:
        """Strides, offset and size of the memory for an array."""
        rng = self.rng
        order = list(range(len(shape)))
        style = rng.choices(
            ("dense", "padded", "permuted", "spread", "shifted", "backward", "repeated"), (40, 14, 12, 10, 12, 6, 6)
        )[0]
        if style == "repeated" and written:
            style = "padded"
        if style == "permuted":
            rng.shuffle(order)
        strides = [0] * len(shape)
        step = rng.choice([2, 3, 4]) if style == "spread" else 1
        for axis in reversed(order):
            strides[axis] = step
            step *= max(1, shape[axis])
            if style == "padded" and axis == order[-1]:
                step += rng.choice([1, 3, 8, 16])
        offset = rng.choice([1, 2, 3, 5, 8]) if style == "shifted" or self.chance(0.1) else 0
        if style == "repeated":
            strides[rng.randrange(len(shape))] = 0
        if style == "backward":
            axis = rng.randrange(len(shape))
            offset += strides[axis] * (shape[axis] - 1)
            strides[axis] = -strides[axis]
        reach = offset + sum(max(0, s) * (n - 1) for s, n in zip(strides, shape, strict=True)) + 1
        return tuple(strides), offset, reach + rng.choice([0, 1, 4, 16])

    def new_array(self, letter: str, shape: tuple[int, ...], dtype: str, content: str, written: bool) -> int:
        """The number of a new argument."""
        name = self.fresh(letter)
        strides, offset, size = self.strides_for(shape, written or content.startswith("rows"))
        if not shape:
            strides, offset, size = (), 0, 1
        plan = ArrayPlan(name, dtype, shape, strides, offset, size, content, written, facts_of(content, dtype))
        self.arrays.append(plan)
        self.arguments.append((name, len(self.arrays) - 1))
        return len(self.arrays) - 1

    def huge_array(self, dtype: str, size: int) -> tuple[int, int]:
        """An array of one axis that is almost too long, and its length."""
        length = self.rng.choice(HUGE)
        name = self.fresh("H")
        content = content_for(dtype, wild=False)
        self.arrays.append(ArrayPlan(name, dtype, (length,), (0,), 3, 8, content, False, facts_of(content, dtype)))
        self.arguments.append((name, len(self.arrays) - 1))
        return len(self.arrays) - 1, length

    def far(self) -> Value | None:
        """Rows of an array whose strides take 64 bits: they lie side by side, since two of its axes run against each other.

        The elements beside the diagonal do not exist, so that no check may copy the array as a whole.
        """
        size, dtype = self.shape[-1], self.dtype()
        if not self.affordable((size,), dtype) or self.loops or self.chance(0.7):
            return None
        step = self.rng.choice([2**31 + 8, 2**32 - 1, 2**33, 2**36 + 1])
        name, row = self.fresh("X"), self.integer_argument(self.rng.randrange(0, 5)).name
        content = content_for(dtype, self.chance(0.3))
        facts = facts_of(content, dtype)
        strides, offset = (step, -step, 1), self.rng.choice([0, 3])
        self.arrays.append(ArrayPlan(name, dtype, (5, 5, size), strides, offset, size + 8, content, False, facts))
        self.arguments.append((name, len(self.arrays) - 1))
        self.needs.add("far")
        return self.assign(f"px.load({name}[{row}, {row}, 0:{size}])", (size,), dtype, facts)

    # Where a region begins.

    def start(self, size: int, extent: int) -> str:
        """The start of a region of `size` elements on an axis of about `extent`; it may lie partly outside."""
        rng = self.rng
        pick = rng.randrange(12)
        if self.loops and pick < 5:
            index, _ = self.loops[-1]
            return f"{index} * {rng.choice([1, 2, size])}"
        if pick < 5:
            return "0"
        if pick < 7:
            return str(rng.choice([0, 1, 2, 3, 4, 8, -1, -3, size // 2, extent - size, extent]))
        if pick < 9:
            return self.integer_argument(rng.choice([0, 1, 3, 4, 8, 16, -2, extent - size, extent - 1])).name
        if pick == 9:
            return f"bx * {rng.choice([1, size])}"
        if pick == 10 and self.chance(0.15):
            return self.integer_argument(rng.choice([2**31 - 5, -(2**31), 2**31 - 1, 2**40, -(2**62)])).name
        scalar = self.some(lambda v: v.dtype in ("i32", "i64") and v.facts.grid is not None, scalars=1.0)
        return "0" if scalar is None else f"{scalar.name} + {rng.randrange(0, 3)}"

    @staticmethod
    def slice_of(start: str, size: int) -> str:
        try:
            number = int(start)
        except ValueError:
            return f"{start} : {start} + {size}"
        return f"{number}:{number + size}"

    def fill_for(self, dtype: str, facts: Facts) -> tuple[str, Facts]:
        """The fill of a load, as it is written behind the view, and what it makes of the facts."""
        if dtype in FP8 or self.chance(0.6):
            return "", facts
        number: float
        if dtype == "bool":
            number = self.rng.choice([0, 1])
            return f", fill={number}", facts
        if is_float(dtype):
            number = self.rng.choice(DYADIC if self.chance(0.7) else AWKWARD)
        else:
            number = self.rng.choice([1, 7, 100, *integer_limits(dtype)])
        return f", fill={as_literal(number)}", facts.meet(rounded(number_facts(number).grid, dtype, ANYTHING))

    def load(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Value | None:
        """From an array, new or known, with regions that may lie outside."""
        rng = self.rng
        if shape is None:
            shape = self.shape if self.chance(0.5) else self.part_of_shape()
        dtype = dtype or self.dtype()
        if not self.affordable(shape, dtype):
            return None
        if len(shape) == 1 and self.chance(0.04):
            number, length = self.huge_array(dtype, shape[0])
            start = self.integer_argument(length - rng.choice([shape[0], shape[0] // 2, 1, shape[0] + 7])).name
            view = f"{self.arrays[number].name}[{self.slice_of(start, shape[0])}]"
        else:
            known = [
                n for n, p in enumerate(self.arrays) if not p.written and p.dtype == dtype and len(p.shape) == len(shape)
                and p.content != "indices" and not p.content.startswith("rows") and max(map(abs, p.strides)) < 2**30
            ]  # fmt: skip
            dropped = None
            if known and self.chance(0.4):
                number = rng.choice(known)
            else:
                dropped = rng.randrange(len(shape) + 1) if self.chance(0.15) and len(shape) < 4 else None
                extents = [max(1, n * rng.choice([1, 1, 1, 2]) + rng.choice([0, 0, 0, 3, 8, -1, -n // 2])) for n in shape]
                if dropped is not None:
                    extents.insert(dropped, rng.randrange(1, 5))
                number = self.new_array("X", tuple(extents), dtype, content_for(dtype, self.chance(0.4)), False)
            plan = self.arrays[number]
            sizes: list[int | None] = list(shape)
            if dropped is not None:
                sizes.insert(dropped, None)
            starts = [self.start(1 if n is None else n, e) for n, e in zip(sizes, plan.shape, strict=True)]
            items = [s if n is None else self.slice_of(s, n) for s, n in zip(starts, sizes, strict=True)]
            view = f"{plan.name}[{', '.join(items)}]"
            if dropped is None and self.chance(0.1):
                view = f"{plan.name}.tile(({', '.join(starts)},), ({', '.join(map(str, shape))},))"
        fill, facts = self.fill_for(dtype, self.arrays[number].facts)
        once = ", once=True" if self.chance(0.05) else ""
        return self.assign(f"px.load({view}{fill}{once})", shape, dtype, facts)

    def part_of_shape(self) -> tuple[int, ...]:
        """A shape that broadcasts with the kernel's, or its reverse."""
        shape = self.shape[self.rng.randrange(len(self.shape)) :]
        pick = self.rng.randrange(4)
        if pick == 0:
            return self.shape[::-1]
        if pick == 1:
            return tuple(n if self.chance(0.6) else 1 for n in self.shape)
        return shape

    def scalar_load(self) -> Value | None:
        dtype = self.dtype()
        if dtype in FP8:
            return None
        number = self.new_array("E", (self.rng.randrange(1, 9),), dtype, content_for(dtype, self.chance(0.3)), False)
        plan = self.arrays[number]
        text = self.rng.choice([f"{plan.name}[0]", f"{plan.name}[bx]", f"px.load({plan.name}[{plan.shape[0] - 1}])"])
        plain = dtype in INTEGERS and not text.startswith("px")
        return self.assign(f"{text} + 0" if plain else f"px.keep({text})", (), dtype, plan.facts, "e")

    def index_tile(self, size: int, content: str) -> Value:
        """A tile of indices; from an array of its own, or counted."""
        if content == "indices" and self.chance(0.3):
            step, first = self.rng.choice([1, 2, -1]), self.rng.choice([0, -2, 3, size])
            return self.assign(f"px.arange({size}) * {step} + {first}", (size,), "i32", ANYTHING, "r")
        dtype = self.rng.choice(["i32", "i64"])
        number = self.new_array("R", (size,), dtype, content, False)
        return self.assign(f"px.load({self.arrays[number].name}[0:{size}])", (size,), dtype, ANYTHING, "r")

    def gather(self) -> Value | None:
        """Rows, or columns, or planes that a tile names; indices outside give the fill."""
        shape = self.shape if self.chance(0.6) else self.a_shape(512)
        dtype = self.dtype()
        if not self.affordable(shape, dtype) or len(shape) > 3:
            return None
        axis = self.rng.randrange(len(shape))
        rows = self.index_tile(shape[axis], "indices")
        extents = [n if d != axis else self.rng.choice([8, 12, 15]) for d, n in enumerate(shape)]
        number = self.new_array("X", tuple(extents), dtype, content_for(dtype, self.chance(0.3)), False)
        plan = self.arrays[number]
        items = [rows.name if d == axis else self.slice_of(self.start(n, n), n) for d, n in enumerate(shape)]
        fill, facts = self.fill_for(dtype, plan.facts)
        return self.assign(f"px.load({plan.name}[{', '.join(items)}]{fill})", shape, dtype, facts)

    # Results.

    def store(self, value: Value | None = None) -> Value | None:
        """A value into an array of its own, or over what this block stored before."""
        value = value or self.some(scalars=0.15)
        if value is None:
            return None
        rng = self.rng
        again = [o for o in self.outputs if o.shape == value.shape and self.arrays[o.plan].dtype == value.dtype]
        if again and not self.in_role and self.chance(0.25):
            output = rng.choice(again)
            plan = self.arrays[output.plan]
            self.arrays[output.plan] = replace(plan, facts=plan.facts.meet(value.facts))
            self.line(f"px.store({plan.name}[{output.region}], {value.name})")
            return value
        dtype = value.dtype
        if self.chance(0.1) and value.dtype not in FP8 and value.facts.exact:
            wider = promoted(dtype, rng.choice(["f32", "i32", "f64", "i64", "f16", "u16"]))
            dtype = wider or dtype
        if not value.shape:
            number = self.new_array("O", (self.blocks + 2,), dtype, content_for(dtype, False), True)
            region, own = "b", True
        else:
            number, region, own = self.output_region(value, dtype)
        plan = self.arrays[number]
        facts = converted(value.facts, value.dtype, dtype)
        self.arrays[number] = replace(plan, facts=plan.facts.meet(facts))
        self.outputs.append(Output(number, region, value.shape, own))
        once = ", once=True" if self.chance(0.05) else ""
        self.line(f"px.store({plan.name}[{region}], {value.name}{once})")
        self.work += math.prod(value.shape) * self.repeats * self.blocks
        return value

    def output_region(self, value: Value, dtype: str) -> tuple[int, str, bool]:
        """A new array for a tile and the region of it that this block writes: (array, subscript, nobody else near it)."""
        rng = self.rng
        sizes = list(value.shape)
        content = content_for(dtype, False)
        scattered = len(sizes) <= 3 and value.shape[0] <= 128 and not self.loops and self.chance(0.08)
        extents, items = [], []
        for axis, n in enumerate(sizes):
            if scattered and axis == 0:
                count = n + rng.choice([0, 3, -1])
                items.append(self.index_tile(n, f"rows{max(1, count)}").name)
                extents.append(max(1, count))
                continue
            start = self.output_start(n)
            items.append(self.slice_of(start, n))
            extents.append(max(1, n + rng.choice([0, 0, 0, 1, 5, -1, -n // 3])))
        if self.blocks > 1 or (self.chance(0.2) and len(sizes) < 4):
            if self.chance(0.3) and not scattered and items[0].startswith("0:"):
                n = sizes[0]
                items[0] = f"b * {n} : b * {n} + {n}"
                extents[0] = max(1, n * self.blocks + rng.choice([0, 0, -1, 2, -n // 2]))
            else:
                items.insert(0, "b")
                extents.insert(0, self.blocks + rng.choice([0, 1]))
        return self.new_array("O", tuple(extents), dtype, content, True), ", ".join(items), True

    def output_start(self, size: int) -> str:
        pick = self.rng.randrange(8)
        if pick < 5:
            return "0"
        if pick == 5:
            return str(self.rng.choice([1, 2, 4, -1, -2]))
        return self.integer_argument(self.rng.choice([0, 1, 4, -1, size // 2])).name

    def load_back(self) -> Value | None:
        """What this block has stored before, or another part of it."""
        found = [o for o in self.outputs if o.own and o.shape]
        if not found or self.in_role or self.repeats > 1:
            return None
        output = self.rng.choice(found)
        plan = self.arrays[output.plan]
        if not self.affordable(output.shape, plan.dtype):
            return None
        fill, facts = self.fill_for(plan.dtype, plan.facts)
        return self.assign(f"px.load({plan.name}[{output.region}]{fill})", output.shape, plan.dtype, facts)

    # Shared memory.

    def shared_store(self) -> Value | None:
        """A tile into a buffer: a new one, one that is there, or a new one in the memory of another."""
        value = self.some()
        if value is None or self.repeats > 1 or self.loops:
            return None
        known = [s for s in self.buffers if s.shape == value.shape and s.dtype == value.dtype]
        if known and self.chance(0.5):
            buffer = self.rng.choice(known)
            buffer.facts = value.facts
            self.line(f"px.store({buffer.name}, {value.name})")
            return value
        used = sum(math.prod(s.shape) * bytes_of(s.dtype) for s in self.buffers)
        over = [s for s in self.buffers if s.facts is not None and math.prod(s.shape) * bytes_of(s.dtype) >= value.nbytes]
        name = self.fresh("s")
        written = "(" + ", ".join(map(str, value.shape)) + ",)"
        reuse = ""
        if over and not self.in_role and self.depth == 1 and self.chance(0.3):
            gone = self.rng.choice(over)
            self.buffers.remove(gone)
            reuse = f", reuse={gone.name}"
        elif used + value.nbytes > MOST_SHARED:
            return None
        if not reuse and value.nbytes < 8192 and len(value.shape) < 4 and self.chance(0.2):
            stages = self.rng.choice([2, 3])
            self.line(f"{name} = px.shared(({stages}, {written[1:]}, px.{value.dtype})")
            for stage in range(stages):
                self.line(f"px.store({name}[{stage}], {value.name})")
            self.buffers.append(Buffer(name, (stages, *value.shape), value.dtype, value.facts))
            return value
        self.line(f"{name} = px.shared({written}, px.{value.dtype}{reuse})")
        if self.chance(0.5):
            self.line(f"px.store({name}, {value.name})")
        else:
            self.line(f"px.store({name}.T, {value.name}.T)")
        self.buffers.append(Buffer(name, value.shape, value.dtype, value.facts))
        return value

    def shared_load(self) -> Value | None:
        """A buffer or a part of it, as it lies or transposed."""
        ready = [s for s in self.buffers if s.facts is not None]
        if not ready:
            return self.shared_store()
        buffer = self.rng.choice(ready)
        facts = buffer.facts
        assert facts is not None
        if not self.affordable(buffer.shape, buffer.dtype):
            return None
        items, shape = [], []
        for n in buffer.shape:
            pick = self.rng.randrange(8)
            if pick < 4 or n == 1:
                items.append(":")
                shape.append(n)
            elif pick < 6:
                size = self.rng.randrange(1, n + 1)
                first = self.rng.randrange(0, n - size + 1)
                items.append(f"{first}:{first + size}")
                shape.append(size)
            elif pick == 6:
                size = self.rng.randrange(1, n + 1)
                start = self.integer_argument(self.rng.randrange(0, n - size + 1)).name
                items.append(f"{start} : {start} + {size}")
                shape.append(size)
            else:
                items.append(self.rng.choice([str(self.rng.randrange(0, n)), f"bx % {n}"]))
        whole = all(item == ":" for item in items) and self.chance(0.7)
        name = buffer.name if whole else f"{buffer.name}[{', '.join(items)}]"
        if len(shape) > 1 and self.chance(0.3):
            name, shape = name + ".T", shape[::-1]
        if not shape:
            return self.assign(f"px.load({name})", (), buffer.dtype, facts, "e") if buffer.dtype not in FP8 else None
        return self.assign(f"px.load({name})", tuple(shape), buffer.dtype, facts)
