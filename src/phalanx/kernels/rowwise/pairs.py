"""How backward kernels hold two rows at once, that of the result or argument and that of its gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phalanx.kernels.matrices import info_of, refused
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, choose
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo, describe


def gradient_of(what: str, gradient: Any, like: ArrayInfo) -> ArrayInfo:
    """What the gradient of an array is, which has its type and shape; `px.Error` where it has not."""
    info = info_of(what, gradient, (like.dtype_name,))
    if info.shape != like.shape:
        raise refused(f"{what} has shape {info.shape}, what it is the gradient of {like.shape}", "pass one of that shape")
    return info


def choose_pair(rows: Any, other: Any, held: int = LIMITS.held // 2) -> RowConfig:
    """The configuration for two rows side by side: a thread holds half as many vectors of each, `held`.

    What does not fit lies in shared memory, half of it for each, and half as many CTAs share an SM's registers. Anyone may
    call it; no hardware is involved.
    Example: ``choose_pair(np.zeros((8, 32768), np.float16), np.zeros((8, 32768), np.float16)).cluster == 2``.
    """
    first = describe(rows)
    second = describe(other)
    assert first is not None and second is not None
    return pair_of(first.shape[1], first.dtype_name, first.aligned16 and second.aligned16, held)


def pair_of(columns: int, dtype: str, aligned: bool, held: int) -> RowConfig:
    """`choose_pair` for rows of so many elements of a type; `aligned`: rows of both begin at multiples of 16 bytes."""
    item = ITEM_BYTES[dtype]
    config = choose(columns, item, held, aligned=aligned, single=True)
    if config.parts > held and config.rows == 1:
        config = replace(config, parts=held, shared=config.shared + config.parts - held)
    if 2 * config.shared * config.width * item > LIMITS.shared_bytes:
        most = config.cluster * (held * config.width + LIMITS.shared_bytes // (2 * item))
        raise refused(f"two rows of {columns} {dtype} do not fit a cluster", f"at most {most} columns do")
    return replace(config, ahead=False, per_sm=max(1, config.per_sm // 2))
