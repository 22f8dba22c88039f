"""How the arguments of a product become what its kernel takes: batches as one axis, operands that the copy engine reads."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.matrices import info_of, refused
from phalanx.kernels.padding import padded_copies
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo, describe


class CopyWarning(UserWarning):
    """An operand is copied first, because the hardware can't read it as it lies."""


@frozen
class Recipe:
    """How an argument becomes what the kernel takes: its first matrix only, another shape, its transpose, a copy."""

    drop: int = 0
    shape: tuple[int, ...] | None = None
    transposed: bool = False
    copied: bool = False

    def view(self, x: Any) -> Any:
        """The argument as the kernel takes it, or as it is copied for it."""
        if self.drop:
            x = x[(0,) * self.drop]
        if self.shape is not None:
            x = x.reshape(self.shape)
        return x.swapaxes(-1, -2) if self.transposed else x

    def make(self, x: Any) -> Any:
        """The argument as the kernel takes it."""
        return made_operands((self, x))[0]


AS_IT_IS = Recipe()


def made_operands(*parts: tuple[Recipe, Any]) -> list[Any]:
    """What the kernel takes, by recipes and arguments; those that are copied are copied together."""
    found = [recipe.view(x) for recipe, x in parts]
    copied = [number for number, (recipe, _) in enumerate(parts) if recipe.copied]
    if copied:
        for number, copy in zip(copied, padded_copies(*[found[number] for number in copied])):
            found[number] = copy
    return found


def batch_strides(info: ArrayInfo, batch: tuple[int, ...], matrix_axes: int = 2) -> tuple[int, ...]:
    """Strides of an array along the axes of a batch; 0 where it has only one matrix for all of them."""
    own = len(info.shape) - matrix_axes
    sizes = info.shape[:own]
    strides = info.strides[:own]
    missing = len(batch) - own
    return (0,) * missing + tuple(0 if size == 1 else stride for size, stride in zip(sizes, strides))


def folded(batch: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The axes of a batch with neighbours joined where every array allows it: (size, stride in each array), outer first."""
    axes: list[tuple[int, ...]] = []
    for size, *steps in zip(batch, *strides):
        if size == 1:
            continue
        if axes and all(outer == size * inner for outer, inner in zip(axes[-1][1:], steps)):
            axes[-1] = (axes[-1][0] * size, *steps)
        else:
            axes.append((size, *steps))
    return axes


def is_copyable(info: ArrayInfo) -> bool:
    """Whether TMA descriptors take the array as it lies: rows are contiguous, all else steps by multiples of 16 bytes."""
    steps = all(stride > 0 for size, stride in zip(info.shape, info.strides) if size > 1)
    return steps and info.contiguous_inner and info.aligned16


def shares_bytes(x: Any) -> bool:
    """Whether two elements of an array are one byte, f4e2m1: such an array has no transpose that could be described."""
    return "float4_e2m1fn" in str(getattr(x, "dtype", ""))


def operand_info(what: str, x: Any, dtypes: tuple[str, ...], k_axis: int) -> ArrayInfo:
    """What an operand is whose axis `k_axis` (-1 or -2) is K; one whose elements share bytes must lie along K."""
    if not shares_bytes(x):
        return info_of(what, x, dtypes)
    turned = k_axis == -2 and len(x.shape) > 1
    try:
        lying = info_of(what, x.swapaxes(-1, -2) if turned else x, dtypes)
    except Error as error:
        remedy = "pass b as the .T of contiguous codes (N, K)" if turned else "pass contiguous codes (M, K)"
        raise refused(f"{what} does not lie along K: {error.message}", remedy) from None
    if not turned:
        return lying
    shape, strides = ((*t[:-2], t[-1], t[-2]) for t in (lying.shape, lying.strides))
    return ArrayInfo(lying.kind, lying.device, lying.pointer, shape, strides, lying.dtype_name, lying.dense)


def operand_recipe(
    what: str, x: Any, recipe: Recipe, k_axis: int, *, by: str = "matmul", along_k_only: bool = False
) -> tuple[Recipe, bool, str | None]:
    """The recipe for an operand whose axis `k_axis` (-1 or -2) is K, whether it is contiguous along K, and a note on a copy.

    The kernel takes (rows, K) or (K, rows): the one that needs no copy. 8-bit types are read along K only, and so is
    what the caller says so of. The note names the function that copies, `by`.
    """
    made = recipe.make(x)
    if shares_bytes(x):
        return _packed_recipe(what, made, recipe, k_axis), True, None
    straight = describe(made)
    other = describe(made.swapaxes(-1, -2))
    assert straight is not None and other is not None
    along_k, along_rows = (straight, other) if k_axis == -1 else (other, straight)
    narrow = ITEM_BYTES[straight.dtype_name] == 1
    fixed = narrow or along_k_only
    by_k = True
    note = None
    if not is_copyable(along_k):
        if not fixed and is_copyable(along_rows):
            by_k = False
        else:
            # Copied as it lies where the kernel allows that: a copy that does not transpose is the quicker one.
            by_k = fixed or abs(along_k.strides[-1]) <= abs(along_rows.strides[-1])
            reason = "its rows do not begin at multiples of 16 bytes"
            if fixed and not along_k.contiguous_inner:
                reason = f"{'8-bit types are' if narrow else 'it is'} read along K only"
            note = f"{by} copies {what}, of shape {straight.shape} and strides {straight.strides}: {reason}"
    return replace(recipe, transposed=by_k != (k_axis == -1), copied=note is not None), by_k, note


def _packed_recipe(what: str, made: Any, recipe: Recipe, k_axis: int) -> Recipe:
    """The recipe for an operand whose elements share bytes: it lies along K, and is not copied."""
    info = describe(made if k_axis == -1 else made.swapaxes(-1, -2))
    assert info is not None
    if not is_copyable(info):
        raise refused(
            f"the rows of {what}, of shape {info.shape} and strides {info.strides}, do not begin at multiples of 16 bytes",
            "pass an array whose K is padded to a multiple of 32 elements of f4e2m1",
        )
    return replace(recipe, transposed=k_axis == -2)


def warn(note: str) -> None:
    """A `CopyWarning` at the line that led here, outside this package, and outside torch, which may stand between."""
    warnings.warn(note, CopyWarning, stacklevel=_outside())


def _outside() -> int:
    """How many frames up the first one outside these packages is, as `warnings.warn` of the caller counts them."""
    level = 0
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("phalanx.", "torch.")):
        level = level + 1
        frame = frame.f_back  # type: ignore[assignment]
    return level + 1


def broadcast_batch(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The batch of a product of two batches."""
    axes = max(len(a), len(b))
    pairs = list(zip((1,) * (axes - len(a)) + a, (1,) * (axes - len(b)) + b))
    if any(left != right and 1 not in (left, right) for left, right in pairs):
        raise Error(
            f"batches of shape {a} and {b} do not broadcast", location=caller_location(),
            remedy="the axes before the last two are equal, or 1, or missing",
        )
    return tuple(right if left == 1 else left for left, right in pairs)
