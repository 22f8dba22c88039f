"""Checks of what attention functions are called with: shapes, types and strides of queries, keys and values, masks, lengths.

Queries are (batch, heads, queries, dim), keys (batch, kv_heads, keys, dim), values (batch, kv_heads, keys, value_dim),
of any strides with the elements of a row side by side: (batch, length, heads, dim) in memory comes as
``.transpose(1, 2)``. Packed sequences (`cu_seqlens_q`, `cu_seqlens_k`) are (total, heads, dim), as FlashAttention's;
`packed_view` makes (1, heads, total, dim) of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.kernels.matrices import FLOATS, HALVES, described, empty, info_of, number_of, refused
from phalanx.kernels.padding import padded_copy
from phalanx.kernels.products.operand_recipes import is_copyable, warn
from phalanx.runtime.device.arrays import ArgumentKind, ArrayInfo, describe, kind_of

DIMS = (64, 96, 128, 160, 192, 224, 256)
"""Columns that kernels compute with: a head has as many as its elements, or more. The copy engine brings zeros for the
columns that are not there, and leaves them out when it stores."""
OPERANDS = (*HALVES, "f8e4m3")


@frozen
class Heads:
    """The sizes of a call. With packed sequences (`varlen`) the batch is 1, `queries` and `keys` are totals."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    value_dim: int
    dtype: str
    varlen: bool = False

    @property
    def group(self) -> int:
        """How many query heads share a head of keys and values."""
        return self.heads // max(self.kv_heads, 1)

    @property
    def columns(self) -> tuple[int, int]:
        """With how many columns kernels compute of queries and keys, and of values: as many, or 128 beside 192."""
        wide, values = (columns_of(size) for size in (self.dim, self.value_dim))
        if wide == 192 and values <= 128:
            return 192, 128
        return max(wide, values), max(wide, values)

    @property
    def out_dtype(self) -> str:
        """The element type of the result: that of the queries, bf16 for 8-bit ones."""
        return self.dtype if self.dtype in HALVES else "bf16"


def columns_of(size: int) -> int:
    """The number of columns with which kernels compute `size` elements: the next of `DIMS`."""
    return next(columns for columns in DIMS if columns >= size)


def require_heads(q: Any, k: Any, v: Any, *, varlen: bool = False, dtypes: tuple[str, ...] = OPERANDS) -> Heads:
    """The sizes of queries, keys and values that go together; `px.Error` where they do not."""
    infos = [info_of(what, x, dtypes) for what, x in (("q", q), ("k", k), ("v", v))]
    names = ("total", "heads", "dim") if varlen else ("batch", "heads", "length", "dim")
    for what, info in zip("qkv", infos):
        if len(info.shape) != len(names):
            raise refused(
                f"{what} has shape {info.shape}",
                f"pass ({', '.join(names)})" + (", with cu_seqlens_q and cu_seqlens_k" if varlen else ""),
            )
    left, keys, values = infos
    if len({info.dtype_name for info in infos}) > 1:
        raise refused(
            f"q is {left.dtype_name}, k {keys.dtype_name}, v {values.dtype_name}", "pass all three in one element type"
        )
    if len({(info.kind, info.device) for info in infos}) > 1:
        raise refused("q, k and v are not on one device", "move them to one")
    batch, heads, queries, dim = _four(left, varlen)
    found = Heads(
        batch, heads, _four(keys, varlen)[1], queries, _four(keys, varlen)[2], dim, _four(values, varlen)[3],
        left.dtype_name, varlen,
    )
    if _four(keys, varlen) != (batch, found.kv_heads, found.keys, dim):
        raise refused(
            f"q has shape {left.shape}, k {keys.shape}", "q and k have the same batch and the same last axis"
        )
    if values.shape[:-1] != keys.shape[:-1]:
        raise refused(f"k has shape {keys.shape}, v {values.shape}", "k and v differ in their last axis only")
    if found.kv_heads == 0 or heads % found.kv_heads:
        raise refused(
            f"{heads} heads of q for {found.kv_heads} of k and v",
            "each head of k and v serves the same number of heads of q",
        )
    return found


def _four(info: ArrayInfo, varlen: bool) -> tuple[int, int, int, int]:
    """The shape as (batch, heads, length, dim), packed sequences as one batch."""
    if varlen:
        total, heads, dim = info.shape
        return 1, heads, total, dim
    batch, heads, length, dim = info.shape
    return batch, heads, length, dim


def require_dims(heads: Heads) -> None:
    """Refuses heads that no kernel has columns for."""
    for what, size in (("heads", heads.dim), ("values", heads.value_dim)):
        if not 1 <= size <= DIMS[-1]:
            raise refused(f"{what} of {size} elements", f"heads have 1 to {DIMS[-1]} elements")


def scale_of(scale: Any, dim: int) -> float:
    """The factor of the scores: as given, or 1 / sqrt(dim)."""
    return dim**-0.5 if scale is None else number_of("scale", scale)


def cap_of(softcap: Any) -> float | None:
    """The largest absolute score, or None: 0 means none, as elsewhere."""
    if softcap is None:
        return None
    cap = number_of("softcap", softcap)
    if not 0 <= cap < float("inf"):
        raise refused(f"softcap is {cap}", "give a positive number, or leave it out")
    return cap or None


def reach_of(causal: Any, window: Any) -> tuple[int | None, int | None]:
    """How many keys a query reaches back and ahead of the one beside it; None where there is no bound."""
    if not isinstance(causal, bool | np.bool_):
        raise refused(f"causal is {described(causal)}", "pass True or False")
    left, right = _window(window)
    if causal:
        right = 0 if right is None else min(right, 0)
    return left, right


def _window(window: Any) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    sides = tuple(window) if isinstance(window, tuple | list) else ()
    if len(sides) != 2 or any(isinstance(s, bool) or not (s is None or isinstance(s, int | np.integer)) for s in sides):
        raise refused(
            f"window is {window!r}" if isinstance(window, tuple | list) else f"window is {described(window)}",
            "pass (left, right), two integers: how many keys before and behind its own a query sees; -1 or None for all",
        )
    left, right = (None if side is None or side < 0 else min(int(side), 1 << 30) for side in sides)
    return left, right


def bias_of(bias: Any, heads: Heads, sequences: int) -> tuple[str | None, Any]:
    """The kind of a bias, and the array that kernels read: slopes (batch, heads), or (batch, heads, queries, keys)."""
    if bias is None:
        return None, None
    info = info_of("bias", bias, FLOATS)
    batch = sequences or heads.batch
    if len(info.shape) in (1, 2):
        if info.shape not in ((heads.heads,), (batch, heads.heads)):
            raise refused(
                f"bias has shape {info.shape}",
                f"pass slopes ({heads.heads},) or ({batch}, {heads.heads}), or a bias of four axes",
            )
        return "slopes", broadcast(bias, (batch, heads.heads))
    full = (batch, heads.heads, heads.queries, heads.keys)
    if sequences:
        raise refused("a bias of four axes for packed sequences", "pass slopes, or sequences of one length")
    if len(info.shape) != 4 or any(size not in (1, whole) for size, whole in zip(info.shape, full)):
        raise refused(f"bias has shape {info.shape}", f"pass one that broadcasts to {full}, or slopes ({heads.heads},)")
    return "tile", broadcast(bias, full)


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """The array under a larger shape, without a copy."""
    if kind_of(x) is ArgumentKind.TORCH:
        return x.expand(shape)
    if kind_of(x) is ArgumentKind.CUPY:
        import cupy

        return cupy.broadcast_to(x, shape)
    return np.broadcast_to(x, shape)


def require_lengths(cu_seqlens_q: Any, cu_seqlens_k: Any) -> int:
    """How many packed sequences there are; 0 where sequences are not packed."""
    if cu_seqlens_q is None and cu_seqlens_k is None:
        return 0
    if cu_seqlens_q is None or cu_seqlens_k is None:
        missing = "cu_seqlens_q" if cu_seqlens_q is None else "cu_seqlens_k"
        raise refused(f"{missing} is missing", "pass both cu_seqlens_q and cu_seqlens_k, or neither")
    infos = [info_of(what, x, ("i32",)) for what, x in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k))]
    shapes = {info.shape for info in infos}
    if len(shapes) > 1 or len(infos[0].shape) != 1 or infos[0].shape[0] < 2:
        raise refused(
            f"cu_seqlens_q has shape {infos[0].shape}, cu_seqlens_k {infos[1].shape}",
            "pass two vectors of sequences + 1 numbers: where each begins, and where the last one ends",
        )
    return infos[0].shape[0] - 1


def packed_view(x: Any) -> Any:
    """Packed sequences (total, heads, dim) as one batch (1, heads, total, dim), without a copy."""
    return x.swapaxes(0, 1)[None]


def readable(what: str, x: Any, by: str) -> Any:
    """The array as the copy engine can read it: itself, or a copy, with a `CopyWarning`."""
    info = describe(x)
    assert info is not None
    if is_copyable(info):
        return x
    reason = "its rows do not begin at multiples of 16 bytes" if info.contiguous_inner else "its rows are not contiguous"
    warn(f"{by} copies {what}, of shape {info.shape} and strides {info.strides}: {reason}")
    return padded_copy(x)


def result_like(q: Any, width: int, dtype: str) -> Any:
    """A new array for the result, (..., width), whose axes lie in memory as those of the queries do."""
    info = describe(q)
    assert info is not None
    shape = (*info.shape[:-1], width)
    if len(shape) == 4 and info.strides[1] < info.strides[2] and info.shape[1] > 1 and info.shape[2] > 1:
        return empty(q, (shape[0], shape[2], shape[1], width), dtype).swapaxes(1, 2)
    return empty(q, shape, dtype)
