"""Block scales as the arguments of a product: a scale for so many elements of a row along K, by the scales' element type.

They come as a matrix with a row for each row of A or column of B, or in the order of blocks that tensor cores, cuBLAS and
torch read (`px.kernels.pack_scales`), as an array of that or flat.
"""

from __future__ import annotations

from math import prod
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.tensor_kinds import Objection, kind_of
from phalanx.ir.types import DTYPES
from phalanx.kernels.matrices import HALVES, info_of, refused
from phalanx.kernels.quantize import FORMATS, blocked_shape, pack_scales
from phalanx.runtime.device.arrays import ArrayInfo, describe

BLOCKS = {made.scales: made.block for made in FORMATS.values()}
"""Elements along K that share a scale, by the type of the scales."""


@frozen
class BlockForm:
    """How the block scales of an operand become what the kernel takes: (rows / 128, blocks / 4, 32, 16)."""

    plain: bool
    shape: tuple[int, ...]

    def make(self, scales: Any) -> Any:
        """The scales as the kernel takes them; plain ones are brought into the order of blocks first."""
        return (pack_scales(scales) if self.plain else scales).reshape(self.shape)


@frozen
class BlockScaled:
    """The block scales of both operands, and how many elements along K share one."""

    a: BlockForm
    b: BlockForm
    block: int


def is_block_scale(x: Any) -> bool:
    """Whether an argument is an array of block scales."""
    info = None if x is None else describe(x)
    return info is not None and info.dtype_name in BLOCKS


def block_scaled(left: ArrayInfo, right: ArrayInfo, scale_a: Any, scale_b: Any) -> BlockScaled:
    """The block scales of ``a @ b``, of which at least one operand has some; `px.Error` if they do not go together."""
    if not is_block_scale(scale_a) or not is_block_scale(scale_b):
        lacking = "scale_b" if is_block_scale(scale_a) else "scale_a"
        raise refused(
            f"one operand has block scales, {lacking} is none", "give both: tensor cores multiply blocks of both by theirs"
        )
    if left.dtype_name in HALVES:
        raise refused(
            f"block scales for operands of {left.dtype_name}",
            "px.kernels.quantize makes codes of 8 and 4 bits with such scales",
        )
    if len(left.shape) != 2 or len(right.shape) != 2:
        raise refused(
            f"block scales for operands of shape {left.shape} and {right.shape}", "multiply one matrix of a batch at a time"
        )
    kinds = [info_of(what, x, tuple(BLOCKS)).dtype_name for what, x in (("scale_a", scale_a), ("scale_b", scale_b))]
    if kinds[0] != kinds[1]:
        raise refused(f"scale_a is {kinds[0]}, scale_b is {kinds[1]}", "pass block scales of one type")
    block = BLOCKS[kinds[0]]
    kind = kind_of(DTYPES[left.dtype_name], DTYPES[right.dtype_name], DTYPES[kinds[0]], block)
    if isinstance(kind, Objection):
        raise refused(kind.what, kind.remedy)
    k = left.shape[1]
    if k == 0 or k % block:
        raise refused(f"K is {k}, and {block} elements share a scale", f"pad the operands along K to a multiple of {block}")
    forms = [
        _form(what, x, rows, k // block)
        for what, x, rows in (("scale_a", scale_a, left.shape[0]), ("scale_b", scale_b, right.shape[1]))
    ]
    return BlockScaled(forms[0], forms[1], block)


def _form(what: str, scales: Any, rows: int, blocks: int) -> BlockForm:
    info = describe(scales)
    assert info is not None
    order = blocked_shape(rows, blocks)
    shape = (*order[:3], order[3] * order[4])
    if info.shape == (rows, blocks):
        return BlockForm(True, shape)
    if info.shape in (order, (prod(order),)):
        return BlockForm(False, shape)
    raise refused(
        f"{what} has shape {info.shape}",
        f"pass a matrix of shape {(rows, blocks)}, or what px.kernels.pack_scales makes of it: {order}, or that flat",
    )
