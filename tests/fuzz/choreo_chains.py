"""Chains of agents: global memory, a ring, a worker, perhaps more rings and workers, and a sink.

A chain is written in roles, where its agents run beside each other, or flat: one agent does all of it in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fuzz.choreo_feeds import Feed, box, feed
from fuzz.choreo_parts import TYPES, Draft, Flow, Loop, indented
from fuzz.choreo_passing import Passing, arrived, passing, produced
from fuzz.choreo_products import product
from fuzz.choreo_rings import Ring
from fuzz.choreo_sinks import sink
from fuzz.choreo_workers import Role, Worker, stepped, summed, unmarked
from fuzz.choreo_works import narrowed, work

STYLES = ("ring", "ring", "index", "pipe", "pipe by hand")


@dataclass
class Chain:
    """The declarations of a chain and its roles; flat, one role."""

    declared: list[str] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)


def loop_of(draft: Draft) -> Loop:
    """Which tiles the clusters take."""
    rng = draft.rng
    if rng.random() < 0.5:
        tiles = rng.randrange(0, 4 * draft.clusters + 2)
        last = str(tiles)
        if draft.chance(0.5):
            last = draft.argument("n", tiles)
        draft.note("persistent")
        return Loop(tiles, draft.clusters, True, last)
    return Loop(rng.choice((1, 2, 3, 4, 5, 7)) * draft.clusters, draft.clusters, False, "")


def chain(draft: Draft, numbers: Callable[[], int], *, flat: bool) -> Chain:
    """A random chain; `numbers` gives each ring a number of its own."""
    rng = draft.rng
    loop = loop_of(draft)
    multiplies = rng.random() < 0.4
    result = Chain()
    first = _product_start(draft, loop, numbers(), flat) if multiplies else _map_start(draft, loop, numbers(), flat)
    worker, feeds = first
    ring = worker.ring
    ring.fills = loop.most * worker.steps
    result.declared += ring.declare()
    if worker.product is not None and not ring.is_pipe:
        result.declared += worker.product.declared(ring)
    ring.alone = flat and any(one.generic for one in feeds)
    ring.engine = "never" if any(one.generic for one in feeds) else "may"
    feeders = _feeders(draft, loop, ring, feeds, worker.steps)
    workers = [worker]
    for last in range(3):
        done = work(draft, worker.flow, tile="t", most=3, parts=worker.parts, flat=flat)
        result.declared += draft.extra
        draft.extra = []
        worker.lines = done.lines
        if last < 2 and _relays(draft, worker):
            result.declared += _relayed(draft, loop, worker, numbers(), workers)
            worker = workers[-1]
            continue
        ends = last == 2 or rng.random() < 0.6 or worker.turns or worker.direct is not None
        if ends:
            break
        result.declared += _handed_on(draft, loop, worker, done.flow, numbers(), workers, flat)
        worker = workers[-1]
    if worker.direct is None:
        end = sink(draft, loop, done.flow, worker.parts, worker.agents, worker.ring.number)
        result.declared += end.declared
        worker.before, worker.output, worker.after = end.before, end.each, end.after
    if flat:
        result.roles = [_flat_role(draft, loop, feeders, workers)]
        return result
    wide = all(one.warps % 4 == 0 for one in workers) and draft.chance(0.4)
    for lines in feeders:
        warps = 4 if wide else rng.choice((1, 1, 1, 2, 4))
        result.roles.append(Role(warps, [], lines, [], loop.bounds(), runs=loop.most > 0, feeds=True))
    for one in workers:
        result.roles += [one.role(agent) for agent in range(one.agents)]
    for role in result.roles:
        if draft.chance(0.08):
            draft.note("unrolled")
            role.unrolled = rng.choice((2, 3, min(4, ring.stages)))  # more takes the compiler a minute, with bounded waits
    return result


def _warps(draft: Draft, shape: tuple[int, ...], parts: int) -> int:
    """Enough warps to hold a part of a tile in registers, and some more."""
    return max(draft.rng.choice((1, 1, 2, 3, 4)), -(-int(np.prod(shape)) // (parts * 1024)))


# The first ring.


def _style(draft: Draft, ring: Ring) -> None:
    """How a ring is written."""
    rng = draft.rng
    ring.counted = rng.choice(("by the compiler", "by the compiler", "explicit", "own init"))
    ring.polls = rng.random() < 0.12
    ring.weight = 2 if rng.random() < 0.1 and not ring.is_pipe else 1
    ring.arming = rng.choice(("transaction", "transaction", "explicit", "split"))


def _map_start(draft: Draft, loop: Loop, number: int, flat: bool) -> tuple[Worker, list[Feed]]:
    """A worker that adds up one or two tiles, whatever they come from."""
    rng = draft.rng
    kinds = [rng.choice(list(TYPES.values()))]
    count = 2 if draft.chance(0.25) else 1
    if count == 2:
        kinds.append(rng.choice([k for k in TYPES.values() if k.floating == kinds[0].floating]))
    unit = 16 // min(k.nbytes for k in kinds)
    parts = 1 if flat else rng.choice((1, 1, 2, 3))
    if draft.chance(0.2):
        shape: tuple[int, ...] = (unit * rng.choice((1, 2, 3, 8, 20, 32)) * parts,)
    else:
        rows = rng.choice((4, 8, 8, 12, 16, 24, 32, 64))
        parts = parts if rows % parts == 0 else 1
        shape = (rows, unit * rng.choice((1, 2, 3, 4, 5, 8, 8, 16)))
        if max(k.nbytes for k in kinds) * shape[0] * shape[1] > 8192:
            shape = (8 * parts, shape[1])
    steps = rng.choice((1, 1, 1, 2, 3))
    direct = count == 1 and steps == 1 and parts == 1 and draft.chance(0.15)
    agents = parts
    if parts == 1 and not flat and not direct and draft.chance(0.25):
        agents = rng.choice((2, 2, 3))
        draft.note("agents in turns")
    ring = Ring(draft, number, rng.choice((1, 2, 2, 3, 4, 6)), [], rng.choice(STYLES), consumers=agents,
                turns=agents > parts)  # fmt: skip
    if ring.turns:  # an agent that skipped a phase of a stage could not tell the next one by its parity
        ring.stages = agents * steps * rng.choice((1, 1, 2))
        ring.style = rng.choice(("ring", "index"))
    _style(draft, ring)
    names = [f"s{number}{'ab'[i]}" for i in range(count)]
    feeds: list[Feed] = []
    for kind, name in zip(kinds, names):
        low = 0 if kind.low == 0 else -3
        beside = _told_by_masks(ring, feeds)
        feeds.append(feed(draft, loop, steps, shape, kind, name, low=low, high=3, fenced=direct, beside=beside))
    if count == 1 and len(shape) == 2 and parts == 1 and not direct and draft.chance(0.15):
        ring.folds = rng.choice((2, 4))
        feeds = [box(draft, loop, steps, shape, kinds[0], names[0], ring.folds)]
    _fill(draft, ring, feeds, flat)
    transposed = len(shape) == 2 and parts == 1 and not direct and ring.folds == 1 and draft.chance(0.25)
    flow = summed(ring.flows, steps, transposed)
    warps = _warps(draft, shape, parts)
    worker = Worker(draft, loop, ring, steps, parts, agents, warps, flow, transposed=transposed,
                    early_release=draft.chance(0.6))  # fmt: skip
    if direct:
        _direct(draft, worker)
    return worker, feeds


def _product_start(draft: Draft, loop: Loop, number: int, flat: bool) -> tuple[Worker, list[Feed]]:
    """A worker that multiplies."""
    rng = draft.rng
    tensor = rng.random() < 0.6
    parts = 1 if flat else rng.choice((1, 1, 2))
    warps = rng.choice((4, 4, 8)) if tensor else rng.choice((1, 1, 2, 4))
    made = product(draft, parts, warps, tensor=tensor)
    steps = rng.choice((1, 2, 3, 3, 4))
    ring = Ring(draft, number, rng.choice((2, 2, 3, 4)), [], rng.choice(STYLES), consumers=parts)
    if made.lag >= ring.stages:
        made.lag = 1
    _style(draft, ring)
    ways = ("plain", "plain", "rows", "leader", "shares", "cluster.load", "cluster.copy", "generic", "gather")
    feeds: list[Feed] = []
    for shape, kind, letter in ((made.a_shape, made.left, "a"), (made.b_shape, made.right, "b")):
        low, name = 0 if kind.low == 0 else -2, f"s{number}{letter}"
        beside = _told_by_masks(ring, feeds)
        feeds.append(feed(draft, loop, steps, shape, kind, name, low=low, high=2, ways=ways, fenced=True, beside=beside))
    _fill(draft, ring, feeds, flat)
    flow = made.flow(ring.flows, steps)
    for one in feeds:
        one.surely_fenced = made.how.startswith("wgmma") and not made.a_in_registers
    return Worker(draft, loop, ring, steps, parts, parts, warps, flow, product=made), feeds


def _told_by_masks(ring: Ring, feeds: list[Feed]) -> list[Feed]:
    """The feeds whose groups are all told of a release; a pipe finds out by itself who has to hear of it."""
    return [] if ring.is_pipe else feeds


def _fill(draft: Draft, ring: Ring, feeds: list[Feed], flat: bool) -> None:
    """The ring holds what the feeds bring; two feeds may be two producers."""
    ring.flows = [one.flow for one in feeds]
    ring.groups = [one.group for one in feeds if one.group is not None]
    if len(feeds) == 2 and not flat and draft.chance(0.4):
        ring.producers = 2
        draft.note("two producers")
    if any(one.generic for one in feeds) and ring.style == "pipe":
        ring.style = "pipe by hand"


def _feeders(draft: Draft, loop: Loop, ring: Ring, feeds: list[Feed], steps: int) -> list[list[str]]:
    """What each producing agent does for a tile."""
    groups = [[one] for one in feeds] if ring.producers == 2 else [feeds]
    found = []
    for each in groups:
        inner = filled(ring, each, "t" if steps == 1 else f"t * {steps} + k")
        found.append(inner if steps == 1 else [f"for k in range({steps}):", *indented(inner)])
    return found


def filled(ring: Ring, feeds: list[Feed], step: str) -> list[str]:
    """One stage from its feeds."""
    copied, stored = [one for one in feeds if not one.generic], [one for one in feeds if one.generic]

    def body(stage: str, barrier: str) -> list[str]:
        return [line for one in copied for line in one.lines(step, stage, barrier)]

    def stores(stage: str, barrier: str) -> list[str]:
        lines = [line for one in stored for line in one.lines(step, stage, barrier)]
        sure = len(stored) == 1 and stored[0].surely_fenced
        return lines if sure else [unmarked(line) for line in lines]

    nbytes = sum(one.flow.nbytes for one in copied)
    return ring.produce(body, nbytes, stores=stores, generic="" if copied else "arrive()")


def _direct(draft: Draft, worker: Worker, *, fences: bool = False) -> None:
    """The engine stores the stage as it is."""
    flow = worker.ring.flows[0]
    size = draft.cluster.size
    shape = flow.shape
    tiles = max(1, worker.loop.tiles * size)
    initial = draft.numbers((tiles, *shape), flow.kind, 0, 3)
    adds = draft.chance(0.3) and flow.kind.name in ("f32", "f16", "bf16", "i32", "u32") and flow.nbytes % 128 == 0
    draft.note("sink direct reduce" if adds else "sink direct")

    def want() -> np.ndarray:
        result = initial.copy()
        for t in range(worker.loop.tiles):
            for rank, tile in enumerate(flow.at(t)):
                old = initial[t * size + rank].astype(np.float64) if adds else 0
                result[t * size + rank] = (old + tile).astype(flow.kind.numpy)
        return result

    name = draft.output(initial, want)
    rest = "".join(f", 0:{n}" for n in shape)

    def lines(stage: str, part: int) -> list[str]:
        place = f"{worker.ring.buffers[0]}[{stage}], {name}[t * {size} + rank{rest}]"
        copy = f'px.tma.reduce({place}, "add")' if adds else f"px.tma.store({place})"
        why = "needed: before the stage is released" if worker.ring.refilled() else "before the stage is released"
        fence = ["px.fence.async_proxy()  # needed: stores landed before an engine reads"] if fences else []
        return [*fence, copy, "px.tma.commit()", f"px.tma.wait(0, read=True)  # {why}"]

    worker.direct = lines
    worker.after = lambda part: ["px.tma.wait(0)"]


# Later rings.


def _handed_on(
    draft: Draft, loop: Loop, worker: Worker, flow: Flow, number: int, workers: list[Worker], flat: bool
) -> list[str]:
    """The worker's tiles go to another ring, and a new worker takes them from there."""
    rng = draft.rng
    kind = narrowed(draft, flow)
    flow = stepped(flow, kind)
    direct = worker.parts == 1 and flow.shape[-1] * kind.nbytes % 16 == 0 and draft.chance(0.2)
    way = passing(draft, flow, worker.parts, engine_reads=direct)
    flow = arrived(flow, way, draft.cluster.size)
    rows = flow.shape[0]
    parts = 1 if flat or direct else rng.choice([n for n in (1, 1, 2, 3) if rows % n == 0])
    agents = rng.choice((2, 3)) if parts == 1 and not flat and not direct and draft.chance(0.2) else parts
    ring = Ring(draft, number, rng.choice((1, 2, 2, 3)), [flow], rng.choice(("ring", "ring", "index")),
                producers=worker.agents, consumers=agents, turns=agents > parts, route=way.route,
                sender_arms=way.sender_arms, release_self=way.release_self)  # fmt: skip
    ring.stages *= agents if ring.turns else 1
    ring.fills = loop.most
    ring.alone = flat and (way.how == "local" or (way.how in ("remote", "pull") and draft.cluster.size == 1))
    ring.engine = {"cluster.store": "fence", "local": "never", "remote": "never", "pull": "never"}.get(way.how, "may")
    ring.pulled = way.how == "pull"
    _style(draft, ring)
    if way.how == "local" and not ring.turns and draft.chance(0.3):
        ring.style = "pipe by hand"
    bytes_come = way.route is not None and not way.sender_arms and not way.generic
    if bytes_come and not ring.turns and draft.chance(0.3):
        ring.style = rng.choice(("pipe", "pipe by hand"))
        draft.note("pipe with pushes")
    declared = ring.declare()
    more, lines = produced(draft, ring, way, worker.parts, engine_reads=direct)
    worker.output = lines
    transposed = len(flow.shape) == 2 and parts == 1 and not direct and draft.chance(0.25)
    new = Worker(draft, loop, ring, 1, parts, agents, _warps(draft, flow.shape, parts), summed([flow], 1, transposed),
                 transposed=transposed, early_release=draft.chance(0.6))  # fmt: skip
    if direct:
        _direct(draft, new, fences=way.receiver_fences)
    workers.append(new)
    return [*declared, *more]


def _relays(draft: Draft, worker: Worker) -> bool:
    """Whether a worker may push its stages on as they are."""
    ring = worker.ring
    plain = worker.product is None and worker.direct is None and worker.steps == 1 and worker.agents == 1
    simple = not worker.transposed and ring.folds == 1 and len(ring.flows) == 1 and not ring.is_pipe and ring.stages > 1
    return plain and simple and ring.engine != "never" and draft.chance(0.25)


def _relayed(draft: Draft, loop: Loop, worker: Worker, number: int, workers: list[Worker]) -> list[str]:
    """Stages go from this ring to the next one of a peer without passing through registers.

    The push has read its stage when the receiver has given the stage of the next ring back. So a stage is released when
    its successor in the next ring is filled again, which is `later.stages` turns after.
    """
    draft.note("relay")
    rng = draft.rng
    ring, flow = worker.ring, worker.ring.flows[0]
    worker.lines, worker.transposed = [], False
    route = rng.choice(draft.cluster.routes())
    way = Passing("relay", route, True, "", True)
    came = arrived(flow, way, draft.cluster.size)
    later = Ring(draft, number, rng.randrange(1, ring.stages), [came], rng.choice(("ring", "index")), route=route,
                 sender_arms=True, release_self=False)  # fmt: skip
    later.fills = loop.most
    _style(draft, later)
    n, m = ring.number, number
    count = f"turn{n}"
    stage = f"({count} - {later.stages}) % {ring.stages}"

    fence = ["px.fence.async_proxy()  # needed: stores landed before an engine reads"] if ring.engine == "fence" else []

    def pushed() -> list[str]:
        to, there = route.to, later.stage("fill")
        empty = f"empty{m}[{there}]"
        return [
            *ring.acquire(), *fence, *later.wait(empty, f"{later.parity('fill')} ^ 1", "the stage is free"),
            f"if {count} >= {later.stages}:", *indented(ring.release(stage, later.stages)),
            f"px.cluster.copy({ring.buffers[0]}[{ring.stage('take')}], {later.buffers[0]}[{there}], "
            f"full{m}[{there}], cta={to}, arm=True)",
            *ring.advance("take"), *later.advance("fill"), f"{count} += 1",
        ]  # fmt: skip

    worker.relay = pushed
    worker.before = [f"{count} = 0"]
    new = Worker(draft, loop, later, 1, 1, 1, _warps(draft, came.shape, 1), summed([came], 1, False),
                 early_release=draft.chance(0.6))  # fmt: skip
    workers.append(new)
    return later.declare()


# One agent for all.


def _flat_role(draft: Draft, loop: Loop, feeders: list[list[str]], workers: list[Worker]) -> Role:
    """One agent fills, reads, works and passes on; it may fill some stages ahead."""
    first, *rest = workers
    warps = first.warps
    draft.note("flat")
    feed_lines = [line for lines in feeders for line in lines]
    simple = first.steps == 1 and len(feeders) == 1 and first.relay is None  # a relay releases its stages later
    ahead = draft.rng.randrange(first.ring.stages) if simple else 0
    before = [line for one in workers for line in one.before]
    after = [line for one in workers for line in one.after(0)]
    if first.steps > 1:
        feed_lines = [line[4:] for lines in feeders for line in lines[1:]]
    if not ahead:
        turn = first.taken(0, 0, feed_lines)
    else:
        draft.note("flat, ahead")
        step = loop.step
        before += [
            f"for t in range({loop.first}, min({loop.first} + {ahead * step}, {loop.end}), {step}):", *indented(feed_lines),
        ]  # fmt: skip
        later = [_moved(line, ahead * step) for line in feed_lines]
        later = later if loop.most > ahead else [unmarked(line) for line in later]
        turn = [f"if t + {ahead * step} < {loop.end}:", *indented(later), *first.taken(0, 0, [])]
    for one in rest:
        turn += one.taken(0, 0, None)
    return Role(warps, before, turn, after, loop.bounds(), warps % 4 == 0, first.product is not None, runs=loop.most > 0)


def _moved(line: str, by: int) -> str:
    """A line of the feed for the tile `by` further on: tiles enter only where `u` is made."""
    return line.replace("(t)", f"(t + {by})")
