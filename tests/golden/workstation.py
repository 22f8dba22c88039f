"""Products on a target whose tensor cores are those of warps: operands by ldmatrix, thread copies, block scales."""

from __future__ import annotations

from typing import Any

import phalanx as px
from golden.dots import scaled_dot
from support.plain_products import plain_matmul
from support.thread_copies import ring_product

A, B, C = px.spec((500, 512), px.bf16), px.spec((512, 304), px.bf16), px.spec((500, 304), px.f32)
NARROW, OTHER = px.spec((500, 250), px.bf16), px.spec((32, 256), px.bf16)
Launch = tuple[Any, list[Any], dict[str, Any]]


def scaled(operand: Any, scale: Any, block: int) -> Launch:
    operands, scales = [px.spec((200, 512), operand)] * 2, [px.spec((200, 512 // block), scale)] * 2
    return scaled_dot[3], [*operands, *scales, px.spec((200, 200), px.bf16)], {"BLOCK": block}


CASES: dict[str, Launch] = {
    "plain_product_by_warps": (plain_matmul[4, 5], [A, B, C], {"BM": 128, "TB": False, "WARPS": 8}),
    "ring_of_thread_copies": (ring_product[8], [NARROW, OTHER, C], {"TMA": True}),
    "scaled_dot_mxfp8": scaled(px.f8e4m3, px.f8e8m0, 32),
    "scaled_dot_nvfp4": scaled(px.f4e2m1, px.f8e4m3, 16),
}
