"""A warp of its own gives the tensor cores their work, where sums stay in tensor memory: `tcgen05`.

In a loop over tiles the products of the next tile then run while the warps that compute bring out the sums of this one. The
sums have two places in tensor memory, in turn, if it has room for two. The warp runs the kernel's control flow as far as
its loops need it, waits for stages, issues products, and lets the tensor cores give back the stages; those who compute wait
for a loop as a whole, load its sums, and give their place back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from phalanx.ir.archs import Arch, Feature
from phalanx.ir.clones import Clones
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.dots import DotDecision, Unit
from phalanx.ir.effects import Use
from phalanx.ir.ops.control import Assign, For, ReadVar, While
from phalanx.ir.ops.mbarrier import Arrive, Wait
from phalanx.ir.ops.memory import FenceAsyncProxy
from phalanx.ir.ops.tcgen05 import Tcgen05Commit, Tcgen05Copy, Tcgen05Load, Tcgen05Mma, Tcgen05WaitLoads, target_of
from phalanx.ir.tensor_memory import COLUMNS, allocation, columns_of, reaches_all_lanes
from phalanx.ir.traits import Product
from phalanx.ir.types import BOOL, I32, ScalarType, TileType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import BarrierArray, BarrierRef, SharedView, TensorBuffer, TensorView
from phalanx.location import Location
from phalanx.passes.agents import AgentCode
from phalanx.passes.pipelining.blocked import ROWS, SCALES
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import Products, StagedProduct, runs
from phalanx.passes.pipelining.rings import ONE, ZERO, Place, Ring, advance, begin, whole_tile
from phalanx.passes.pipelining.slices import NotSliced, Slice
from phalanx.passes.pipelining.staging import Staged
from phalanx.passes.rank_code import LoopCode, fresh_name
from phalanx.passes.resident_accumulators import Residence, find_residences
from phalanx.passes.tensor_products import tensor_objection

LEAST_STAGES = 4
"""Stages that scales of blocks are to have room for in tensor memory, before a sum has two places."""
IN_TURN = 2
"""Places of a sum in tensor memory: one is filled while the other one is brought out."""
FENCE = "what threads copied is seen by the tensor cores"


@dataclass(eq=False)
class Multiplied:
    """A loop that a warp of its own multiplies for: its products, the cells of its sums, and who tells whom.

    `full` says that the sums of a loop are there, `empty` that their place is free again; both have `turns` barriers.
    """

    loop: For
    products: list[StagedProduct]
    homes: list[Residence]
    turns: int = 1
    pair: bool = False
    """Whether two CTAs multiply together: the even one issues for both, and waits for both."""
    sums: dict[Residence, TensorBuffer] = field(default_factory=dict)
    scales: dict[Staged, TensorBuffer] = field(default_factory=dict)
    full: BarrierArray = field(default_factory=lambda: BarrierArray("sums_full", 1))
    empty: BarrierArray = field(default_factory=lambda: BarrierArray("sums_empty", 1))
    filling: Place = field(default_factory=lambda: Place("sum_fill"))
    taking: Place = field(default_factory=lambda: Place("sum_take"))
    leader: Value | None = None
    """The mask of the even CTA of the pair, as those who compute know it."""

    def begin_taking(self, code: LoopCode) -> None:
        """Writes what those who compute begin with."""
        self.taking.begin(code)
        if self.pair:
            even = code.binary("and", code.rank(), Const(-2, I32))
            self.leader = code.binary("shl", ONE, even)

    def give_back(self, turn: Value, loc: Location) -> Op:
        """What says that the sums have been loaded from their place."""
        return Arrive(BarrierRef(self.empty, turn), ONE, self.leader, loc=loc)

    @property
    def scaled(self) -> list[Staged]:
        """The loads of scales of blocks."""
        return list(dict.fromkeys(item for made in self.products for item in made.scales or ()))

    @property
    def scale_columns(self) -> int:
        """Columns of tensor memory that the scales of a stage take."""
        return sum(columns_of(scale_buffer(item, 1)) for item in self.scaled)

    def most_stages(self, ctas_per_sm: int) -> int | None:
        """The stages whose scales have room in tensor memory beside the sums; None where there are no scales."""
        if not self.scaled:
            return None
        taken = sum(columns_of(dataclasses.replace(buffer, purpose=Use.ACCUMULATOR)) for buffer in self.sums.values())
        return (COLUMNS // ctas_per_sm - taken) // self.scale_columns

    def place_scales(self, rings: Iterable[Ring], taken: set[str]) -> None:
        """Gives the scales of each stage of the rings a place in tensor memory, which is free when the stage is."""
        for ring in rings:
            for item in ring.loads:
                if item in self.scaled:
                    buffer = scale_buffer(item, ring.stages)
                    self.scales[item] = dataclasses.replace(buffer, name=fresh_name(buffer.name, taken), purpose=None)

    def scale_view(self, item: Staged, stage: Value) -> TensorView:
        """Where the scales of a stage lie."""
        return _matrix_of(self.scales[item], stage)

    def view(self, home: Residence, turn: Value) -> TensorView:
        """Where a sum lies in one of its places."""
        return _matrix_of(self.sums[home], turn)

    def home_of(self, made: StagedProduct) -> Residence:
        """The sum that a product adds to."""
        return next(home for home in self.homes if made.op in home.products)

    @property
    def decisions(self) -> list[DotDecision]:
        """What the products become, for the notes."""
        places = "two places of tensor memory, in turn" if self.turns > 1 else "one place of tensor memory"
        who = f"{'issued for pairs of CTAs' if self.pair else 'issued'} by a warp of its own"
        how = f"{who}; its sum has {places}"
        return [DotDecision(made.op.loc, Unit.TENSOR_MEMORY, how=how, on_ring=True) for made in self.products]


def _matrix_of(buffer: TensorBuffer, number: Value) -> TensorView:
    return TensorView(buffer, (number, ZERO, ZERO), (1, *buffer.shape[1:]), (1, 2))


def scale_buffer(item: Staged, stages: int) -> TensorBuffer:
    """The scales of so many stages in tensor memory, as rows and columns."""
    blocks, deep, *_ = item.view.shape
    shape = stages, blocks * ROWS, deep * SCALES
    return TensorBuffer(f"{item.view.array.name}_tmem", shape, item.view.dtype, item.load.loc, purpose=Use.SCALE)


# --- which loops ------------------------------------------------------------------------------------------------------


def find_multiplied(
    products: Products, operands: Operands, loops: Iterable[For], slice_: Slice, arch: Arch, taken: set[str]
) -> dict[For, Multiplied]:
    """The loops whose products a warp of its own can issue; `slice_` grows by what it runs for them.

    They stand in another loop, so that there is a next tile, have no other work in their steps than products that begin
    with zeros, and end when their range does.
    """
    found: dict[For, Multiplied] = {}
    if not arch.has((Feature.TCGEN05,)):
        return found
    for loop in loops:
        form = _form(products, operands, loop, arch)
        if form is None:
            continue
        trial = slice_.copy()
        try:
            trial.op(loop)
        except NotSliced:
            continue
        slice_.ops, slice_.carried = trial.ops, trial.carried
        found[loop] = form
    _place_sums(products.places.function, list(found.values()), taken)
    return {loop: form for loop, form in found.items() if form.sums}


def _form(products: Products, operands: Operands, loop: For, arch: Arch) -> Multiplied | None:
    places = products.places
    repeated = any(isinstance(outer, For | While) for outer in places.around[loop])
    if not repeated or loop.pipelined is None or not loop.pipelined.producer:
        return None
    inside = {op: what for op in loop.body.ops if (what := operands.product_of(op)) is not None}
    made = [products.found[op] for op in inside if op in products.found]
    if not made or len(made) != len(inside):
        return None
    around = Block(places.home[loop].ops[: places.index[loop] + 1])
    homes = [
        home for home in find_residences(around, places.function.body, inside, places.makers) if home.loop is loop
    ]
    if any(home.start is None for home in homes) or {op for home in homes for op in home.products} != inside.keys():
        return None
    moves = {op for home in homes for op in home.moves}
    if not all(op in moves or op in inside or _is_idle(op, operands, places) for op in loop.body.ops):
        return None
    if not all(one.op.loc not in products.refused and _can_issue(places.function, arch, one) for one in made):
        return None
    return Multiplied(loop, made, homes)


def _can_issue(function: Function, arch: Arch, made: StagedProduct) -> bool:
    """Whether the tensor cores do a product that reads the ring, with its sum in tensor memory."""
    a, b = _where(made.a), _where(made.b)
    if a is None or b is None or (made.op.scaled_product is not None and made.scales is None):
        return False
    if made.scales is not None:
        return reaches_all_lanes(0, function.warps) and made.kind is not None and target_of(made.kind).supports(arch)
    agent = AgentCode(function.body, 0, function.warps, 1, False)
    what = Product(a, b, made.what.acc, made.what.result)
    return tensor_objection(function, arch, agent, what) is None


def _is_idle(op: Op, operands: Operands, places: Places) -> bool:
    """Whether an instruction of a step does nothing but say where tiles are, or bring some that products alone read."""
    load = op.tile_load
    if load is not None and (item := operands.by_load.get(load)) is not None:
        return bool(item.products) and not item.in_registers
    if op in operands.views:
        return True
    result = op.defines
    if isinstance(op, Assign | ReadVar) or any(True for _ in op.blocks()) or result is None:
        return False
    if load is not None and all(reader in operands.by_load for reader in places.readers.get(result, ())):
        return True  # rows by index
    return isinstance(result.type, ScalarType) and (op.effects().is_pure or load is not None)


def _where(side: object) -> SharedView | None:
    """An operand as it will lie in a stage, if it is the tile of a load."""
    return whole_tile(*side) if isinstance(side, tuple) else None


def _place_sums(function: Function, forms: list[Multiplied], taken: set[str]) -> None:
    """Gives the sums of loops their places in tensor memory: two in turn for all of them, or one, or none."""
    room = COLUMNS // function.ctas_per_sm
    for turns in (IN_TURN, 1):
        wanted = {home: _buffer(home, turns) for form in forms for home in form.homes}
        scales = LEAST_STAGES * sum(form.scale_columns for form in forms)
        if wanted and allocation(sum(map(columns_of, wanted.values())) + scales) <= room:
            break
    else:
        return
    for form in forms:
        form.turns = turns
        for home in form.homes:
            form.sums[home] = dataclasses.replace(wanted[home], name=fresh_name(wanted[home].name, taken), purpose=None)
        loc = form.loop.loc
        name = "_".join(home.var.name or "sum" for home in form.homes)
        form.full, form.empty = (
            BarrierArray(fresh_name(f"{name}_{end}", taken), turns, loc=loc) for end in ("full", "empty")
        )


def _buffer(home: Residence, turns: int) -> TensorBuffer:
    kind = home.var.type
    assert isinstance(kind, TileType)
    name = f"{home.var.name or 'sum'}_tmem"
    return TensorBuffer(name, (turns, *kind.shape), kind.dtype, home.products[0].loc, purpose=Use.ACCUMULATOR)


# --- the role that multiplies -----------------------------------------------------------------------------------------


class Multiplier:
    """Writes the role: `kept` is what it runs of the kernel, `forms` the loops that it multiplies for."""

    def __init__(self, places: Places, forms: dict[For, Multiplied], rings: list[Ring], kept: set[Op]) -> None:
        self.places = places
        self.forms = forms
        self.kept = kept
        self.clones = Clones()
        self.peer: Value | None = None
        """The other CTA of the pair, and `both` the mask of the two, where products are a pair's."""
        self.both: Value | None = None
        self.ring_of: dict[Staged, Ring] = {item: ring for ring in rings for item in ring.loads}
        self.waits: dict[tuple[For, int], list[Ring]] = {}
        self.released_after: dict[Op, list[Ring]] = {}
        for ring in rings:
            readers = {op for item in ring.loads for op in item.products}
            self.waits.setdefault((ring.loads[0].loop, min(item.waits_at for item in ring.loads)), []).append(ring)
            self.released_after.setdefault(max(readers, key=places.order.__getitem__), []).append(ring)

    def role(self, rest: Block) -> Block:
        """The whole role: of a pair, the even CTA alone runs it."""
        loc = next(iter(self.forms)).loc
        code, own = LoopCode(loc), LoopCode(loc)
        if any(form.pair for form in self.forms.values()):
            rank = code.rank()
            self.peer = own.binary("xor", rank, ONE)
            self.both = own.binary("shl", Const(3, I32), rank)
        begin([*dict.fromkeys(self.ring_of.values())], own, fills=False)
        for form in self.forms.values():
            form.filling.begin(own)
        own.ops += self.block(rest).ops
        if self.peer is None:
            return Block(tuple(own.ops))
        even = code.compare("eq", code.binary("and", rank, ONE), ZERO, "even")
        code.branch(even, own)
        return Block(tuple(code.ops))

    def block(self, block: Block) -> Block:
        """What the role runs of a block."""
        out: list[Op] = []
        for op in block.ops:
            if isinstance(op, For) and op in self.forms:
                out += self.loop(self.forms[op])
            elif op in self.kept:
                copy = self.clones.copy(op, self.block)
                out.append(dataclasses.replace(copy, pipelined=None) if isinstance(copy, For) else copy)
        return Block(tuple(out))

    def loop(self, form: Multiplied) -> list[Op]:
        """Waits for a place of the sums and issues the products of all steps; the tensor cores say when they are over."""
        before, code = LoopCode(form.loop.loc), LoopCode(form.loop.loc)
        copy = self.clones.copy(form.loop, lambda _: Block(()))
        assert isinstance(copy, For)
        ran = runs(copy, before)
        turn, parity = form.filling.read(code)
        code.ops.append(Wait(BarrierRef(form.empty, turn), code.binary("xor", parity, ONE), loc=code.loc))
        code.ops.append(dataclasses.replace(copy, pipelined=None, body=self._steps(form, copy, turn)))
        code.ops.append(Tcgen05Commit(BarrierRef(form.full, turn), self.both, form.pair, loc=code.loc))
        advance(code, form.filling, turn, form.turns)
        if ran is None:
            return [*before.ops, *code.ops]
        before.branch(ran, code)
        return before.ops

    def _steps(self, form: Multiplied, copy: For, turn: Value) -> Block:
        """What a step does."""
        out: list[Op] = []
        stages: dict[Ring, Value] = {}
        made = {one.op: one for one in form.products}
        for index, op in enumerate(form.loop.body.ops):
            for ring in self.waits.get((form.loop, index), ()):
                code = LoopCode(ring.loads[0].load.loc)
                stages[ring] = ring.take(code)
                if ring.flows:
                    code.ops.append(FenceAsyncProxy("cta", FENCE, loc=code.loc))
                out += code.ops
            if op in made:
                out += self._product(form, made[op], copy, turn, stages)
        return Block(tuple(out))

    def _product(
        self, form: Multiplied, made: StagedProduct, copy: For, turn: Value, stages: dict[Ring, Value]
    ) -> list[Op]:
        code = LoopCode(made.op.loc)
        home = form.home_of(made)
        adds: Value = Const(True, BOOL)
        if made.op is min(home.products, key=self.places.order.__getitem__):
            adds = code.compare("ne", copy.index, copy.start, "later")
        a, b = self._tile(made.a, stages), self._tile(made.b, stages)
        scales: list[TensorView | None] = [None, None]
        for number, item in enumerate(made.scales or ()):
            ring = self.ring_of[item]
            scales[number] = view = form.scale_view(item, stages[ring])
            if made is next(one for one in form.products if item in (one.scales or ())):
                code.ops.append(Tcgen05Copy(ring.tile(item, stages[ring]), view, self.peer, loc=code.loc))
        code.ops.append(
            Tcgen05Mma(
                a, b, form.view(home, turn), adds, (a.dtype, b.dtype), a.shape[1], scales[0], scales[1],
                self.peer, written=made.op.written, loc=code.loc,
            )
        )
        for ring in self.released_after.get(made.op, ()):
            free = BarrierRef(ring.empty, stages[ring])
            code.ops.append(Tcgen05Commit(free, pair=form.pair, releases=ring.full, loc=code.loc))
        return code.ops

    def _tile(self, side: object, stages: dict[Ring, Value]) -> SharedView:
        assert isinstance(side, tuple)
        item, perm = side
        ring = self.ring_of[item]
        tile = ring.tile(item, stages[ring])
        return tile.replaced(kept=tuple(tile.kept[axis] for axis in perm))


# --- the role that computes -------------------------------------------------------------------------------------------


def bring_out(form: Multiplied, warps: int) -> list[Op]:
    """What stands in the place of a loop for those who compute: its sums are waited for and loaded, their place comes back.

    A loop without any step leaves zeros.
    """
    loc = form.loop.loc
    before, code, none = LoopCode(loc), LoopCode(loc), LoopCode(loc)
    ran = runs(form.loop, before)
    turn, parity = form.taking.read(code)
    code.ops.append(Wait(BarrierRef(form.full, turn), parity, loc=loc))
    for home in form.homes:
        loaded, tile = (Value(home.var.type, home.var.name) for _ in range(2))
        code.ops.append(Tcgen05Load(form.view(home, turn), 0, warps, loaded, loc=loc))
        code.ops.append(Tcgen05WaitLoads((loaded,), (tile,), loc=loc))
        code.assign(home.var, tile)
    code.ops.append(form.give_back(turn, loc))
    advance(code, form.taking, turn, form.turns)
    if ran is None:
        return [*before.ops, *code.ops]
    for home in form.homes:
        assert home.zeros is not None
        zeros = Value(home.var.type, home.var.name)
        none.ops.append(dataclasses.replace(home.zeros, result=zeros))  # type: ignore[call-arg]
        none.assign(home.var, zeros)
    before.branch(ran, code, none)
    return before.ops
