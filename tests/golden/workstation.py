"""Products on a target whose tensor cores are those of warps: operands by ldmatrix, copies that threads begin."""

from __future__ import annotations

from typing import Any

import phalanx as px
from plain_products import plain_matmul
from thread_copies import ring_product

A, B, C = px.spec((500, 512), px.bf16), px.spec((512, 304), px.bf16), px.spec((500, 304), px.f32)
NARROW, OTHER = px.spec((500, 250), px.bf16), px.spec((32, 256), px.bf16)
CASES: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "plain_product_by_warps": (plain_matmul[4, 5], [A, B, C], {"BM": 128, "TB": False, "WARPS": 8}),
    "ring_of_thread_copies": (ring_product[8], [NARROW, OTHER, C], {"TMA": True}),
}
