"""How a worker hands a tile in registers to the next ring: stores, pushes to a peer, `px.cluster.store`, remote stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuzz.choreo_parts import Draft, Flow, Route
from fuzz.choreo_rings import Ring
from fuzz.choreo_works import narrowed

WAYS = (
    "local", "push", "push", "push rows", "push stores", "push transposed", "push converted", "push reshaped", "push halves",
    "cluster.store", "remote", "pull",
)  # fmt: skip


@dataclass
class Passing:
    """A way into a ring, drawn before the ring is, since its masks follow from it."""

    how: str
    route: Route | None
    sender_arms: bool
    generic: str
    """The signal behind ordinary stores, empty where bytes complete."""
    armed_by_call: bool = False
    receiver_fences: bool = False
    """Whether an engine of the receiver reads what stores have brought, so that the receiver fences behind its wait."""

    @property
    def release_self(self) -> bool:
        return self.route is None or not (self.sender_arms or self.generic)


def passing(draft: Draft, flow: Flow, parts: int, *, engine_reads: bool) -> Passing:
    """A random way for tiles of a flow that `parts` agents hold."""
    rng = draft.rng
    ways = [way for way in WAYS if _possible(way, flow, parts, engine_reads=engine_reads)]
    how = rng.choice(ways)
    draft.note(f"pass {how}")
    if how == "local":
        return Passing(how, None, False, "arrive()")
    route = rng.choice(draft.cluster.routes())
    if how in ("remote", "pull"):
        return Passing(how, route, False, f"arrive(ctas=1 << ({route.to}))")
    arms = draft.chance(0.5)
    if arms:
        draft.note("armed by the sender")
    if how == "push halves" and arms:
        return Passing(how, route, True, "", False)
    return Passing(
        how, route, arms, "", arms and how != "cluster.store" and draft.chance(0.7), how == "cluster.store" and engine_reads
    )


def _possible(way: str, flow: Flow, parts: int, *, engine_reads: bool) -> bool:
    if way in ("remote", "pull"):
        return not engine_reads
    if way == "cluster.store":
        return flow.kind.nbytes >= 4  # a thread may hold single elements, and four bytes are the least that it can send
    if way in ("push rows", "push stores"):
        return len(flow.shape) == 2
    if way in ("push transposed", "push reshaped"):
        return len(flow.shape) == 2 and parts == 1 and not engine_reads
    if way == "push halves":
        return flow.shape[0] // parts % 2 == 0
    return True


def produced(
    draft: Draft, ring: Ring, way: Passing, parts: int, *, engine_reads: bool
) -> tuple[list[str], Callable[[int, int], list[str]]]:
    """The declarations that the way needs, and the lines that bring `y`, the rows of a part, into the ring."""
    flow = ring.flows[0]
    name, n = ring.buffers[0], ring.number
    rows = flow.shape[0] // parts
    declared: list[str] = []
    shape = flow.shape
    if way.how == "push rows":
        extra = 16 // flow.kind.nbytes * draft.rng.choice((1, 2))
        declared.append(draft.buffer(f"mine{n}", (ring.stages, shape[0], shape[1] + extra), flow.kind))
    elif way.how == "push stores":
        declared.append(draft.buffer(f"mine{n}", (ring.stages, shape[1], shape[0]), flow.kind))
    elif way.how in ("push", "push halves"):
        declared.append(draft.buffer(f"mine{n}", (ring.stages, *shape), flow.kind))
    elif way.how == "push converted":
        held = narrowed(draft, flow)
        declared.append(draft.buffer(f"mine{n}", (ring.stages, *shape), held))
    elif way.how == "push transposed":
        declared.append(draft.buffer(f"mine{n}", (ring.stages, *shape[::-1]), flow.kind))
    elif way.how == "push reshaped":
        count = shape[0] * shape[1]
        across = draft.rng.choice([n for n in (2, 4, 8, 3, 16) if count % n == 0] or [1])
        source = (count // across, across)
        declared.append(draft.buffer(f"mine{n}", (ring.stages, *source), flow.kind))

    def lines(part: int, agent: int) -> list[str]:
        whole = parts == 1
        cut = "" if whole else f"[{part * rows}:{part * rows + rows}]"
        value = f"y.to({flow.kind.px})"

        def body(stage: str, barrier: str) -> list[str]:
            place = f"{name}[{stage}]{cut}"
            fence = "px.fence.async_proxy()  # needed: stores before an engine reads"
            if way.how in ("local", "pull"):
                return [f"px.store({place}, {value})", *([fence] if engine_reads else [])]
            assert way.route is not None
            to = way.route.to
            if way.how == "remote":
                return [f"px.store({name}.at({to})[{stage}]{cut}, {value})"]
            announced = f"{barrier}.arrive_and_expect_tx({flow.nbytes // parts}, ctas=1 << ({to}))  # counted"
            if way.how == "cluster.store":
                arm = [announced] if way.sender_arms else []
                return [*arm, f"px.cluster.store({place}, {value}, {barrier}, cta={to})"]
            mine = f"mine{n}[{stage}]{cut}"
            if way.how == "push rows":
                mine = f"mine{n}[{stage}][{part * rows}:{part * rows + rows}, 0:{shape[1]}]"
            elif way.how == "push stores":
                mine = f"mine{n}[{stage}].T{cut}"
            if way.how == "push converted":
                value_here = f"y.to({held.px})"
            elif way.how == "push transposed":
                value_here, place = value, f"{name}[{stage}].T"
            elif way.how == "push reshaped":
                value_here = f"{value}.reshape{source}"
            else:
                value_here = value
            arm, armed = [], ""
            if way.sender_arms and way.armed_by_call:
                armed = ", arm=True"
            elif way.sender_arms:
                arm = [announced]
            if way.how == "push halves":
                half = rows // 2
                return [f"px.store({mine}, {value})", fence, *arm, *(
                    f"px.cluster.copy(mine{n}[{stage}][{first}:{first + half}], {name}[{stage}][{first}:{first + half}], "
                    f"{barrier}, cta={to})" for first in (part * rows, part * rows + half)
                )]  # fmt: skip
            return [
                f"px.store({mine}, {value_here})", fence, *arm,
                f"px.cluster.copy({mine}, {place}, {barrier}, cta={to}{armed})",
            ]  # fmt: skip

        return ring.produce(body, 0 if way.generic else flow.nbytes // parts, generic=way.generic)

    return declared, lines


def arrived(flow: Flow, way: Passing, size: int) -> Flow:
    """What each rank finds in the ring: what the rank sent that is routed to it."""
    route = way.route
    if way.how == "push transposed":
        source_at = flow.at
        flow = Flow(flow.shape[::-1], flow.kind, flow.low, flow.high, lambda t: [x.T for x in source_at(t)])
    if route is None:
        return flow
    before = flow.at
    source = {route.target(r): r for r in range(size)}

    def at(t: int) -> list:
        tiles = before(t)
        return [tiles[source[r]] for r in range(size)]

    return Flow(flow.shape, flow.kind, flow.low, flow.high, at)
