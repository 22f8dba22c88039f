"""Random tile kernels: text, arguments and grid, the same for a seed on every machine.

Statements are chosen by the types at hand, so that nearly all kernels are valid; every floor must then agree about what
they write. `tile_values` says which floats can be compared bit for bit.
"""

from __future__ import annotations

import collections
import random
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.tile_agents import Agents
from fuzz.tile_arrays import ArrayPlan, memory_of, view_of
from fuzz.tile_functions import FOLDS
from fuzz.tile_operations import broadcast, computes
from fuzz.tile_values import ANYTHING, FLOATS, INTEGERS, Facts, Grid, Value, is_float, plus, summed
from fuzz.tile_writing import LARGE, NOTED, Scalar, as_literal

HELPERS = {
    **FOLDS,
    "blend": ["@px.func", "def blend(condition, x, y):", "    return px.where(condition, x, y)"],
    "twice": [
        "@px.func", "def twice(x, times=2):", "    for _ in px.static_range(times):", "        x = -x", "    return x",
    ],
    "pick": ["@px.func", "def pick(n, x, y):", "    if n > 1:", "        return x", "    return y"],
    "Pair": [
        "@px.struct", "class Pair:", "    left: object", "    right: object = 0", "", "    def swap(self):",
        "        self.left, self.right = self.right, self.left", "", "    def put(self, x):", "        self.right = x",
        "        return self.left",
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kernel with all that a launch of it needs."""

    seed: int
    text: str
    grid: tuple[int, ...]
    arrays: tuple[ArrayPlan, ...]
    arguments: tuple[tuple[str, int | Scalar], ...]
    """Name and number of the array, or name and a `Scalar`."""
    needs: frozenset[str] = frozenset()

    def memories(self) -> list[np.ndarray]:
        """Fresh memory of all arrays, the same at every call."""
        rng = np.random.default_rng(self.seed)
        return [memory_of(plan, rng) for plan in self.arrays]

    def launch_arguments(self, memories: list[np.ndarray]) -> list[Any]:
        """The arguments in order, with arrays as views of the memories."""
        return self.with_arrays([view_of(plan, memory) for plan, memory in zip(self.arrays, memories, strict=True)])

    def with_arrays(self, arrays: list[Any]) -> list[Any]:
        """The arguments in order, with these in the place of the arrays."""
        return [value.value if isinstance(value, Scalar) else arrays[value] for _, value in self.arguments]

    def describe(self) -> str:
        lines = [f"grid {self.grid}"]
        for name, value in self.arguments:
            lines.append(f"{name} = {value.value!r}" if isinstance(value, Scalar) else self.arrays[value].describe())
        return "\n".join(lines)


class Program(Agents):
    """Writes one kernel."""

    def case(self, seed: int) -> Case:
        rng = self.rng
        self.warps = rng.choice([1, 2, 4, 8, 4, 8, 3, 16])
        self.grid = rng.choice([(1,), (1,), (2,), (3,), (2, 2), (1, 2, 2), (2, 1, 2)])
        self.shape = rng.choice(NOTED) if self.chance(0.04) else self.a_shape()
        if self.chance(0.1):
            self.large, self.shape = True, rng.choice(LARGE)
        if np.prod(self.shape) * self.blocks > 16384:
            self.grid = (1,)
        self.begin()
        while self.budget > 0:
            self.budget -= 1
            self.statement()
        self.finish()
        parameters = ", ".join(name for name, _ in self.arguments)
        head = ["import phalanx as px", "", ""]
        for name in sorted(self.helpers):
            head += [*HELPERS[name], "", ""]
        head += [f"@px.kernel(warps={self.warps})", f"def program({parameters}):"]
        text = "\n".join([*head, *self.lines]) + "\n"
        return Case(seed, text, self.grid, tuple(self.arrays), tuple(self.arguments), frozenset(self.needs))

    budget = 0

    def begin(self) -> None:
        """Block numbers, some scalars, the first tiles."""
        rng = self.rng
        self.budget = rng.randrange(3, 8) if self.large else rng.randrange(4, 16)
        self.line("bx = px.block_id(0)")
        form = ["bx", "px.block_id(1) * px.num_blocks(0)", "px.block_id(2) * px.num_blocks(0) * px.num_blocks(1)"]
        self.line(f"b = {' + '.join(form[: len(self.grid)])}")
        self.scalars += [Value("bx", (), "i32", Facts(Grid(0, 3))), Value("b", (), "i32", Facts(Grid(0, 3)))]
        if self.chance(0.4):
            self.scalar_argument()
        if self.chance(0.1):
            self.arguments.append(("nothing", Scalar(None)))
            self.line("assert nothing is None")
        if self.chance(0.3):
            self.scalar_load()
        if self.large:
            self.load(self.shape, rng.choice(["f32", "i32", "u32", "f64", "i64", "u64", "f32", "bf16", "f16"]))
        for _ in range(rng.randrange(1, 4)):
            self.load(self.shape if self.chance(0.7) else None)
        if not self.values:
            self.counting()

    def scalar_argument(self) -> None:
        """A float, a bool or a long integer."""
        pick = self.rng.randrange(4)
        name = self.fresh("f")
        if pick == 0:
            number: Any = self.rng.choice([0.5, -2.0, 3.0, 0.1, float("inf"), 1e-40])
            facts = Facts(Grid(-1, 2)) if number in (0.5, -2.0, 3.0) else ANYTHING
            self.scalars.append(Value(name, (), "f32", facts))
        elif pick == 1:
            number = self.chance(0.5)
            self.scalars.append(Value(name, (), "bool", Facts(Grid(0, 0))))
        elif pick == 2:
            number = self.rng.choice([2**31, 2**40 + 3, -(2**63), 2**63 - 1, -(2**31) - 1])
            self.scalars.append(Value(name, (), "i64"))
        else:
            number = self.rng.choice([2**63, 2**64 - 1])
            self.scalars.append(Value(name, (), "u64"))
        self.arguments.append((name, Scalar(number)))

    def statement(self) -> None:
        """One of all that there are; whatever finds nothing that fits writes nothing."""
        choices: list[tuple[Any, int]] = [
            (self.binary, 22), (self.literal, 12), (self.comparison, 5), (self.where, 8), (self.convert, 10),
            (self.unary, 5), (self.approximate, 6), (self.reduction, 10), (self.scan, 4), (self.transpose, 6),
            (self.reshape, 5), (self.part, 3), (self.counting, 3), (self.filled, 3), (self.load, 10), (self.gather, 3),
            (self.far, 1), (self.shared_store, 5), (self.shared_load, 7), (self.shared_atomic, 3), (self.atomic, 4),
            (self.held, 2), (self.store, 4), (self.load_back, 3), (self.scalar_binary, 4), (self.scalar_load, 2),
            (self.scalar_of_block, 1), (self.decision, 4), (self.fused, 2), (self.skipping, 2), (self.rounding, 3),
            (self.bits, 2), (self.new_axis, 2), (self.folded, 4), (self.largest, 2), (self.product, 3), (self.called, 2),
            (self.paired, 2), (self.meeting, 1), (self.asserted, 1), (self.assumed, 1), (self.shared_rows, 3),
        ]  # fmt: skip
        if self.depth < 4:
            choices += [(self.branch, 4), (self.loop, 4), (self.accumulation, 3), (self.unrolled, 1)]
        if self.depth == 1 and self.warps > 1 and not self.in_role:
            choices += [(self.roles, 4)]
        if self.large:
            moving = (self.transpose, self.reshape, self.reduction, self.scan, self.shared_store, self.shared_load)
            choices += [(move, 15) for move in moving]
        kinds, weights = zip(*choices, strict=True)
        self.rng.choices(kinds, weights)[0]()

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randrange(1, most + 1)):
            self.statement()

    def finish(self) -> None:
        """Stores what was not stored yet, the newest first."""
        if self.depth == 1 and self.blocks > 1 and self.chance(0.1):
            self.line(f"if b == {self.rng.randrange(self.blocks)}:")
            self.line("    return")
        uses = collections.Counter(re.findall(r"\w+", "\n".join(self.lines)))
        idle = [v for v in self.values if uses[v.name] == 1 or self.chance(0.2)]
        for value in (idle[::-1] or self.values[-1:])[:6]:
            self.store(value)
        scalars = [v for v in self.scalars if v.name[0] == "t"]
        for value in scalars[-2:]:
            self.store(value)

    # Functions, structs, assertions.

    def called(self) -> None:
        """An inlined function with an early return."""
        a = self.some()
        if a is None:
            return
        b = self.some(lambda v: v.shape == a.shape and v.dtype == a.dtype)
        assert b is not None
        self.helpers.add("pick")
        text = f"pick({self.rng.choice(['b', 'bx', '2'])}, {a.name}, {b.name})"
        self.assign(text, a.shape, a.dtype, a.facts.meet(b.facts))

    def paired(self) -> None:
        """Tiles travel through the fields of a struct."""
        a, b = self.some(), self.some()
        if a is None or b is None:
            return
        self.helpers.add("Pair")
        name = self.fresh("p")
        self.line(f"{name} = Pair({a.name}, {b.name})")
        if self.chance(0.5):
            self.line(f"{name}.swap()")
            a, b = b, a
        if self.chance(0.5):
            c = self.some()
            assert c is not None
            self.assign(f"{name}.put({c.name})", a.shape, a.dtype, a.facts)
            b = c
        self.assign(f"{name}.left", a.shape, a.dtype, a.facts)
        self.assign(f"{name}.right", b.shape, b.dtype, b.facts)

    def meeting(self) -> None:
        self.line("px.sync()")

    def asserted(self) -> None:
        a = self.some(lambda v: v.dtype in INTEGERS)
        test = "b >= 0" if a is None else f"{a.name} == {a.name}"
        self.line(f'px.device_assert({test}, "holds")')

    # Control flow.

    def condition(self) -> str:
        """A run-time condition that is the same in all threads."""
        scalar = self.some(lambda v: computes(v) and v.dtype != "bool", scalars=1.0)
        flag = self.some(lambda v: v.dtype == "bool", scalars=1.0)
        if flag is not None and self.chance(0.2):
            return flag.name
        if self.loops and self.chance(0.4):
            return f"{self.loops[-1][0]} {self.rng.choice(['==', '<', '>'])} {self.rng.randrange(0, 3)}"
        name = "b" if scalar is None or self.chance(0.5) else scalar.name
        return f"{name} {self.rng.choice(['==', '<', '>', '!='])} {self.rng.randrange(0, 4)}"

    def update(self, value: Value) -> Facts | None:
        """Assigns another value of the same type to a name; gives its facts."""
        other = self.some(lambda v: v.shape == value.shape and v.dtype == value.dtype and v.facts.exact == value.facts.exact)
        pick = self.rng.randrange(5)
        if pick == 0 and other is not None and other.name != value.name:
            self.line(f"{value.name} = {other.name}")
            return other.facts
        if not computes(value):
            return None
        if pick == 1 and other is not None and value.dtype != "bool":
            self.line(f"{value.name} = px.maximum({value.name}, {other.name})")
            return Facts(value.facts.meet(other.facts).grid, value.facts.product or other.facts.product, False)
        if pick == 2 and value.dtype not in ("bool",):
            self.line(f"{value.name} = -{value.name}")
            return value.facts if is_float(value.dtype) else ANYTHING
        if pick == 3 and value.dtype != "bool":
            number = self.rng.choice([0.5, 1.0, 2.0]) if is_float(value.dtype) else self.rng.choice([1, 3, 7])
            facts = plus(value.facts, Facts(Grid(-1, 2)), value.dtype)
            if facts is not None:
                self.line(f"{value.name} = {value.name} + {as_literal(number)}")
                return facts
            return None
        if pick == 4 and other is not None and value.dtype != "bool":
            self.line(f"{value.name} = px.where({value.name} > {other.name}, {value.name}, {other.name})")
            return value.facts.meet(other.facts)
        return None

    def branch(self) -> None:
        target = self.some(lambda v: v.shape != ())
        with self.block(f"if {self.condition()}:") as before:
            self.statements(3)
            if target is not None and (facts := self.update(target)) is not None:
                self.replace(target, Value(target.name, target.shape, target.dtype, facts))
        self.merge(before)
        if self.chance(0.4):
            with self.block("else:") as before:
                self.statements(2)
                if target is not None:
                    now = next(v for v in self.values if v.name == target.name)
                    if (facts := self.update(now)) is not None:
                        self.replace(now, Value(now.name, now.shape, now.dtype, facts))
            self.merge(before)

    def loop(self) -> None:
        """A run-time loop that carries a tile, with its exits."""
        count = self.rng.randrange(0, 4)
        bound = str(count) if self.chance(0.3) else self.integer_argument(count).name
        index = self.fresh("k")
        carried = self.some(lambda v: v.facts.exact and v.dtype in (*FLOATS, *INTEGERS))
        if carried is not None:
            loose = Value(carried.name, carried.shape, carried.dtype, Facts(None, zeros=False))
            self.replace(carried, loose)
        style = self.rng.randrange(4)
        header = f"for {index} in range({bound}):"
        if style == 1:
            header = f"for {index} in px.unroll(range({bound}), 2):"
        if style == 2:
            self.line(f"{index} = 0")
            header = f"while {index} < {bound}:"
        with self.block(header, repeats=max(1, count)):
            self.loops.append((index, count))
            if style == 2:
                self.line(f"{index} = {index} + 1")
            self.statements(3)
            if self.chance(0.3):
                word = self.rng.choice(["break", "continue"])
                self.line(f"if {self.condition()}:")
                self.line(f"    {word}")
            if carried is not None:
                self.carry(loose)
            self.loops.pop()

    def carry(self, loose: Value) -> None:
        """Changes the carried tile, so that nothing is lost of what is known of it."""
        mark = len(self.lines)
        facts = self.update(next(v for v in self.values if v.name == loose.name))
        if facts is None or facts.product or not facts.exact:
            del self.lines[mark:]

    def unrolled(self) -> None:
        with self.block(f"for {self.fresh('k')} in px.static_range({self.rng.randrange(1, 4)}):", repeats=3):
            self.statements(2)

    def accumulation(self) -> None:
        """A sum over iterations, exact in any type."""
        dtype = self.rng.choice([*INTEGERS, *FLOATS])
        shape = self.shape if self.chance(0.6) else self.part_of_shape()
        count = self.rng.randrange(0, 5)
        if not self.affordable(shape, dtype):
            return
        bound = self.integer_argument(count).name
        written = "(" + ", ".join(map(str, shape)) + ",)"
        total = self.assign(f"px.zeros({written}, px.{dtype})", shape, dtype, Facts(Grid(0, 0)))
        index = self.fresh("k")
        known: Facts | None = total.facts
        with self.block(f"for {index} in range({bound}):", repeats=max(1, count)):
            self.loops.append((index, count))
            self.values = [v for v in self.values if v.name != total.name]
            self.load(shape, dtype)
            term = self.some(lambda v: v.dtype == dtype and computes(v) and broadcast(v.shape, shape) == shape)
            known = None if term is None else summed(term.facts, dtype, max(1, count))
            if known is None or (known.grid is None and is_float(dtype)) or term is None:
                known = total.facts
            else:
                self.line(f"{total.name} = {total.name} + {term.name}")
            self.loops.pop()
        self.replace(total, Value(total.name, shape, dtype, Facts(known.grid, zeros=False)))
        if total.name not in {v.name for v in self.values}:
            self.values.append(Value(total.name, shape, dtype, Facts(known.grid, zeros=False)))


def draw(seed: int) -> Case:
    """The case of a seed."""
    return Program(random.Random(seed)).case(seed)
