"""Kernels of Blackwell's own instructions, whose IR and CUDA text are kept for sm_100a."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import phalanx as px
from examples.blackwell import RUNGS, case
from examples.simple import module
from golden.dots import dot_ring
from phalanx.kernels.attention.forward_blackwell import attention_blackwell
from phalanx.kernels.products.grouped_blackwell import grouped_blackwell
from phalanx.kernels.products.matmul_blackwell import matmul_blackwell
from phalanx.kernels.products.matmul_blackwell_config import BlackwellConfig
from phalanx.kernels.products.product_form import ProductForm
from phalanx.kernels.quantize import pack_scale_tiles, quantize_tiles

clc_scale = importlib.import_module("clc_scale").clc_scale

Launch = tuple[Any, list[Any], dict[str, Any]]
OPERAND = px.spec((300, 200), px.bf16)
MATRIX = px.spec((150, 200), px.f32)


def rung(name: str, **options: Any) -> Launch:
    made = case(name, **options)
    return made.launch, made.args, made.constants


def square(dtype: Any) -> Any:
    return px.spec((4096, 4096), dtype)


TILES = BlackwellConfig(128)
NOTHING = [None] * 6
"""No bias, no scales of rows and columns, no blocks."""
BLOCKS = px.spec((32, 64, 32, 16), px.f8e4m3)
LIBRARY: dict[str, Launch] = {
    "attention_blackwell": (
        attention_blackwell[148],
        [px.spec((2, 8, 4096, 16), px.bf16)] * 4 + [px.spec((2, 8, 4096), px.f32), 0.1, None, None, None, 0, 4],
        {"DIM": 16, "KEYS": 16, "STAGES": 4, "PART": 16},
    ),
    "matmul_blackwell": (matmul_blackwell[148, 1], [square(px.bf16)] * 3 + NOTHING, {"config": TILES}),
    "matmul_blackwell_nvfp4": (
        matmul_blackwell[148, 1],
        [square(px.f4e2m1), square(px.f4e2m1), square(px.bf16), *NOTHING[:3], 0.5, BLOCKS, BLOCKS],
        {"config": replace(TILES, bk=256), "BLOCK": 16, "form": ProductForm(activation="relu")},
    ),
    "pack_scales": (pack_scale_tiles[32, 2], [px.spec((4096, 128), px.f8e8m0), px.spec((32, 32, 32, 4, 4), px.f8e8m0)], {}),
    "quantize_nvfp4": (
        quantize_tiles[32, 32],
        [square(px.bf16), square(px.f4e2m1), px.spec((32, 64, 32, 4, 4), px.f8e4m3), 1.0],
        {"BLOCK": 16, "LARGEST": 6.0},
    ),
    "grouped_blackwell_gather": (
        grouped_blackwell[148, 1],
        [
            square(px.bf16), px.spec((8192,), px.i32), px.spec((8, 4096, 4096), px.bf16), px.spec((8192, 4096), px.bf16),
            px.spec((4, 128), px.i32), None, None,
        ],
        {"config": TILES, "GATHER": True},
    ),
}

CASES: dict[str, Launch] = {
    "clc_scale": (clc_scale[20], [MATRIX, MATRIX, 3.0], {}),
    "clc_scale_pair": (clc_scale[20], [MATRIX, MATRIX, 3.0], {"CTAS": 2}),
    "dot_ring": (dot_ring[3, 5], [OPERAND, OPERAND, px.spec((300, 300), px.bf16)], {}),
    **{f"blackwell_{name}": rung(name) for name in RUNGS},
    "blackwell_v7_nvfp4": rung("v7", make="nvfp4"),
    "pipelined_attention_blackwell": (
        module("attention").attention[px.auto], [px.spec((4, 256, 64), px.bf16)] * 4, {"D": 64, "ROWS": 128, "KEYS": 32},
    ),
    **LIBRARY,
}
