"""The loads of a loop that run ahead, and how each of them comes into shared memory.

A load is staged if a producer can know its place (`slices.py`) and nothing writes its array between its new place and its
old one. It goes through the copy engine where that takes the region, else the producer's threads load and store it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from math import prod

import numpy as np

from phalanx.analysis.divisibility import Divisibility
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK, MAX_BOX, Arch, Feature
from phalanx.ir.core import Block, Faster, Note, Op
from phalanx.ir.ops.control import For, While
from phalanx.ir.ops.memory import Load
from phalanx.ir.types import DType, TileType, i32
from phalanx.ir.values import Param, Value, constant_of
from phalanx.ir.views import GlobalView, in_global
from phalanx.location import Location
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.slices import NotSliced, Slice

STAGE_GRAIN = 128
"""Bytes on whose multiples a box of the copy engine begins in shared memory."""
FOUR = 4
"""Rows by index that the copy engine takes at a time, where it takes several."""
MAX_RANK = 5
"""Axes of an array that the copy engine takes."""


Objection = tuple[str, str]
"""Why a load does not run ahead, or not by the copy engine, and the remedy; "" where nothing would be faster."""


class Transport(Enum):
    """How a load comes into its ring."""

    COPY = "by the copy engine"
    THREADS = "by the producer's threads"


@dataclass(eq=False)
class Staged:
    """A load that runs ahead: its place, the products that read it from the ring, and whether registers do, too."""

    load: Load
    view: GlobalView
    loop: For
    home: Block
    path: Transport
    objection: Objection | None
    """Why the copy engine does not take it, and what it asks for."""
    products: list[Op] = field(default_factory=list)
    in_registers: bool = False
    waits_at: int = 0
    """Before which instruction of its block the ring is waited for."""
    held: tuple[int, ...] | None = None
    """The shape of what a CTA holds of it, where that is half."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tile, as a stage has it."""
        return self.view.shape if self.held is None else self.held

    @property
    def nbytes(self) -> int:
        """The bytes of a stage."""
        return self.view.dtype.nbytes(prod(self.shape))


@frozen
class Refusals:
    """What a target found out about a kernel that was written before, by place.

    `copies` are loads that the copy engine refuses, `stores` those of results that can't leave in parts, `products` those
    whose operands can't be read where they overlap with others.
    """

    copies: frozenset[Location] = frozenset()
    stores: frozenset[Location] = frozenset()
    products: frozenset[Location] = frozenset()
    overlap: bool = True
    """Whether any product may overlap with others: the assembler finds no registers for that, or lets them wait."""
    larger: bool = True
    """Whether results may leave in larger parts than they must: what is left of shared memory was needed otherwise."""
    operands: bool = True
    """Whether what the steps compute may go through shared memory to the tensor cores: there was no room for it."""
    multiplier: bool = True
    """Whether a warp of its own may issue products: the tensor cores can't read the operands as they lie."""

    def with_problem(self, place: Location, choices: Choices) -> Refusals | None:
        """One more refusal, of whatever was chosen at a place; None where nothing was that is not refused already."""
        one = frozenset({place})
        if one <= choices.stores - self.stores:
            return dataclasses.replace(self, stores=self.stores | one)
        if one <= choices.products - self.products:
            return dataclasses.replace(self, products=self.products | one)
        if one <= choices.copies - self.copies:
            return dataclasses.replace(self, copies=self.copies | one)
        return None


@frozen
class Choices:
    """Where a kernel was written in a way that a target may refuse, by what it is: as `Refusals`."""

    copies: frozenset[Location] = frozenset()
    stores: frozenset[Location] = frozenset()
    products: frozenset[Location] = frozenset()


class Stager:
    """Chooses the loads of one kernel; `notes` has a word on each."""

    def __init__(self, places: Places, divisibility: Divisibility, refusals: Refusals, arch: Arch) -> None:
        self.places = places
        self.divisibility = divisibility
        self.refusals = refusals
        self.arch = arch
        self.notes: list[Note] = []

    def loads_of(self, loop: For, slice_: Slice) -> list[Staged]:
        """The loads of a loop that run ahead; `slice_` grows by what the producer runs for them."""
        found: list[Staged] = []
        for op in loop.body.walk():
            load = op.tile_load
            if load is None or not in_global(load.view):
                continue
            reason = self._repeated(load, loop) or self.placed(load, loop, slice_)
            if reason is not None:
                why, remedy = reason
                faster = Faster(remedy) if remedy else None
                self.notes.append(Note(f"px.load of {_name(load)} is not staged: {why}", load.loc, faster=faster))
                continue
            objection = self.copy_objection(load)
            path = Transport.COPY if objection is None else Transport.THREADS
            found.append(Staged(load, load.view, loop, self.places.home[op], path, objection))
        return found

    def _repeated(self, load: Load, loop: For) -> Objection | None:
        """Why a load in an inner loop stays, if it does: who fetches may not wait for a stage that it gives back itself."""
        if loop.pipelined is None or loop.pipelined.producer or not isinstance(load.result.type, TileType):
            return None
        around = self.places.around[load]
        inner = next((outer for outer in around[around.index(loop) + 1 :] if isinstance(outer, For | While)), None)
        if inner is None:
            return None
        why = f"the loop at {inner.loc.short} repeats it in a step, which without a producer has one stage of each ring"
        return why, "leave producer=False out, or write the inner loop over px.static_range"

    def placed(self, load: Load, loop: For, slice_: Slice) -> Objection | None:
        """Why a load stays where it is, and what would be faster, if it does; else its slice is added."""
        view = load.view
        assert in_global(view)
        if not isinstance(load.result.type, TileType):
            return "a single number is read where it is used", ""
        share = view.dtype.per_byte
        if share > 1 and (view.extents[-1] % share or not self.divisibility.proves(view.offsets[-1], 1, share)):
            remedy = f"load a multiple of {share} elements, from a multiple of {share} on"
            return f"elements of {view.dtype} share bytes", remedy
        if view.within:
            return "it is cut by .within", "leave .within out, and choose by px.where what counts"
        write = self.places.overtaken(load, view.array)
        if write is not None:
            why = f"'{view.array.name}' is written at {write.loc.short}: what is read ahead might be old"
            return why, "write to another array"
        trial = slice_.copy()
        try:
            trial.add_place(load, [*view.offsets, load.fill])
        except NotSliced as problem:
            return str(problem), "compute its place from arguments, block indices and indices of loops"
        if loop in trial.carried and loop not in slice_.carried:
            why = "its place follows from what an iteration of the loop leaves to the next, other than the index"
            return why, "compute its place from the index of the loop"
        slice_.ops, slice_.carried = trial.ops, trial.carried
        return None

    def copy_objection(self, load: Load) -> Objection | None:
        """Why the copy engine does not take the region of a load, and what it asks for, if it does not."""
        view = load.view
        assert in_global(view)
        kind = view.array_type
        step = view.dtype.elements(COPY_CHUNK)
        if view.index_axis is not None and (objection := self.rows_objection(view)) is not None:
            return objection
        if not _is_all_zeros(load.fill, view.dtype):
            return "what is outside the array is not 0", "leave fill= out, and choose by px.where what lies outside"
        if list(view.kept) != sorted(view.kept) or not 1 <= kind.rank <= MAX_RANK:
            remedy = f"load at most {MAX_RANK} axes in their order, and permute the tile"
            return "its axes are not in the array's order", remedy
        if not kind.unit_inner or not kind.aligned:
            why = f"'{view.array.name}' is not aligned to {COPY_CHUNK} bytes, or its last axis has gaps"
            remedy = "pass an array whose last axis has stride 1, with start and other strides of multiples of "
            return why, f"{remedy}{COPY_CHUNK} bytes"
        if view.extents[-1] % step:
            why = f"rows of {view.dtype.nbytes(view.extents[-1])} bytes, no multiple of {COPY_CHUNK}"
            return why, f"load a multiple of {step} elements of a row"
        if not self.divisibility.proves(view.offsets[-1], 1, step):
            why = f"its start along the last axis is not known to be a multiple of {COPY_CHUNK} bytes"
            return why, f"write the start as a multiple of {step}, or say so: px.assume(i % {step} == 0)"
        if len(view.shape) > 1 and view.nbytes % STAGE_GRAIN:
            return f"{view.nbytes} bytes, no multiple of {STAGE_GRAIN}", f"load tiles of a multiple of {STAGE_GRAIN} bytes"
        if load.loc in self.refusals.copies:
            return "the copy engine refuses it", "px.tma.load of the same region into shared memory says why"
        return None

    def rows_objection(self, view: GlobalView) -> Objection | None:
        """Why the copy engine does not take rows by index four at a time, if it does not, with a remedy; others are left to
        threads."""
        if not self.arch.has((Feature.GATHER4,)):
            return "rows by index", "copy them by px.tma.gather4, into a ring of your own"
        rows, columns = view.extents[0], view.dtype.nbytes(view.extents[-1])
        if view.array_type.rank != 2 or view.index_axis != 0 or view.offsets[0].type.dtype != i32:  # type: ignore[union-attr]
            return "rows by index, not those of a matrix by 32-bit numbers", "name rows of a matrix, by px.i32 numbers"
        if rows % FOUR or columns % (STAGE_GRAIN // FOUR):
            why = f"rows by index, not a multiple of four of a multiple of {STAGE_GRAIN // FOUR} bytes"
            return why, f"load a multiple of four rows of a multiple of {STAGE_GRAIN // FOUR} bytes"
        if view.extents[-1] > MAX_BOX and columns % STAGE_GRAIN:
            why = f"rows by index, of more than {MAX_BOX} elements but no multiple of {STAGE_GRAIN} bytes"
            return why, f"load at most {MAX_BOX} elements of a row, or a multiple of {STAGE_GRAIN} bytes"
        return None


def _is_all_zeros(fill: Value, dtype: DType) -> bool:
    """Whether the bits of what is outside an array are 0, which is what the copy engine writes there."""
    constant = constant_of(fill)
    return constant is not None and not any(np.asarray(constant).astype(dtype.numpy).tobytes())


def _name(load: Load) -> str:
    memory = load.view.memory
    assert isinstance(memory, Param)
    return memory.name
