"""Register layouts of all tiles: inferred from their uses, with the conversions where two uses disagree.

Tiles that must share a layout form a group. Groups are decided from the largest to the smallest: a candidate layout
comes from the memory that a group touches, or follows from a group decided before; the cheapest wins. Where a tile is
then needed in another layout, a `ConvertLayout` says so in the IR, or, for what costs nothing (constants, `arange` and
arithmetic on them), the tile is computed again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import phalanx.cuda.lower.ops  # noqa: F401  # what the families registered
from phalanx.cuda.lower import layout_costs as costs
from phalanx.cuda.lower.layout_rules import (
    FREE_DEPTH,
    Along,
    Fixed,
    Lands,
    OneOf,
    Operand,
    Prefer,
    Result,
    Same,
    Touch,
    Wish,
    is_cheap,
    is_tile,
    shape_of,
    wishes_of,
)
from phalanx.cuda.tiles.convert import conversion, how
from phalanx.cuda.tiles.index import local_slots
from phalanx.cuda.tiles.matrix_load import matrices_of
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Note, Op, map_blocks, substitute
from phalanx.ir.ops.control import For, Role, Roles, While
from phalanx.ir.ops.tile import ConvertLayout
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.ir.views import in_shared
from phalanx.layouts.fragments import is_fragment
from phalanx.layouts.registers import RegisterLayout
from phalanx.layouts.scratch import ThroughShared

LOOP_WEIGHT = 8.0
MAX_WEIGHT = 4096.0


def infer_register_layouts(function: Function) -> tuple[Function, dict[Value, RegisterLayout], tuple[Note, ...]]:
    """The function with `ConvertLayout` instructions, the layout of each tile and tile cell, notes on slow moves.

    For `lower`. Example: ``function, layouts, notes = infer_register_layouts(prepare(function))``.
    """
    sites = list(_sites(function.body, function.warps, 1.0))
    free = _free_values(sites)
    groups = _groups(sites, free)
    _decide(groups)
    rewriter = _Rewriter(groups, free)
    body = rewriter.block(function.body, function.warps)
    return dataclasses.replace(function, body=body), rewriter.layouts, tuple(rewriter.notes)


# ---------------------------------------------------------------------- collecting


@frozen
class _Site:
    """An instruction, the number of warps that run it, and how often about it runs."""

    op: Op
    warps: int
    weight: float


def _sites(block: Block, warps: int, weight: float) -> Iterator[_Site]:
    for op in block.ops:
        yield _Site(op, warps, weight)
        if isinstance(op, Roles):
            for region in op.regions:
                yield from _sites(region.body, region.count, weight)
            continue
        inner_warps = op.count if isinstance(op, Role) else warps
        inner_weight = min(weight * LOOP_WEIGHT, MAX_WEIGHT) if isinstance(op, For | While) else weight
        for inner in op.blocks():
            yield from _sites(inner, inner_warps, inner_weight)


def _free_values(sites: list[_Site]) -> dict[Value, Op]:
    """Tiles that are computed again wherever they are needed, with the instruction that does.

    Not accumulators: they stay where they were made, before the products that may be in flight where they are used.
    """
    free: dict[Value, Op] = {}
    depth: dict[Value, int] = {}
    accumulators = {item.acc for site in sites for item in site.op.effects().accumulations}
    for site in sites:
        result = site.op.defines
        if result is None or not is_tile(result) or result in accumulators or not is_cheap(site.op):
            continue
        tiles = [operand for operand in site.op.operands() if is_tile(operand)]
        level = sum(depth.get(tile, 0) for tile in tiles) + 1
        if all(tile in free for tile in tiles) and level <= FREE_DEPTH:
            free[result] = site.op
            depth[result] = level
    return free


@dataclass(eq=False)
class _Group:
    """Tiles that share one layout, and what is asked of it."""

    shape: tuple[int, ...]
    warps: int
    position: int
    itemsize: int = 1
    values: list[Value] = field(default_factory=list)
    touches: list[tuple[Touch, float]] = field(default_factory=list)
    axes: list[tuple[Along, float]] = field(default_factory=list)
    operands: list[tuple[Operand, float]] = field(default_factory=list)
    results: list[tuple[Result, float]] = field(default_factory=list)
    fixed: list[Fixed] = field(default_factory=list)
    choices: list[OneOf] = field(default_factory=list)
    preferred: list[RegisterLayout] = field(default_factory=list)
    layout: RegisterLayout | None = None


@dataclass
class _Groups:
    of: dict[Value, _Group]
    ordered: list[_Group]


def _groups(sites: list[_Site], free: Mapping[Value, Op]) -> _Groups:
    parent: dict[Value, Value] = {}
    warps: dict[Value, int] = {}
    sizes: dict[Value, int] = {}

    def find(value: Value) -> Value:
        while parent[value] is not value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    def add(value: Value, site: _Site) -> None:
        if value not in parent:
            parent[value] = value
            warps[value] = site.warps
            assert isinstance(value.type, TileType)
            sizes[value] = value.type.dtype.itemsize

    wished: list[tuple[Wish, float]] = []
    for site in sites:
        if site.op.defines in free:
            continue
        wishes = wishes_of(site.op)
        wished += [(wish, site.weight) for wish in wishes]
        mentioned = [*site.op.operands(), *site.op.defined_values()]
        mentioned += [v for wish in wishes if isinstance(wish, Same) for v in wish.values]
        for value in mentioned:
            if is_tile(value) and value not in free:
                add(value, site)
        for wish in wishes:
            if isinstance(wish, Same):
                members = [v for v in wish.values if v not in free]
                for member in members[1:]:
                    parent[find(member)] = find(members[0])
    groups: dict[Value, _Group] = {}
    of: dict[Value, _Group] = {}
    for position, value in enumerate(parent):
        root = find(value)
        if root not in groups:
            groups[root] = _Group(shape_of(value), warps[value], position)
        group = of[value] = groups[root]
        group.values.append(value)
        group.itemsize = max(group.itemsize, sizes[value])
    for wish, weight in wished:
        _attach(wish, weight, of)
    return _Groups(of, list(groups.values()))


def _attach(wish: Wish, weight: float, of: Mapping[Value, _Group]) -> None:
    if isinstance(wish, Touch):
        if wish.value in of:
            of[wish.value].touches.append((wish, weight))
    elif isinstance(wish, Along):
        for group in dict.fromkeys(of[value] for value in (wish.value, *wish.beside) if value in of):
            group.axes.append((wish, weight))
    elif isinstance(wish, Fixed):
        if wish.value in of:
            of[wish.value].fixed.append(wish)
    elif isinstance(wish, OneOf):
        if wish.value in of:
            of[wish.value].choices.append(wish)
    elif isinstance(wish, Prefer):
        of[wish.value].preferred.append(wish.layout(of[wish.value].warps))
    elif isinstance(wish, Operand):
        if wish.operand in of and wish.result in of:
            of[wish.operand].operands.append((wish, weight))
            of[wish.result].operands.append((wish, weight))
    elif isinstance(wish, Result):
        if wish.operand in of and wish.result in of:
            of[wish.operand].results.append((wish, weight))
            of[wish.result].results.append((wish, weight))


# ---------------------------------------------------------------------- deciding


def _decide(groups: _Groups) -> None:
    def size(group: _Group) -> int:
        total = 1
        for extent in group.shape:
            total *= extent
        return total

    def is_broadcast(group: _Group) -> bool:
        """Whether a larger tile, decided before, asks for a layout: of equals such a one comes first, and what it was
        reshaped from follows it."""
        return any(groups.of[wish.operand] is group is not groups.of[wish.result] for wish, _ in group.operands)

    def order(group: _Group) -> tuple[bool, int, bool, int]:
        return not (group.fixed or group.choices), -size(group), not is_broadcast(group), group.position

    for group in sorted(groups.ordered, key=order):
        candidates = list(dict.fromkeys(_candidates(group, groups)))
        group.layout = min(candidates, key=lambda layout: _cost(layout, group, groups))


def _candidates(group: _Group, groups: _Groups) -> Iterator[RegisterLayout]:
    if group.choices:
        asked, *others = group.choices
        common = [layout for layout in asked.layouts if all(layout in other.layouts for other in others)]
        yield from common or asked.layouts
        return
    if group.fixed:
        firm = {wish.layout: wish.loc for wish in reversed(group.fixed) if wish.firm}
        if len(firm) > 1:
            name = next((value.name for value in group.values if value.name), "of a product")
            first, second = sorted((loc for loc in firm.values() if loc is not None), key=lambda loc: loc.line)[:2]
            raise Error(
                f"the accumulator '{name}' is spread over the warpgroups in another way than at {first.short}",
                location=second,
                remedy="give all products of an accumulator the same along=",
            )
        yield next(iter(firm), group.fixed[0].layout)
        return
    if group.preferred:
        yield group.preferred[0]
        return
    axes: list[int | None] = [None, *dict.fromkeys(along.axis for along, _ in group.axes)]
    for operand, _ in group.operands:
        source = groups.of[operand.result]
        if groups.of[operand.operand] is group and source.layout is not None:
            yield operand.layout(source.layout)
        natural = _natural(groups.of[operand.operand], groups) if source is group else None
        wide = None if natural is None else costs.spread(natural, group.shape)
        if wide is not None:
            yield wide
    for result, _ in group.results:
        source, target = groups.of[result.operand], groups.of[result.result]
        try:
            if target is group and source.layout is not None:
                yield result.layout(source.layout)
            if source is group and target.layout is not None and result.back is not None:
                yield result.back(target.layout)
        except ValueError:
            pass  # a reshape that is not linear in the index bits: no layout follows
    for touch, _ in group.touches:
        for axis in axes:
            yield costs.preferred(touch.view, group.shape, group.warps, axis)
    for axis in dict.fromkeys(along.axis for along, _ in group.axes if along.ordered):
        for touch, _ in group.touches:
            yield costs.preferred(touch.view, group.shape, group.warps, axis, True)
        yield costs.in_order(group.shape, group.warps, axis)
    if any(in_shared(touch.view) for touch, _ in group.touches):
        yield from costs.between([touch.view for touch, _ in group.touches], group.shape, group.warps)
    for axis in axes:
        yield costs.default_layout(group.shape, group.warps, group.itemsize, axis)


def _natural(group: _Group, groups: _Groups, depth: int = 2) -> RegisterLayout | None:
    """The layout in which a smaller tile is made of a larger one that was decided before: a maximum of rows, say. None where
    it is made otherwise, or decided itself."""
    if group.layout is not None or group.touches or group.fixed or group.choices or not depth:
        return None
    for result, _ in group.results:
        source = groups.of[result.operand]
        if groups.of[result.result] is not group or source is group:
            continue
        made = source.layout or _natural(source, groups, depth - 1)
        try:
            if made is not None:
                return result.layout(made)
        except ValueError:
            continue  # a reshape that is not linear in the index bits
    return None


def _cost(layout: RegisterLayout, group: _Group, groups: _Groups) -> float:
    total = 0.01 * costs.register_pressure(layout)
    for touch, weight in group.touches:
        total += weight * _touch_cost(touch, layout)
    for along, weight in group.axes:
        total += weight * costs.along_cost(layout, along.axis, along.ordered)
    for operand, weight in group.operands:
        source = groups.of[operand.result]
        if groups.of[operand.operand] is group and source.layout is not None and source is not group:
            total += weight * _move_cost(layout, operand.layout(source.layout), group.itemsize)
        natural = _natural(groups.of[operand.operand], groups) if source is group else None
        if natural is not None:
            total += weight * _move_cost(natural, operand.layout(layout), group.itemsize)
    for result, weight in group.results:
        source, target = groups.of[result.operand], groups.of[result.result]
        try:
            if target is group and source.layout is not None:
                total += weight * _move_cost(result.layout(source.layout), layout, group.itemsize)
            elif source is group and target.layout is not None:
                total += weight * _move_cost(result.layout(layout), target.layout, group.itemsize)
        except ValueError:
            pass
    return total


def _move_cost(have: RegisterLayout, want: RegisterLayout, itemsize: int) -> float:
    return 0.0 if local_slots(have, want) is not None else costs.conversion_cost(have, want, itemsize)


def _touch_cost(touch: Touch, layout: RegisterLayout) -> float:
    """Touching memory in this layout, or in the best one with a conversion, whichever is cheaper."""
    if _moves_fragment(touch, layout):
        return layout.num_registers * layout.warps / 2
    direct = costs.touch_cost(touch.view, layout, touch.writes)
    best = costs.preferred(touch.view, layout.shape, layout.warps, None)
    detour = costs.touch_cost(touch.view, best, touch.writes) + costs.least_move(layout, touch.view.dtype.itemsize)
    return min(direct, detour)


def _moves_fragment(touch: Touch, layout: RegisterLayout) -> bool:
    """What the tensor cores leave goes to shared memory as it is: a swizzle will fit, 16-bit elements take stmatrix.
    What they read comes from there by ldmatrix."""
    if not in_shared(touch.view):
        return False
    return is_fragment(layout) if touch.writes else matrices_of(touch.view, layout) is not None


def _detour(touch: Touch, layout: RegisterLayout) -> tuple[RegisterLayout, float] | None:
    """Another layout in which memory is touched, with a conversion, if that is cheaper; and what both cost."""
    if _moves_fragment(touch, layout):
        return None
    best = costs.preferred(touch.view, layout.shape, layout.warps, None)
    direct = costs.touch_cost(touch.view, layout, touch.writes)
    there = costs.touch_cost(touch.view, best, touch.writes)
    itemsize = touch.view.dtype.itemsize
    if there + costs.least_move(layout, itemsize) >= direct:
        return None
    have, want = (layout, best) if touch.writes else (best, layout)
    total = there + costs.conversion_cost(have, want, itemsize)
    return (best, total) if total < direct else None


# ---------------------------------------------------------------------- rewriting


class _Rewriter:
    """Copies the function; tiles get their layouts, conversions and repeated computations appear where needed."""

    def __init__(self, groups: _Groups, free: Mapping[Value, Op]) -> None:
        self.groups = groups
        self.free = free
        self.layouts: dict[Value, RegisterLayout] = {}
        for value, group in groups.of.items():
            assert group.layout is not None
            self.layouts[value] = group.layout
        self.notes: list[Note] = []
        self._scopes: list[dict[tuple[Value, RegisterLayout], Value]] = []
        self._out: list[Op] = []
        self._warps = 1

    def block(self, block: Block, warps: int) -> Block:
        outer, self._out = self._out, []
        outer_warps, self._warps = self._warps, warps
        self._scopes.append({})
        for op in block.ops:
            self._op(op)
        self._scopes.pop()
        ops, self._out = self._out, outer
        self._warps = outer_warps
        return Block(tuple(ops))

    def _op(self, op: Op) -> None:
        if op.defines in self.free:
            return  # computed where it is used
        replaced: dict[Value, Value] = {}
        after: list[Op] = []
        for wish in wishes_of(op):
            after += self._fulfil(op, wish, replaced)
        for operand in op.operands():
            if operand in self.free and operand not in replaced:
                replaced[operand] = self._in_layout(operand, self._default(operand), op)
        new = substitute(op, replaced)
        results = op.defined_values()
        if any(result in replaced for result in results):
            made = tuple(replaced.get(result, result) for result in results)
            changes = {"result": made[0]} if op.defines is not None else {"results": made}
            new = dataclasses.replace(new, **changes)  # type: ignore[arg-type]
        self._out.append(self._inside(new))
        self._out += after

    def _inside(self, op: Op) -> Op:
        """`op` with its nested blocks rewritten."""
        if isinstance(op, Roles):
            return dataclasses.replace(op, regions=tuple(self._inside(region) for region in op.regions))  # type: ignore[misc]
        warps = op.count if isinstance(op, Role) else self._warps
        return map_blocks(op, lambda block: self.block(block, warps))

    def _fulfil(self, op: Op, wish: Wish, replaced: dict[Value, Value]) -> list[Op]:
        """Brings operands (in `replaced`) and result into the layouts of a wish; what must follow the instruction."""
        if isinstance(wish, Same):
            wanted = next((self.layouts[v] for v in wish.values if v in self.layouts), self._default(wish.values[0]))
            for value in wish.values:
                if value in self.free:
                    replaced[value] = self._in_layout(value, wanted, op)
        elif isinstance(wish, Operand):
            result = replaced.get(wish.result, wish.result)
            wanted = wish.layout(self.layouts[result])
            self._bring(wish.operand, wanted, op, replaced)
        elif isinstance(wish, Along):
            self._along(op, wish, replaced)
        elif isinstance(wish, Touch):
            return self._touch(op, wish, replaced)
        elif isinstance(wish, Fixed):
            if wish.value is op.defines:
                return self._convert_result(op, wish.value, wish.layout, replaced)
            self._bring(wish.value, wish.layout, op, replaced)
        elif isinstance(wish, OneOf):
            if wish.value is op.defines:
                assert self.layouts[wish.value] in wish.layouts, "a tile that may be in flight keeps its layout"
            elif wish.value in self.free or self.layouts[wish.value] not in wish.layouts:
                self._bring(wish.value, wish.layouts[0], op, replaced)
        elif isinstance(wish, Prefer | Lands):
            pass  # the instruction makes whatever was decided, and memory is arranged for it
        else:
            return self._result(op, wish, replaced)
        return []

    def _bring(self, value: Value, wanted: RegisterLayout, op: Op, replaced: dict[Value, Value]) -> None:
        """An operand in a layout that serves as `wanted`."""
        current = replaced.get(value, value)
        if current in self.free or local_slots(self.layouts[current], wanted) is None:
            replaced[value] = self._in_layout(current, wanted, op)

    def _along(self, op: Op, wish: Along, replaced: dict[Value, Value]) -> None:
        current = replaced.get(wish.value, wish.value)  # another wish may have moved it already
        if current in self.free or costs.along_cost(self.layouts[current], wish.axis, wish.ordered) >= costs.IMPOSSIBLE:
            layout = self._default(wish.value, wish.axis)
            for tile in (wish.value, *wish.beside):
                if tile not in op.defined_values():
                    replaced[tile] = self._in_layout(tile, layout, op)

    def _touch(self, op: Op, wish: Touch, replaced: dict[Value, Value]) -> list[Op]:
        value = wish.value
        if value in self.free:
            if value not in replaced:
                best = costs.preferred(wish.view, shape_of(value), self._warps, None)
                replaced[value] = self._in_layout(value, best, op)
            return []
        detour = _detour(wish, self.layouts[value])
        if detour is None:
            return []
        if not wish.writes:
            return self._convert_result(op, value, detour[0], replaced)
        replaced[value] = self._in_layout(value, detour[0], op)
        return []

    def _result(self, op: Op, wish: Result, replaced: dict[Value, Value]) -> list[Op]:
        operand = replaced.get(wish.operand, wish.operand)
        if operand in self.free:
            layout = wish.back(self.layouts[wish.result]) if wish.back else self._default(operand)
            operand = replaced[wish.operand] = self._in_layout(operand, layout, op)
        try:
            natural = wish.layout(self.layouts[operand])
        except ValueError as problem:
            self.notes.append(Note(f"{op.mnemonic} moves a tile through shared memory: {problem}", op.loc))
            return []
        if natural == self.layouts[wish.result]:
            return []
        return self._convert_result(op, wish.result, natural, replaced)

    def _convert_result(
        self, op: Op, result: Value, natural: RegisterLayout, replaced: dict[Value, Value]
    ) -> list[Op]:
        """The instruction defines a result in `natural`; a conversion behind it brings the layout others expect."""
        if natural == self.layouts[result]:
            return []
        raw = Value(result.type, result.name)
        self.layouts[raw] = natural
        replaced[result] = raw
        return [self._conversion(raw, result, op)]

    # -- tiles in another layout --------------------------------------------------------------------------------

    def _default(self, value: Value, axis: int | None = None) -> RegisterLayout:
        assert isinstance(value.type, TileType)
        return costs.default_layout(value.type.shape, self._warps, value.type.dtype.itemsize, axis)

    def _in_layout(self, value: Value, layout: RegisterLayout, op: Op) -> Value:
        """`value` in `layout`: itself, what was made before, or made by an instruction before the one at hand."""
        if value not in self.free and self.layouts[value] == layout:
            return value
        for scope in reversed(self._scopes):
            if (value, layout) in scope:
                return scope[value, layout]
        copy = Value(value.type, value.name)
        self.layouts[copy] = layout
        self._out.append(self._again(value, copy, layout) if value in self.free else self._conversion(value, copy, op))
        self._scopes[-1][value, layout] = copy
        return copy

    def _again(self, value: Value, copy: Value, layout: RegisterLayout) -> Op:
        """The instruction that computes a free tile, in another layout; its tiles are brought along."""
        definition = self.free[value]
        replaced: dict[Value, Value] = {}
        for wish in wishes_of(definition):
            if isinstance(wish, Same):
                for tile in wish.values[1:]:
                    replaced[tile] = self._in_layout(tile, layout, definition)
            elif isinstance(wish, Operand):
                replaced[wish.operand] = self._in_layout(wish.operand, wish.layout(layout), definition)
            elif isinstance(wish, Result):
                assert wish.back is not None
                try:
                    source = wish.back(layout)
                except ValueError:  # no such layout: this instruction moves the elements itself
                    source = self._default(wish.operand)
                replaced[wish.operand] = self._in_layout(wish.operand, source, definition)
        return dataclasses.replace(substitute(definition, replaced), result=copy)  # type: ignore[call-arg]

    def _conversion(self, source: Value, target: Value, op: Op) -> Op:
        assert isinstance(source.type, TileType)
        have, want, itemsize = self.layouts[source], self.layouts[target], source.type.dtype.itemsize
        plan = conversion(have, want, itemsize)
        if isinstance(plan, ThroughShared):
            name = source.name or "a tile"
            self.notes.append(
                Note(
                    f"{name} ({source.type}) changes its register layout through {plan.nbytes} bytes of shared memory, "
                    f"{2 * len(plan.rounds)} barriers: {plan.reason}",
                    op.loc,
                )
            )
        return ConvertLayout(source, how(have, want, itemsize), target, loc=op.loc)
