"""What arrays and TMA descriptors of an exported function have to be like, and what its parameters may be called."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.cuda.abi import ArraySlot, TensorMapSlot
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.types import ArrayType, DType
from phalanx.runtime.device.tensormap import DATA_TYPES, EXPANDED_TYPES, L2_PROMOTIONS, PACKED_SHARES, SWIZZLES, WIDE_SWIZZLE
from phalanx.runtime.launch.specialise import Spec
from phalanx.runtime.symbolic.tracing import ArrayGiven, Given

C_WORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm bool true false
    NULL stream status given choice none workspace workspace_bytes""".split()  # noqa: SIM905
)
"""What parameters can't be called: words of C, and the names of the function itself."""


@frozen
class ArrayKind:
    """What an array has to be like: `share` elements of `dtype` lie in `nbytes` bytes, and the flags are promises.

    A kernel was compiled for arrays that keep them: neighbours along the last axis, rows that begin and end at multiples of
    16 bytes, the strides of a contiguous array. `in_bytes`: the kernel sees bytes where elements share them.
    """

    dtype: str
    rank: int
    share: int
    nbytes: int
    unit_inner: bool = False
    aligned: bool = False
    whole: bool = False
    contiguous: bool = False
    in_bytes: bool = False

    @property
    def c(self) -> str:
        """The fields of a px_kind in C."""
        flags = self.unit_inner, self.aligned, self.whole, self.contiguous
        return ", ".join(map(str, (self.rank, self.share, self.nbytes, *map(int, flags))))


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


def kind_of_spec(spec: Spec) -> ArrayKind:
    """What an array has to be like that is passed to a function: its launches ask for more where they need it."""
    return ArrayKind(spec.dtype.name, len(spec.shape), *_bytes_of(spec.dtype, spec.dense))


def kind_of_type(kind: ArrayType, slot: ArraySlot) -> ArrayKind:
    """What an array has to be like for a kernel that was compiled for a type."""
    return ArrayKind(
        kind.dtype.name, kind.rank, *_bytes_of(kind.dtype, kind.dense), kind.unit_inner, kind.aligned, kind.whole,
        contiguous=bool(kind.chunk) or kind.dense, in_bytes=slot.dtype != kind.dtype.name,
    )


def _bytes_of(dtype: DType, dense: bool) -> tuple[int, int]:
    """How many elements of an array lie in how many bytes."""
    if dense:
        return 4, dtype.dense_bytes(4)
    return (dtype.per_byte, 1) if dtype.per_byte > 1 else (1, dtype.itemsize)


def map_parameter(slot: TensorMapSlot, array: ArrayKind, name: str) -> MapParameter:
    """A TMA descriptor of an array, which is called `name` in errors."""
    if slot.walk:
        raise Error(
            f"a kernel that copies patches of a convolution of '{name}' can't be exported",
            remedy="an exported program encodes no such descriptors: launch it from Python, or copy boxes of the array",
        )
    if slot.expands:
        kind, (share, nbytes) = EXPANDED_TYPES[array.dtype], PACKED_SHARES[array.dtype]
    else:
        kind = DATA_TYPES["u8" if array.in_bytes else array.dtype]
        share, nbytes = 1, 1 if array.in_bytes else array.nbytes
    return MapParameter(
        slot.array, slot.box, slot.axes or tuple(range(len(slot.box))), slot.merged, kind, share, nbytes,
        WIDE_SWIZZLE if slot.wide else SWIZZLES[slot.swizzle], L2_PROMOTIONS[slot.l2_promotion], slot.fill_nan, slot.expands,
    )


def require_names(name: str, arguments: Sequence[Given], sizes: Sequence[str]) -> None:
    """Refuses parameters of a function that have no name of their own in C; their sizes and strides have names as well."""
    seen: set[str] = set()
    arrays = [each for each in arguments if isinstance(each, ArrayGiven)]
    strides = [array.stride(axis) for array in arrays for axis in range(len(array.sizes))]
    for each in [*(given.name for given in arguments), *sizes, *strides]:
        if each in C_WORDS or each in seen or each.startswith(("px_", "new_")) or each == name:
            raise Error(
                f"'{each}' can't be the name of a parameter of {name} in C"
                + (", where it stands for two" if each in seen else ""),
                location=caller_location(), remedy="rename the size, or wrap the function in one with other names",
            )  # fmt: skip
        seen.add(each)
