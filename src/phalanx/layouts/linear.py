"""Linear layouts over bits: maps from named index spaces to coordinates, both of power-of-two sizes.

A layout is given by the image of each input bit; the image of an index is the XOR of the images of its set
bits. Strides, broadcasts, swizzles and MMA fragments are all of this form, so one algebra serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.layouts.bits import Span, is_power_of_two, log2, xor_combination

Coordinates = tuple[int, ...]


@frozen(repr=False)
class LinearLayout:
    """A linear map from named inputs to output dimensions.

    `bases` lists, in order, each input's name and the output coordinates of each of its bits, lowest bit
    first; `shape` has the power-of-two sizes of the output dimensions. The flat output index is row-major.

    Example: `LinearLayout((("lane", ((0, 1), (0, 2), (1, 0))),), (2, 4))` spreads 8 lanes over a 2 x 4 tile.
    """

    bases: tuple[tuple[str, tuple[Coordinates, ...]], ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        for size in self.shape:
            if not is_power_of_two(size):
                raise ValueError(f"a linear layout needs power-of-two sizes, not {self.shape}")
        names = self.in_names
        if len(set(names)) != len(names):
            raise ValueError(f"input names must differ: {names}")
        for name, images in self.bases:
            for image in images:
                if len(image) != len(self.shape) or any(
                    not 0 <= c < size for c, size in zip(image, self.shape, strict=True)
                ):
                    raise ValueError(
                        f"the image {image} of a bit of {name!r} is outside the shape {self.shape}"
                    )

    # -- making layouts --------------------------------------------------------------------------------------

    @staticmethod
    def make(bases: Mapping[str, Iterable[Sequence[int]]], shape: Sequence[int]) -> LinearLayout:
        """A layout from a dictionary of bases; lists are fine."""
        frozen = tuple(
            (name, tuple(tuple(int(c) for c in image) for image in images)) for name, images in bases.items()
        )
        return LinearLayout(frozen, tuple(shape))

    @staticmethod
    def from_flat(bases: Mapping[str, Iterable[int]], shape: Sequence[int]) -> LinearLayout:
        """A layout whose images are given as row-major flat indices."""
        shape = tuple(shape)
        return LinearLayout(
            tuple(
                (name, tuple(unflatten(image, shape) for image in images)) for name, images in bases.items()
            ),
            shape,
        )

    @staticmethod
    def identity(shape: int | Sequence[int], name: str = "index") -> LinearLayout:
        """One input that runs through the shape in row-major order."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        bits = sum(log2(size) for size in sizes)
        return LinearLayout.from_flat({name: [1 << b for b in range(bits)]}, sizes)

    @staticmethod
    def zeros(name: str, size: int, shape: Sequence[int]) -> LinearLayout:
        """One input of the given size that does not move at all (replication)."""
        return LinearLayout(((name, ((0,) * len(tuple(shape)),) * log2(size)),), tuple(shape))

    # -- what it is ------------------------------------------------------------------------------------------

    @cached_property
    def flat_bases(self) -> dict[str, tuple[int, ...]]:
        """The images as row-major flat output indices."""
        return {
            name: tuple(flatten_index(image, self.shape) for image in images) for name, images in self.bases
        }

    @cached_property
    def in_names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(name for name, _ in self.bases)

    @cached_property
    def out_size(self) -> int:
        """The number of output positions."""
        return math.prod(self.shape)

    @property
    def out_bits(self) -> int:
        """The number of bits of an output position."""
        return log2(self.out_size)

    @property
    def total_in_bits(self) -> int:
        """The number of bits of all inputs together."""
        return sum(len(images) for _, images in self.bases)

    def in_bits(self, name: str) -> int:
        """The number of bits of one input."""
        return len(self._images(name))

    def in_size(self, name: str) -> int:
        """The number of values of one input."""
        return 1 << self.in_bits(name)

    def basis(self, name: str) -> tuple[Coordinates, ...]:
        """The images of the bits of one input, as coordinates."""
        return dict(self.bases)[name]

    def _images(self, name: str) -> tuple[int, ...]:
        try:
            return self.flat_bases[name]
        except KeyError:
            raise ValueError(f"no input named {name!r}; there are {', '.join(self.in_names)}") from None

    @cached_property
    def _span(self) -> Span:
        return Span(image for images in self.flat_bases.values() for image in images)

    @property
    def rank(self) -> int:
        """The dimension of the image: 2**rank different elements are reached."""
        return self._span.rank

    @property
    def is_injective(self) -> bool:
        """Different inputs reach different elements."""
        return self.rank == self.total_in_bits

    @property
    def is_surjective(self) -> bool:
        """Every element is reached."""
        return self.rank == self.out_bits

    def covers(self, shape: Sequence[int] | None = None) -> bool:
        """Whether every element with coordinates below `shape` (default: the whole shape) is reached."""
        if self.is_surjective:
            return True
        if shape is None:
            return False
        if len(tuple(shape)) != len(self.shape):
            raise ValueError(f"shape {tuple(shape)} has another rank than {self.shape}")
        # The elements below an extent are spanned, from 0, by no subspace in general: look at each of them.
        wanted = np.indices(tuple(shape)).reshape(len(self.shape), -1)
        reached = np.zeros(self.out_size, dtype=bool)
        reached[self.flat_image()] = True
        return bool(reached[np.ravel_multi_index(tuple(wanted), self.shape)].all()) if self.shape else True

    def broadcast_bits(self, name: str) -> tuple[int, ...]:
        """The bits of an input that do not move: indices that differ there hold the same element."""
        return tuple(bit for bit, image in enumerate(self._images(name)) if image == 0)

    def dependent_bits(self, name: str) -> tuple[int, ...]:
        """The bits of an input that reach nothing new beyond the inputs and bits before them.

        Setting all dependent bits to zero leaves one index for each element. Broadcast bits are among them.
        """
        first = 0
        for other, images in self.bases:
            if other == name:
                return tuple(n - first for n in self._span.dependent if first <= n < first + len(images))
            first += len(images)
        raise ValueError(f"no input named {name!r}; there are {', '.join(self.in_names)}")

    # -- applying --------------------------------------------------------------------------------------------

    def __call__(self, **index: int) -> Coordinates:
        """The coordinates of an index; inputs that are not named are 0. Example: `layout(lane=3)`."""
        return unflatten(self.flat(**index), self.shape)

    def flat(self, **index: int) -> int:
        """The row-major flat output index of an index."""
        result = 0
        for name, value in index.items():
            images = self._images(name)
            if not 0 <= value < 1 << len(images):
                raise ValueError(f"{name}={value} is outside 0..{(1 << len(images)) - 1}")
            result ^= xor_combination(images, value)
        return result

    def apply(self, **index: Any) -> tuple[np.ndarray, ...]:
        """The coordinates of arrays of indices (broadcast against each other), one array per dimension."""
        return unflatten_array(self.apply_flat(**index), self.shape)

    def apply_flat(self, **index: Any) -> np.ndarray:
        """The row-major flat output indices of arrays of indices."""
        result: np.ndarray = np.zeros((), dtype=np.int64)
        for name, value in index.items():
            result = result ^ self.table(name)[np.asarray(value)]
        return result

    def table(self, name: str) -> np.ndarray:
        """The flat image of every value of one input, the others being 0."""
        table = self._tables.get(name)
        if table is None:
            table = np.zeros(1, dtype=np.int64)
            for image in self._images(name):
                table = np.concatenate([table, table ^ image])
            self._tables[name] = table
        return table

    @cached_property
    def _tables(self) -> dict[str, np.ndarray]:
        return {}

    def flat_image(self) -> np.ndarray:
        """The flat output index of every input index: one axis per input, in order."""
        count = len(self.bases)
        result: np.ndarray = np.zeros((1,) * count, dtype=np.int64)
        for axis, name in enumerate(self.in_names):
            table = self.table(name)
            result = result ^ table.reshape((1,) * axis + (len(table),) + (1,) * (count - axis - 1))
        return result

    # -- algebra ---------------------------------------------------------------------------------------------

    def compose(self, other: LinearLayout) -> LinearLayout:
        """`other` after `self`: the dimensions of `self` feed the inputs of `other`, in order.

        An `other` with a single input takes the flat output index of `self`.
        """
        if len(other.bases) == 1 and other.in_size(other.in_names[0]) == self.out_size:
            images = other.flat_bases[other.in_names[0]]
        else:
            sizes = tuple(other.in_size(name) for name in other.in_names)
            if sizes != self.shape:
                raise ValueError(f"can't compose: the outputs have sizes {self.shape}, the inputs {sizes}")
            images = tuple(image for name in reversed(other.in_names) for image in other.flat_bases[name])
        return LinearLayout.from_flat(
            {name: [xor_combination(images, b) for b in self.flat_bases[name]] for name in self.in_names},
            other.shape,
        )

    def invert(self, names: Sequence[str] | None = None) -> LinearLayout:
        """The inverse: inputs `dim0, dim1, ...` (or `names`), one output dimension per input of `self`.

        For an injective layout it is a left inverse (`self.compose(inverse)` is the identity); for a
        surjective one a right inverse (`inverse.compose(self)` is the identity) that names the first holder
        of each element, dependent bits being 0. Anything else has no inverse: ValueError.
        """
        if not (self.is_injective or self.is_surjective):
            raise ValueError(
                f"a layout of rank {self.rank} with {self.total_in_bits} input bits and {self.out_bits} "
                "output bits is neither injective nor surjective and has no inverse"
            )
        count = self.total_in_bits
        span = Span(image for images in self.flat_bases.values() for image in images)
        for bit in range(self.out_bits):
            span.add(1 << bit)  # complete the basis where the image is not everything
        sizes = tuple(self.in_size(name) for name in self.in_names)
        images = []
        for bit in range(self.out_bits):
            mask = span.express(1 << bit)
            assert mask is not None
            images.append(self._flat_input(mask & ((1 << count) - 1)))
        labels = tuple(names) if names is not None else tuple(f"dim{d}" for d in range(len(self.shape)))
        if len(labels) != len(self.shape):
            raise ValueError(f"{len(self.shape)} names are needed, not {len(labels)}")
        bases: dict[str, list[int]] = {}
        for dim, label in enumerate(labels):
            low = sum(log2(size) for size in self.shape[dim + 1 :])
            bases[label] = images[low : low + log2(self.shape[dim])]
        return LinearLayout.from_flat(bases, sizes)

    def _flat_input(self, mask: int) -> int:
        """Input bits numbered in the order of the bases -> the row-major index over the input sizes."""
        result = 0
        for _, images in self.bases:
            result = result << len(images) | mask & ((1 << len(images)) - 1)
            mask >>= len(images)
        return result

    @staticmethod
    def product(low: LinearLayout, high: LinearLayout) -> LinearLayout:
        """The direct sum: `low` has the low bits of every input and dimension, `high` the bits above them."""
        if len(low.shape) != len(high.shape):
            raise ValueError(f"a product needs equal ranks, not {low.shape} and {high.shape}")
        shape = tuple(a * b for a, b in zip(low.shape, high.shape, strict=True))
        bases: dict[str, list[Coordinates]] = {name: list(images) for name, images in low.bases}
        for name, images in high.bases:
            bases.setdefault(name, []).extend(
                tuple(c * size for c, size in zip(image, low.shape, strict=True)) for image in images
            )
        return LinearLayout.make(bases, shape)

    def slice(self, dim: int, keepdims: bool = False) -> LinearLayout:
        """Forget a dimension, as after a reduction along it; `keepdims` leaves it with size 1."""
        dim = normalise_axis(dim, len(self.shape))
        middle = (0,) if keepdims else ()
        return self._map_coordinates(
            lambda image: image[:dim] + middle + image[dim + 1 :],
            self.shape[:dim] + ((1,) if keepdims else ()) + self.shape[dim + 1 :],
        )

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """The layout of the elements under a new shape, in row-major order."""
        if math.prod(shape) != self.out_size:
            raise ValueError(f"can't reshape {self.shape} to {tuple(shape)}: the sizes differ")
        return LinearLayout.from_flat(self.flat_bases, shape)

    def transpose(self, perm: Sequence[int]) -> LinearLayout:
        """Dimension i of the result is dimension perm[i] of this layout."""
        perm = tuple(perm)
        if sorted(perm) != list(range(len(self.shape))):
            raise ValueError(f"{perm} is no permutation of {len(self.shape)} dimensions")
        return self._map_coordinates(
            lambda image: tuple(image[p] for p in perm), tuple(self.shape[p] for p in perm)
        )

    def expand(self, dim: int) -> LinearLayout:
        """Insert a dimension of size 1 at `dim`."""
        dim = normalise_axis(dim, len(self.shape) + 1)
        return self._map_coordinates(
            lambda image: (*image[:dim], 0, *image[dim:]), (*self.shape[:dim], 1, *self.shape[dim:])
        )

    def flatten(self) -> LinearLayout:
        """One output dimension: the row-major index."""
        return self.reshape((self.out_size,))

    def _map_coordinates(self, change: Any, shape: tuple[int, ...]) -> LinearLayout:
        return LinearLayout(
            tuple((name, tuple(change(image) for image in images)) for name, images in self.bases), shape
        )

    # -- text ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        parts = [f"{name}={list(images)}" for name, images in self.bases]
        return f"LinearLayout({', '.join(parts)}, shape={self.shape})"

    def __str__(self) -> str:
        from phalanx.layouts.draw import draw_linear

        return draw_linear(self)


def flatten_index(index: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major flat index of coordinates."""
    result = 0
    for coordinate, size in zip(index, shape, strict=True):
        result = result * size + coordinate
    return result


def unflatten(flat: int, shape: Sequence[int]) -> Coordinates:
    """The coordinates of a row-major flat index."""
    result = []
    for size in reversed(shape):
        result.append(flat % size)
        flat //= size
    return tuple(reversed(result))


def unflatten_array(flat: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """The coordinates of row-major flat indices; all sizes are powers of two."""
    result = []
    for size in reversed(shape):
        result.append(flat & (size - 1))
        flat = flat >> log2(size)
    return tuple(reversed(result))


def normalise_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; `ValueError` if the shape does not have it."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside a shape of rank {rank}")
    return axis % rank
