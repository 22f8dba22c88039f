"""Operands of `px.dot` that are register tiles go where the tensor cores read them best: into shared memory.

A tile that came from global memory would have to change its register layout, which goes through shared memory anyway.
So it is stored there as it was loaded, wide and coalesced, and the product reads it from there: `wgmma` and `tcgen05` as
they do, `mma.sync` by `ldmatrix`; swizzles follow from both uses. A tile that was loaded from shared memory need not be
loaded for the product at all. What was computed from another product's result is in the right registers already, for
`mma.sync` and as the left operand of `wgmma`, and stays there.

All that is written users could write: a buffer, a store, a fence, a product. Barriers of threads come later, from effects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP, Arch, Feature
from phalanx.ir.core import Block, Faster, Function, Op, map_blocks, rewrite
from phalanx.ir.dots import DotDecision, Unit, decided
from phalanx.ir.effects import Mode, Proxy
from phalanx.ir.memory import memory_owner
from phalanx.ir.ops.control import For, RoleCopy, While
from phalanx.ir.ops.memory import FenceAsyncProxy
from phalanx.ir.ops.tile import Empty
from phalanx.ir.ops.wgmma import Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.traits import Product
from phalanx.ir.types import BOOL, I32, DType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedBuffer, SharedView, in_shared
from phalanx.ir.wgmma_rules import Objection, major_objection, place_objection, shape_objection
from phalanx.location import Location
from phalanx.passes.agents import AgentCode, agents_of, own_code
from phalanx.passes.operand_copies import OperandCopies, is_copyable, is_read_by, reads_alone
from phalanx.passes.operand_forms import MOST_STEPS, OperandForm, OperandForms, loaded_from, tiles
from phalanx.passes.operand_rooms import share_rooms
from phalanx.passes.rank_code import fresh_name
from phalanx.passes.registry import registered, with_operands
from phalanx.passes.tensor_products import tensor_objection

FENCE = "what threads wrote is seen by the tensor cores"


def stage_operands(function: Function, arch: Arch) -> Function:
    """The kernel in which products of register tiles read shared memory where that is faster; notes say which do.

    For `cuda.prepare`, before all other passes. It is `function` itself where nothing changes.
    """
    if not any(op.product is not None for op in function.walk()):
        return function
    return _Stager(function, arch).function()


@frozen(eq=False)
class _Room:
    """Shared memory of an agent for a register tile, which is stored at `view`."""

    agent: AgentCode
    form: OperandForm
    view: SharedView

    @property
    def tile(self) -> Value:
        """What is stored, or whose transpose."""
        return self.form.tile


@frozen
class _Staged:
    """An operand in shared memory: in `room` that was made for it, or where it is anyway, None.

    `fenced`: ordinary stores write there, too, which the tensor cores see behind a fence alone.
    """

    view: SharedView
    room: _Room | None = None
    fenced: bool = False


@frozen(eq=False)
class _Rewrite:
    """What becomes of a product: what it multiplies then, what was moved for it, and which instruction does it."""

    agent: AgentCode
    what: Product
    moved: tuple[tuple[str, _Staged], ...]
    decision: DotDecision

    @property
    def by_warpgroups(self) -> bool:
        """Whether warpgroups multiply: they see what threads wrote behind a fence alone."""
        return self.decision.unit is Unit.WARPGROUPS


class _Stager:
    """Decides product by product, and writes all at once."""

    def __init__(self, function: Function, arch: Arch) -> None:
        self.whole = function
        self.arch = arch
        self.decided: dict[Op, _Rewrite] = {}
        self.makers = {value: op for op in function.walk() for value in op.defined_values()}
        self.forms = OperandForms(self.makers)
        self.home: dict[Op, Block] = {}
        self.around: dict[Block, Op] = {}
        self._find_homes(function.body)
        self.stored = {
            memory_owner(access.region.buffer)
            for op in function.walk() for access in op.effects().accesses
            if in_shared(access.region) and access.proxy is Proxy.GENERIC and access.mode is not Mode.READ
        }
        self.names = {buffer.name for buffer in function.buffers} | {barrier.name for barrier in function.barriers}
        self.buffers: list[SharedBuffer] = []
        self.rooms: dict[tuple[AgentCode, Value, bool], _Room] = {}
        self.readers: dict[_Room, list[Op]] = {}
        self.before: dict[Op, list[Op]] = {}
        self.instead: dict[Op, list[Op]] = {}
        self.start: dict[Block, list[Op]] = {}
        self.copies: dict[AgentCode, Value] = {}
        self.fenced: list[Op] = []
        """Where a fence goes behind what is put before an instruction."""
        self.seen_by_engine: set[_Room] = set()
        self.thread_copies = OperandCopies(self.names, self._copy)
        self.waiting: dict[Op, AgentCode] = {}
        """Before which instructions an agent waits for its copies."""
        self.users: dict[Value, list[Op]] = {}
        for op in function.walk():
            for value in op.operands():
                self.users.setdefault(value, []).append(op)

    def _find_homes(self, block: Block) -> None:
        for op in block.ops:
            self.home[op] = block
            for inner in op.blocks():
                self.around[inner] = op
                self._find_homes(inner)

    def function(self) -> Function:
        """The kernel with all that was written."""
        for agent in agents_of(self.whole):
            code = list(own_code(agent.block))
            alone = all(op.replaceable for op in code if op.effects().accumulations)
            for op in code:
                if op.product is not None:
                    self._decide(agent, op, op.product, alone)
        if not self.decided:
            return self.whole
        for op, rewritten in self.decided.items():
            self._product(op, rewritten)
        for room, readers in self.readers.items():  # in the order of the products
            if not self._copy_in(room, readers):
                self._store(room, readers)
        for place, agent in self.waiting.items():
            self.before.setdefault(place, []).extend(self.thread_copies.wait(agent, place.loc))
        for agent in self.thread_copies.barriers:
            self.start.setdefault(agent.block, []).extend(self.thread_copies.start(agent))
        for place in dict.fromkeys(self.fenced):
            self.before.setdefault(place, []).append(FenceAsyncProxy("cta", FENCE, loc=place.loc))
        decisions = {op.loc: rewritten.decision for op, rewritten in self.decided.items()}
        made = dataclasses.replace(
            self.whole, body=_without_unused(self._block(self.whole.body)), buffers=(*self.whole.buffers, *self.buffers),
            barriers=(*self.whole.barriers, *self.thread_copies.barriers.values()),
            notes=decided(self.whole.notes, decisions.values()),
        )
        return share_rooms(made, self.buffers)

    def _block(self, block: Block) -> Block:
        out = list(self.start.get(block, ()))
        for op in block.ops:
            out += self.before.get(op, ())
            out += self.instead[op] if op in self.instead else [map_blocks(op, self._block)]
        return Block(tuple(out))

    # Which operands, and by which instruction.

    def _decide(self, agent: AgentCode, op: Op, what: Product, alone: bool) -> None:
        a, b = self._candidate(agent, op, what.a, 1), self._candidate(agent, op, what.b, 0)
        if not self._reads_shared_alone(agent, what, a, b) or self._is_tensor_product(agent, _with(what, None, b)):
            a = a if a is not None and (a.room is None or self._is_loaded(what.a)) else None
        found = self._objection(agent, _with(what, a, b), alone)
        objection, remedy = found or (None, "")
        if objection is not None and not self._reads_shared_alone(agent, what, a, b):
            a, b = (item if item is not None and self._is_of_this_turn(op, item) else None for item in (a, b))
        moved = tuple((name, staged) for name, staged in (("a", a), ("b", b)) if staged is not None)
        if moved:
            self.decided[op] = _Rewrite(agent, _with(what, a, b), moved, _decision(op, agent, moved, objection, remedy))
            for room in (staged.room for _, staged in moved if staged.room is not None):
                self.readers.setdefault(room, []).append(op)

    def _product(self, op: Op, rewritten: _Rewrite) -> None:
        """Writes a product, with its operands where they were moved to."""
        what = rewritten.what
        for _, staged in rewritten.moved:
            self._take(op, staged, rewritten.by_warpgroups)
        plain = [registered(with_operands, op)(op, what.a, what.b)]
        self.instead[op] = _by_warpgroups(rewritten.agent, op, what) if rewritten.by_warpgroups else plain

    def _is_of_this_turn(self, op: Op, item: _Staged) -> bool:
        """Whether an operand is made as often as it is read: products of warps keep what is older in registers."""
        if item.room is None:
            return True
        path = self._path(self.home[self.makers[item.room.tile]], op)
        return not any(isinstance(around, For | While) for around in path)

    def _candidate(self, agent: AgentCode, op: Op, item: SharedView | Value, k_axis: int) -> _Staged | None:
        """A register tile as an operand in shared memory, were it to become one; None for what is no register tile."""
        if not isinstance(item, Value):
            return None
        base, flipped = self.forms.without_transposes(item)
        there = self._loaded_view(op, base)
        if there is not None:
            return _Staged(_turned(there) if flipped else there, fenced=memory_owner(there.buffer) in self.stored)
        form = self._first_alike(self.forms.of(item, k_axis))
        room = self._room(agent, form, "a" if k_axis else "b", op.loc)
        return _Staged(_turned(room.view) if form.turned else room.view, room)

    def _room(self, agent: AgentCode, form: OperandForm, name: str, loc: Location) -> _Room:
        key = agent, form.tile, form.transposed
        if key not in self.rooms:
            rows, columns = form.shape
            own = (agent.copies,) if agent.copies > 1 else ()
            called = fresh_name(f"{form.tile.name or name}_tile", self.names)
            buffer = SharedBuffer(called, (*own, rows, columns), form.dtype, loc)
            offsets = (*((self._copy(agent, loc),) if own else ()), Const(0, I32), Const(0, I32))
            view = SharedView(buffer, offsets, (*(1 for _ in own), rows, columns), (len(own), len(own) + 1))
            self.rooms[key] = _Room(agent, form, view)
        return self.rooms[key]

    def _first_alike(self, form: OperandForm) -> OperandForm:
        """The form of the first tile that is converted from the same one in the same way: it is stored once for both."""
        maker = self.makers[form.tile]
        block = self.home[maker]
        for op in block.ops[: block.ops.index(maker)]:
            if op.converted is not None and op.converted is maker.converted and op.defines is not None:
                if op.defines.type == form.tile.type:
                    return dataclasses.replace(form, tile=op.defines)
        return form

    def _copy(self, agent: AgentCode, loc: Location) -> Value:
        """The number of an agent among the copies of its role."""
        if agent not in self.copies:
            self.copies[agent] = Value(I32, "copy")
            self.start.setdefault(agent.block, []).insert(0, RoleCopy(agent.copies, self.copies[agent], loc=loc))
        return self.copies[agent]

    def _loaded_view(self, op: Op, tile: Value) -> SharedView | None:
        """The region of this CTA's shared memory that a tile was loaded from, if it still has the same elements."""
        maker = self.makers.get(tile)
        view = None if maker is None else loaded_from(maker)
        if view is None or not in_shared(view) or view.cta is not None or view.index_axis is not None:
            return None
        assert maker is not None
        if len(view.kept) != 2 or self.home[maker] is not self.home[op]:
            return None
        return view if reads_alone(self.home[op], maker, op) else None

    def _is_loaded(self, item: SharedView | Value, depth: int = 0) -> bool:
        """Whether a tile follows from global memory and constants alone: its layout is nobody's wish yet."""
        maker = self.makers.get(item) if isinstance(item, Value) else None
        if maker is None or depth > MOST_STEPS:
            return False
        view = loaded_from(maker)
        if view is not None:
            return view.space.is_common
        if not maker.computes or maker.product is not None or not maker.effects().is_pure:
            return False
        return all(self._is_loaded(tile, depth + 1) for tile in tiles(maker.operands()))

    def _reads_shared_alone(self, agent: AgentCode, what: Product, a: _Staged | None, b: _Staged | None) -> bool:
        """Whether tensor cores of the target do the product that read both operands from shared memory, and no others."""
        return self._is_tensor_product(agent, _with(what, a, b))

    def _is_tensor_product(self, agent: AgentCode, what: Product) -> bool:
        """Whether the target has tensor memory, and multiplies these operands there."""
        return self.arch.has((Feature.TCGEN05,)) and tensor_objection(self.whole, self.arch, agent, what) is None

    def _objection(self, agent: AgentCode, what: Product, alone: bool) -> Objection | None:
        """Why the product is not one of warpgroups, if it is not."""
        if not self.arch.has((Feature.WGMMA,)):
            return f"{self.arch} has no wgmma", ""
        if agent.warps % WARPGROUP or agent.first % WARPGROUP:
            why = f"wgmma runs on whole warpgroups, and these are {agent.warps} warps from warp {agent.first}"
            return why, f"let the role begin at a multiple of {WARPGROUP} warps"
        if not alone:
            return "products of px.wgmma may be in flight", "write it by px.wgmma too, with its commit and its wait"
        if not in_shared(what.b):
            return "b is a register tile", "px.store the tile into a px.shared buffer first"
        shapes = [item.shape if in_shared(item) else item.type.shape for item in (what.a, what.b)]  # type: ignore[union-attr]
        (m, k), (_, n) = shapes
        return (
            shape_objection("wgmma", m, n, k, _dtype(what.b), what.along, agent.warps)
            or major_objection("wgmma", "a", what.a, 1) or major_objection("wgmma", "b", what.b, 0)
            or place_objection("a", what.a) or place_objection("b", what.b)
        )

    # What is written.

    def _take(self, op: Op, staged: _Staged, by_engine: bool) -> None:
        """Lets a product read an operand."""
        room = staged.room
        if room is None:
            if by_engine and staged.fenced:
                self.fenced.append(op)
            return
        buffer = room.view.buffer
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        if by_engine:
            self.seen_by_engine.add(room)

    def _copy_in(self, room: _Room, readers: list[Op]) -> bool:
        """Lets threads copy a tile, if they can: products alone read it, and nothing changes meanwhile."""
        maker = self.makers[room.tile]
        load, block = maker.tile_load, self.home[maker]
        if load is None or room.form.transposed or room.agent.anew or not is_copyable(load):
            return False
        if any(self.home[op] is not block for op in readers) or not is_read_by(room.tile, readers, self.users):
            return False
        first = min(readers, key=block.ops.index)
        if not reads_alone(block, maker, first):
            return False
        self.instead[maker] = [self.thread_copies.load(room.agent, load, room.view)]
        ops = block.ops
        since = ops[ops.index(maker) : ops.index(first)]
        earlier = [place for place in self.waiting if place in since]
        waited = earlier[0] if earlier else first  # a wait is for all copies that have begun
        self.waiting[waited] = room.agent
        if room in self.seen_by_engine:
            self.fenced.append(waited)
        return True

    def _store(self, room: _Room, readers: list[Op]) -> None:
        """Stores a tile once, as late as its readers allow, so that loads before it are all on their way by then."""
        place = self._before_all(self.home[self.makers[room.tile]], readers)
        self.before.setdefault(place, []).extend(room.form.store(room.view, place.loc))
        if room in self.seen_by_engine:
            self.fenced.append(place)

    def _before_all(self, block: Block, readers: list[Op]) -> Op:
        """The latest instruction before which something of `block` can be stored once for all: no loop is between."""
        paths = [list(self._path(block, op)) for op in readers]
        inner = [next((op for op in path if isinstance(op, For | While)), path[-1]) for path in paths]
        home = self.home[inner[0]]
        if all(self.home[op] is home for op in inner):
            return min(inner, key=home.ops.index)
        return min((path[0] for path in paths), key=block.ops.index)

    def _path(self, block: Block, op: Op) -> Iterator[Op]:
        """The instructions around one, from that of `block` to itself."""
        if self.home[op] is not block:
            yield from self._path(block, self.around[self.home[op]])
        yield op


def _by_warpgroups(agent: AgentCode, op: Op, what: Product) -> list[Op]:
    """The product, its commit and its wait."""
    ops: list[Op] = []
    acc = what.acc
    if acc is None:
        acc = Value(what.result.type, what.result.name)
        ops.append(Empty(acc, loc=op.loc))
    running = Value(what.result.type, what.result.name)
    assert in_shared(what.b)
    adds = Const(what.acc is not None, BOOL)
    return [
        *ops, Wgmma(what.a, what.b, acc, adds, agent.warps, running, along=what.along, fused=True, loc=op.loc),
        WgmmaCommit(loc=op.loc), WgmmaWait(0, (running,), (what.result,), loc=op.loc),
    ]


def _decision(
    op: Op, agent: AgentCode, moved: tuple[tuple[str, _Staged], ...], objection: str | None, remedy: str
) -> DotDecision:
    """Warpgroups multiply unless something speaks against it; that is lost speed where the agent consists of them."""
    if objection is None:
        return DotDecision(op.loc, Unit.WARPGROUPS, how=_where(moved))
    faster = Faster(remedy, (Feature.WGMMA,)) if agent.warps % WARPGROUP == 0 else None
    return DotDecision(op.loc, Unit.WARPS, objection, _where(moved), faster=faster)


def _where(moved: tuple[tuple[str, _Staged], ...]) -> str:
    """Where operands are, for a note."""
    told = [f"{name} is read from '{staged.view.buffer.name}'" for name, staged in moved if staged.room is None]
    through = {name: staged.view.buffer for name, staged in moved if staged.room is not None}
    if through:
        nbytes = sum(buffer.nbytes for buffer in dict.fromkeys(through.values()))
        ending = "es" * (len(through) == 1)
        told.append(f"{' and '.join(through)} go{ending} through {nbytes} bytes of shared memory")
    return ", ".join(told)


def _with(what: Product, a: _Staged | None, b: _Staged | None) -> Product:
    """The product with these operands in the place of its own."""
    return dataclasses.replace(what, a=what.a if a is None else a.view, b=what.b if b is None else b.view)


def _turned(view: SharedView) -> SharedView:
    return view.replaced(kept=tuple(reversed(view.kept)))


def _dtype(item: SharedView | Value) -> DType:
    return item.type.dtype if isinstance(item, Value) else item.dtype


def _without_unused(body: Block) -> Block:
    """Without loads and transposes of tiles that nobody reads any more."""
    while True:
        used = {value for op in body.walk() for value in op.operands()}
        gone = {
            op for op in body.walk()
            if (op.tile_load is not None or op.permutation is not None) and not used.intersection(op.defined_values())
        }
        if not gone:
            return body
        body = rewrite(body, lambda op, gone=gone: [] if op in gone else None)  # type: ignore[misc]
