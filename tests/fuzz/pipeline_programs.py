"""Whole random kernels with pipelined loops, and the launches that each of them gets.

Reading a kernel and writing its pipeline takes longer than a run of it, so that `LAUNCHES` seeds in a row share a
kernel: they differ in sizes, trip counts, flags and in which arguments lie over each other.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.pipeline_meetings import FEATURE, meeting
from fuzz.pipeline_parts import (
    LOOPS,
    NUMPY,
    OPERANDS,
    ArrayPlan,
    Draft,
    Loop,
    condition,
    indented,
    pipelined_text,
    plain_text,
)
from fuzz.pipeline_pieces import PIECES, Piece, conditional

LAUNCHES = 8
CLUSTERS = ((1, 1),) * 6 + ((2, 1),) * 4 + ((1, 2),) * 2 + ((2, 2), (4, 1))
STEPS = (0, 1, 1, 2, 3, 4, 5, 7)


@dataclass
class Program:
    """A kernel: its text with marks around what is pipelined, and its arguments as plans."""

    number: int
    marked: str
    arrays: tuple[ArrayPlan, ...]
    scalars: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    blocks: dict[str, int]
    """The rows and columns of a tile, and the step of each loop along its axis."""
    cluster: tuple[int, int]
    persistent: bool
    exact: bool
    in_order: tuple[tuple[str, str], ...]
    odd: frozenset[str]
    """The axes whose sizes are no multiples of 16, so that rows along them begin anywhere."""
    features: tuple[str, ...]

    @property
    def text(self) -> str:
        return pipelined_text(self.marked)

    @property
    def plain(self) -> str:
        return plain_text(self.marked)


@dataclass
class Case:
    """A launch of a program: sizes, run-time numbers, and pairs of arguments that share memory."""

    seed: int
    program: Program
    grid: tuple[int, int]
    sizes: dict[str, int]
    numbers: dict[str, int]
    over: dict[str, tuple[str, int]]
    """An array that lies over another one, so many columns behind its beginning."""

    def arguments(self) -> list[Any]:
        """New arguments, always the same."""
        rng = np.random.default_rng(self.seed)
        made: dict[str, Any] = dict(self.numbers)
        for plan in self.program.arrays:
            made[plan.name] = plan.make(self.sizes, rng)
        for name, (other, shift) in self.over.items():
            rows, columns = made[other].shape
            room = np.zeros((rows, (columns + shift + 7) // 8 * 8), made[other].dtype)
            room[:, :columns] = made[other]
            made[other], made[name] = room[:, :columns], room[:, shift : shift + columns]
        return [made[name] for name in self.program.names]

    def describe(self) -> str:
        laid = "".join(f", {name} over {other} from column {shift}" for name, (other, shift) in self.over.items())
        return f"grid {self.grid}, {self.sizes}, {self.numbers}{laid}"


@lru_cache(maxsize=8)
def program(number: int) -> Program:
    """The kernel of a number, the same on every machine."""
    rng = random.Random(number * 7919 + 5)
    warps = rng.choice((4, 4, 4, 8))
    cluster = rng.choice(CLUSTERS)
    rows, columns = rng.choice((16 * warps, 16 * warps, 16 * warps, 32)), rng.choice((8, 16, 32))
    draft = Draft(rng, rows, columns, rng.choice(OPERANDS), cluster)
    if warps == 8:
        draft.note("8 warps")
    persistent = rng.random() < 0.2
    loops, lines, stores = [], [], []
    for number_of_loop in range(1, rng.choice((1, 1, 1, 1, 2)) + 1):
        loop = Loop(draft, number_of_loop, rng.choice((16, 32, 32, 64)), rng.choice(LOOPS))
        if draft.dtype in ("i8", "f8e4m3") and loop.bk == 16:
            loop.bk = 32
        loops.append(loop)
        before, around, after = _loop(draft, loop, number)
        lines += before
        if rng.random() < 0.12:
            draft.note("a loop under a condition")
            alike = FEATURE in draft.features
            asked = f"{draft.scalar('flag', 'flag')} > 0" if rng.random() < 0.5 or alike else "bx % 2 == 0"
            around = [f"if {asked}:", *indented(around)]
        lines += around
        stores += after
    if len(loops) == 2:
        draft.note("two loops")
    if draft.in_order:  # CTAs of other columns would store to the same places
        cluster = cluster[0], 1
    body = [*lines, *stores]
    options = [f"warps={warps}"] + ([f"cluster={cluster}"] if cluster != (1, 1) else [])
    if cluster != (1, 1):
        draft.note("cluster")
    x, y = cluster
    if persistent:
        draft.note("persistent")
        head = _tiles(draft, number, cluster)
        if x > 1:
            head.append("    bx = bx + px.cluster.rank(0)")
        if y > 1:
            head.append("    by = by + px.cluster.rank(1)")
        body = [*head, f"    m, n = bx * {draft.bm}, by * {draft.bn}", *indented(body)]
    else:
        body = ["bx, by = px.block_id(0), px.block_id(1)", f"m, n = bx * {draft.bm}, by * {draft.bn}", *body]
    names = [*draft.arrays, *draft.scalars]
    marked = "\n".join([
        f'"""Pipelined kernel {number}: {", ".join(draft.features)}."""', "", "import phalanx as px", "", "",
        f"@px.kernel({', '.join(options)})", f"def program({', '.join(names)}):", *indented([*draft.statics, *body]), "",
    ])  # fmt: skip
    blocks = {"M": draft.bm, "N": draft.bn, **{loop.axis: loop.bk for loop in loops}}
    odd = frozenset(axis for axis in blocks if rng.random() < 0.2)
    return Program(
        number, marked, tuple(draft.arrays.values()), tuple(draft.scalars.items()), tuple(names),
        blocks, cluster, persistent, draft.exact, tuple(draft.in_order), odd, tuple(draft.features),
    )


def _tiles(draft: Draft, number: int, cluster: tuple[int, int]) -> list[str]:
    """The loop over tiles, and which of them one is: in order, or in groups of whole tiles; drawn as `meeting` is."""
    x, y = cluster
    rng = random.Random(number * 15485863)
    if rng.random() < 0.5:
        draft.note("groups")
        offsets, size = draft.array((5,), "i32", f"groups of {draft.bm * x}", odd=0), draft.bm * x
        return [
            f"for t, g in px.persistent({draft.scalar('tiles', 'tiles GY')} // {y}, groups={offsets}, tile={size}):",
            f"    bx, by = t // {draft.bm}, g.column * {y}",
        ]
    tiles = [draft.scalar("tiles", name) for name in ("tiles GX", "tiles GY")]
    return [
        f"for t in px.persistent({tiles[0]} // {x} * ({tiles[1]} // {y})):",
        f"    bx, by = t % ({tiles[0]} // {x}) * {x}, t // ({tiles[0]} // {x}) * {y}",
    ]


def _loop(draft: Draft, loop: Loop, number: int) -> tuple[list[str], list[str], list[str]]:
    """A loop of one to three pieces: what comes before it, the loop, and what comes behind it."""
    rng = draft.rng
    draft.note(f"loop {loop.kind}")
    makers, weights = zip(*PIECES, strict=True)
    pieces: list[Piece] = []
    for make in rng.choices(makers, weights, k=rng.choice((1, 1, 2, 3))):
        piece = make(draft, loop)
        pieces.append(conditional(draft, loop, piece) if draft.chance(0.25) else piece)
    groups = [[*piece.loads, *piece.body] for piece in pieces]
    if len(pieces) > 1 and draft.chance(0.3):
        draft.note("all loads first")
        groups = [[line for piece in pieces for line in piece.loads], *(piece.body for piece in pieces)]
    if draft.chance(0.08):
        draft.note("continue")
        groups.insert(rng.randrange(len(groups)), [f"if {condition(draft, loop)}:", "    continue"])
    if draft.chance(0.03):
        draft.note("break")
        groups.insert(rng.randrange(len(groups)), [f"if {condition(draft, loop)}:", "    break"])
    if draft.chance(0.1):
        draft.note("starts with an empty statement")
        groups.insert(0, ["pass"])
    met = meeting(draft, loop, number)
    if met is not None:
        pieces.append(met)
        groups.append(met.body)
    options = ""
    if draft.chance(0.6):
        options += f", stages={rng.choice((2, 2, 3, 4))}"
    if draft.chance(0.15):
        draft.note("producer=False")
        options += ", producer=False"
    if draft.chance(0.1):
        options += ", multicast=False"
    head = loop.head(options)
    places = [f"k = i * {loop.bk}"] if loop.kind in ("count", "argument") else []
    around = [head, *indented([*places, *loop.first, *(line for group in groups for line in group)])]
    before = [line for piece in pieces for line in piece.before] + loop.before
    return before, around, [line for piece in pieces for line in piece.after]


def draw(seed: int) -> Case:
    """The case of a seed, the same on every machine."""
    made = program(seed // LAUNCHES)
    rng = random.Random(seed * 1013 + 3)
    x, y = made.cluster
    gx, gy = x * rng.choice((1, 1, 2)), y * rng.choice((1, 1, 2))
    if made.in_order:
        gy = 1
    over = {}
    for name, other in made.in_order:
        if rng.random() < 0.5:
            over[name] = other, rng.choice((0, 0, 8, made.blocks["K1"], 3))
    sizes = {"GX": gx, "GY": gy, "BM": made.blocks["M"]}
    for axis, count in (("M", gx), ("N", gy)):
        ragged = rng.choice((1, 3, 6)) if axis in made.odd else 16 * rng.choice((0, 0, 1)) * (made.blocks[axis] > 16)
        sizes[axis] = made.blocks[axis] * count - ragged
    for axis, step in made.blocks.items():
        if axis.startswith("K"):
            steps = rng.choice(STEPS)
            ragged = rng.choice((1, 2, 3)) if axis in made.odd else 16 * rng.choice((0, 0, 1)) * (step > 16)
            sizes[axis] = max(0, steps * step - ragged)
            sizes["S" + axis[1:]] = steps
    numbers = {}
    for name, what in made.scalars:
        kind, _, of = what.partition(" ")
        if kind == "flag":
            numbers[name] = rng.choice((0, 1))
        elif kind == "tiles":
            numbers[name] = sizes[of]
        elif kind == "steps":
            numbers[name] = sizes[f"S{of}"]
        elif kind == "depth":
            numbers[name] = sizes[f"K{of}"]
        else:  # where a loop begins, or something ends
            numbers[name] = made.blocks[f"K{of}"] * rng.choice((0, 1, 1, 2, 9)) * (kind == "cut" or rng.random() < 0.6)
    grid = (x * rng.choice((1, 2)), y) if made.persistent else (gx, gy)
    return Case(seed, made, grid, sizes, numbers, over)


def load(text: str, folder: Path, name: str) -> Any:
    """The kernel `program` of a text, as a module of its own."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]  # else all kernels of a run stay, and the collector goes through them again and again
    return module.program


__all__ = ["LAUNCHES", "NUMPY", "Case", "Program", "draw", "load", "program"]
