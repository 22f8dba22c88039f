"""Agents of a chain: workers take tiles from a ring, compute, and pass them on or store them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fuzz.choreo_parts import Draft, Flow, Loop, Type, indented
from fuzz.choreo_products import Product
from fuzz.choreo_rings import Ring


@dataclass
class Role:
    """What `warps` warps do: lines before the loop over tiles, for tile `t`, and after it."""

    warps: int
    before: list[str]
    turn: list[str]
    after: list[str]
    bounds: str
    aligned: bool = False
    """Whether it consists of whole warpgroups."""
    exact: bool = False
    """Whether it works with just this number of warps."""

    unrolled: int = 1
    """How often the body of the loop over tiles is written in a row."""
    feeds: bool = False
    """Whether it only issues copies, and needs few registers."""
    runs: bool = True
    """Whether any cluster has a tile for it."""

    def lines(self) -> list[str]:
        tiles = f"range({self.bounds})"
        if self.unrolled > 1:
            tiles = f"px.unroll({tiles}, {self.unrolled})"
        found = [*self.before, f"for t in {tiles}:", *indented(self.turn or ["pass"]), *self.after]
        return found if self.runs else [unmarked(line) for line in found]


def unmarked(line: str) -> str:
    """The same line, which may be left out."""
    return line.replace("# needed", "# in case").replace("# counted", "# bytes").replace("# masked", "# shared")


Output = Callable[[int, int], list[str]]


@dataclass
class Worker:
    """Takes tiles from `ring`; `agents` of them share the rows of a tile (`parts`), or take turns."""

    draft: Draft
    loop: Loop
    ring: Ring
    steps: int
    parts: int
    agents: int
    warps: int
    flow: Flow
    """Of what comes out, before `lines` have changed it."""
    product: Product | None = None
    transposed: bool = False
    direct: Callable[[str, int], list[str]] | None = None
    """What is done with a stage itself, in place of loading it into registers."""
    relay: Callable[[], list[str]] | None = None
    """What it does where it pushes stages on as they are."""
    lines: list[str] = field(default_factory=list)
    output: Output = lambda part, agent: []
    before: list[str] = field(default_factory=list)
    after: Callable[[int], list[str]] = lambda part: []
    early_release: bool = True

    @property
    def turns(self) -> bool:
        return self.agents > self.parts

    def role(self, agent: int, feed: list[str] | None = None) -> Role:
        """The role of an agent; with `feed`, one agent does it all and fills each stage before it reads it."""
        part = agent if not self.turns else 0
        ahead = self.ring.advance("take", agent * self.steps) if self.turns else []
        bounds = self.loop.bounds(agent, self.agents) if self.turns else self.loop.bounds()
        turn = self.taken(part, agent, feed)
        runs = self.loop.most > (agent if self.turns else 0)
        return Role(
            self.warps, [*ahead, *self.before], turn, self.after(part), bounds, self.warps % 4 == 0, runs=runs
        )

    def taken(self, part: int, agent: int, feed: list[str] | None) -> list[str]:
        """One tile: `y` is made of its steps, worked on, and put out."""
        skip = (self.agents - 1) * self.steps if self.turns else 0
        rest = self.ring.advance("take", skip) if skip else []
        tail = [*self.lines, *self.output(part, agent)]
        if self.relay is not None:
            return [*(feed or []), *self.relay()]
        if self.direct is not None:
            return [*(feed or []), *self.ring.consume(lambda st: self.direct(st, part)), *rest]
        if self.product is not None:
            return [*self.product.lines(self.ring, self.steps, part, feed), *rest, *tail]
        if self.steps == 1:
            if self.early_release:
                return [*(feed or []), *self.ring.consume(lambda st: self.loaded(st, part)), *rest, *tail]
            return [*(feed or []), *self.ring.consume(lambda st: [*self.loaded(st, part), *tail]), *rest]
        shape = self.part_shape
        inner = [*(feed or []), *self.ring.consume(lambda st: [*self.loaded(st, part), "held = held + y"])]
        return [
            f"held = px.zeros({shape}, {self.flow.kind.px})",
            f"for k in range({self.steps}):", *indented(inner), "y = held", *rest, *tail,
        ]  # fmt: skip

    @property
    def part_shape(self) -> tuple[int, ...]:
        return (self.flow.shape[0] // self.parts, *self.flow.shape[1:])

    def loaded(self, stage: str, part: int) -> list[str]:
        """The tile of a stage in registers, in the type that is computed in."""
        texts = []
        for name, flow in zip(self.ring.buffers, self.ring.flows):
            view = f"{name}[{stage}]"
            if self.ring.pulled and self.ring.route is not None:
                view = f"{name}[{stage}].at({self.ring.route.before})"
            if self.transposed:
                view += ".T"
            elif self.parts > 1:
                rows = flow.shape[0] // self.parts
                view += f"[{part * rows}:{part * rows + rows}]"
            load = f"px.load({view})"
            if self.ring.folds > 1:
                load += f".reshape{flow.shape}"
            computed = flow.kind.computed
            texts.append(load + (f".to({computed.px})" if computed is not flow.kind else ""))
        return [f"y = {' + '.join(texts)}"]


def summed(flows: list[Flow], steps: int, transposed: bool) -> Flow:
    """What a worker that adds the tiles of its buffers, and of its steps, has."""
    first = flows[0]

    def at(t: int) -> list[np.ndarray]:
        ranks = [sum(parts) for parts in zip(*(f.at(t * steps + k) for f in flows for k in range(steps)))]
        return [x.T for x in ranks] if transposed else ranks

    low, high = sum(f.low for f in flows) * steps, sum(f.high for f in flows) * steps
    return Flow(first.shape[::-1] if transposed else first.shape, first.kind.computed, low, high, at)


def stepped(flow: Flow, kind: Type) -> Flow:
    """The same numbers in another type."""
    return Flow(flow.shape, kind, flow.low, flow.high, flow.at)
