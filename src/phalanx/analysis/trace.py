"""The barrier traffic of one rank, as a tree: who signals what, under which run-time branches, in which loops.

`trace(function, rank)` walks the code as that rank's CTA would: conditions on the rank are decided, masks,
indices and amounts are numbers where the rank alone decides them. Copies of a role are walked one by one, and know which
they are. What only a run knows stays: a `Branch`, a
`Loop`, a symbol. The counting rule and the byte rule read these trees, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.analysis.flow import Cycle, ExitKind, ExitTarget, Outcome, State, Walk, exit_target
from phalanx.analysis.ranks import Evaluator, Term, varies_in
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import PURE, Arrival, BarrierWait, Complete, Expect, leader_of
from phalanx.ir.ops.control import (
    Assign,
    Break,
    Continue,
    For,
    If,
    Leave,
    Role,
    Roles,
    Scope,
    While,
    span_text,
)
from phalanx.ir.ops.mbarrier import Transaction
from phalanx.ir.values import Label, Var
from phalanx.ir.views import BarrierArray, BarrierRef

UNROLL_LIMIT = 256
"""Constant-trip loops whose masks or conditions depend on the index are enumerated up to this many iterations."""


@frozen
class TracedAgent:
    """Who runs an instruction: the CTA's warps together (`role` None), or a copy of a role."""

    role: Role | None = None
    copy: int = 0

    def __str__(self) -> str:
        if self.role is None:
            return "all warps"
        warps, name = span_text(self.role.first_of(self.copy), self.role.count), self.role.name_of(self.copy)
        return warps if name in ("", warps) else f"{name} ({warps})"


CTA = TracedAgent()


@frozen
class Signal:
    """An arrival, an expectation or a completion on a barrier.

    `index` is a number where the rank decides it; `amount` and `ranks` are None where only a run knows them,
    and `unknown` then holds the symbols they depend on. `shared`: each CTA that runs the instruction gets the bytes once.
    """

    barrier: BarrierArray
    index: Term
    amount: int | None
    ranks: tuple[int, ...] | None
    unknown: tuple[Term, ...] = ()
    shared: bool = False


@frozen
class WaitNode:
    """A wait for a phase of a barrier."""

    barrier: BarrierArray
    index: Term
    blocking: bool


@frozen(eq=False)
class Step:
    """An instruction that has to do with barriers."""

    op: Op
    agent: TracedAgent
    arrivals: tuple[Signal, ...]
    expects: tuple[Signal, ...]
    completes: tuple[Signal, ...]
    waits: tuple[WaitNode, ...]

    @property
    def blocks(self) -> bool:
        """Whether the instruction blocks until a phase is complete."""
        return any(wait.blocking for wait in self.waits)


@frozen(eq=False)
class Exit:
    """Control goes to the end of the `Region` or `Loop` of that target."""

    op: Op
    target: ExitTarget


@frozen(eq=False)
class Region:
    """Nodes that exits to `target` leave."""

    target: ExitTarget
    body: Nodes


@frozen(eq=False)
class Branch:
    """A condition known only at run time."""

    op: Op
    cond: Term
    then: Nodes
    orelse: Nodes


@frozen(eq=False)
class Loop:
    """A loop of `trips` iterations, None where only a run knows how many. `waits`: somebody blocks on a barrier in it.

    `token` is what `Symbol.varies` holds for whatever its iterations change.
    """

    op: Op
    token: object
    label: Label
    trips: int | None
    waits: bool
    body: Nodes

    @property
    def multiplies(self) -> bool:
        """A constant number of iterations with no wait: their signals on an unchanged barrier add up."""
        return self.trips is not None and not self.waits


@frozen(eq=False)
class Fork:
    """Roles that run side by side."""

    op: Op
    regions: tuple[tuple[TracedAgent, Nodes], ...]


@frozen(eq=False)
class TransactionNode:
    """The copies of a `transaction()`, and the barrier it is for."""

    op: Transaction
    agent: TracedAgent
    index: Term
    body: Nodes


Node = Step | Exit | Region | Branch | Loop | Fork | TransactionNode
Nodes = tuple[Node, ...]


def trace(function: Function, rank: int) -> Nodes:
    """The barrier traffic of the CTA of `rank`, in program order.

    A mask that leaves the cluster is an `Error`.
    """
    return _Tracer(function, rank).block(function.body, CTA)


def children(node: Node) -> tuple[Nodes, ...]:
    """The node lists below a node."""
    match node:
        case Branch():
            return (node.then, node.orelse)
        case Fork():
            return tuple(body for _, body in node.regions)
        case Region() | Loop() | TransactionNode():
            return (node.body,)
    return ()


def walk(nodes: Nodes) -> Iterator[Node]:
    """Every node below, outer before inner."""
    for node in nodes:
        yield node
        for below in children(node):
            yield from walk(below)


def steps(nodes: Nodes) -> Iterator[Step]:
    """Every instruction below that has to do with barriers."""
    return (node for node in walk(nodes) if isinstance(node, Step))


class TraceWalk(Walk[Node, State]):
    """A walk over the barrier traffic of one rank. `transfer` sees its steps, and transactions before what is in them."""

    def fork(self, fork: Fork, state: State) -> Outcome[State]:
        """The outcome of roles that run side by side; the domain says it."""
        raise NotImplementedError

    def visit(self, node: Node, state: State) -> Outcome[State]:
        """The outcome of one node and of what is inside it."""
        match node:
            case Branch():
                return self.branch(node, (node.then, node.orelse), state)
            case Region():
                return self.scope(node.target, node.body, state)
            case Exit():
                return self.leave(node, node.target, state)
            case Loop():
                return self.loop(Cycle(node, node.label, node.body), state)
            case Fork():
                return self.fork(node, state)
            case TransactionNode():
                return self.inside(node, (node.body,), state)
        return self.step(node, state)


class _Tracer:
    """Walks a function as one rank.

    `alive` is false after an exit; `exits` holds the cells with which one was taken.
    """

    def __init__(self, function: Function, rank: int) -> None:
        self.function = function
        self.rank = rank
        self.values = Evaluator(function, rank)
        self.facts = self.values.facts
        self.agent = CTA
        self.alive = True
        self.exits: dict[ExitTarget, list[dict[Var, Term]]] = {}

    def block(self, block: Block, agent: TracedAgent) -> Nodes:
        nodes: list[Node] = []
        for op in self.facts.steps(block):
            if not self.alive:
                break
            nodes += self.visit(op, agent)
        return tuple(nodes)

    def visit(self, op: Op, agent: TracedAgent) -> Nodes:
        match op:
            case Assign():
                self.values.define(op)
                return ()
            case If():
                return self.branch(op, agent)
            case For():
                return self.counted_loop(op, agent)
            case While():
                return self.while_loop(op, agent)
            case Scope():
                target = ExitTarget(op.label, ExitKind.LEAVE)
                body = self.block(op.body, agent)
                self.join(target)
                return (Region(target, body),) if body else ()
            case Break() | Continue() | Leave():
                return self.leave(op, exit_target(op))
            case Role():
                return self.fork(op, (op,))
            case Roles():
                return self.fork(op, op.regions)
            case Transaction():
                index = self.index(op.bar, op)
                return (TransactionNode(op, agent, index, self.block(op.body, agent)),)
        self.values.define(op)
        return self.step(op, agent)

    def step(self, op: Op, agent: TracedAgent) -> Nodes:
        effects = self.facts.effects[op]
        if effects is PURE or not (effects.arrivals or effects.expects or effects.completes or effects.waits):
            return ()
        return (
            Step(
                op,
                agent,
                arrivals=tuple(self.signal(arrival, op) for arrival in effects.arrivals),
                expects=tuple(self.signal(expect, op) for expect in effects.expects),
                completes=tuple(self.signal(complete, op) for complete in effects.completes),
                waits=tuple(self.waiting(wait, op) for wait in effects.waits),
            ),
        )

    # Signals.

    def index(self, bar: BarrierRef, op: Op) -> Term:
        index = self.values.term(bar.index)
        if isinstance(index, int) and not 0 <= index < bar.barrier.n:
            raise Error(
                f"barrier {bar.barrier.title}[{index}] does not exist: the array has {bar.barrier.n}",
                location=op.loc,
                remedy=f"indices run from 0 to {bar.barrier.n - 1}" + self.seen,
                kind="out-of-bounds",
            )
        return index

    def waiting(self, wait: BarrierWait, op: Op) -> WaitNode:
        return WaitNode(wait.barrier.barrier, self.index(wait.barrier, op), wait.blocking)

    def signal(self, effect: Arrival | Expect | Complete, op: Op) -> Signal:
        unknown: list[Term] = []
        amount: Term
        match effect:
            case Arrival():
                amount = self.values.term(effect.count)
            case Expect():
                amount = self.values.term(effect.nbytes)
            case Complete():
                amount = effect.nbytes if isinstance(effect.nbytes, int) else self.values.term(effect.nbytes)
        if not isinstance(amount, int):
            unknown.append(amount)
        reached: tuple[int, ...] | None = (self.rank,)
        if effect.mask is not None:
            mask = self.values.term(effect.mask)
            reached = self.members(mask, op) if isinstance(mask, int) else None
            if reached is None:
                unknown.append(mask)
        if isinstance(effect, Complete) and effect.leaders and reached is not None:
            reached = tuple(leader_of(rank) for rank in reached)
        return Signal(
            effect.barrier.barrier,
            self.index(effect.barrier, op),
            amount if isinstance(amount, int) else None,
            reached,
            tuple(unknown),
            isinstance(effect, Complete) and effect.shared,
        )

    def members(self, mask: int, op: Op) -> tuple[int, ...]:
        size = self.function.cluster_size
        if mask < 0 or mask >> size:
            outside = "a negative mask" if mask < 0 else f"CTA {mask.bit_length() - 1}"
            raise Error(
                f"the mask {mask if mask < 0 else bin(mask)} names {outside}, but the cluster has {size} "
                f"CTA{'s' if size > 1 else ''}",
                location=op.loc,
                remedy=f"bit i of a mask stands for CTA i, so it is at most {bin((1 << size) - 1)}" + self.seen,
                kind="out-of-bounds",
            )
        return tuple(rank for rank in range(size) if mask >> rank & 1)

    @property
    def seen(self) -> str:
        """In which CTA of a cluster, and in which copy of a role, where there are several."""
        places = [f"CTA {self.rank} of the cluster"] if self.function.cluster_size > 1 else []
        if self.agent.role is not None and self.agent.role.copies > 1:
            places.insert(0, str(self.agent))
        return f" (seen in {' of '.join(places)})" if places else ""

    # Control flow.

    def branch(self, op: If, agent: TracedAgent) -> Nodes:
        cond = self.values.term(op.cond)
        if isinstance(cond, (int, float)):
            return self.block(op.then if cond else op.orelse, agent)
        before = dict(self.values.cells)
        then = self.block(op.then, agent)
        cells_then, alive_then = self.values.cells, self.alive
        self.values.cells, self.alive = before.copy(), True
        orelse = self.block(op.orelse, agent)
        if alive_then and self.alive:
            self.values.cells = self.merged(cond, cells_then, self.values.cells)
        elif alive_then:
            self.values.cells = cells_then
        self.alive = self.alive or alive_then
        return (Branch(op, cond, then, orelse),) if then or orelse else ()

    def merged(self, cond: Term | None, a: dict[Var, Term], b: dict[Var, Term]) -> dict[Var, Term]:
        """Cells after two ways meet: `a` if `cond` held, else `b`; no `cond`: either."""
        out = {}
        for var in a.keys() & b.keys():
            if cond is not None:
                out[var] = self.values.choose(cond, a[var], b[var])
            else:
                same = type(a[var]) is type(b[var]) and a[var] == b[var]
                out[var] = a[var] if same else self.values.fresh()
        return out

    def leave(self, op: Op, target: ExitTarget) -> Nodes:
        self.exits.setdefault(target, []).append(dict(self.values.cells))
        self.alive = False
        return (Exit(op, target),)

    def join(self, target: ExitTarget) -> None:
        """The end of what `target` names: control may come from above, and from every exit to it."""
        ways = self.exits.pop(target, [])
        if self.alive:
            ways.append(self.values.cells)
        if ways:
            cells = ways[0]
            for other in ways[1:]:
                cells = self.merged(None, cells, other)
            self.values.cells = cells
        self.alive = bool(ways)

    def fork(self, op: Op, roles: tuple[Role, ...]) -> Nodes:
        """Every copy of every role starts from the same cells; what it changes stays inside."""
        before = dict(self.values.cells)
        regions = []
        for role in roles:
            for copy in range(role.copies):
                if role.copies > 1:
                    self.values.forget(role.body)
                self.values.cells, self.values.copy, self.alive = before.copy(), copy, True
                self.agent = TracedAgent(role, copy)
                regions.append((self.agent, self.block(role.body, self.agent)))
        self.agent = CTA
        self.values.cells, self.values.copy, self.alive = before, None, True
        for role in roles:
            self.forget(role.body)
        return (Fork(op, tuple(regions)),) if any(body for _, body in regions) else ()

    def forget(self, *blocks: Block) -> None:
        """The cells that the blocks write are unknown from here on."""
        for block in blocks:
            for var in self.facts.assigned(block):
                self.values.cells[var] = self.values.fresh()

    def counted_loop(self, op: For, agent: TracedAgent) -> Nodes:
        bounds = [self.values.term(value) for value in (op.start, op.stop, op.step)]
        counted = all(isinstance(bound, int) for bound in bounds) and bounds[2] != 0
        iterations = range(*bounds) if counted else None  # type: ignore[arg-type]
        if iterations is not None and not iterations:
            return ()
        cells, exits = dict(self.values.cells), {target: list(ways) for target, ways in self.exits.items()}
        token = object()
        nodes = self.loop(op, agent, token, (op.body,), iterations)
        enumerable = iterations is not None and len(iterations) <= UNROLL_LIMIT
        if enumerable and not self.facts.blocks_on_barrier(op.body) and _index_decides(nodes, token):
            assert iterations is not None
            self.values.cells, self.exits, self.alive = cells, exits, True
            return self.unrolled(op, agent, iterations)
        return nodes

    def while_loop(self, op: While, agent: TracedAgent) -> Nodes:
        return self.loop(op, agent, object(), (op.test, op.body), None)

    def loop(
        self, op: For | While, agent: TracedAgent, token: object, blocks: tuple[Block, ...], trips: range | None
    ) -> Nodes:
        """One pass over the body, with what its iterations change unknown."""
        outer = self.values.loops
        self.values.loops = outer | {token}
        self.forget(*blocks)
        if isinstance(op, For):
            self.values.set(op.index, self.values.fresh())
        nodes: Nodes = ()
        endless = False
        for block in blocks:
            nodes += self.block(block, agent)
            if isinstance(op, While) and block is op.test and self.alive:
                goes_on = self.values.term(op.cond)
                endless = isinstance(goes_on, (int, float)) and bool(goes_on)
                if isinstance(goes_on, (int, float)) and not goes_on:
                    break
        own = (ExitTarget(op.label, ExitKind.CONTINUE), ExitTarget(op.label, ExitKind.BREAK))
        self.join(own[0])
        broken = bool(self.exits.pop(own[1], []))
        # A `for` may run no iteration at all and a `while` ends by its test, unless we know better.
        self.alive = broken or (not endless and (self.alive or trips is None))
        self.values.loops = outer
        self.forget(*blocks)
        if not nodes:
            return ()
        waits = self.facts.spins(op) or any(self.facts.blocks_on_barrier(block) for block in blocks)
        whole = all(node.target == own[0] for node in _exits_from(nodes))
        return (Loop(op, token, op.label, len(trips) if trips is not None and whole else None, waits, nodes),)

    def unrolled(self, op: For, agent: TracedAgent, iterations: range) -> Nodes:
        """Iteration by iteration, with the index known."""
        bodies: list[Node] = []
        for index in iterations:
            if not self.alive:
                break
            self.values.forget(op.body)
            self.values.set(op.index, index)
            bodies.append(Region(ExitTarget(op.label, ExitKind.CONTINUE), self.block(op.body, agent)))
            self.join(ExitTarget(op.label, ExitKind.CONTINUE))
        self.join(ExitTarget(op.label, ExitKind.BREAK))
        return (Region(ExitTarget(op.label, ExitKind.BREAK), tuple(bodies)),)


def _exits_from(nodes: Nodes) -> Iterator[Exit]:
    """Exits in the nodes that leave them."""
    inner = {node.target for node in walk(nodes) if isinstance(node, Region)}
    for node in walk(nodes):
        if isinstance(node, Loop):
            inner |= {ExitTarget(node.label, ExitKind.BREAK), ExitTarget(node.label, ExitKind.CONTINUE)}
    return (node for node in walk(nodes) if isinstance(node, Exit) and node.target not in inner)


def _index_decides(nodes: Nodes, token: object) -> bool:
    """Whether the loop's index, not the barrier's, decides who is signalled: `bar.arrive(ctas=1 << i)`, `if i == rank`."""
    body = nodes[0].body if nodes and isinstance(nodes[0], Loop) else ()
    signals = [s for step in steps(body) for s in (*step.arrivals, *step.expects, *step.completes)]
    if not signals or any(varies_in(signal.index, token) for signal in signals):
        return False
    conditions = [node.cond for node in walk(body) if isinstance(node, Branch)]
    unknown = [term for signal in signals for term in signal.unknown]
    return any(varies_in(term, token) for term in (*conditions, *unknown))
