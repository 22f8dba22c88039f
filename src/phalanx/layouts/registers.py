"""Register tiles: which thread holds which element in which register.

A register layout is a linear layout from (register, lane, warp) to the tile's shape padded to powers of two,
and the tile's real shape. Registers that are outside the real shape for every thread are dead and get no
storage; the live ones, in order, are the *slots*. Code generators loop over slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from phalanx.frozen import frozen
from phalanx.layouts.bits import (
    Span,
    is_power_of_two,
    next_power_of_two,
    power_of_two_divisor,
    previous_power_of_two,
    set_bits,
)
from phalanx.layouts.expressions import linear_expression
from phalanx.layouts.linear import Coordinates, LinearLayout, normalise_axis, unflatten_array

LANES = 32
INPUTS = ("register", "lane", "warp")


def padded(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with every extent rounded up to a power of two."""
    return tuple(next_power_of_two(extent) for extent in shape)


@frozen
class Replication:
    """The thread bits that reach no element of their own; the owner of an element has them all at 0."""

    lane_mask: int
    warp_mask: int

    def __bool__(self) -> bool:
        return bool(self.lane_mask or self.warp_mask)

    @property
    def factor(self) -> int:
        """How many threads hold each element (where the number of warps is a power of two)."""
        return 1 << (self.lane_mask.bit_count() + self.warp_mask.bit_count())

    def is_owner(self, lane: int, warp: int) -> bool:
        """Whether a thread is the one of its replicas that stores."""
        return not (lane & self.lane_mask or warp & self.warp_mask)


@frozen
class AxisBits:
    """The register, lane and warp bits that move along one axis: what a reduction has to combine."""

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]


@frozen
class Projection:
    """A layout made from another by forgetting coordinates, and where each slot of that other one went.

    `register_map[s]` is the slot of `layout` that holds, in the same thread, the element that slot s of the
    other layout projects to.
    """

    layout: RegisterLayout
    register_map: tuple[int, ...]


@frozen(repr=False)
class RegisterLayout:
    """A linear layout with the inputs (register, lane, warp), of a tile of any shape, over `warps` warps.

    `linear.shape` is `shape` padded to powers of two; the warp input has `warps` rounded up to a power of two
    values. Every element must be held by a thread that exists.

    Example: `blocked((64, 64), warps=4, vector=4)`; `print` of it draws who holds what.
    """

    linear: LinearLayout
    shape: tuple[int, ...]
    warps: int

    def __post_init__(self) -> None:
        linear = self.linear
        if linear.in_names != INPUTS:
            raise ValueError(f"a register layout has the inputs {INPUTS}, not {linear.in_names}")
        if linear.in_size("lane") != LANES:
            raise ValueError(f"a warp has {LANES} lanes, not {linear.in_size('lane')}")
        if self.warps < 1 or linear.in_size("warp") != next_power_of_two(self.warps):
            raise ValueError(
                f"{linear.in_size('warp')} values of the warp index do not fit {self.warps} warps"
            )
        if any(extent < 1 for extent in self.shape) or linear.shape != padded(self.shape):
            raise ValueError(
                f"a tile of shape {self.shape} needs a layout of {padded(self.shape)}, not {linear.shape}"
            )
        if not self._is_complete():
            raise ValueError(
                f"some elements of the {self.shape} tile are held by none of the {self.warps} warps"
            )

    def _is_complete(self) -> bool:
        if is_power_of_two(self.warps):
            return self.linear.covers(self.shape)
        held = np.zeros(self.linear.out_size, dtype=bool)
        held[self.linear.flat_image()[:, :, : self.warps]] = True
        return bool(held.reshape(self.linear.shape)[tuple(slice(extent) for extent in self.shape)].all())

    # -- registers and slots ---------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The number of the tile's dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of the tile's elements."""
        return math.prod(self.shape)

    @cached_property
    def is_padded(self) -> bool:
        """Whether some extent is not a power of two, so that elements of the padded shape are dead."""
        return self.shape != self.linear.shape

    def live_registers(self) -> tuple[int, ...]:
        """The register indices that hold an element in some thread; position = slot."""
        return self._live

    @property
    def num_registers(self) -> int:
        """The number of slots."""
        return len(self._live)

    @cached_property
    def _live(self) -> tuple[int, ...]:
        everything = range(self.linear.in_size("register"))
        if not self.is_padded:
            return tuple(everything)
        inside = np.logical_and.reduce(self._inside(np.arange(len(everything))), axis=0)
        return tuple(np.flatnonzero(inside.any(axis=(1, 2))).tolist())

    @cached_property
    def slots(self) -> dict[int, int]:
        """Live register index -> slot."""
        return {register: slot for slot, register in enumerate(self._live)}

    def _inside(self, registers: np.ndarray) -> np.ndarray:
        """[dimension, register, lane, warp]: whether that coordinate is within the real extent."""
        coordinates = unflatten_array(self._flat(registers), self.linear.shape)
        if not coordinates:
            return np.ones((1, len(registers), LANES, self.warps), dtype=bool)
        return np.stack([c < extent for c, extent in zip(coordinates, self.shape, strict=True)])

    def _flat(self, registers: np.ndarray) -> np.ndarray:
        return self.linear.apply_flat(
            register=registers[:, None, None],
            lane=np.arange(LANES)[None, :, None],
            warp=np.arange(self.warps)[None, None, :],
        )

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, ...]:
        """One [slot, lane, warp] array of coordinates per dimension (beyond the extent where dead)."""
        return unflatten_array(self._flat(np.array(self._live, dtype=np.int64)), self.linear.shape)

    @cached_property
    def alive(self) -> np.ndarray:
        """[slot, lane, warp]: whether that thread's slot holds an element of the tile."""
        if not self.is_padded:
            return np.ones((self.num_registers, LANES, self.warps), dtype=bool)
        return np.logical_and.reduce(self._inside(np.array(self._live, dtype=np.int64)), axis=0)

    @cached_property
    def elements(self) -> np.ndarray:
        """[slot, lane, warp]: the row-major index in the real shape of the element held, -1 where dead."""
        flat = np.zeros(self.alive.shape, dtype=np.int64)
        for coordinate, extent in zip(self.coordinates, self.shape, strict=True):
            flat = flat * extent + coordinate
        return np.where(self.alive, flat, -1)

    def mask_dims(self, register: int) -> tuple[int, ...]:
        """The dimensions in which some threads of this register are outside the real shape."""
        return self._mask_dims[register] if self.is_padded else ()

    @cached_property
    def _mask_dims(self) -> list[tuple[int, ...]]:
        """For each register index, the dimensions in which some thread is outside."""
        count = self.linear.in_size("register")
        outside = ~self._inside(np.arange(count)).reshape(self.rank, count, -1)
        some = np.logical_or.reduce(outside, axis=2).T
        return [tuple(np.flatnonzero(row).tolist()) for row in some]

    def needs_mask(self, register: int) -> bool:
        """Whether some threads hold nothing in this register."""
        return bool(self.mask_dims(register))

    def coords(self, register: int, lane: int, warp: int) -> Coordinates:
        """The coordinates of a thread's register (of the register index, not the slot)."""
        return self.linear(register=register, lane=lane, warp=warp)

    # -- for code generators ---------------------------------------------------------------------------------

    def register_offset(self, register: int) -> Coordinates:
        """What the register alone contributes to the coordinates."""
        return self.linear(register=register)

    def is_additive(self, dim: int) -> bool:
        """Whether coordinate = thread part + register part along `dim` (they share no bits); else it is
        XOR."""
        masks = {name: 0 for name in INPUTS}
        for name, images in self.linear.bases:
            for image in images:
                masks[name] |= image[dim]
        return not masks["register"] & (masks["lane"] | masks["warp"])

    def thread_expression(self, dim: int, lane: str = "lane", warp: str = "warp", mask: int = -1) -> str:
        """The thread's part of the coordinate along `dim`, as text for C++ or Python; of its bits those of `mask`.

        Example: for the wgmma accumulator's rows, `(lane >> 2) + warp * 16`.
        """
        return linear_expression(
            [
                (lane, [image[dim] & mask for image in self.linear.basis("lane")]),
                (warp, [image[dim] & mask for image in self.linear.basis("warp")]),
            ]
        )

    def vector_width(self, dim: int, max_elems: int) -> int:
        """How many consecutive registers (from register bit 0 up) are consecutive elements along `dim`.

        A power of two, at most `max_elems`, such that every vector starts at a multiple of it and none
        straddles the end of the tile: all its elements are alive, or none.
        """
        dim = normalise_axis(dim, self.rank)
        limit = previous_power_of_two(max(1, max_elems))
        limit = min(limit, power_of_two_divisor(self.shape[dim])) if self.is_padded else limit
        registers = self.linear.basis("register")
        bits = 0
        while 2 << bits <= limit and bits < len(registers):
            if registers[bits] != unit(self.rank, dim, 1 << bits):
                break
            bits += 1
        # Everything else has to move in multiples of the vector.
        others = [*registers[bits:], *self.linear.basis("lane"), *self.linear.basis("warp")]
        while bits and any(image[dim] & ((1 << bits) - 1) for image in others):
            bits -= 1
            others.append(registers[bits])
        return 1 << bits

    @cached_property
    def replication(self) -> Replication:
        """The lane and warp bits that only replicate; owners have them all at 0."""
        return Replication(
            sum(1 << bit for bit in self.linear.dependent_bits("lane")),
            sum(1 << bit for bit in self.linear.dependent_bits("warp")),
        )

    def bits_along(self, axis: int) -> AxisBits:
        """The bits of each input that move along `axis` alone; ValueError if one moves along others too."""
        axis = normalise_axis(axis, self.rank)
        found: dict[str, tuple[int, ...]] = {}
        for name, images in self.linear.bases:
            moving = tuple(bit for bit, image in enumerate(images) if image[axis])
            for bit in moving:
                if any(c for d, c in enumerate(images[bit]) if d != axis):
                    raise ValueError(f"bit {bit} of {name} moves along axis {axis} and another one at once")
            found[name] = moving
        return AxisBits(found["register"], found["lane"], found["warp"])

    # -- derived layouts -------------------------------------------------------------------------------------

    def slice(self, axis: int, keepdims: bool = False) -> Projection:
        """The layout after a reduction along `axis`, and which slot each slot is reduced into."""
        axis = normalise_axis(axis, self.rank)
        middle = (1,) if keepdims else ()
        shape = self.shape[:axis] + middle + self.shape[axis + 1 :]
        return self._project(self.linear.slice(axis, keepdims), shape)

    def operand(self, shape: Sequence[int]) -> Projection:
        """The layout an operand of a smaller shape must have to be broadcast to this tile, and its slots.

        Extents of 1 are broadcast and missing leading dimensions added, as in NumPy.
        """
        shape = tuple(shape)
        extra = self.rank - len(shape)
        if extra < 0 or any(s not in (1, t) for s, t in zip(shape, self.shape[extra:], strict=True)):
            raise ValueError(f"shape {shape} does not broadcast to {self.shape}")
        linear = self.linear
        for _ in range(extra):
            linear = linear.slice(0)
        for dim, extent in enumerate(shape):
            if extent == 1:
                linear = linear.slice(dim, keepdims=True)
        return self._project(linear, shape)

    def _project(self, linear: LinearLayout, shape: tuple[int, ...]) -> Projection:
        """Drop the register bits that reach nothing new, and map this layout's slots to the result's."""
        images = linear.flat_bases["register"]
        span = Span(images)
        kept = span.independent
        bases = {name: linear.flat_bases[name] for name in INPUTS}
        bases["register"] = tuple(images[bit] for bit in kept)
        layout = RegisterLayout(LinearLayout.from_flat(bases, linear.shape), shape, self.warps)
        # Each old register bit is some combination of the kept ones; renumber those.
        renumber = []
        for image in images:
            mask = span.express(image)
            assert mask is not None
            renumber.append(sum(1 << kept.index(bit) for bit in set_bits(mask)))
        table = np.zeros(1, dtype=np.int64)
        for image in renumber:
            table = np.concatenate([table, table ^ image])
        slots = layout.slots
        return Projection(layout, tuple(slots[int(r)] for r in table[list(self._live)]))

    def reshape(self, shape: Sequence[int]) -> RegisterLayout:
        """The layout of the elements, in their slots, under a new shape; ValueError if that is not a linear layout.

        It is one if, wherever dimensions are merged or split, all but the outermost are powers of two.
        """
        shape = tuple(shape)
        if math.prod(shape) != self.size:
            raise ValueError(f"can't reshape {self.shape} to {shape}: the sizes differ")
        for old, new in _reshape_groups(self.shape, shape):
            if old != new and not all(is_power_of_two(extent) for extent in old[1:] + new[1:]):
                raise ValueError(
                    f"reshaping {self.shape} to {shape} regroups extents that are not powers of two "
                    f"({old} to {new}): the elements have to move through shared memory"
                )
        return RegisterLayout(self.linear.reshape(padded(shape)), shape, self.warps)

    def transpose(self, perm: Sequence[int]) -> RegisterLayout:
        """Dimension i of the result is dimension perm[i]; slots stay."""
        perm = tuple(perm)
        return RegisterLayout(self.linear.transpose(perm), tuple(self.shape[p] for p in perm), self.warps)

    def subdivide(self, dim: int, parts: int) -> RegisterLayout:
        """The layout in which each element became `parts` neighbours along `dim`, in neighbouring slots of its thread.

        `parts` is a power of two. Slot `s` here is slots `parts * s` to `parts * s + parts - 1` there.
        """
        dim, count = normalise_axis(dim, self.rank), parts.bit_length() - 1
        bases = {
            name: [(*image[:dim], image[dim] * parts, *image[dim + 1 :]) for image in self.linear.basis(name)]
            for name in INPUTS
        }
        bases["register"] = [*(unit(self.rank, dim, 1 << bit) for bit in range(count)), *bases["register"]]
        shape = (*self.shape[:dim], self.shape[dim] * parts, *self.shape[dim + 1 :])
        return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, self.warps)

    def join(self, dim: int, parts: int) -> RegisterLayout:
        """The inverse of `subdivide`; ValueError if neighbours are not in neighbouring slots of a thread."""
        dim, count = normalise_axis(dim, self.rank), parts.bit_length() - 1
        if self.vector_width(dim, parts) != parts:
            raise ValueError(f"neighbours along dimension {dim} are not in neighbouring registers, {parts} at a time")
        bases = {
            name: [(*image[:dim], image[dim] // parts, *image[dim + 1 :]) for image in self.linear.basis(name)]
            for name in INPUTS
        }
        bases["register"] = bases["register"][count:]
        shape = (*self.shape[:dim], self.shape[dim] // parts, *self.shape[dim + 1 :])
        return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, self.warps)

    def expand(self, dim: int) -> RegisterLayout:
        """Insert a dimension of extent 1; slots stay."""
        dim = normalise_axis(dim, self.rank + 1)
        return RegisterLayout(self.linear.expand(dim), (*self.shape[:dim], 1, *self.shape[dim:]), self.warps)

    def broadcast_to(self, shape: Sequence[int]) -> RegisterLayout:
        """A layout of the broadcast tile to which this one is an operand as it stands: no thread needs data
        of another. Threads that replicated share the new elements; the rest goes to registers.

        `result.operand(self.shape).layout == self` when this layout has no redundant registers.
        """
        shape = tuple(shape)
        extra = len(shape) - self.rank
        if extra < 0 or any(s not in (1, t) for s, t in zip(self.shape, shape[extra:], strict=True)):
            raise ValueError(f"shape {self.shape} does not broadcast to {shape}")
        target = padded(shape)
        bases = {name: [(0,) * extra + image for image in self.linear.basis(name)] for name in INPUTS}
        new = [
            unit(len(shape), dim, 1 << bit)
            for dim in reversed(range(len(shape)))
            if dim < extra or self.shape[dim - extra] == 1
            for bit in range((target[dim] - 1).bit_length())
        ]
        usable_warps = previous_power_of_two(self.warps)
        for name in ("lane", "warp"):
            for bit, image in enumerate(bases[name]):
                if new and not any(image) and (name == "lane" or 1 << bit < usable_warps):
                    bases[name][bit] = new.pop(0)
        bases["register"] += new
        return RegisterLayout(LinearLayout.make(bases, target), shape, self.warps)

    # -- text ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        parts = [f"{name}={list(images)}" for name, images in self.linear.bases]
        return f"RegisterLayout({', '.join(parts)}, shape={self.shape}, warps={self.warps})"

    def __str__(self) -> str:
        from phalanx.layouts.draw import draw_registers

        return draw_registers(self)


def operand_layout(result: RegisterLayout, operand_shape: Sequence[int]) -> Projection:
    """`result.operand(operand_shape)`: what an operand must look like to be combined with a `result` tile."""
    return result.operand(operand_shape)


def unit(rank: int, dim: int, value: int) -> Coordinates:
    """Coordinates that are 0 but for `value` along `dim`."""
    return (0,) * dim + (value,) + (0,) * (rank - dim - 1)


def distribute(layout: RegisterLayout, tile: np.ndarray) -> np.ndarray:
    """The [slot, lane, warp] registers of a tile; dead ones are zero."""
    if tuple(tile.shape) != layout.shape:
        raise ValueError(f"the tile has shape {tile.shape}, the layout {layout.shape}")
    values = np.asarray(tile).reshape(-1)[np.maximum(layout.elements, 0)]
    values[~layout.alive] = 0
    return values


def collect(layout: RegisterLayout, registers: np.ndarray) -> np.ndarray:
    """The tile that [slot, lane, warp] registers hold; replicas must agree (ValueError)."""
    tile = np.zeros(layout.size, dtype=registers.dtype)
    elements, alive = layout.elements, layout.alive
    tile[elements[alive]] = registers[alive]
    if not np.array_equal(tile[elements[alive]], registers[alive], equal_nan=registers.dtype.kind == "f"):
        raise ValueError("threads that replicate an element hold different values")
    return tile.reshape(layout.shape)


def _reshape_groups(
    old: tuple[int, ...], new: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut two shapes of equal size, from the right, into the smallest groups of equal products (1s
    dropped)."""
    left = [extent for extent in old if extent != 1]
    right = [extent for extent in new if extent != 1]
    groups = []
    while left or right:
        a, b = [left.pop()], [right.pop()]
        while math.prod(a) != math.prod(b):
            if math.prod(a) < math.prod(b):
                a.insert(0, left.pop())
            else:
                b.insert(0, right.pop())
        groups.append((tuple(a), tuple(b)))
    return groups
