"""Block scales: quantisation of matrices to mxfp8, mxfp4 and nvfp4, and scales in the order that tensor cores read.

A row is cut into blocks of 32 (mx) or 16 (nv) elements, each with a scale: an element is its code times its scale.
Blackwell's tensor cores, cuBLAS and torch want the scales of 128 rows x 4 blocks in 512 bytes in a row, that of row r and
block k at (r % 32) * 16 + (r / 32) * 4 + k: as an array, (rows / 128, blocks / 4, 32, 4, 4), both rounded up.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.types import LARGEST
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import FLOATS, empty, has_work, info_of, number_of, refused, result_info
from phalanx.runtime.device.arrays import PER_BYTE, ArgumentKind, ArrayInfo, kind_of
from phalanx.runtime.launch.replay import remembered

ROWS = 128
"""Rows of one block of scales."""
LANES = 32
"""Rows whose scales lie 16 bytes apart; those of the next as many stand beside them."""
TOGETHER = 4
"""Scales of one row that stand side by side."""
SCALES = ("f8e8m0", "f8e4m3")


@frozen
class Format:
    """What a block-scaled format consists of: the type of the codes, that of the scales, elements of one scale."""

    codes: str
    scales: str
    block: int


FORMATS = {
    "mxfp8": Format("f8e4m3", "f8e8m0", 32),
    "mxfp4": Format("f4e2m1", "f8e8m0", 32),
    "nvfp4": Format("f4e2m1", "f8e4m3", 16),
}


@px.func
def store_in_blocks(PACKED, scales, row, column, COLUMNS):
    """A tile of 128 rows of scales as `COLUMNS` blocks of 512 bytes."""
    blocks = scales.reshape(ROWS // LANES, LANES, COLUMNS, TOGETHER).permute(2, 1, 0, 3)
    px.store(PACKED[row, column : column + COLUMNS, 0:LANES, 0 : ROWS // LANES, 0:TOGETHER], blocks)


@px.kernel(warps=4, pdl=True)
def pack_scale_tiles(S, PACKED, *, COLUMNS=16):
    """Plain scales, (rows, blocks), in block order; what lies beyond them is 0 in all bits."""
    wait_for_prior_launch()
    row = px.block_id(0)
    column = px.block_id(1) * COLUMNS
    first = column * TOGETHER
    scales = px.load(S[row * ROWS : row * ROWS + ROWS, first : first + COLUMNS * TOGETHER])
    store_in_blocks(PACKED, scales, row, column, COLUMNS)


@px.kernel(warps=8, pdl=True)
def quantize_tiles(X, CODES, PACKED, tensor_scale, *, BLOCK, LARGEST, BN=128):
    """128 rows of `BN` columns: the scale of every block from its largest element, then its codes."""
    wait_for_prior_launch()
    row = px.block_id(0)
    n = px.block_id(1) * BN
    x = px.load(X[row * ROWS : row * ROWS + ROWS, n : n + BN], once=True).to(px.f32).reshape(ROWS, BN // BLOCK, BLOCK)
    scale = (px.max(px.abs(x), 2) / (tensor_scale * LARGEST)).to(PACKED.dtype)
    COLUMNS = BN // BLOCK // TOGETHER
    store_in_blocks(PACKED, scale, row, px.block_id(1) * COLUMNS, COLUMNS)
    factor = (scale.to(px.f32) * tensor_scale)[:, :, None]
    codes = px.where(factor == 0.0, 0.0, x / factor)  # a block too small for a scale is 0
    px.store(CODES[row * ROWS : row * ROWS + ROWS, n : n + BN], codes.reshape(ROWS, BN).to(CODES.dtype))


@remembered("scales", "out", writes={"out": "out is not None"})
def pack_scales(scales: Any, *, out: Any = None) -> Any:
    """Block scales in the order in which tensor cores, cuBLAS and torch's `_scaled_mm` read them.

    `scales` is a torch or NumPy matrix (rows, K / block) of f8e8m0 or f8e4m3; the result has its type and shape
    (rows / 128, blocks / 4, 32, 4, 4), both rounded up, with zeros beyond the matrix. `out` takes it where it is given.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``blocks = px.kernels.pack_scales(scales)``.
    """
    info = info_of("scales", scales, SCALES)
    if len(info.shape) != 2:
        raise refused(f"scales has shape {info.shape}", "pass a matrix with a row of scales for each row of the operand")
    shape = blocked_shape(*info.shape)
    if out is None:
        out = empty(scales, shape, info.dtype_name)
    target = result_info("out", out, (info.dtype_name,))
    if target.shape != shape:
        raise refused(f"out has shape {target.shape}, the result {shape}", "pass an array of the result's shape")
    if has_work(*shape):
        pack_scale_tiles[shape[0], px.cdiv(shape[1], 16)](scales, out)
    return out


def blocked_shape(rows: int, blocks: int) -> tuple[int, int, int, int, int]:
    """The shape of an array of scales in block order."""
    return px.cdiv(rows, ROWS), px.cdiv(blocks, TOGETHER), LANES, ROWS // LANES, TOGETHER


@remembered("x")
def quantize(x: Any, format: str, *, tensor_scale: float = 1.0) -> tuple[Any, Any]:
    """A matrix as codes and block scales: ``codes, scales``, with the scales in the order of `pack_scales`.

    `x` is a torch or NumPy matrix (M, K) of bf16, f16 or f32. "mxfp8" has codes of f8e4m3, "mxfp4" of f4e2m1, both a scale
    of f8e8m0 for 32 elements; "nvfp4" has codes of f4e2m1 and a scale of f8e4m3 for 16. K is a multiple of that. A scale is
    the block's largest magnitude over the largest code, powers of two rounded up, so that no code saturates; with
    `tensor_scale` an element is code x scale x `tensor_scale` (nvfp4's second scale: max|x| / 2688 uses the whole range).
    Codes of f4e2m1 are a torch tensor of ``float4_e2m1fn_x2``, or a NumPy array of ``ml_dtypes.float4_e2m1fn``.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy. Example: ``codes, scales = quantize(x, "mxfp8")``.
    """
    info = info_of("x", x, FLOATS)
    if format not in FORMATS:
        raise refused(f"unknown format {format!r}", f"use one of {', '.join(map(repr, FORMATS))}")
    made = FORMATS[format]
    scale = number_of("tensor_scale", tensor_scale)
    _require_blocks(info, x, format, made)
    if not scale > 0:
        raise refused(f"tensor_scale is {scale}", "give a number above 0, such as max|x| / 2688")
    rows, columns = info.shape
    codes = empty(x, (rows, columns), made.codes)
    scales = empty(x, blocked_shape(rows, columns // made.block), made.scales)
    if has_work(rows, columns):
        grid = px.cdiv(rows, ROWS), px.cdiv(columns, 128)
        quantize_tiles[grid](x, codes, scales, scale, BLOCK=made.block, LARGEST=LARGEST[made.codes])
    return codes, scales


def _require_blocks(info: ArrayInfo, x: Any, format: str, made: Format) -> None:
    if len(info.shape) != 2 or info.shape[1] % made.block:
        raise refused(
            f"x has shape {info.shape}; {format} has a scale for each {made.block} elements of a row",
            f"pass a matrix whose rows are a multiple of {made.block} long",
        )
    traced = hasattr(x, "new_array") and made.codes not in PER_BYTE  # of a traced function, which makes arrays of elements
    if kind_of(x) not in (ArgumentKind.TORCH, ArgumentKind.NUMPY) and not traced:
        raise refused(f"codes can't be made as a {type(x).__name__}", "pass a torch or NumPy array")
