"""Results leave tensor memory part by part: some columns of the sums at a time, through all that the kernel makes of them.

A thread holds a row of a sum, or half of one, so that a whole tile would fill its registers. Behind a loop that another
warp multiplies for (`multiplier.py`), what follows element by element is run for a few columns, stored, and run for the
next: arithmetic, conversions, vectors of rows as they are, vectors of columns and tiles of memory in the same parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.ir.archs import QUARTERS
from phalanx.ir.clones import Clones
from phalanx.ir.core import Op
from phalanx.ir.ops.control import ReadVar
from phalanx.ir.ops.mbarrier import Wait
from phalanx.ir.ops.tcgen05 import Tcgen05Load, Tcgen05WaitLoads
from phalanx.ir.ops.tile import Arange
from phalanx.ir.tensor_memory import LANES
from phalanx.ir.types import I32, TileType
from phalanx.ir.values import Const, Value, Var
from phalanx.ir.views import BarrierRef, GlobalView, in_global
from phalanx.passes.pipelining.epilogue import Leaving, leave_part
from phalanx.passes.pipelining.multiplier import Multiplied
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import runs
from phalanx.passes.pipelining.rings import advance
from phalanx.passes.rank_code import LoopCode
from phalanx.passes.registry import brought, by_element

COLUMNS = 64
"""Columns of a part for each four warps: registers of a thread that hold sums at a time."""


@dataclass(eq=False)
class InParts:
    """What follows a loop, `width` columns at a time, in the place of the last of the stores. `gone`: what was there for
    whole tiles."""

    form: Multiplied
    width: int
    stores: list[Op]
    gone: set[Op]
    vectors: list[Op]
    """Loads of one number for each column: those of a part are loaded while the part before it is at work."""

    @property
    def at(self) -> Op:
        """The instruction in whose place all parts are run."""
        return self.stores[-1]


class NoParts(Exception):
    """What follows a loop is not made of columns that have nothing to do with each other."""


def find_parts(places: Places, form: Multiplied) -> InParts | None:
    """How what follows a loop goes part by part, if it can; None too where a whole tile is no larger than a part."""
    shapes = {home.var.type.shape for home in form.homes}  # type: ignore[union-attr]
    rows, columns = next(iter(shapes))
    width = COLUMNS * (places.function.warps // QUARTERS) // -(-rows // LANES)
    if len(shapes) > 1 or not width or columns <= width or columns % width:
        return None
    try:
        return _Finder(places, form, columns).found(width)
    except NoParts:
        return None


class _Finder:
    """Follows sums to where they are stored, and what is stored back to where it comes from."""

    def __init__(self, places: Places, form: Multiplied, columns: int) -> None:
        self.places = places
        self.columns = columns
        self.form = form
        self.home = places.home[form.loop]
        self.cells = {home.var for home in form.homes}
        moves = {op for home in form.homes for op in home.moves}
        self.reads = [op for op in places.order if isinstance(op, ReadVar) and op.var in self.cells and op not in moves]
        self.sliced: set[Op] = set()

    def found(self, width: int) -> InParts:
        """The parts; `NoParts` where there are none."""
        stores = self._stores()
        for op in stores:
            self._slice(brought_by(op)[1])
        gone = {*stores, *self.sliced}
        for op in sorted(self.sliced, key=self.places.order.__getitem__, reverse=True):
            if any(reader not in gone for value in op.defined_values() for reader in self.places.readers.get(value, ())):
                gone.remove(op)
        if any(op not in gone for op in self.reads):
            raise NoParts
        self._check_between(stores, gone)
        vectors = [op for op in self.sliced if op.tile_load is not None and len(op.tile_load.view.shape) == 1]
        return InParts(self.form, width, stores, gone, sorted(vectors, key=self.places.order.__getitem__))

    def _stores(self) -> list[Op]:
        """Where tiles that follow from the sums are stored, all of it behind the loop in its block."""
        found: dict[Op, None] = {}
        values: list[Value] = [op.result for op in self.reads]
        seen: set[Value] = set()
        while values:
            value = values.pop()
            for op in self.places.readers.get(value, ()):
                if self.places.home[op] is not self.home or self.places.order[op] < self.places.order[self.form.loop]:
                    raise NoParts
                bring = brought.of(op)
                what = None if bring is None else bring(op)
                if what is not None and value is what[1] and self._can_store(what[0]):
                    found[op] = None
                elif op in by_element and op.defines is not None:
                    values += [op.defines] if op.defines not in seen else []
                    seen.add(op.defines)
                else:
                    raise NoParts
        if not found:
            raise NoParts
        return sorted(found, key=self.places.order.__getitem__)

    def _can_store(self, view: object) -> bool:
        if not in_global(view) or len(view.shape) != 2 or view.shape[1] != self.columns:  # type: ignore[arg-type]
            return False
        return self._can_cut(view) and len(self.places.writes[view.array]) == 1  # type: ignore[attr-defined,arg-type]

    def _can_cut(self, view: GlobalView) -> bool:
        return view.index_axis != view.kept[-1] and not view.within and view.dtype.per_byte == 1

    def _slice(self, value: Value) -> None:
        """Whether a tile can be made part by part, and by what."""
        if not varies(value, self.columns):
            return
        op = self.places.makers.get(value)
        if op is None:
            raise NoParts
        if op in self.sliced:
            return
        if op in self.reads:
            pass
        elif op in by_element:
            for operand in op.operands():
                self._slice(operand)
        elif (load := op.tile_load) is not None:
            if not in_global(load.view) or not self._can_cut(load.view) or self.places.writes.get(load.view.array):
                raise NoParts
        elif (x := op.reshaped) is not None:
            if not varies(x, self.columns):
                raise NoParts
            self._slice(x)
        elif op.numbers is None and op.filled_with is None:
            raise NoParts
        self.sliced.add(op)

    def _check_between(self, stores: list[Op], gone: set[Op]) -> None:
        """Nothing else that anyone could see happens between the loop and the last store: parts are run there."""
        start, end = self.places.index[self.form.loop] + 1, self.places.index[stores[-1]]
        stored = {brought_by(op)[0].memory for op in stores}
        for op in self.home.ops[start:end]:
            reads = op.tile_load is not None and op.tile_load.view.memory not in stored
            if op not in gone and not reads and (any(True for _ in op.blocks()) or not op.effects().is_pure):
                raise NoParts
        if len(stored) < len(stores):
            raise NoParts


def brought_by(op: Op) -> tuple[GlobalView, Value]:
    """The region and the tile of a store, or of an update."""
    bring = brought.of(op)
    found = None if bring is None else bring(op)
    assert found is not None and in_global(found[0])
    return found[0], found[1]


def varies(value: Value, columns: int) -> bool:
    """Whether a value is a tile with an element for each column, not one that is the same for all of them."""
    return isinstance(value.type, TileType) and value.type.shape[-1] == columns


# --- what is written --------------------------------------------------------------------------------------------------


class PartWriter:
    """Writes what follows a loop, part by part, for a role of so many warps."""

    def __init__(self, places: Places, parts: InParts, leaving: Mapping[Op, Leaving]) -> None:
        self.places = places
        self.parts = parts
        self.form = parts.form
        self.leaving = leaving
        (self.columns,) = {home.var.type.shape[-1] for home in self.form.homes}  # type: ignore[union-attr]

    def ops(self) -> list[Op]:
        """Waits for the sums, and for each part loads it, computes, stores; the last load gives their place back."""
        form, loc = self.form, self.form.loop.loc
        code = LoopCode(loc)
        ran = runs(form.loop, code)
        turn, parity = form.taking.read(code)
        starts = range(0, self.columns, self.parts.width)
        slicers = [_Slicer(self.places, code, start, self.parts.width, self.columns) for start in starts]
        self._load_vectors(slicers[0])
        self._if(code, ran, [Wait(BarrierRef(form.full, turn), parity, loc=loc)])
        for slicer, following in zip(slicers, (*slicers[1:], None), strict=True):
            slicer.known = self._sums(code, ran, turn, slicer.start)
            if following is not None:
                self._load_vectors(following)
            for op in self.parts.stores:
                self._store(code, op, slicer, slicer.start)
        step = LoopCode(loc)
        advance(step, form.taking, turn, form.turns)
        self._if(code, ran, step.ops)
        return code.ops

    def _load_vectors(self, slicer: _Slicer) -> None:
        for op in self.parts.vectors:
            assert op.defines is not None
            slicer.part(op.defines)

    def _if(self, code: LoopCode, ran: Value | None, ops: list[Op]) -> None:
        if ran is None:
            code.ops += ops
        else:
            then = code.fork()
            then.ops += ops
            code.branch(ran, then)

    def _sums(self, code: LoopCode, ran: Value | None, turn: Value, start: int) -> dict[Var, Value]:
        """Some columns of the sums, by cell; zeros if the loop had no step."""
        form, width = self.form, self.parts.width
        load, none = code.fork(), code.fork()
        known: dict[Var, Value] = {}
        cells: dict[Var, Var] = {}
        for home in form.homes:
            view = form.view(home, turn)
            *front, rows, _ = view.extents
            offsets = (*view.offsets[:-1], Const(start, I32))
            view = view.replaced(offsets=offsets, extents=(*front, rows, width))
            kind = narrowed(home.var.type, width)
            loaded, known[home.var] = Value(kind, home.var.name), Value(kind, home.var.name)
            load.ops.append(Tcgen05Load(view, 0, self.places.function.warps, loaded, loc=code.loc))
            load.ops.append(Tcgen05WaitLoads((loaded,), (known[home.var],), loc=code.loc))
            cells[home.var] = Var(kind, home.var.name)
            if ran is not None:
                zeros = Value(kind, home.var.name)
                assert home.zeros is not None
                none.ops.append(dataclasses.replace(home.zeros, result=zeros))  # type: ignore[call-arg]
                none.assign(cells[home.var], zeros)
                load.assign(cells[home.var], known[home.var])
        if start + width == self.columns:
            load.ops.append(form.give_back(turn, code.loc))
        if ran is None:
            code.ops += load.ops
            return known
        code.branch(ran, load, none)
        return {cell: code.read(cells[cell]) for cell in known}

    def _store(self, code: LoopCode, op: Op, slicer: _Slicer, start: int) -> None:
        view, whole = brought_by(op)
        value = slicer.part(whole)
        if op in self.leaving:
            item = self.leaving[op]
            end = start + self.parts.width
            code.ops += leave_part(item, start, end, [item.written(value, 0, self.parts.width)])
        else:
            code.ops.append(dataclasses.replace(op, view=slicer.region(view), value=value))  # type: ignore[call-arg]


class _Slicer:
    """Writes what some columns of tiles are made of."""

    def __init__(self, places: Places, code: LoopCode, start: int, width: int, columns: int) -> None:
        self.places = places
        self.code = code
        self.known: Mapping[Var, Value] = {}
        """The columns of the sums, by cell."""
        self.start = start
        self.width = width
        self.columns = columns
        self.made: dict[Value, Value] = {}

    def part(self, value: Value) -> Value:
        """The columns of a tile; a value that is the same for all columns is itself."""
        if not varies(value, self.columns):
            return value
        if value not in self.made:
            self.made[value] = self._made(value, self.places.makers[value])
        return self.made[value]

    def _made(self, value: Value, op: Op) -> Value:
        if isinstance(op, ReadVar):
            return self.known[op.var]
        new = Value(narrowed(value.type, self.width), value.name)
        load = op.tile_load
        if load is not None:
            assert in_global(load.view)
            self.code.ops.append(dataclasses.replace(load, view=self.region(load.view), result=new))
        elif op.numbers is not None:
            first = Value(new.type, value.name)
            self.code.ops.append(Arange(first, loc=op.loc))
            return self.code.binary("add", first, Const(self.start, I32)) if self.start else first
        else:
            clones = Clones(retyped=lambda kind: narrowed(kind, self.width))
            clones.known = {operand: self.part(operand) for operand in op.operands()}
            self.code.ops.append(clones.copy(op, lambda block: block))
            return clones.of(value)
        return new

    def region(self, view: GlobalView) -> GlobalView:
        """The columns of a region of an array."""
        axis = view.kept[-1]
        offset = view.offsets[axis]
        if self.start:
            offset = self.code.binary("add", offset, Const(self.start, offset.type))  # type: ignore[arg-type]
        return view.replaced(
            offsets=tuple(offset if n == axis else o for n, o in enumerate(view.offsets)),
            extents=tuple(self.width if n == axis else e for n, e in enumerate(view.extents)),
        )


def narrowed(kind: object, width: int) -> TileType:
    """The type of some columns of a tile."""
    assert isinstance(kind, TileType)
    return TileType((*kind.shape[:-1], width), kind.dtype)
