"""Loops over tiles that a counter deals (`px.persistent(n, schedule="counter")`), written out in ordinary instructions.

The first tile of a cluster is its number. With each tile that it takes, the cluster draws the next one: an atomic
addition to a word of global memory, whose old value plus the number of clusters is a tile. So `n` tiles are `n` draws,
however many clusters there are, and whoever draws the last one sets the word back to 0 for the next launch. That holds
as long as every cluster comes to the loop and goes on to its end, which is checked here.

One agent draws: of the roles that run the loop at the same time the first (that has no copies, or its first copy), in
the first CTA of the cluster. It draws ahead, and tells the others with a ring of two slots: a tile in shared memory, a
barrier that says that the slot is full and one that all have read it. In a cluster it sends the tile into the slot of every
CTA, and all of them give theirs back to it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from phalanx.analysis.ranks import Evaluator
from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.ops.cluster import ClusterCount, ClusterId, ClusterStore
from phalanx.ir.ops.control import (
    Assign,
    Break,
    Continue,
    For,
    If,
    Leave,
    NextTile,
    ReadVar,
    Role,
    RoleCopy,
    Roles,
    Scope,
    While,
)
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, Wait
from phalanx.ir.ops.memory import AtomicAdd, AtomicExch, Load, Store
from phalanx.ir.ops.tile import Binary, Compare
from phalanx.ir.types import BOOL, I32, ArrayType, i32
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.location import Location
from phalanx.passes.rank_code import RankCode

MAX_COUNTERS = 16
"""Of one kernel: what the runtime sets aside for a launch."""
POSITIVE = 0x7FFFFFFF
"""Tiles are 0 or more, which the compiler sees where the sign is cut off: copies to them need no second way."""
CALL = 'px.persistent(n, schedule="counter")'
STATIC = 'or use schedule="static", which takes it'


def write_draws(function: Function) -> Function:
    """The kernel with its draws written out, and with the runtime's parameter behind the user's.

    Called by `passes.pipeline`, when roles are formed and before barriers are counted.
    """
    _refuse_work_for_others(function)
    groups = _Finder(function).groups()
    if not groups:
        return function
    if len(groups) > MAX_COUNTERS:
        raise Error(
            f"kernel '{function.name}' has {len(groups)} loops over {CALL}",
            location=groups[MAX_COUNTERS][0].loop.loc,
            remedy=f"a launch has {MAX_COUNTERS} counters: use schedule=\"static\" for some of them",
        )
    array = Param(ArrayType(1, i32), "tile_counters", len(function.params))
    taken = {buffer.name for buffer in function.buffers} | {barrier.name for barrier in function.barriers}
    written: dict[NextTile, _Draws] = {}
    slots: list[_Slots] = []
    for number, group in enumerate(groups):
        place = GlobalView(array, (Const(number, I32),), (1,), ())
        ring = _Slots.of(function, group, taken)
        slots += [] if ring is None else [ring]
        drawer = min(group, key=lambda site: site.copies > 1)
        for site in group:
            written[site.draw] = _Draws(function, place, ring, site.copies, draws=site is drawer)

    def visit(op: Op) -> list[Op] | None:
        draw = _draw_of(op)
        return None if draw is None or not isinstance(op, While) else written[draw].loop(op, draw)

    return dataclasses.replace(
        function,
        params=(*function.params, array),
        counters=len(groups),
        buffers=(*function.buffers, *(ring.tiles for ring in slots)),
        barriers=(*function.barriers, *(barrier for ring in slots for barrier in (ring.full, ring.empty))),
        body=rewrite(function.body, visit),
    )


def _draw_of(op: Op) -> NextTile | None:
    """What draws the tiles of a loop; None for other instructions."""
    return next((inner.draw for inner in op.test if inner.draw is not None), None) if isinstance(op, While) else None


def _refuse_work_for_others(function: Function) -> None:
    asking = next((op for op in function.walk() if op.asks_for_work), None)
    if asking is not None and any(op.dealt_tiles is not None for op in function.walk()):
        raise Error(
            f"{asking.call} in a kernel with px.persistent",
            location=asking.loc,
            remedy="not all clusters start where running ones take them over, and their tiles would be nobody's: deal "
            "the tiles one way or the other",
        )


# Which loops there are, and which of them belong together.


@dataclass(frozen=True)
class _Site:
    """A loop that draws, and its agent: the role of a group of roles, or None for all warps."""

    loop: While
    draw: NextTile
    roles: Roles | None
    role: Role | None

    @property
    def copies(self) -> int:
        """How many agents of a CTA run it."""
        return 1 if self.role is None else self.role.copies


@dataclass
class _Finder:
    """Looks for loops that draw, in order, and for what would keep a cluster from them."""

    function: Function
    sites: list[_Site] = field(default_factory=list)
    left: dict[Label, Op] = field(default_factory=dict)
    """Scopes that something may have left already, with what leaves them."""

    def groups(self) -> list[list[_Site]]:
        """Loops that go through the same tiles: of each group of roles the first of every role, the second, and so on."""
        self._block(self.function.body, (), None, None)
        found: dict[tuple[object, int], list[_Site]] = {}
        counts: dict[object, int] = {}
        for site in self.sites:
            agent = site.role if site.roles is not None else site.loop
            number = counts[agent] = counts.get(agent, -1) + 1
            found.setdefault((site.roles or site.loop, number), []).append(site)
        groups = list(found.values())
        for group in groups:
            _check_together(self.function, group, counts)
        return groups

    def _block(self, block: Block, around: tuple[Op, ...], roles: Roles | None, role: Role | None) -> None:
        for op in block.ops:
            if isinstance(op, Leave):
                self.left.setdefault(op.label, op)
            draw = _draw_of(op)
            if draw is not None:
                assert isinstance(op, While)
                self._check_place(op, around)
                _check_exits(op)
                self.sites.append(_Site(op, draw, roles, role))
            if isinstance(op, Roles):
                for region in op.regions:
                    self._block(region.body, (*around, op), op, region)
            else:
                for inner in op.blocks():
                    self._block(inner, (*around, op), roles, role)

    def _check_place(self, loop: While, around: tuple[Op, ...]) -> None:
        """Every cluster comes to the loop, once."""
        for op in around:
            if isinstance(op, (For, While)):
                raise Error(
                    f"{CALL} inside another loop",
                    location=loop.loc,
                    remedy=f"its counter deals the tiles once in a launch: make one loop of both, {STATIC}",
                )
            if isinstance(op, If):
                raise Error(
                    f"{CALL} under a condition that only a run knows (at {op.loc.short})",
                    location=loop.loc,
                    remedy=f"the tiles of a cluster that does not come here would be nobody's: put the condition into the "
                    f"loop, {STATIC}",
                )
            if isinstance(op, Scope) and op.label in self.left:
                raise Error(
                    f"return before the loop over {CALL} at {loop.loc.short}",
                    location=self.left[op.label].loc,
                    remedy=f"the tiles of a cluster that does not come to the loop would be nobody's: give n = 0 instead, "
                    f"{STATIC}",
                )


def _check_exits(loop: While) -> None:
    """Nothing leaves the loop before its tiles are dealt."""
    own = {op.label for op in loop.body.walk() if isinstance(op, (For, While, Scope))}
    for op in loop.body.walk():
        if not isinstance(op, (Break, Continue, Leave)) or op.label in own:
            continue
        if op.label is loop.label and isinstance(op, Continue):
            continue
        word = "return" if isinstance(op, Leave) else "break" if isinstance(op, Break) else "continue"
        raise Error(
            f"{word} leaves a loop over {CALL}",
            location=op.loc,
            remedy=f"tiles that were drawn would be nobody's, and the other roles would wait for more: put the rest of the "
            f"loop under an if, {STATIC}",
        )


def _check_together(function: Function, group: list[_Site], counts: dict[object, int]) -> None:
    """The roles of a group have as many such loops each, over the same number of tiles."""
    first = group[0]
    evaluator = Evaluator(function, 0)
    for site in group[1:]:
        assert first.role is not None and site.role is not None
        if counts[site.role] != counts[first.role]:
            raise Error(
                f"the role {first.role.name} has {counts[first.role] + 1} loops over {CALL}, {site.role.name} has "
                f"{counts[site.role] + 1}",
                location=site.loop.loc,
                remedy="concurrent roles go through the same tiles: give each of them as many such loops",
            )
        if not evaluator.same(first.draw.n, site.draw.n):
            raise Error(
                f"the role {site.role.name} goes through another number of tiles than {first.role.name} does at "
                f"{first.loop.loc.short}, as far as can be seen",
                location=site.loop.loc,
                remedy="loops of concurrent roles that draw from a counter get the same tiles: compute n once, before the "
                "roles",
            )


# What is written in their place.


@dataclass(frozen=True)
class _Slots:
    """How the agent that draws tells the others: two slots, each full or empty."""

    tiles: SharedBuffer
    full: BarrierArray
    empty: BarrierArray
    receivers: int
    """The CTAs in which somebody waits to be told, as a mask."""

    @staticmethod
    def of(function: Function, group: list[_Site], taken: set[str]) -> _Slots | None:
        """Slots for a group of loops; None where nobody has to be told."""
        alone, everyone = sum(site.copies for site in group) == 1, (1 << function.cluster_size) - 1
        if alone and function.cluster_size == 1:
            return None
        loc = group[0].loop.loc
        tiles, full, empty = (_fresh(name, taken) for name in ("tiles", "tiles_full", "tiles_empty"))
        return _Slots(
            SharedBuffer(tiles, (2,), i32, loc), BarrierArray(full, 2, loc=loc), BarrierArray(empty, 2, loc=loc),
            everyone - 1 if alone else everyone,
        )

    def slot(self, number: Value, *, cta: Value | None = None) -> SharedView:
        """The element of a slot, this CTA's or another's."""
        return SharedView(self.tiles, (number,), (1,), (), cta)


def _fresh(name: str, taken: set[str]) -> str:
    fresh, number = name, 0
    while fresh in taken:
        number += 1
        fresh = f"{name}_{number}"
    taken.add(fresh)
    return fresh


@dataclass
class _Code(RankCode):
    """Instructions of one place, with what loops need."""

    def compare(self, fn: str, a: Value, b: Value, name: str) -> Value:
        """The truth of a comparison."""
        result = Value(BOOL, name)
        self.ops.append(Compare(fn, a, b, result, loc=self.loc))
        return result

    def read(self, cell: Var) -> Value:
        """The value of a cell."""
        result = Value(cell.type, cell.name)
        self.ops.append(ReadVar(cell, result, loc=self.loc))
        return result

    def assign(self, cell: Var, value: Value) -> None:
        """Gives a cell another value."""
        self.ops.append(Assign(cell, value, loc=self.loc))

    def branch(self, cond: Value, then: _Code, orelse: _Code | None = None) -> None:
        """One of two pieces of code."""
        other = Block(()) if orelse is None else Block(tuple(orelse.ops))
        self.ops.append(If(cond, Block(tuple(then.ops)), other, loc=self.loc))


class _Draws:
    """One loop: who draws in it, and what its agent does to learn the next tile."""

    def __init__(
        self, function: Function, counter: GlobalView, slots: _Slots | None, copies: int, *, draws: bool
    ) -> None:
        self.counter, self.slots, self.copies, self.draws = counter, slots, copies, draws
        self.size = function.cluster_size
        self.next, self.slot, self.round = (Var(I32, name) for name in ("next_tile", "tile_slot", "tile_round"))

    def loop(self, loop: While, draw: NextTile) -> list[Op]:
        """The loop that stands in its place, and what comes before it."""
        before, test, body = (_Code(loop.loc) for _ in range(3))
        if self.slots is not None:
            before.assign(self.slot, Const(0, I32))
            before.assign(self.round, Const(0, I32))
        if self.draws:
            self._begin(before)
        first = self._is_first(before) if self.draws else None
        tile = self._tile(test, first)
        test.ops.append(_masked(tile, draw.result, loop.loc))
        if self.draws:
            self._draw(body, draw.n, first)
        ops = loop.test.ops
        place = next(n for n, op in enumerate(ops) if op.draw is not None)
        changed = dataclasses.replace(
            loop,
            test=Block((*ops[:place], *test.ops, *ops[place + 1 :])),
            body=Block((*body.ops, *loop.body.ops)),
        )
        return [*before.ops, changed]

    def _is_first(self, code: _Code) -> Value | None:
        """Whether this is the first CTA, and the first copy of the role; None where there is no other."""
        numbers = [code.rank()] if self.size > 1 else []
        if self.copies > 1:
            numbers.append(Value(I32, "copy"))
            code.ops.append(RoleCopy(self.copies, numbers[-1], loc=code.loc))
        if not numbers:
            return None
        number = numbers[0] if len(numbers) == 1 else code.binary("or", *numbers)
        return code.compare("eq", number, Const(0, I32), "draws")

    def _begin(self, code: _Code) -> None:
        """The first tile is the cluster's number."""
        number = Value(I32, "cluster")
        code.ops.append(ClusterId(None, number, loc=code.loc))
        code.assign(self.next, number)

    def _tile(self, code: _Code, first: Value | None) -> Value:
        """The next tile: the one that was drawn, or what the slot says."""
        if self.slots is None:
            return code.read(self.next)
        slot, round_ = code.read(self.slot), code.read(self.round)
        if self.draws and first is None:
            tile = code.read(self.next)
            self._tell(code, slot, round_, tile)
        elif first is None:
            tile = self._learn(code, slot, round_)
        else:  # the role that draws in the first CTA, or its first copy, is told in the others
            known = Var(I32, "tile")
            then, orelse = _Code(code.loc), _Code(code.loc)
            drawn = then.read(self.next)
            self._tell(then, slot, round_, drawn)
            then.assign(known, drawn)
            orelse.assign(known, self._learn(orelse, slot, round_))
            code.branch(first, then, orelse)
            tile = code.read(known)
        code.assign(self.round, code.binary("xor", round_, slot))  # of two slots: the other one, and back
        code.assign(self.slot, code.binary("xor", slot, Const(1, I32)))
        return tile

    def _tell(self, code: _Code, slot: Value, round_: Value, tile: Value) -> None:
        """Waits until all have read the slot, fills it, and says so."""
        slots, loc = self.slots, code.loc
        assert slots is not None
        full = BarrierRef(slots.full, slot)
        free = code.binary("xor", round_, Const(1, I32))
        code.ops.append(Wait(BarrierRef(slots.empty, slot), free, loc=loc))
        if self.size == 1:
            code.ops += [Store(slots.slot(slot), tile, loc=loc), Arrive(full, Const(1, I32), loc=loc)]
            return
        nbytes = slots.slot(slot).nbytes
        code.ops.append(ArriveExpectTx(full, Const(nbytes, I32), Const(slots.receivers, I32), loc=loc))
        for rank in range(self.size):
            if slots.receivers >> rank & 1:
                there = slots.slot(slot, cta=Const(rank, I32))
                code.ops.append(ClusterStore(there, tile, full, Const(1 << rank, I32), loc=loc))

    def _learn(self, code: _Code, slot: Value, round_: Value) -> Value:
        """Waits until the slot is full, reads it, and gives it back to the one who draws."""
        slots, loc = self.slots, code.loc
        assert slots is not None
        tile = Value(I32, "tile")
        code.ops.append(Wait(BarrierRef(slots.full, slot), round_, loc=loc))
        code.ops.append(Load(slots.slot(slot), Const(0, I32), tile, loc=loc))
        drawer = Const(1, I32) if self.size > 1 else None
        code.ops.append(Arrive(BarrierRef(slots.empty, slot), Const(1, I32), drawer, loc=loc))
        return tile

    def _draw(self, code: _Code, n: Value, first: Value | None) -> None:
        """Draws the tile after this one; the last of n draws sets the counter back."""
        inner = code if first is None else _Code(code.loc)
        loc = code.loc
        old, count = Value(I32, "drawn"), Value(I32, "clusters")
        inner.ops.append(AtomicAdd(self.counter, Const(1, I32), old, loc=loc))
        last = inner.compare("eq", old, inner.binary("sub", n, Const(1, I32)), "last")
        reset = _Code(loc)
        reset.ops.append(AtomicExch(self.counter, Const(0, I32), None, loc=loc))
        inner.branch(last, reset)
        inner.ops.append(ClusterCount(count, loc=loc))
        inner.assign(self.next, inner.binary("add", old, count))
        if first is not None:
            code.branch(first, inner)


def _masked(tile: Value, result: Value, loc: Location) -> Op:
    return Binary("and", tile, Const(POSITIVE, I32), result, loc=loc)
