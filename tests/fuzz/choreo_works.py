"""What is done with a tile in registers: elementwise arithmetic, reductions in the CTA and over the cluster.

Each step is a line of the kernel and the same in NumPy, for all ranks at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fuzz.choreo_parts import TYPES, Draft, Flow, Type

LIMIT = 1 << 20
"""Numbers stay below it, so that f32 holds them and their sums."""

Tiles = list[np.ndarray]
Step = Callable[[Tiles, int], Tiles]


@dataclass
class Work:
    """Lines that change the tile `y`, and the flow of what comes out of them."""

    lines: list[str]
    flow: Flow


def then(flow: Flow, step: Step, low: int, high: int) -> Flow:
    """The flow behind a step that is told the tiles of all ranks and the number of the tile."""
    before = flow.at
    return replace(flow, at=lambda t: step(before(t), t), low=low, high=high)


def work(draft: Draft, flow: Flow, *, tile: str, most: int, parts: int, flat: bool) -> Work:
    """Up to `most` random steps on `y`, which is of a computed type.

    `parts` agents share the rows of a tile; `flat`: this one is all warps of the CTA, which may meet those of the cluster.
    """
    lines: list[str] = []
    for _ in range(draft.rng.randrange(most + 1)):
        if flat and draft.chance(0.2):
            found = _meeting(draft, flow)
        elif draft.chance(0.12):
            found = _times(draft, flow, parts)
        else:
            found = _step(draft, flow, tile, whole=parts == 1)
        if found is not None:
            lines += found.lines
            flow = found.flow
    return Work(lines, flow)


def _step(draft: Draft, flow: Flow, tile: str, *, whole: bool) -> Work | None:
    rng = draft.rng
    low, high, shape = flow.low, flow.high, flow.shape
    flat = len(shape) == 1
    number = "" if not flow.kind.floating else ".0"
    how = rng.choice((
        "affine", "maximum", "where", "rank", "tile", "row sum", "column", "round trip", "reduce", "reduce at one",
        "reduce a scalar", "gather",
    ))  # fmt: skip
    if how == "affine":
        a, b = rng.choice((-2, -1, 2, 3)), rng.randrange(-3, 4)
        ends = sorted((low * a + b, high * a + b))
        return _grown([f"y = y * {a}{number} + {b}{number}"], flow, lambda v, t: [x * a + b for x in v], *ends)
    if how == "maximum":
        c = rng.randrange(-2, 3)
        name, fn = rng.choice((("maximum", np.maximum), ("minimum", np.minimum)))
        ends = sorted((int(fn(low, c)), int(fn(high, c))))
        return _grown([f"y = px.{name}(y, {c}{number})"], flow, lambda v, t: [fn(x, c) for x in v], *ends)
    if how == "where":
        c = rng.randrange(-2, 3)
        most = max(abs(low), abs(high))
        line = f"y = px.where(y > {c}{number}, y, 0{number} - y)"
        return _grown([line], flow, lambda v, t: [np.where(x > c, x, 0 - x) for x in v], -most, most)
    if how == "rank":
        top = draft.cluster.size - 1
        return _grown(["y = y + rank"], flow, lambda v, t: [x + r for r, x in enumerate(v)], low, high + top)
    if how == "tile":
        return _grown([f"y = y + {tile} % 5"], flow, lambda v, t: [x + t % 5 for x in v], low, high + 4)
    if how == "row sum":
        if flat:
            n = shape[0]
            if not whole:
                return None
            ends = min(low * (n + 1), low), max(high * (n + 1), high)
            return _grown(["y = y + px.sum(y)"], flow, lambda v, t: [x + x.sum() for x in v], *ends)
        n = shape[1] + 1
        line = "y = y + px.sum(y, axis=1, keepdims=True)"
        ends = min(low * n, low), max(high * n, high)
        return _grown([line], flow, lambda v, t: [x + x.sum(1, keepdims=True) for x in v], *ends)
    if how == "column":
        if flat or not whole:
            return None
        line = "y = y - px.min(y, axis=0, keepdims=True)"
        return _grown([line], flow, lambda v, t: [x - x.min(0, keepdims=True) for x in v], 0, high - low)
    if how == "round trip":
        narrow = rng.choice([k for k in TYPES.values() if k.floating == flow.kind.floating and k.holds(low, high)])
        return _grown([f"y = y.to({narrow.px}).to({flow.kind.px})"], flow, lambda v, t: v, low, high)
    if draft.cluster.size == 1:
        return None
    return _exchange(draft, flow, how, whole=whole)


def _exchange(draft: Draft, flow: Flow, how: str, *, whole: bool) -> Work | None:
    rng, size = draft.rng, draft.cluster.size
    low, high, shape = flow.low, flow.high, flow.shape
    count = int(np.prod(shape))
    fits = count * size <= 4096  # every CTA has an inbox for each, twice
    if how == "reduce" and fits:
        draft.shared_bytes += 8 * count * size
        op, fn = rng.choice((("sum", sum), ("max", np.maximum.reduce), ("min", np.minimum.reduce)))
        draft.note("cluster.reduce")
        grow = size if op == "sum" else 1
        line = f'y = px.cluster.reduce(y, "{op}")'
        return _grown([line], flow, lambda v, t: [fn(v)] * size, low * grow, high * grow, keep=True)
    if how == "reduce at one" and fits:
        draft.shared_bytes += 8 * count * size
        one = rng.randrange(size)
        draft.note("cluster.reduce(cta=)")
        line = f'y = px.cluster.reduce(y, "sum", cta={one})'
        return _grown([line], flow, lambda v, t: [sum(v) if r == one else x for r, x in enumerate(v)],
                      low * size, high * size, keep=True)  # fmt: skip
    if how == "reduce a scalar" and whole:
        draft.note("cluster.reduce of a scalar")
        line = 'y = y + px.cluster.reduce(px.max(y), "sum")'
        return _grown([line], flow, lambda v, t: [x + sum(z.max() for z in v) for x in v],
                      low + size * low, high + size * high, keep=True)  # fmt: skip
    if how == "gather" and len(shape) == 2:
        draft.note("cluster.gather")
        weights = f"(px.arange({size}) + 1).reshape({size}, 1)"
        lines = ["g = px.cluster.gather(px.max(y, axis=1))", f"y = y + px.sum(g * {weights}, axis=0).reshape(y.shape[0], 1)"]

        def weighted(v: Tiles, t: int) -> Tiles:
            peaks = sum((r + 1) * x.max(1, keepdims=True) for r, x in enumerate(v))
            return [x + peaks for x in v]

        most = max(abs(low), abs(high)) * (1 + size * (size + 1) // 2)
        return _grown(lines, flow, weighted, -most, most)
    return None


def _times(draft: Draft, flow: Flow, parts: int) -> Work | None:
    """The tile times a matrix that stays in shared memory: the first factor comes from registers."""
    rng = draft.rng
    fitting = [TYPES[n] for n in ("f16", "bf16", "f32", "i8", "u8") if TYPES[n].floating == flow.kind.floating]
    fitting = [kind for kind in fitting if kind.holds(flow.low, flow.high) and max(-flow.low, flow.high) <= 2048]  # tf32
    if len(flow.shape) == 1 or not fitting or flow.shape[0] // parts % 16:
        return None
    kind, depth = rng.choice(fitting), flow.shape[1]
    width = rng.choice((8, 16, 32))
    by_k = rng.random() < 0.5
    if depth * kind.nbytes % 16 or width * kind.nbytes % 16 or depth > 128:
        return None
    most = 2 * depth * max(abs(flow.low), abs(flow.high))
    weights = draft.numbers((width, depth) if by_k else (depth, width), kind, 0 if kind.low == 0 else -2, 2)
    w = draft.argument("W", weights)
    name, bar = draft.fresh("held"), draft.fresh("came")
    shape = weights.shape
    draft.extra += [
        draft.buffer(name, shape, kind), f"{bar} = px.barrier()", f"with {bar}.transaction():",
        f"    px.tma.load({w}[0:{shape[0]}, 0:{shape[1]}], {name}, {bar})", f"{bar}.wait(0)",
    ]  # fmt: skip
    matrix = weights.astype(np.float64).T if by_k else weights.astype(np.float64)
    found = _grown([f"y = px.dot(y.to({kind.px}), {name}{'.T' if by_k else ''})"], flow,
                   lambda v, t: [x @ matrix for x in v], -most, most)  # fmt: skip
    if found is None:
        return None
    draft.note("times")
    found.flow = replace(found.flow, shape=(flow.shape[0], width))
    return found


def _meeting(draft: Draft, flow: Flow) -> Work | None:
    """Tiles that go to a peer and are ordered by the cluster's barrier alone: pushed, stored, or read from there."""
    rng, size = draft.rng, draft.cluster.size
    if size == 1 or flow.nbytes > 8192:
        return None
    route = rng.choice(draft.cluster.routes())
    source = {route.target(r): r for r in range(size)}
    how = rng.choice(("push", "load", "store"))
    draft.note(f"meeting {how}")
    name = draft.fresh("meet")
    draft.extra.append(draft.buffer(name, flow.shape, flow.kind))
    sync = rng.choice((["px.cluster.sync()"], ["px.cluster.arrive()", "px.cluster.wait()"]))
    if how == "load":
        lines = [f"px.store({name}, y)", *sync, f"y = px.load({name}.at({route.before}))", "px.cluster.sync()"]
    elif how == "store":
        lines = ["px.cluster.sync()", f"px.store({name}.at({route.to}), y)", *sync, f"y = px.load({name})"]
    else:
        mine = draft.fresh("meet")
        draft.extra.append(draft.buffer(mine, flow.shape, flow.kind))
        lines = [
            f"px.store({mine}, y)", "px.fence.async_proxy()", "px.cluster.sync()",
            f"px.cluster.copy({mine}, {name}, cta={route.to})", *sync, f"y = px.load({name})",
        ]  # fmt: skip
    return Work(lines, then(flow, lambda v, t: [v[source[r]] for r in range(size)], flow.low, flow.high))


def _grown(lines: list[str], flow: Flow, step: Step, low: int, high: int, keep: bool = False) -> Work | None:
    """The work, unless its numbers could get too large."""
    low, high = (min(low, flow.low), max(high, flow.high)) if keep else (low, high)
    if not -LIMIT < low <= high < LIMIT:
        return None
    return Work(lines, then(flow, step, low, high))


def narrowed(draft: Draft, flow: Flow, among: tuple[str, ...] = tuple(TYPES)) -> Type:
    """A random type that holds the numbers of a flow."""
    fitting = [TYPES[n] for n in among if TYPES[n].floating == flow.kind.floating and TYPES[n].holds(flow.low, flow.high)]
    return draft.rng.choice(fitting or [flow.kind.computed])
