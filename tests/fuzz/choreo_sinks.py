"""Where tiles go at last: stores, TMA stores and reductions with groups in flight, rows by index, atomics, sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fuzz.choreo_parts import TYPES, Draft, Flow, Loop, Type
from fuzz.choreo_works import narrowed

REDUCED = ("f32", "f16", "bf16", "i32", "u32")
"""Types that `px.tma.reduce` adds in."""


@dataclass
class Sink:
    """Lines before the loop, for each tile `y`, and after the loop.

    `each` and `after` are told which share of the rows the agent has; `each` also which agent it is, of those that
    share the tiles or take turns with them.
    """

    declared: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    each: Callable[[int, int], list[str]] = lambda part, agent: []
    after: Callable[[int], list[str]] = lambda part: []


def sink(draft: Draft, loop: Loop, flow: Flow, parts: int, agents: int, number: int) -> Sink:
    """A random sink for tiles of which `parts` agents hold an equal share of the rows each, or `agents` take turns."""
    rng, tile = draft.rng, "t"
    how = rng.choice(("store", "store", "tma.store", "tma.store", "tma.reduce", "scatter", "atomic", "sum"))
    if how == "sum" and parts == agents:
        return _summed(draft, loop, flow, parts)
    if how == "atomic":
        return _atomic(draft, loop, flow, parts, tile)
    width = flow.shape[-1]
    if how == "store" or how == "sum":
        return _stored(draft, loop, flow, parts, tile)
    kind = narrowed(draft, flow, REDUCED if how == "tma.reduce" else tuple(TYPES))
    rows = flow.shape[0] // parts
    if width * kind.nbytes % 16 or (len(flow.shape) == 1 and rows * kind.nbytes % 16):
        return _stored(draft, loop, flow, parts, tile)
    whole = int(np.prod(flow.shape)) // parts * kind.nbytes % 128 == 0
    if how == "tma.reduce" and not whole:  # places that follow each other begin where a descriptor can't
        how = "tma.store"
    if how == "scatter" and (len(flow.shape) == 1 or rows % 4 or width * kind.nbytes % 128):
        how = "tma.store"
    return _staged(draft, loop, flow, parts, agents, number, how, kind, tile)


def _place(draft: Draft, loop: Loop, flow: Flow, kind: Type, *, shared: bool, engine: bool) -> tuple:
    """An array that takes a tile of each CTA and tile of the loop: its shape, the view of a part, the NumPy place."""
    rng = draft.rng
    size = 1 if shared else draft.cluster.size
    tiles = max(1, loop.tiles * size)
    unit = 16 // kind.nbytes if engine else 1
    if len(flow.shape) == 1:
        n = flow.shape[0]
        total = tiles * n - (rng.randrange(0, n) if draft.chance(0.2) and not engine else 0)

        def run(u: str, first: int, count: int) -> str:
            return f"[{u} * {n} + {first} : {u} * {n} + {first + count}]"

        return (total,), run, lambda u: slice(u * n, u * n + n)
    rows, columns = flow.shape
    column = rng.choice((0, 0, 1)) * unit
    width = column + columns + rng.choice((0, 0, 1)) * unit
    if draft.chance(0.15) and columns > unit:
        width -= unit * rng.randrange(1, columns // unit)
        draft.note("ragged columns")
    if draft.chance(0.4):

        def stacked(u: str, first: int, count: int) -> str:
            return f"[{u}, {first}:{first + count}, {column}:{column + columns}]"

        return (tiles, rows, width), stacked, lambda u: (u, slice(0, rows), slice(column, column + columns))
    height = tiles * rows
    if draft.chance(0.25) and height > 1:
        height -= rng.randrange(1, min(height, rows + 1))
        draft.note("ragged rows")

    def by_rows(u: str, first: int, count: int) -> str:
        return f"[{u} * {rows} + {first} : {u} * {rows} + {first + count}, {column}:{column + columns}]"

    return (height, width), by_rows, lambda u: (slice(u * rows, u * rows + rows), slice(column, column + columns))


def _fold(array: np.ndarray, where: object, tile: np.ndarray, how: str) -> None:
    """Writes or folds what of the tile lies inside the array."""
    part = array[where]
    inside = tile[tuple(slice(0, n) for n in part.shape)].astype(np.float64)
    old = part.astype(np.float64)
    new = {"store": inside, "add": old + inside, "max": np.maximum(old, inside), "min": np.minimum(old, inside)}[how]
    array[where] = new.astype(array.dtype)


def _folded(
    draft: Draft, loop: Loop, flow: Flow, initial: np.ndarray, inside: Callable, how: str, shared: bool
) -> np.ndarray:
    """What the array holds when every tile has been written or folded into its place."""
    size = draft.cluster.size
    exact = initial.astype(np.float64)
    for t in range(loop.tiles):
        for rank, tile in enumerate(flow.at(t)):
            _fold(exact, inside(t if shared else t * size + rank), tile, how)
    return exact.astype(initial.dtype)


def _number(draft: Draft, tile: str, shared: bool) -> str:
    size = draft.cluster.size
    return tile if shared or size == 1 else f"({tile} * {size} + rank)"


def _stored(draft: Draft, loop: Loop, flow: Flow, parts: int, tile: str) -> Sink:
    draft.note("sink store")
    kind = narrowed(draft, flow)
    shape, view, inside = _place(draft, loop, flow, kind, shared=False, engine=False)
    initial = draft.numbers(shape, kind, 0, 3)
    name = draft.output(initial, lambda: _folded(draft, loop, flow, initial, inside, "store", False))
    rows = flow.shape[0] // parts
    u = _number(draft, tile, False)
    return Sink(each=lambda part, agent: [f"px.store({name}{view(u, part * rows, rows)}, y.to({kind.px}))"])


def _atomic(draft: Draft, loop: Loop, flow: Flow, parts: int, tile: str) -> Sink:
    draft.note("sink atomic")
    kind = flow.kind.computed
    shared = draft.chance(0.7)
    shape, view, inside = _place(draft, loop, flow, kind, shared=shared, engine=False)
    initial = draft.numbers(shape, kind, 0, 3)
    name = draft.output(initial, lambda: _folded(draft, loop, flow, initial, inside, "add", shared))
    rows = flow.shape[0] // parts
    u = _number(draft, tile, shared)
    return Sink(each=lambda part, agent: [f"px.atomic_add({name}{view(u, part * rows, rows)}, y)"])


def _summed(draft: Draft, loop: Loop, flow: Flow, parts: int) -> Sink:
    """A sum over the tiles of a CTA, stored behind the loop."""
    draft.note("sink sum")
    size, kind = draft.cluster.size, flow.kind.computed
    rows = flow.shape[0] // parts
    every = (draft.clusters * size, *flow.shape)

    def want() -> np.ndarray:
        sums = np.zeros(every)
        for cluster in range(draft.clusters):
            for t in loop.turns(cluster):
                for rank, tile in enumerate(flow.at(t)):
                    sums[cluster * size + rank] += tile
        return sums.astype(kind.numpy)

    name = draft.output(np.zeros(every, kind.numpy), want)
    shape = (rows, *flow.shape[1:])
    rest = "".join(f", 0:{n}" for n in shape[1:])
    return Sink(
        before=[f"total = px.zeros({shape}, {kind.px})"],
        each=lambda part, agent: ["total = total + y"],
        after=lambda part: [
            f"px.store({name}[px.cluster.id() * {size} + rank, {part * rows}:{part * rows + rows}{rest}], total)"
        ],
    )


def _staged(draft: Draft, loop: Loop, flow: Flow, parts: int, agents: int, number: int, how: str, kind: Type,
            tile: str) -> Sink:  # fmt: skip
    """Through a ring of places in shared memory, from which the engine stores with groups in flight."""
    rng = draft.rng
    depth = rng.choice((1, 2, 2, 3))
    rows = flow.shape[0] // parts
    held = (rows, *flow.shape[1:])
    declared = [draft.buffer(f"out{number}", (agents * depth, *held), kind)]
    draft.note(f"sink {how}")
    shared, op = False, "store"
    if how == "tma.reduce":
        op = rng.choice(("add", "add", "max", "min") if kind.name != "f32" else ("add",))
        shared = draft.chance(0.6)
    if how == "scatter":
        copy, name = _scattered(draft, loop, flow, rows, kind, tile)
    else:
        shape, view, inside = _place(draft, loop, flow, kind, shared=shared, engine=True)
        initial = draft.numbers(shape, kind, 0, 3)
        times = draft.cluster.size if shared else 1
        if op == "add" and not kind.holds(flow.low * times, flow.high * times + 3):
            op = "max"
        name = draft.output(initial, lambda: _folded(draft, loop, flow, initial, inside, op, shared))
        u = _number(draft, tile, shared)

        def copy(part: int, place: str) -> list[str]:
            where = f"{name}{view(u, part * rows, rows)}"
            if op == "store":
                return [f"px.tma.store({place}, {where})"]
            return [f'px.tma.reduce({place}, {where}, "{op}")']

    slot = f"{{base}} + o{number} % {depth}" if depth > 1 else "{base}"

    def each(part: int, agent: int) -> list[str]:
        place = f"out{number}[{slot.format(base=agent * depth)}]"
        return [
            f"px.tma.wait({depth - 1}, read=True)  # the place is free",
            f"px.store({place}, y.to({kind.px}))",
            "px.fence.async_proxy()  # needed: stores before an engine reads",
            *copy(part, place),
            "px.tma.commit()",
            *([f"o{number} += 1"] if depth > 1 else []),
        ]

    last = "px.tma.wait(0)" if rng.random() < 0.6 else "px.tma.wait(0, read=True)"
    return Sink(
        declared,
        before=[f"o{number} = 0"] if depth > 1 else [],
        each=each,
        after=lambda part: [f"{last}  # needed: before the CTA ends"],
    )


def _scattered(draft: Draft, loop: Loop, flow: Flow, rows: int, kind: Type, tile: str) -> tuple:
    """Rows to places that an index names, each once; some rows go nowhere."""
    rng, size = draft.rng, draft.cluster.size
    height, columns = flow.shape
    total = max(1, loop.tiles * size) * height
    room = total + rng.randrange(8)
    places = draft.data.permutation(room)[:total].astype(np.int32)
    places[draft.data.random(total) < 0.1] = -1
    unit = 16 // kind.nbytes
    column = rng.choice((0, 1)) * unit
    idx = draft.argument("I", places)
    initial = draft.numbers((room, column + columns), kind, 0, 3)

    def want() -> np.ndarray:
        result = initial.copy()
        for t in range(loop.tiles):
            for rank, x in enumerate(flow.at(t)):
                for row in range(height):
                    to = places[(t * size + rank) * height + row]
                    if to >= 0:
                        result[to, column:] = x[row].astype(kind.numpy)
        return result

    name = draft.output(initial, want)
    by_four = rows <= 16 and rng.random() < 0.4
    u = _number(draft, tile, False)

    def copy(part: int, place: str) -> list[str]:
        first = f"{u} * {height} + {part * rows}"
        if not by_four:
            return [f"px.tma.scatter({place}, {idx}[{first} : {first} + {rows}], {column}, {name})"]
        return [
            f"px.tma.scatter4({place}[{i}:{i + 4}], {idx}[{first} + {i} : {first} + {i + 4}], {column}, {name})"
            for i in range(0, rows, 4)
        ]

    return copy, name
