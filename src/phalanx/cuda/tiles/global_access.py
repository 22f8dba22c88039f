"""Tiles and global memory: addresses in 64 bits, masks at the array's edges, vectors where rows allow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.analysis.assumptions import find_assumptions
from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.bounds import ends_inside, is_small, start_text, wrapping_start
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.facts import split_constant
from phalanx.cuda.tiles.index import atom, local, plus, times
from phalanx.cuda.tiles.rows import RowSlots
from phalanx.ir.tables import Table
from phalanx.ir.values import Param, Value, constant_of
from phalanx.ir.views import GlobalView
from phalanx.layouts.registers import RegisterLayout

array_sizes: Table[Callable[[Any], tuple[Param, int]]] = Table()
"""Instructions that define the size of an array along an axis: which array and axis."""
VECTOR_BYTES = 16


def vector_elements(view: GlobalView, layout: RegisterLayout) -> int:
    """How many elements one access may move: 1 unless rows are contiguous and start on 16 bytes."""
    facts = view.array_type
    last = facts.rank - 1
    if not view.kept or view.kept[-1] != last or last == view.index_axis or not (facts.unit_inner and facts.aligned):
        return 1
    return layout.vector_width(layout.rank - 1, VECTOR_BYTES // view.dtype.itemsize)


class GlobalAccess:
    """The addresses and masks of a tile's elements in a global view; lines are written as things are asked for."""

    def __init__(self, w: Writer, view: GlobalView, layout: RegisterLayout) -> None:
        self.w = w
        self.view = view
        self.layout = layout
        self.array = w.name(view.array)
        self.rank = view.array_type.rank
        self.coordinates = Coordinates(w, layout)
        self.dim_of = {axis: dim for dim, axis in enumerate(view.kept)}
        self.masked = set(self.coordinates.masked_dims())
        self._bases: dict[int, str] = {}
        self._unsigned: set[int] = set()
        self._constants: dict[int, int] = {}
        self._pointer = ""
        self._rows: RowSlots | None = None
        self._ends: tuple[str, str] | None = None

    def stride(self, axis: int) -> str:
        """The stride of the array along an axis, as text."""
        unit = axis == self.rank - 1 and self.view.array_type.unit_inner
        return "1" if unit else f"{self.array}.stride[{axis}]"

    def _is_split(self, axis: int) -> bool:
        """Whether the index is the sum of a thread's part and a slot's."""
        if axis == self.view.index_axis:
            return False
        dim = self.dim_of.get(axis)
        return dim is None or self.coordinates.additive[dim]

    def base(self, axis: int) -> str:
        """The thread's part of the index along an axis: the offset and what the thread adds."""
        if axis not in self._bases:
            offset = self.view.offsets[axis]
            dim = self.dim_of.get(axis)
            if dim is not None and self._is_split(axis):
                offset, self._constants[axis] = split_constant(self.w, offset)
            text = start_text(self.w, offset) if dim is None else wrapping_start(self.w, offset)
            if dim is not None and self._is_split(axis):
                separate = dim in self.masked  # the bare coordinate is compared with the tile's extent
                thread = self.coordinates.declare(dim) if separate else self.coordinates.threads[dim]
                text = plus(text, thread)
            if not (text.isidentifier() or text.isdigit()):
                name = local(self.w, f"x{axis}")
                ctype = "int" if dim is None or is_small(self.w, offset) else "unsigned"
                self.w.line(f"const {ctype} {name} = {text};")
                text = name
                if ctype == "unsigned":
                    self._unsigned.add(axis)
            self._bases[axis] = text
        return self._bases[axis]

    def declare(self) -> None:
        """Writes the thread's part of all indices, and the pointer they make."""
        apart = {self.dim_of[axis] for axis in self.dim_of if axis != self.view.index_axis and not self._is_split(axis)}
        for dim in sorted(self.masked | apart):
            self.coordinates.declare(dim)  # here: several blocks ask for it
        terms, constants = [], []
        for axis in range(self.rank):
            if axis == self.view.index_axis:
                continue
            base = self.base(axis)
            if self._is_split(axis):
                base = f"(int){base}" if axis in self._unsigned else base  # it may be negative, and its elements not
                terms.append(times(base, self.stride(axis)))
                constants.append(times(str(self._constants.get(axis, 0)), self.stride(axis)))
        if self.view.within:
            self._declare_ends()
        offset = plus(*terms)
        data = f"{self.array}.data"
        further = plus(*constants)
        if further != "0":  # added to an address that other accesses share
            data, offset = (data, further) if offset == "0" else (f"({data} + ({offset}))", further)
        if offset == "0":
            self._pointer = data
            return
        self._pointer = local(self.w, "p")
        ctype = self.w.ctype(self.view.dtype)
        self.w.line(f"{ctype}* const {self._pointer} = {data} + ({offset});")

    def _declare_ends(self) -> None:
        """Writes where what is there of the last axis begins and ends: inside the array, and no end before its beginning."""
        low, high = (start_text(self.w, end) for end in self.view.within)
        larger, smaller = self.w.use("maximum"), self.w.use("minimum")
        first, end = local(self.w, "first"), local(self.w, "end")
        size = f"{self.array}.shape[{self.rank - 1}]"
        self.w.line(f"const int {first} = {larger}<int>({low}, 0);")
        self.w.line(f"const int {end} = {larger}<int>({smaller}<int>({high}, {size}), {first});")
        self._ends = first, end

    def ends(self) -> tuple[str, str]:
        """Where what is there of the last axis begins and ends, of a view that says so."""
        assert self._ends is not None
        return self._ends

    def even_ends(self, width: int, facts: Divisibility) -> str | None:
        """A condition, the same in all threads, under which no end of such a view cuts a vector; "" if always, None where
        nothing says so.

        Both ends are multiples of a vector then, and lie in the array: `inside_even_ends` asks for no more than that.
        """
        low, high = self.view.within
        if not all(facts.proves(end, 1, width) for end in (low, high)):
            return None
        assumed = find_assumptions(self.w.plan.function)
        ordered = any(bound is high for bound, _ in assumed.most.get(low, ()))
        in_array = any(self._is_extent(bound, self.rank - 1) for bound, _ in assumed.most.get(high, ()))
        if ordered and in_array and self.w.plan.signs.nonnegative(low):
            return ""
        first, end = start_text(self.w, low), start_text(self.w, high)
        return f"0 <= {first} && {first} <= {end} && {end} <= {self.array}.shape[{self.rank - 1}]"

    def _is_extent(self, value: Value, axis: int) -> bool:
        """Whether a value is the size of the array along an axis."""
        made = self.w.definitions.get(value)
        size = None if made is None else array_sizes.of(made)
        return size is not None and size(made) == (self.view.array, axis)

    def place_along_rows(self, var: str, step: int) -> str:
        """The index of slot `var` along the last axis, as an `int`: one that wraps around is negative."""
        return f"(int){atom(self.index(self.rank - 1, var, step))}"

    def index(self, axis: int, var: str, step: int = 1) -> str:
        """The index of slot `var` along an array axis."""
        dim = self.dim_of.get(axis)
        if axis == self.view.index_axis:
            return self._row(var, step)
        if dim is None:
            return self.base(axis)
        if self._is_split(axis):
            base = self.base(axis)
            return plus(base, str(self._constants.get(axis, 0)), self.coordinates.slot(dim, var, step))
        return plus(self.base(axis), self.coordinates.at(dim, var, step))

    def _row(self, var: str, step: int) -> str:
        """The index that the tile of indices has for slot `var` of the data."""
        if self._rows is None:
            self._rows = RowSlots(self.w, self.view, self.layout)
        return self._rows.at(var, step)

    def pointer(self, var: str, step: int = 1) -> str:
        """The address of slot `var`."""
        return self.place(var, step)[0]

    def place(self, var: str, step: int = 1) -> tuple[str, bool]:
        """The address of slot `var`, and whether slots lie apart by strides that only the array knows."""
        terms, apart = [self._pointer], False
        for axis in range(self.rank):
            if self._is_split(axis):
                dim = self.dim_of.get(axis)
                part = "0" if dim is None else self.coordinates.slot(dim, var, step)
            else:
                part = self.index(axis, var, step)
            stride = self.stride(axis)
            terms.append(times(part, stride))
            apart = apart or (part != "0" and stride != "1")
        return plus(*terms), apart

    def inside(self, var: str, step: int = 1) -> list[str]:
        """Conditions under which slot `var` lies in the array."""
        name = self.w.use("inside")
        asked = [f"{name}({self.index(axis, var, step)}, {self.array}.shape[{axis}])" for axis in range(self.rank)]
        if self.view.within:  # of vectors the row is asked apart
            first, end = self.ends()
            at = self.index(self.rank - 1, var, step)
            asked[-1] = f"{name}((unsigned){atom(at)} - {first}, {end} - {first})"
        return asked

    def inside_even_ends(self, var: str, step: int) -> list[str]:
        """`inside` for vectors of a view whose `even_ends` hold."""
        low, high = (start_text(self.w, end) for end in self.view.within)
        at = self.index(self.rank - 1, var, step)
        inside = f"{self.w.use('inside')}((unsigned){atom(at)} - {atom(low)}, {atom(high)} - {atom(low)})"
        return [*self.inside_but_rows(var, step), inside]

    def inside_but_rows(self, var: str, step: int) -> list[str]:
        """Conditions under which slot `var` lies in the array along all axes but the last."""
        return self.inside(var, step)[:-1]

    def alive(self, var: str, step: int = 1) -> list[str]:
        """Conditions under which slot `var` holds an element of the tile."""
        return self.coordinates.alive(var, step)

    def alive_along_rows(self, var: str, step: int) -> list[str]:
        """Conditions that keep a load off vectors beyond the tile: its own are whole (`whole_vectors`), but a row may end
        within one of those."""
        if self.view.array_type.whole:
            return []
        return self.coordinates.alive(var, step, (self.dim_of[self.rank - 1],))

    def surely_inside(self) -> bool:
        """Whether assumptions say that all elements of the tile lie in the array: nothing has to be asked then."""
        if self.view.index_axis is not None:
            return False
        assumed = find_assumptions(self.w.plan.function)

        for axis, offset in enumerate(self.view.offsets):
            if not self.w.plan.signs.nonnegative(offset):
                return False
            start = constant_of(offset)
            if start is None:
                ends = self.view.extents[axis] == 1 if axis in self.dim_of else True
                below = any(less and self._is_extent(bound, axis) for bound, less in assumed.most.get(offset, ()))
                if not (ends and below):
                    return False
                continue
            end = int(start) + (self.view.extents[axis] if axis in self.dim_of else 1)
            sizes = [bound for value, bounds in assumed.least.items() if self._is_extent(value, axis) for bound in bounds]
            if not any((number := constant_of(bound)) is not None and int(number) + more >= end for bound, more in sizes):
                return False
        return True

    def whole_vectors(self, width: int, facts: Divisibility) -> str:
        """A condition, the same in all threads, under which no vector is cut or misaligned; "" if always.

        Rows that end on a multiple of the vector, or tiles that end before the row does, cut none.
        """
        axis = self.rank - 1
        offset = self.view.offsets[axis]
        size = f"{self.array}.shape[{axis}]"
        uncut = f"{size} % {width} == 0 || {ends_inside(self.w, offset, self.view.extents[axis], size)}"
        starts_even = f"{atom(self.w.name(offset))} % {width} == 0"
        if self.view.within:  # vectors that are cut go element by element, each by itself
            return "" if facts.proves(offset, 1, width) else starts_even
        if facts.proves(offset, 1, width):
            return "" if self.view.array_type.whole else uncut
        return starts_even if self.view.array_type.whole else f"{starts_even} && ({uncut})"


def scalar_pointer(w: Writer, view: GlobalView) -> tuple[str, list[str]]:
    """The address of a rank-0 view, and the conditions under which it lies in the array."""
    array, rank = w.name(view.array), view.array_type.rank
    unit = view.array_type.unit_inner
    terms = [f"{array}.data"]
    inside = []
    for axis, offset in enumerate(view.offsets):
        stride = "1" if unit and axis == rank - 1 else f"{array}.stride[{axis}]"
        index = start_text(w, offset)
        terms.append("0" if constant_of(offset) == 0 else times(index, stride))
        inside.append(f"{w.use('inside')}({index}, {array}.shape[{axis}])")
    return plus(*terms), inside
