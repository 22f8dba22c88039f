"""What an exported function takes, in C and in the manifest: sizes, arrays with their strides, scalars, a stream.

Sizes of an array are numbers or names. Names that occur several times are one size, so that shapes which do not go together
can't be said.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from phalanx.cuda.abi import SCALAR_FORMATS, ArraySlot, ScalarSlot, Signature, TensorMapSlot
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.types import ArrayType, DType
from phalanx.language.kernel import Kernel
from phalanx.runtime.device.tensormap import DATA_TYPES, EXPANDED_TYPES, L2_PROMOTIONS, PACKED_SHARES, SWIZZLES, WIDE_SWIZZLE
from phalanx.runtime.exporting.sizes import Size
from phalanx.runtime.launch.specialise import Argument, Spec

C_WORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm bool true false
    NULL stream counters kernel device status parameters x y z""".split()  # noqa: SIM905
)
"""What parameters can't be called: words of C, and the names of the launcher itself."""


@frozen
class ArrayParameter:
    """An array: a pointer and, in elements, the strides of its axes.

    `shape` has a number or a name for every axis. `share` elements of `dtype` lie in `nbytes` bytes. The flags are what the
    kernel was specialised for; `contiguous` asks for the strides of a contiguous array and takes no others.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    share: int
    nbytes: int
    unit_inner: bool
    aligned: bool
    whole: bool
    contiguous: bool
    in_bytes: bool
    """The kernel sees bytes where elements share them."""


@frozen
class ScalarParameter:
    """A number."""

    name: str
    dtype: str

    @property
    def ctype(self) -> str:
        """Its type in C."""
        return SCALAR_FORMATS[self.dtype][1]


@frozen
class MapParameter:
    """A TMA descriptor, with the enumerators of cuda.h in the place of names."""

    array: int
    box: tuple[int, ...]
    axes: tuple[int, ...]
    merged: int
    data_type: int
    share: int
    nbytes: int
    swizzle: int
    l2_promotion: int
    fill_nan: bool
    expands: bool


@frozen
class Parameters:
    """All of them, in the kernel's order; `sizes` are the names of sizes in the order of their first use.

    `apart` are pairs of arrays that must not share memory, since loops read one of them ahead and write the other.
    """

    items: tuple[ArrayParameter | ScalarParameter, ...]
    maps: tuple[MapParameter, ...]
    sizes: tuple[str, ...]
    counters: int
    apart: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What the manifest says of them."""
        kinds = {ArrayParameter: "array", ScalarParameter: "scalar"}
        return {
            "sizes": list(self.sizes),
            "parameters": [{"kind": kinds[type(item)], **asdict(item)} for item in self.items],
            "tensor_maps": [asdict(item) for item in self.maps],
            "counters": self.counters,
            "apart": [list(pair) for pair in self.apart],
        }


def shape_of(argument: Argument) -> tuple[int | str, ...]:
    """The sizes of an array's axes; names where only the caller knows them."""
    if isinstance(argument.value, Spec):
        return argument.value.sizes
    assert argument.info is not None
    return argument.info.shape


def named_sizes(arguments: list[Argument]) -> dict[str, Size]:
    """The names among all sizes, with what stands for them in the user's functions."""
    arrays = [argument for argument in arguments if isinstance(argument.type, ArrayType)]
    names = [size for argument in arrays for size in shape_of(argument) if isinstance(size, str)]
    return {name: Size.named(name) for name in names}


def parameters_of(
    kernel: Kernel, arguments: list[Argument], signature: Signature, apart: tuple[tuple[int, int], ...] = ()
) -> Parameters:
    """The parameters of an exported kernel. `arguments` are all of a call's; those that are None have no parameter."""
    sizes = tuple(named_sizes(arguments))
    items: list[ArrayParameter | ScalarParameter] = []
    named = [(name, a) for name, a in zip(kernel.parameters, arguments, strict=True) if a.type is not None]
    for (name, argument), slot in zip(named, signature.given, strict=True):
        if name in C_WORDS or name in sizes or name.startswith("px_"):
            raise Error(
                f"the parameter '{name}' of kernel '{kernel.name}' can't be the name of a parameter in C"
                + (", where it is a size" if name in sizes else ""),
                location=kernel.location,
                remedy="rename it, or the size",
            )
        if isinstance(slot, ScalarSlot):
            items.append(ScalarParameter(name, slot.dtype))
        else:
            kind = argument.type
            assert isinstance(kind, ArrayType)
            items.append(array_parameter(name, kind, slot, shape_of(argument)))
    maps = tuple(map_parameter(item, items) for item in signature.tensor_maps)
    return Parameters(tuple(items), maps, sizes, signature.counters, apart)


def array_parameter(name: str, kind: ArrayType, slot: ArraySlot, shape: tuple[int | str, ...]) -> ArrayParameter:
    """An array as the kernel takes it, of a type and a place in its signature."""
    share, nbytes = _bytes_of(kind.dtype, kind.dense)
    return ArrayParameter(
        name, kind.dtype.name, shape, share, nbytes, kind.unit_inner, kind.aligned, kind.whole,
        contiguous=bool(kind.chunk) or kind.dense, in_bytes=slot.dtype != kind.dtype.name,
    )


def _bytes_of(dtype: DType, dense: bool) -> tuple[int, int]:
    """How many elements of an array lie in how many bytes."""
    if dense:
        return 4, dtype.dense_bytes(4)
    return (dtype.per_byte, 1) if dtype.per_byte > 1 else (1, dtype.itemsize)


def map_parameter(slot: TensorMapSlot, items: list[Any]) -> MapParameter:
    """A TMA descriptor of one of the parameters."""
    array = items[slot.array]
    assert isinstance(array, ArrayParameter)
    if slot.walk:
        raise Error(
            f"a kernel that copies patches of a convolution of '{array.name}' can't be exported",
            remedy="an exported program encodes no such descriptors: launch it from Python, or copy boxes of the array",
        )
    rank = len(slot.box)
    if slot.expands:
        kind, (share, nbytes) = EXPANDED_TYPES[array.dtype], PACKED_SHARES[array.dtype]
    else:
        kind = DATA_TYPES["u8" if array.in_bytes else array.dtype]
        share, nbytes = 1, 1 if array.in_bytes else array.nbytes
    return MapParameter(
        slot.array, slot.box, slot.axes or tuple(range(rank)), slot.merged, kind, share, nbytes,
        WIDE_SWIZZLE if slot.wide else SWIZZLES[slot.swizzle], L2_PROMOTIONS[slot.l2_promotion], slot.fill_nan, slot.expands,
    )
