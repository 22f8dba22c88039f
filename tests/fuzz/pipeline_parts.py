"""What random pipelined kernels are drawn from: element types, arrays whose sizes a launch decides, loops, conditions.

Numbers are small integers in every type, so that sums are exact in any order, whichever instruction multiplies.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f8e4m3": ml_dtypes.float8_e4m3fn, "i8": np.int8,
    "i32": np.int32, "i64": np.int64,
}  # fmt: skip
OPERANDS = ("bf16",) * 5 + ("f16",) * 3 + ("f32", "f8e4m3", "i8")
"""Element types of factors, the usual ones more often."""
FORMS = ("odd rows", "every other", "begins anywhere")
"""How an array may lie in memory so that no tensor map describes it."""


def wide(dtype: str) -> str:
    """The type that arithmetic on tiles of this one is done in, and that its products are added up in."""
    return "i32" if dtype.startswith("i") else "f32"


def indented(lines: list[str], by: int = 1) -> list[str]:
    return ["    " * by + line for line in lines]


@dataclass
class ArrayPlan:
    """An array argument: its axes by name (or as numbers), and what lies in it."""

    name: str
    axes: tuple[str | int, ...]
    dtype: str
    content: str = "small"
    """"small", "zeros", "flags", "below X": indices of an axis or a size X, some of them outside, or "groups of N": where
    groups of rows begin, each of some times N rows."""
    form: str = "plain"

    def make(self, sizes: dict[str, int], rng: np.random.Generator) -> np.ndarray:
        """A new array, with the strides of its form."""
        shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in self.axes)
        room = list(shape)
        if self.form == "odd rows":
            room[-1] += 1 + room[-1] % 2
        elif self.form == "every other":
            room[-1] *= 2
        elif self.form == "begins anywhere":
            room[-1] += 8 - room[-1] % 8 + 1
        found = self._contents(tuple(room), sizes, rng).astype(NUMPY[self.dtype])
        if self.form == "every other":
            return found[..., ::2]
        return found[..., 1 : shape[-1] + 1] if self.form == "begins anywhere" else found[..., : shape[-1]]

    def _contents(self, shape: tuple[int, ...], sizes: dict[str, int], rng: np.random.Generator) -> np.ndarray:
        if self.content == "zeros":
            return np.zeros(shape)
        if self.content == "flags":
            return rng.integers(0, 2, shape)
        if self.content.startswith("groups of "):
            size = int(self.content[10:])
            rows = sizes["GX"] * sizes["BM"]
            cuts = sorted(int(cut) * size for cut in rng.integers(0, rows // size + 1, shape[0] - 2))
            return np.array([0, *cuts, rows])
        if self.content.startswith("below "):
            return rng.integers(-1, sizes[self.content[6:]] + 1, shape)
        return rng.integers(-2, 3, shape)


@dataclass
class Draft:
    """A kernel that is being drawn: its arguments, its names, and what it has of everything."""

    rng: random.Random
    bm: int
    bn: int
    dtype: str
    cluster: tuple[int, int]
    arrays: dict[str, ArrayPlan] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)
    """Run-time numbers by name, and what they are: "flag", "steps n", "begin n", "cut n"."""
    statics: list[str] = field(default_factory=list)
    """Statements that the kernel begins with, outside all loops: shared memory of its own."""
    features: list[str] = field(default_factory=list)
    exact: bool = True
    in_order: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of an array that a loop stores to and one that it loads, which a launch may lay over each other."""

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def note(self, feature: str) -> None:
        if feature not in self.features:
            self.features.append(feature)

    def name(self, stem: str) -> str:
        """A new name."""
        taken = self.scalars.keys() | self.arrays.keys()
        self._count = getattr(self, "_count", 0) + 1
        assert f"{stem}{self._count}" not in taken
        return f"{stem}{self._count}"

    def array(self, axes: tuple[str | int, ...], dtype: str, content: str = "small", *, odd: float = 0.12) -> str:
        """A new argument; with the probability `odd` it lies so that TMA can't read it."""
        stem = {"zeros": "O", "flags": "F"}.get(content, "X" if content == "small" else "I")
        plan = ArrayPlan(self.name(stem), axes, dtype, content)
        if content != "zeros" and len(axes) > 1 and self.chance(odd):
            plan.form = self.rng.choice(FORMS)
            self.note(plan.form)
        self.arrays[plan.name] = plan
        return plan.name

    def scalar(self, stem: str, what: str) -> str:
        name = self.name(stem)
        self.scalars[name] = what
        return name


@dataclass
class Loop:
    """A loop along an axis of its own, in steps of `bk`."""

    draft: Draft
    number: int
    bk: int
    kind: str
    before: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    """Statements at the beginning of the body."""

    @property
    def axis(self) -> str:
        return f"K{self.number}"

    @property
    def steps(self) -> str:
        """The axis that has an element for each step."""
        return f"S{self.number}"

    @property
    def step(self) -> str:
        """The number of a step, as text."""
        return "i" if self.kind in ("count", "argument") else f"k // {self.bk}"

    @property
    def along(self) -> str:
        return f"k:k + {self.bk}"

    def head(self, options: str) -> str:
        """The `for`, between marks: what is pipelined, and with which options."""
        draft, bk, extent = self.draft, self.bk, self._extent()
        if self.kind == "count":
            text = f"px.cdiv({extent}, {bk})"
        elif self.kind == "argument":
            text = draft.scalar("steps", f"steps {self.number}")
        elif self.kind == "begin":
            text = f"{draft.scalar('begin', f'begin {self.number}')}, {extent}, {bk}"
        elif self.kind == "triangle":
            text = f"0, px.minimum({extent}, m + {draft.bm}), {bk}"
        elif self.kind == "constant":
            text = f"0, {draft.rng.choice((1, 2, 3, 5)) * bk}, {bk}"
        elif self.kind == "backwards":
            text = f"(px.cdiv({extent}, {bk}) - 1) * {bk}, -1, {-bk}"
        elif self.kind == "loaded":
            text = f"0, {draft.array(('GX',), 'i32', f'below {self.steps}')}[bx] * {bk}, {bk}"
        elif self.kind == "rank":
            text = f"0, (px.cluster.rank() + 1) * {bk}, {bk}"
        else:
            text = f"0, {extent}, {bk}"
        variable = "i" if self.kind in ("count", "argument") else "k"
        return f"for {variable} in «range({text})‹{options}›»:"

    def _extent(self) -> str:
        found = [f"{p.name}.shape[{p.axes.index(self.axis)}]" for p in self.draft.arrays.values() if self.axis in p.axes]
        return self.draft.rng.choice(found) if found else self.draft.scalar("depth", f"depth {self.number}")


LOOPS = (
    ("array",) * 6 + ("count", "count", "argument", "begin", "begin", "triangle", "constant", "backwards", "loaded", "rank")
)  # fmt: skip


def condition(draft: Draft, loop: Loop) -> str:
    """A condition that may differ between steps, CTAs or launches."""
    kind = draft.rng.choice(("index", "index", "cut", "flag", "loaded", "loaded", "carried", "block", "rank", "of block"))
    draft.note(f"if {kind}")
    if kind == "index":
        return draft.rng.choice((f"{loop.step} % 2 == 0", f"{loop.step} != 1", f"{loop.step} > 0"))
    if kind == "cut":
        return f"k < {draft.scalar('cut', f'cut {loop.number}')}"
    if kind == "flag":
        return f"{draft.scalar('flag', 'flag')} > 0"
    if kind == "loaded":
        return f"{draft.array((loop.steps,), 'i32', 'flags')}[{loop.step}] > 0"
    if kind == "carried":
        name = draft.name("c")
        loop.before.append(f"{name} = 0")
        loop.first.append(f"{name} = {name} + 1")
        return f"{name} < 3"
    if kind == "of block":
        return f"{draft.array(('GX',), 'i32', 'flags')}[bx] > 0"
    return "bx % 2 == 0" if kind == "block" else "px.cluster.rank() == 0"


def plain_text(text: str) -> str:
    """The kernel without the word."""
    while "«" in text:
        before, _, rest = text.partition("«")
        inside, _, after = rest.partition("»")
        text = before + inside.partition("‹")[0] + after
    return text


def pipelined_text(text: str) -> str:
    """The kernel with it."""
    return text.replace("«", "px.pipelined(").replace("»", ")").replace("‹", "").replace("›", "")


Arguments = dict[str, Any]
