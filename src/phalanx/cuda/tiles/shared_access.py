"""Tiles and shared memory: the element offset of each slot in a (possibly swizzled, transposed, remote) view.

Three forms of the same offset, the first that is right wins; all numbers are checked for every thread when the text is
written. "sum": a place per thread plus a number per slot. "xor": the same with XOR for bits of the slot that meet the
thread's, in swizzled buffers; the others are added, so that an instruction takes them as a constant. "general": the
coordinates' arithmetic and the swizzle, slot by slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.index import SlotTexts, atom, local, plus, times
from phalanx.cuda.tiles.rows import RowSlots
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import SharedView
from phalanx.layouts.banks import best_vector
from phalanx.layouts.expressions import linear_expression
from phalanx.layouts.registers import LANES, RegisterLayout
from phalanx.layouts.shared import SharedLayout


def axis_steps(shared: SharedLayout) -> list[int]:
    """Elements from one index to the next along every axis, before the swizzle (within a panel, for the last one)."""
    item = shared.itemsize
    steps = [1]
    if shared.rank > 1:
        steps.insert(0, shared.row_pitch // item)
    stride = shared.matrix_bytes // item
    for extent in reversed(shared.leading):
        steps.insert(0, stride)
        stride *= extent
    return steps


class Offsets:
    """The element offsets of a tile's slots in a shared tile, as text.

    Dimension d of the tile runs along axis `axes[d]`; along every axis the tile starts at a number (`constants`) plus a
    run-time value (`runtime`, with what is known of it in `facts`). `slots`: those that take part, all by default;
    texts count their positions in that list. `fold`: a dimension and a power of two; the shared tile holds so much of
    the tile along it, and coordinates are taken modulo that.
    """

    def __init__(
        self,
        w: Writer,
        layout: RegisterLayout,
        shared: SharedLayout,
        axes: tuple[int, ...],
        constants: Sequence[int],
        runtime: Sequence[tuple[int, Value]] = (),
        facts: Divisibility | None = None,
        slots: Sequence[int] | None = None,
        fold: tuple[int, int] | None = None,
        coordinates: Coordinates | None = None,
    ) -> None:
        self.w = w
        self.layout = layout
        self.shared = shared
        self.fold = fold
        self.axes = axes
        self.constants = tuple(constants)
        self.runtime = tuple(runtime)
        self.facts = facts
        self.coordinates = coordinates or Coordinates(w, layout, slots=slots)
        """Coordinates in the whole tile, for conditions."""
        self._places = self.coordinates if fold is None else Coordinates(w, layout, "r", slots, fold)
        self.slots = range(layout.num_registers) if slots is None else slots
        self.steps = axis_steps(shared)
        self.thread_bits = 0
        self.form, self.slot_numbers, self.thread_text = self._choose()
        self.alive = self.coordinates.alive
        self._thread = ""

    # ------------------------------------------------------------------ numbers

    def _separable(self) -> bool:
        """Whether run-time offsets can be added after the swizzle and outside the panels."""
        shared = self.shared
        for axis, offset in self.runtime:
            assert self.facts is not None
            if axis == shared.rank - 1 and shared.panels > 1:
                panel = shared.panel_columns
                if panel & (panel - 1) or self.constants[axis] % panel or not self.facts.proves(offset, 1, panel):
                    return False  # else: whole panels, and those start on the period
            elif not self.facts.proves(offset, self.steps[axis] * shared.itemsize, shared.period):
                return False
        return True

    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """[slot, lane, warp]: element offsets without the run-time part, and which of them matter."""
        index: list[object] = list(self.constants)
        chosen = list(self.slots)
        for dim, axis in enumerate(self.axes):
            within = self.layout.coordinates[dim][chosen]
            if self.fold is not None and dim == self.fold[0]:
                within = within & (self.fold[1] - 1)
            index[axis] = index[axis] + within  # type: ignore[operator]
        offsets = np.asarray(self.shared.offset(index)) // self.shared.itemsize
        alive = self.layout.alive[chosen]
        return np.broadcast_to(offsets, alive.shape), alive

    def _choose(self) -> tuple[str, list[int], str]:
        if not self._separable():
            return "general", [], ""
        numbers, alive = self._numbers()
        slots = numbers[:, :1, :1]
        warps = self.layout.warps
        lane_images = [int(numbers[0, 1 << b, 0] ^ numbers[0, 0, 0]) for b in range(5)]
        warp_images = [int(numbers[0, 0, 1 << b] ^ numbers[0, 0, 0]) for b in range((warps - 1).bit_length())]
        thread = np.zeros((1, LANES, warps), dtype=np.int64)
        for images, counter in ((lane_images, np.arange(LANES)[:, None]), (warp_images, np.arange(warps)[None, :])):
            for bit, image in enumerate(images):
                thread[0] ^= np.where(counter >> bit & 1, image, 0)
        slot_list = [int(n) for n in slots[:, 0, 0]]
        positive = min(slot_list) >= 0 and thread.min() >= 0
        if positive and (numbers == slots ^ thread)[alive].all():
            text = linear_expression([(self.w.lane, lane_images), (self.w.warp, warp_images)])
            self.thread_bits = int(np.bitwise_or.reduce(thread, axis=None))
            apart = not int(np.bitwise_or.reduce(slots, axis=None)) & self.thread_bits
            return ("sum" if apart else "xor"), slot_list, text
        added = numbers[:1] - numbers[:1, :1, :1]
        if not self.shared.swizzle and self.shared.panels == 1 and (numbers == slots + added)[alive].all():
            terms = [times(self._places.threads[dim], str(self.steps[axis])) for dim, axis in enumerate(self.axes)]
            return "sum", slot_list, plus(*terms)
        return "general", [], ""

    # ------------------------------------------------------------------ text

    def declare(self) -> str:
        """Writes what all slots share, and gives the text of the offset to which those of the slots are added."""
        if self.form == "general":
            for dim in range(self.layout.rank):
                self._places.declare(dim)
            return "0"
        terms = []
        for axis, offset in self.runtime:
            name = self.w.name(offset)
            if axis == self.shared.rank - 1 and self.shared.panels > 1:
                panel = self.shared.panel_columns
                terms.append(f"{atom(name)} / {panel} * {self.shared.panel_bytes // self.shared.itemsize}")
            else:
                terms.append(times(name, str(self.steps[axis])))
        if self.form == "sum":
            return plus(*terms, self.thread_text)
        self._thread = local(self.w, "o")
        self.w.line(f"const int {self._thread} = {self.thread_text};")
        return plus(*terms)

    def at(self, var: str, step: int = 1) -> str:
        """The offset of slot `var` beyond the common one; `var` counts in steps of `step`."""
        if self.form == "general":
            return self._general(var, step)
        texts, numbers = SlotTexts(self.w), self.slot_numbers[::step]
        if self.form == "sum":
            return texts.at(numbers, var, step, "offset")
        mixed = texts.at([number & self.thread_bits for number in numbers], var, step, "mixed")
        added = texts.at([number & ~self.thread_bits for number in numbers], var, step, "offset")
        return plus(f"({self._thread} ^ {atom(mixed)})" if mixed != "0" else self._thread, added)

    def _general(self, var: str, step: int) -> str:
        index = [str(number) for number in self.constants]
        for axis, offset in self.runtime:
            index[axis] = plus(self.w.name(offset), index[axis])
        for dim, axis in enumerate(self.axes):
            index[axis] = plus(index[axis], self._places.at(dim, var, step))
        return element_offset(self.w, self.shared, index)


def slot_offsets(
    w: Writer,
    view: SharedView,
    layout: RegisterLayout,
    shared: SharedLayout,
    facts: Divisibility,
    coordinates: Coordinates | None = None,
) -> Offsets | RowOffsets:
    """The offsets of a tile's slots in a view of a shared buffer.

    `coordinates`: those of another access to the same tile in the same block, whose names this one shares.
    """
    if view.index_axis is not None:
        return RowOffsets(w, view, layout, shared, coordinates)
    constants = [int(offset.value) if isinstance(offset, Const) else 0 for offset in view.offsets]
    runtime = [(axis, offset) for axis, offset in enumerate(view.offsets) if not isinstance(offset, Const)]
    return Offsets(w, layout, shared, view.kept, constants, runtime, facts, coordinates=coordinates)


class SharedAccess:
    """Where the slots of a register tile lie in a shared view, and how many one access may move (`vector`)."""

    def __init__(
        self, w: Writer, view: SharedView, layout: RegisterLayout, shared: SharedLayout, facts: Divisibility
    ) -> None:
        self.w = w
        self.view = view
        self.vector = shared_vector(view, layout, shared, facts)
        self.offsets = slot_offsets(w, view, layout, shared, facts)
        self.alive: Callable[..., list[str]] = self.offsets.alive
        """Conditions under which a slot holds an element of the tile, and the buffer has it."""
        self._base = ""

    def declare(self) -> None:
        """Writes what all slots share: a pointer, an address for a peer's memory."""
        view = self.view
        self._base = origin(self.w, view, self.offsets.declare())
        if not self._base.isidentifier():
            name = local(self.w, "p" if view.cta is None else "a")
            ctype = f"{self.w.ctype(view.dtype)}* const" if view.cta is None else "const unsigned"
            self.w.line(f"{ctype} {name} = {self._base};")
            self._base = name

    def place(self, var: str, step: int = 1) -> str:
        """The pointer to (a peer's: the address of) slot `var`; `var` counts in steps of `step`."""
        offset = self.offsets.at(var, step)
        return plus(self._base, offset if self.view.cta is None else times(str(self.view.dtype.itemsize), offset))


class RowOffsets:
    """Offsets where an index tile names the rows: the coordinates' arithmetic, slot by slot."""

    def __init__(
        self,
        w: Writer,
        view: SharedView,
        layout: RegisterLayout,
        shared: SharedLayout,
        coordinates: Coordinates | None = None,
    ) -> None:
        assert view.index_axis is not None
        self.w = w
        self.view = view
        self.shared = shared
        self.coordinates = coordinates or Coordinates(w, layout)
        self.rows = RowSlots(w, view, layout)

    def declare(self) -> str:
        """Declares the coordinates; there is no common base."""
        for dim in range(len(self.view.kept)):
            self.coordinates.declare(dim)
        return "0"

    def at(self, var: str, step: int = 1) -> str:
        """The offset of the element in a slot, as text."""
        index = []
        for axis, offset in enumerate(self.view.offsets):
            if axis == self.view.index_axis:
                index.append(self.rows.at(var, step))
                continue
            start = "0" if constant_of(offset) == 0 else self.w.name(offset)
            place = self.view.kept.index(axis) if axis in self.view.kept else None
            index.append(start if place is None else plus(start, self.coordinates.at(place, var, step)))
        return element_offset(self.w, self.shared, index)

    def alive(self, var: str, step: int = 1) -> list[str]:
        """Conditions under which a slot holds an element of the tile, in a row that is there."""
        assert self.view.index_axis is not None
        size = self.view.buffer.shape[self.view.index_axis]
        inside = f"{self.w.use('inside')}({self.rows.at(var, step)}, {size})"
        return [*self.coordinates.alive(var, step), inside]


def shared_vector(view: SharedView, layout: RegisterLayout, shared: SharedLayout, facts: Divisibility) -> int:
    """How many elements one access to a shared view may move."""
    if view.index_axis == len(view.extents) - 1:
        return 1
    return best_vector(layout, shared, facts.divisor(view.offsets[-1]), view.kept) if view.kept else 1


def origin(w: Writer, view: SharedView, offset: str) -> str:
    """The place `offset` elements behind the start of a view's buffer: a pointer, or a peer's address."""
    if view.cta is None:
        return plus(w.pointer(view.buffer), offset)
    start = f"{w.use('mapa_shared_cluster')}({w.address(view.buffer)}, {w.name(view.cta)})"
    return plus(start, times(str(view.dtype.itemsize), offset))


def element_offset(w: Writer, shared: SharedLayout, index: list[str]) -> str:
    """The element offset of indices given as text."""
    steps = axis_steps(shared)
    terms = [times(text, str(step)) for text, step in zip(index[:-1], steps[:-1], strict=True)]
    column = index[-1]
    if shared.panels == 1:
        terms.append(column)
    else:
        terms.append(f"{atom(column)} / {shared.panel_columns} * {shared.panel_bytes // shared.itemsize}")
        terms.append(f"{atom(column)} % {shared.panel_columns}")
    total = plus(*terms)
    mask = shared.swizzle_bits[0] // shared.itemsize
    return f"{w.use('wide_swizzle' if shared.wide else 'swizzle')}<{mask}>({total})" if mask else total


def scalar_place(w: Writer, view: SharedView, shared: SharedLayout) -> str:
    """The pointer to (a peer's: the address of) a rank-0 view's element."""
    return origin(w, view, element_offset(w, shared, [w.name(offset) for offset in view.offsets]))
