"""How a stage is filled from global memory: tensor copies, multicasts, collective copies, rows by index, runs, stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fuzz.choreo_parts import Draft, Flow, Group, Loop, Type

OWN = "own"


@dataclass
class Feed:
    """A source of tiles: `lines(step, stage, barrier)` brings the tile of a step to a stage."""

    how: str
    flow: Flow
    group: Group | None
    """Which ranks share the copies; None where each CTA fetches its own tile."""
    lines: Callable[[str, str, str], list[str]]
    generic: bool = False
    """Whether ordinary stores fill the stage, which complete no bytes."""
    surely_fenced: bool = True
    """Whether the fence behind these stores, where there is one, is surely needed."""
    one_fetches: bool = False
    """Whether one rank of the group fetches for all of it."""


WAYS = ("plain", "plain", "rows", "leader", "shares", "cluster.load", "cluster.copy", "gather", "gather4", "generic")


def feed(draft: Draft, loop: Loop, steps: int, shape: tuple[int, ...], kind: Type, buffer: str, *,
         low: int, high: int, ways: tuple[str, ...] = WAYS, fenced: bool = False,
         beside: Sequence[Feed] = ()) -> Feed:  # fmt: skip
    """A random source of tiles of a shape, `steps` of them for each tile of the loop; `beside` fill the same stages.

    A release of those stages goes to all of a group, as a mask says it, not to those alone who fetch.
    """
    rng = draft.rng
    total = loop.tiles * steps
    if len(shape) == 1:
        return _run(draft, total, shape[0], kind, buffer, low, high, fenced, beside)
    rows, columns = shape
    how = rng.choice([way for way in ways if _possible(way, rows, columns, kind, draft)])
    draft.note(f"feed {how}")
    if how in ("gather", "gather4"):
        return _gathered(draft, total, rows, columns, kind, buffer, low, high, how, beside)
    group, one_fetches = None, how in ("leader", "cluster.copy")
    if one_fetches:
        group = rng.choice(_fetched_by_one(draft, beside))
    elif how in ("shares", "cluster.load"):
        group = rng.choice([g for g in draft.cluster.groups() if rows % (8 * g.size) == 0])
    address = _Address(draft, total, rows, columns, kind, low, high, group, engine=how != "generic")

    def lines(step: str, stage: str, barrier: str) -> list[str]:
        place = f"{buffer}[{stage}]"
        base = [f"u = {address.tile(step)}"]
        if how == "plain":
            hint = rng.choice(("", "", ', cache="evict_first"'))
            ahead = [f"px.tma.prefetch({address.view(0, rows)})"] if rng.random() < 0.15 else []
            return [*base, *ahead, f"px.tma.load({address.view(0, rows)}, {place}, {barrier}{hint})"]
        if how == "rows":
            cut = rng.choice([n for n in (1, 2, 4, rows) if rows % n == 0 and rows // n % 8 == 0] or [1])
            each = rows // cut
            if cut > 1 and rng.random() < 0.4:
                draft.note("copies in a loop")
                start = f"i * {each}"
                copy = f"px.tma.load({address.view(start, each)}, {place}[{start} : {start} + {each}], {barrier})"
                return [*base, f"for i in range({cut}):", f"    {copy}"]
            return [*base, *(
                f"px.tma.load({address.view(i * each, each)}, {place}[{i * each}:{i * each + each}], {barrier})"
                for i in range(cut)
            )]  # fmt: skip
        if how == "generic":
            fence = ["px.fence.async_proxy()  # needed: stores before an engine reads"] if fenced else []
            fill = f", fill={address.fill}" if address.fill else ""
            return [*base, f"px.store({place}, px.load({address.view(0, rows)}{fill}))", *fence]
        assert group is not None
        if how == "leader":
            leader = rng.randrange(group.size)
            copy = f"px.tma.load({address.view(0, rows)}, {place}, {barrier}, multicast={group.mask})"
            if group.size == 1:
                return [*base, copy]
            return [*base, f"if {group.member} == {leader}:", f"    {copy}  # masked"]
        if how == "shares":
            each = rows // group.size
            start = f"{group.member} * {each}"
            view = f"{place}[{start} : {start} + {each}]"
            return [*base, f"px.tma.load({address.view(start, each)}, {view}, {barrier}, multicast={group.mask})"]
        if how == "cluster.load":
            return [*base, f"px.cluster.load({address.view(0, rows)}, {place}, {barrier}, ctas={group.mask})"]
        return [*base, f"px.cluster.copy({address.view(0, rows)}, {place}, {barrier}, mask={group.mask})"]

    flow = Flow(shape, kind, min(low, 0), max(high, 0), address.values)
    return Feed(how, flow, group, lines, how == "generic", one_fetches=one_fetches)


def _fetched_by_one(draft: Draft, beside: Sequence[Feed]) -> list[Group]:
    """The groups for all of which one rank may fetch.

    A stage is given back to all of the row and the column that its tiles are shared in. Where one rank fetches for the row
    and one for the column, a rank may be both: it does not need the others to go on, gives stages back to them twice before
    somebody else does once, and is counted for that one (`released_to_ctas_that_fetch_nothing_for_it` among the tests of
    the checks). So such groups do not cross.
    """
    others = [one.group.name for one in beside if one.one_fetches and one.group is not None and one.group.crosses]
    return [g for g in draft.cluster.groups() if not g.crosses or all(g.name == name for name in others)]


def box(draft: Draft, loop: Loop, steps: int, shape: tuple[int, ...], kind: Type, buffer: str, folds: int) -> Feed:
    """Tensor copies of three axes: the rows of a tile lie in `folds` layers of the array."""
    rng = draft.rng
    draft.note("feed box")
    rows, columns = shape
    each = rows // folds
    group = rng.choice(draft.cluster.groups()) if draft.chance(0.4) else None
    count = group.count if group is not None else draft.cluster.size
    unit = 16 // kind.nbytes
    column = rng.choice((0, 1)) * unit
    height = each if draft.chance(0.6) else rng.randrange(1, each + 1)
    total = max(1, loop.tiles * steps * count)
    array = draft.numbers((total * folds, height, column + columns), kind, 0 if kind.low == 0 else -3, 3)
    name = draft.argument("X", array)
    collective = rng.choice(("cluster.copy", "leader"))

    def lines(step: str, stage: str, barrier: str) -> list[str]:
        index = group.index if group is not None else "rank"
        base = [f"u = (({step}) * {count} + {index}) * {folds}"]
        view = f"{name}[u : u + {folds}, 0:{each}, {column}:{column + columns}]"
        place = f"{buffer}[{stage}]"
        if group is None:
            return [*base, f"px.tma.load({view}, {place}, {barrier})"]
        if collective == "cluster.copy":
            return [*base, f"px.cluster.copy({view}, {place}, {barrier}, mask={group.mask})"]
        leader = f"if {group.member} == {rng.randrange(group.size)}:"
        return [*base, leader, f"    px.tma.load({view}, {place}, {barrier}, multicast={group.mask})"]

    def values(step: int) -> list[np.ndarray]:
        found = []
        for r in range(draft.cluster.size):
            u = (step * count + (group.of(r) if group is not None else r)) * folds
            whole = np.zeros((folds, each, columns))
            whole[:, :height] = array[u : u + folds, :, column:].astype(np.float64)
            found.append(whole.reshape(shape))
        return found

    return Feed("box", Flow(shape, kind, min(array.min().astype(int), 0), 3, values), group, lines)


def _possible(way: str, rows: int, columns: int, kind: Type, draft: Draft) -> bool:
    if way in ("gather", "gather4"):
        return rows % 4 == 0 and columns * kind.nbytes % 128 == 0
    if way in ("shares", "cluster.load"):
        return any(rows % (8 * g.size) == 0 for g in draft.cluster.groups())
    return True


class _Address:
    """Where tile u of an array lies: an array of two or three axes, wider than the tile or cut short."""

    def __init__(self, draft: Draft, total: int, rows: int, columns: int, kind: Type, low: int, high: int,
                 group: Group | None, *, engine: bool) -> None:  # fmt: skip
        rng, size = draft.rng, draft.cluster.size
        self.draft, self.rows, self.columns, self.group = draft, rows, columns, group
        self.each = group.count if group is not None else size
        unit = 16 // kind.nbytes if engine else 1
        tiles = total * self.each
        self.form = rng.choice(("rows", "rows", "stack", "tile"))
        self.column = rng.choice((0, 0, 1, 3)) * unit
        width = self.column + columns + rng.choice((0, 0, 2, 5)) * unit
        if draft.chance(0.15) and columns > unit:
            width = self.column + columns - unit * rng.randrange(1, columns // unit)
            draft.note("ragged columns")
        if self.form == "stack":
            height = rows if not draft.chance(0.2) else rng.randrange(1, rows + 1)
            self.array = draft.numbers((max(tiles, 1), height, width), kind, low, high)
        else:
            height = tiles * rows
            if draft.chance(0.25) and height > 1:
                height -= rng.randrange(1, min(height, 2 * rows))
                draft.note("ragged rows")
            self.array = draft.numbers((max(height, 1), width), kind, low, high)
        self.name = draft.argument("X", self.array)
        self.fill = rng.choice((0, 1, 2)) if not engine else 0

    def tile(self, step: str) -> str:
        index = self.group.index if self.group is not None else "rank"
        return f"({step}) * {self.each} + {index}" if self.each > 1 else f"({step})"

    def view(self, start: int | str, count: int) -> str:
        c, width = self.column, self.columns
        if self.form == "rows":
            first = f"u * {self.rows} + {start}"
            return f"{self.name}[{first} : {first} + {count}, {c}:{c + width}]"
        if self.form == "tile":
            return f"{self.name}.tile((u * {self.rows} + {start}, {c}), ({count}, {width}))"
        return f"{self.name}[u, {start} : {start} + {count}, {c}:{c + width}]"

    def values(self, step: int) -> list[np.ndarray]:
        """The tile of every rank in a step, zeros outside the array."""
        size = self.draft.cluster.size
        return [self.one(step * self.each + (self.group.of(r) if self.group else r)) for r in range(size)]

    def one(self, u: int) -> np.ndarray:
        source = self.array[u] if self.form == "stack" else self.array[u * self.rows :]
        part = source[: self.rows, self.column : self.column + self.columns].astype(np.float64)
        whole = np.full((self.rows, self.columns), float(self.fill))
        whole[: part.shape[0], : part.shape[1]] = part
        return whole


def _gathered(draft: Draft, total: int, rows: int, columns: int, kind: Type, buffer: str, low: int, high: int,
              how: str, beside: Sequence[Feed]) -> Feed:  # fmt: skip
    """Rows that an index names; some are outside the matrix."""
    rng, size = draft.rng, draft.cluster.size
    group = rng.choice(_fetched_by_one(draft, beside)) if size > 1 and draft.chance(0.4) else None
    each = group.count if group is not None else size
    unit = 16 // kind.nbytes
    column = rng.choice((0, 1, 2)) * unit
    height = rng.randrange(1, 40)
    matrix = draft.numbers((height, column + columns + rng.choice((0, 1)) * unit), kind, low, high)
    places = draft.data.integers(-1, height + 1, max(total * each, 1) * rows).astype(rng.choice((np.int32, np.int64)))
    x, idx = draft.argument("X", matrix), draft.argument("I", places)
    padded = np.zeros((height + 1, columns))
    padded[:height] = matrix[:, column : column + columns].astype(np.float64)

    def lines(step: str, stage: str, barrier: str) -> list[str]:
        place = f"{buffer}[{stage}]"
        index = group.index if group is not None else "rank"
        base = [f"u = (({step}) * {each} + {index}) * {rows}"]
        mask = f", multicast={group.mask}" if group is not None else ""
        if how == "gather":
            copies = [f"px.tma.gather({x}, {idx}[u : u + {rows}], {column}, {place}, {barrier}{mask})"]
        else:
            copies = []
            for i in range(0, rows, 4):
                named = f"({', '.join(f'{idx}[u + {i + j}]' for j in range(4))})"
                four = rng.choice((named, f"{idx}[u + {i} : u + {i + 4}]"))
                view = f"{place}[{i}:{i + 4}]" if rows > 4 else place
                copies.append(f"px.tma.gather4({x}, {four}, {column}, {view}, {barrier}{mask})")
        if group is not None and group.size > 1:
            return [*base, f"if {group.member} == {rng.randrange(group.size)}:", *(f"    {c}" for c in copies)]
        return [*base, *copies]

    def values(step: int) -> list[np.ndarray]:
        found = []
        for r in range(size):
            u = (step * each + (group.of(r) if group is not None else r)) * rows
            named = places[u : u + rows]
            found.append(padded[np.where((named < 0) | (named >= height), height, named)])
        return found

    return Feed(how, Flow((rows, columns), kind, min(low, 0), max(high, 0), values), group, lines, one_fetches=True)


def _run(draft: Draft, total: int, length: int, kind: Type, buffer: str, low: int, high: int, fenced: bool,
         beside: Sequence[Feed]) -> Feed:  # fmt: skip
    """Runs of elements of a vector: bulk copies without a descriptor, or ordinary loads and stores."""
    rng, size = draft.rng, draft.cluster.size
    ways = ("bulk", "bulk", "generic", *(("bulk multicast",) if length * kind.nbytes % 128 == 0 else ()))
    how = rng.choice(ways)
    draft.note(f"feed {how} run")
    group = rng.choice(_fetched_by_one(draft, beside)) if how == "bulk multicast" else None
    each = group.count if group is not None else size
    gap = rng.choice((0, 0, 16)) // kind.nbytes
    array = draft.numbers((max(1, total * each) * (length + gap) + gap,), kind, low, high)
    name = draft.argument("X", array)

    def lines(step: str, stage: str, barrier: str) -> list[str]:
        place = f"{buffer}[{stage}]"
        index = group.index if group is not None else "rank"
        base = [f"u = (({step}) * {each} + {index}) * {length + gap} + {gap}"]
        view = f"{name}[u : u + {length}]"
        if how == "generic":
            fence = ["px.fence.async_proxy()  # needed: stores before an engine reads"] if fenced else []
            return [*base, f"px.store({place}, px.load({view}))", *fence]
        if group is None:
            return [*base, f"px.tma.load({view}, {place}, {barrier})"]
        copy = f"px.tma.load({view}, {place}, {barrier}, multicast={group.mask})"
        if group.size == 1:
            return [*base, copy]
        return [*base, f"if {group.member} == {rng.randrange(group.size)}:", f"    {copy}"]

    def values(step: int) -> list[np.ndarray]:
        starts = [(step * each + (group.of(r) if group is not None else r)) * (length + gap) + gap for r in range(size)]
        return [array[s : s + length].astype(np.float64) for s in starts]

    return Feed(how, Flow((length,), kind, low, high, values), group, lines, how == "generic", one_fetches=True)
