"""`px.dot` where there is tensor memory: products of one thread, with the accumulator there.

An accumulator that only products touch inside a loop stays in tensor memory over the loop: it begins as zeros, by a first
product that adds to nothing, or by a store, and is loaded once behind the loop. Any other goes there and back for its
product, or for several that follow each other. A left operand in registers goes there, too, in the layout in which another
product's result came. All that is written users could write: `px.tmem`, `px.tcgen05`, a barrier.

Behind each product its agent waits for it, since what follows may overwrite the operands, with one exception: in a loop that
does nothing but wait, multiply and arrive, an arrival becomes a commit, and the wait comes behind the loop.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from phalanx.errors import Error
from phalanx.ir.archs import QUARTERS, Arch, Feature
from phalanx.ir.core import Block, Faster, Function, Op, map_blocks
from phalanx.ir.dots import DotDecision, Unit, decided
from phalanx.ir.effects import Access, Arrival, Effects, Mode, Proxy
from phalanx.ir.memory import Storage, memory_owner
from phalanx.ir.ops.control import Assign, Break, Continue, For, If, Leave, ReadVar, Role, RoleCopy, Roles, While
from phalanx.ir.ops.mbarrier import Transaction, Wait
from phalanx.ir.ops.memory import FenceAsyncProxy
from phalanx.ir.ops.tcgen05 import (
    Tcgen05Commit,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05Store,
    Tcgen05WaitLoads,
    Tcgen05WaitStores,
    target_of,
)
from phalanx.ir.ops.tile import Binary
from phalanx.ir.tensor_kinds import Objection, accumulator_objection, kind_of, product_shape
from phalanx.ir.tensor_memory import LANES, reaches_all_lanes
from phalanx.ir.traits import Product
from phalanx.ir.types import BOOL, I32, DType, TileType, Type
from phalanx.ir.values import Const, Param, Value, Var, constant_of
from phalanx.ir.views import BarrierArray, BarrierRef, SharedView, TensorBuffer, TensorView, View, in_shared, in_tensor
from phalanx.location import Location
from phalanx.passes.agents import AgentCode, agents_of, own_code
from phalanx.passes.rank_code import fresh_name
from phalanx.passes.resident_accumulators import Chain, Residence, find_chains, find_residences
from phalanx.passes.role_rules import trip_count
from phalanx.passes.tensor_memory import plan_columns

MemoryOwner = Param | Storage
Touches = frozenset[tuple[MemoryOwner, bool]]
"""Memory, and whether it is written."""
PACKED_BITS = 16
"""Bits of the elements of a left operand in tensor memory, two to a cell."""
FENCE = "what threads wrote is seen by the tensor cores"


def multiply_in_tensor_memory(function: Function, arch: Arch, refused: Mapping[Location, str]) -> Function:
    """The kernel in which each product that is over at once is one of `tcgen05`, where that can be; notes say which are.

    For `cuda.prepare`, on targets with tensor memory, before barriers are counted and initialised. Products at
    `refused` places stay what they are, for the reason given there.
    """
    agents = [_Agent(code) for code in agents_of(function)]
    reasons: dict[Op, str] = {}
    lost: set[Op] = set()
    for agent in agents:
        for op, what in list(agent.products.items()):
            reason = refused.get(op.loc) or tensor_objection(function, arch, agent.code, what)
            if reason is not None:
                reasons[op] = reason
                if agent.warps % QUARTERS == 0:
                    lost.add(op)
                del agent.products[op]
    writer = _Writer(function, agents)
    made = writer.function()
    try:
        plan_columns(made, tuple(b for b in made.buffers if isinstance(b, TensorBuffer)))
    except Error as problem:
        if writer.order:
            last = writer.order[-1]
            why = {op.loc: f"tensor memory is too small for all accumulators: {problem.message}" for op in last}
            return multiply_in_tensor_memory(function, arch, {**refused, **why})
    faster = Faster("let its operands, its shape and its warps be what px.tcgen05.mma takes", (Feature.TCGEN05,))
    decisions = [
        DotDecision(op.loc, Unit.WARPS, why, faster=faster if op in lost else None) for op, why in reasons.items()
    ]
    decisions += [DotDecision(op.loc, Unit.TENSOR_MEMORY, how=how) for op, how in writer.notes.items()]
    return dataclasses.replace(made, notes=tuple(dict.fromkeys(decided(function.notes, decisions))))


# --- who multiplies, and what can't be -------------------------------------------------------------------------------


@dataclass(eq=False)
class _Agent:
    """An agent and what it multiplies. Each of its copies has accumulators and a barrier of its own: `copy` chooses."""

    code: AgentCode
    products: dict[Op, Product] = field(default_factory=dict)
    barrier: BarrierArray | None = None
    phase: Var = field(default_factory=lambda: Var(I32, "dot_phase"))
    copy: Value = field(default_factory=lambda: Value(I32, "copy"))

    def __post_init__(self) -> None:
        for op in own_code(self.block):
            if op.product is not None:
                self.products[op] = op.product

    @property
    def block(self) -> Block:
        """What it runs."""
        return self.code.block

    @property
    def first(self) -> int:
        """Its first warp."""
        return self.code.first

    @property
    def warps(self) -> int:
        """How many warps it has."""
        return self.code.warps

    @property
    def copies(self) -> int:
        """How many such agents there are."""
        return self.code.copies


def tensor_objection(function: Function, arch: Arch, agent: AgentCode, what: Product) -> str | None:
    """Why a product can't be one of `tcgen05`, if it can't."""
    (m, k), dtype = _matrix(what.a)
    for name, item in (("a", what.a), ("b", what.b)):
        if in_shared(item):
            last = len(item.buffer.shape) - 1
            if set(item.kept) != {last - 1, last}:
                return f"{name} is not a matrix of the last two axes of '{item.buffer.name}'"
        elif name == "b":
            return "b is a register tile, and tcgen05 reads it from shared memory"
        elif m != LANES or dtype.bits != PACKED_BITS:
            return f"a is a register tile, and not one of {LANES} rows of {PACKED_BITS} bits, which tensor memory would take"
    assert in_shared(what.b) and isinstance(what.result.type, TileType)
    n = what.b.shape[1]
    kind = kind_of(dtype, what.b.dtype)
    if isinstance(kind, Objection):
        return kind.what
    if not target_of(kind).supports(arch):
        return f"{arch} has no {target_of(kind).family}"
    found: object = accumulator_objection(kind, dtype, what.result.type.dtype)
    if found is None:
        found = product_shape(kind, m, n, k, columns_major=what.b.kept[1] == len(what.b.buffer.shape) - 1)
    if isinstance(found, Objection):
        return f"tcgen05 does not do it: {found.what}"
    if not reaches_all_lanes(agent.first, agent.warps):
        last = agent.first + agent.warps - 1
        who = f"warp {last}" if agent.warps == 1 else f"warps {agent.first} to {last}"
        return f"{who} of the CTA do not share the lanes of tensor memory: 4, 8 or 16 warps from a multiple of 4 on do"
    if agent.anew:
        return "its role begins anew in every turn of a loop"
    if any(op.pairing for op in function.walk()):
        return "the kernel's tcgen05 products are those of pairs of CTAs"
    return None


def _matrix(item: SharedView | Value) -> tuple[tuple[int, ...], DType]:
    """The shape and the elements of an operand."""
    if in_shared(item):
        return item.shape, item.dtype
    assert isinstance(item, Value) and isinstance(item.type, TileType)
    return item.type.shape, item.type.dtype


def _accesses(function: Function) -> Iterator[Access]:
    return (access for op in function.walk() for access in op.effects().accesses)


# --- what becomes of them -------------------------------------------------------------------------------------------


class _Writer:
    """Writes the instructions of all agents' products, each in the place of what it stands for."""

    def __init__(self, function: Function, agents: list[_Agent]) -> None:
        self.whole = function
        self.agents = agents
        self.notes: dict[Op, str] = {}
        self.order: list[tuple[Op, ...]] = []
        """Products by accumulator, those that gain most first."""
        self.makers = {op.defines: op for op in function.walk() if op.defines is not None}
        self.uses = Counter(value for op in function.walk() for value in op.operands())
        self.stored = {
            _memory(access.region) for access in _accesses(function)
            if in_shared(access.region) and access.proxy is Proxy.GENERIC and access.mode is not Mode.READ
        }
        self.buffers: list[TensorBuffer] = []
        self.lent: dict[tuple[_Agent, Type], TensorView] = {}
        self.barriers: list[BarrierArray] = []
        self.names = {buffer.name for buffer in function.buffers} | {barrier.name for barrier in function.barriers}
        self.quiet: set[Op] = set()
        """Products that nobody waits for before their loop is over."""
        self.instead: dict[Op, list[Op]] = {}
        self.before: dict[Op, list[Op]] = {}
        self.after: dict[Op, list[Op]] = {}
        self.start: dict[Block, list[Op]] = {}

    def function(self) -> Function:
        """The kernel with all that was written."""
        for agent in self.agents:
            if agent.products:
                self._agent(agent)
        if not self.order:
            return self.whole
        return dataclasses.replace(
            self.whole, buffers=(*self.whole.buffers, *self.buffers), barriers=(*self.whole.barriers, *self.barriers),
            body=self._block(self.whole.body),
        )

    def _block(self, block: Block) -> Block:
        out = list(self.start.get(block, ()))
        for op in block.ops:
            out += self.before.get(op, ())
            out += self.instead[op] if op in self.instead else [map_blocks(op, self._block)]
            out += self.after.get(op, ())
        return Block(tuple(out))

    def _agent(self, agent: _Agent) -> None:
        loc = next(iter(agent.products)).loc
        agent.barrier = BarrierArray(fresh_name("dot_done", self.names), agent.copies, 1, loc=loc)
        self.barriers.append(agent.barrier)
        self.start[agent.block] = [Assign(agent.phase, Const(0, I32), loc=loc)]
        if agent.copies > 1:
            self.start[agent.block].insert(0, RoleCopy(agent.copies, agent.copy, loc=loc))
        residences = list(find_residences(agent.block, agent.block, agent.products, self.makers))
        resident = {op: residence.loop for residence in residences for op in residence.products}
        others = {op: what for op, what in agent.products.items() if op not in resident}
        chains = list(find_chains(agent.block, others, self.uses))
        quiet = _QuietLoops(self.whole, agent, resident, self.agents)
        quiet.find(agent.block)
        for loop in quiet.loops:
            self.after[loop] = self._over(agent, loop.loc)
        self.instead |= quiet.commits
        self.quiet |= quiet.products
        silent = quiet.products | _followed(agent, {*resident, *(op for chain in chains for op in chain.products[:-1])})
        for residence in residences:
            self._residence(agent, residence, silent)
        for chain in chains:
            self._chain(agent, chain, silent)

    def _residence(self, agent: _Agent, home: Residence, silent: set[Op]) -> None:
        """A cell that lies in tensor memory over a loop."""
        loop, loc = home.loop, home.products[0].loc
        view = self._buffer(agent, home.var, loc)
        self.instead |= {op: [] for op in home.moves}
        tile: Value = Value(home.var.type, home.var.name)
        load = [*self._load(agent, view, tile, loc), Assign(home.var, tile, loc=loc)]
        begun: Var | None = None
        if home.start is None:
            old = Value(home.var.type, home.var.name)
            read = ReadVar(home.var, old, loc=loc)
            self.before.setdefault(loop, []).extend([read, *self._store(agent, view, old, loc)])
        else:
            assert home.zeros is not None
            begun = Var(BOOL, f"{home.var.name or 'acc'}_begun")
            self.before.setdefault(loop, []).append(Assign(begun, Const(False, BOOL), loc=loc))
            self.instead[home.start] = []
            self._unused(home.zeros)
            if not _surely_multiplies(home):
                asked, zeros = Value(BOOL), Value(home.var.type, home.var.name)
                again = dataclasses.replace(home.zeros, result=zeros)  # type: ignore[call-arg]
                empty = Block((again, Assign(home.var, zeros, loc=loc)))
                load = [ReadVar(begun, asked, loc=loc), If(asked, Block(tuple(load)), empty, loc=loc)]
        self.after.setdefault(loop, []).extend(load)
        for op in home.products:
            accumulate: Value = Const(True, BOOL)
            ops: list[Op] = []
            if begun is not None:
                accumulate = Value(BOOL)
                ops.append(ReadVar(begun, accumulate, loc=op.loc))
            ops += self._product(agent, op, view, accumulate, silent)
            if begun is not None:
                ops.append(Assign(begun, Const(True, BOOL), loc=op.loc))
            self.instead[op] = ops
            later = "; it is waited for behind the loop" if op in self.quiet else self._moved(agent, op)
            self.notes[op] = f"its accumulator stays in tensor memory over the loop at line {loop.loc.line}{later}"
        self.order.insert(0, home.products)

    def _chain(self, agent: _Agent, chain: Chain, silent: set[Op]) -> None:
        """A tile that goes to tensor memory and back."""
        first, last = chain.products[0], chain.products[-1]
        result = agent.products[last].result
        alone = (agent, result.type)  # its life is over before the next one's begins
        view = self.lent[alone] if first is last and alone in self.lent else self._buffer(agent, result, first.loc)
        if first is last:
            self.lent[alone] = view
        acc = agent.products[first].acc
        maker = None if acc is None else self.makers.get(acc)
        bare = acc is None or (maker is not None and maker.filled_with == 0)
        for op in chain.products:
            accumulate = Const(op is not first or not bare, BOOL)
            ops = self._product(agent, op, view, accumulate, silent)
            if op is first and not bare:
                assert acc is not None
                ops = [*self._store(agent, view, acc, op.loc), *ops]
            if op is last:
                ops += self._load(agent, view, agent.products[op].result, op.loc)
            self.instead[op] = ops
            self.notes[op] = f"its accumulator goes to tensor memory and back{self._moved(agent, op)}"
        if bare and maker is not None:
            self._unused(maker)
        self.order.append(chain.products)

    def _moved(self, agent: _Agent, op: Op) -> str:
        """What is said of a left operand that goes to tensor memory."""
        return "; a goes there from registers" if isinstance(agent.products[op].a, Value) else ""

    # Instructions.

    def _product(self, agent: _Agent, op: Op, view: TensorView, accumulate: Value, silent: set[Op]) -> list[Op]:
        what = agent.products[op]
        assert in_shared(what.b)
        (_, depth), dtype = _matrix(what.a)
        ops: list[Op] = []
        if isinstance(what.a, Value):
            a: SharedView | TensorView = self._buffer(agent, what.a, op.loc)
            assert in_tensor(a)
            ops += self._store(agent, a, what.a, op.loc)
        else:
            a = what.a
        if any(memory_owner(operand.buffer) in self.stored for operand in (a, what.b) if in_shared(operand)):
            ops.append(FenceAsyncProxy("cta", FENCE, loc=op.loc))
        ops.append(Tcgen05Mma(a, what.b, view, accumulate, (dtype, what.b.dtype), depth, written=op.written, loc=op.loc))
        return ops if op in silent else [*ops, *self._over(agent, op.loc)]

    def _over(self, agent: _Agent, loc: Location) -> list[Op]:
        """All products of the agent are over, in all its threads."""
        assert agent.barrier is not None
        done = BarrierRef(agent.barrier, agent.copy if agent.copies > 1 else Const(0, I32))
        parity, other = Value(I32), Value(I32)
        return [
            Tcgen05Commit(done, loc=loc), ReadVar(agent.phase, parity, loc=loc), Wait(done, parity, loc=loc),
            Binary("xor", parity, Const(1, I32), other, loc=loc), Assign(agent.phase, other, loc=loc),
        ]

    def _load(self, agent: _Agent, view: TensorView, tile: Value, loc: Location) -> list[Op]:
        raw = Value(tile.type, tile.name)
        return [
            Tcgen05Load(view, agent.first, agent.warps, raw, loc=loc), Tcgen05WaitLoads((raw,), (tile,), loc=loc),
        ]

    def _store(self, agent: _Agent, view: TensorView, tile: Value, loc: Location) -> list[Op]:
        return [Tcgen05Store(view, tile, agent.first, agent.warps, loc=loc), Tcgen05WaitStores(loc=loc)]

    # Storage.

    def _buffer(self, agent: _Agent, tile: Value, loc: Location) -> TensorView:
        assert isinstance(tile.type, TileType)
        shape = tile.type.shape
        copies = () if agent.copies == 1 else (agent.copies,)
        own = () if agent.copies == 1 else (agent.copy,)
        name = fresh_name(f"{tile.name or 'acc'}_tmem", self.names)
        self.buffers.append(TensorBuffer(name, (*copies, *shape), tile.type.dtype, loc))
        return TensorView(
            self.buffers[-1], (*own, *(Const(0, I32),) * len(shape)), (*(1 for _ in own), *shape),
            tuple(range(len(own), len(own) + len(shape))),
        )

    def _unused(self, maker: Op) -> None:
        """What made zeros goes when its last reader has gone."""
        made = maker.defines
        assert made is not None
        self.uses[made] -= 1
        if self.uses[made] == 0:
            self.instead[maker] = []


def _surely_multiplies(home: Residence) -> bool:
    """Whether the loop's first turn is certain, and a product in it."""
    loop = home.loop
    if not isinstance(loop, For) or not trip_count(loop):
        return False
    if any(isinstance(op, Break | Continue | Leave) for op in loop.body.walk()):
        return False
    return any(op in loop.body.ops for op in home.products)


# --- which products need no wait ------------------------------------------------------------------------------------


def _followed(agent: _Agent, kept: set[Op]) -> set[Op]:
    """Products that another one of their block follows, with nothing but arithmetic in between: one wait is for both.

    Only those whose accumulator stays where it is: `kept`.
    """
    found: set[Op] = set()
    for block in _blocks(agent.block):
        last: Op | None = None
        for op in block.ops:
            if op in agent.products:
                if last is not None:
                    found.add(last)
                last = op if op in kept else None
            elif any(True for _ in op.blocks()) or not op.effects().is_pure or isinstance(op, Break | Continue | Leave):
                last = None
    return found


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        if not isinstance(op, Roles | Role):
            for inner in op.blocks():
                yield from _blocks(inner)


class _QuietLoops:
    """Loops of an agent that do nothing but wait, multiply and arrive: in them, arrivals become commits.

    A commit arrives when the products are over, and speaks for them alone. So the agent's threads must not have touched
    memory before that others touch too: an arrival might have been meant for that.
    """

    def __init__(self, function: Function, agent: _Agent, resident: Mapping[Op, Op], agents: list[_Agent]) -> None:
        self.resident = resident
        self.may_exit_early = function.cluster_size > 1 and not function.exit_sync
        self.products: set[Op] = set()
        self.loops: list[Op] = []
        self.commits: dict[Op, list[Op]] = {}
        self.agent = agent
        code = [op for other in agents if other is not agent or agent.copies > 1 for op in own_code(other.block)]
        self.theirs = _touched(code) | _touched(function.walk(), remote=True)

    def find(self, block: Block, earlier: Touches = frozenset()) -> None:
        """Finds the outermost ones of a block; `earlier` is what the agent's threads have touched before it."""
        for op in block.ops:
            if isinstance(op, Roles | Role):
                continue
            is_loop = isinstance(op, For | While)
            if is_loop and self._is_quiet(op, earlier):
                self.loops.append(op)
                continue
            touched = earlier | _touched(inner for inner in own_code(Block((op,))) if inner not in self.agent.products)
            for inside in op.blocks():
                self.find(inside, touched if is_loop else earlier)
            earlier = touched

    def _is_quiet(self, loop: Op, earlier: Touches) -> bool:
        if any(memory is other and (writes or wrote) for memory, writes in earlier for other, wrote in self.theirs):
            return False
        inside = [op for block in loop.blocks() for op in block.walk()]
        around = {loop, *inside}
        products = {op for op in inside if op in self.resident}
        if any(isinstance(self.agent.products[op].a, Value) for op in products):
            return False  # its place in tensor memory is written in each turn
        stay = all(self.resident[op] is loop or self.resident[op] not in around for op in products)
        if not products or not stay:
            return False
        commits: dict[Op, list[Op]] = {}
        for op in inside:
            effects = op.effects()
            if isinstance(op, Roles | Role | Transaction):
                return False
            if op in products or effects.is_pure:
                continue
            arrival = self._plain_arrival(effects)
            if arrival is not None:
                commits[op] = [
                    Tcgen05Commit(arrival.barrier, arrival.mask, releases=arrival.gives_back, loc=op.loc)
                ]
            elif not dataclasses.replace(effects, waits=()).is_pure:
                return False
        self.products |= products
        self.commits |= commits
        return True

    def _plain_arrival(self, effects: Effects) -> Arrival | None:
        """The one arrival of an instruction that does nothing else, if a commit can make it."""
        bare = dataclasses.replace(effects, arrivals=(), executor=Effects().executor)
        if len(effects.arrivals) != 1 or not bare.is_pure:
            return None
        arrival = effects.arrivals[0]
        elsewhere = arrival.mask is not None or arrival.gives_back is not None
        if elsewhere and self.may_exit_early:
            return None
        return arrival if arrival.divisible and constant_of(arrival.count) == 1 else None


def _touched(ops: Iterable[Op], remote: bool = False) -> Touches:
    """The memory that instructions touch, in other CTAs alone if `remote`, and whether they write there."""
    return frozenset(
        (_memory(access.region), access.mode is not Mode.READ)
        for op in ops for access in op.effects().accesses if access.region.peer is not None or not remote
    )


def _memory(region: View) -> MemoryOwner:
    memory = region.memory
    return memory if isinstance(memory, Param) else memory_owner(memory)
