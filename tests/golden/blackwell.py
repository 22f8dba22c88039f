"""Kernels of Blackwell's own instructions, whose IR and CUDA text are kept for sm_100a."""

from __future__ import annotations

import importlib
from typing import Any

import phalanx as px
from examples.blackwell import RUNGS, case

clc_scale = importlib.import_module("clc_scale").clc_scale

Launch = tuple[Any, list[Any], dict[str, Any]]
MATRIX = px.spec((150, 200), px.f32)


def rung(name: str, **options: Any) -> Launch:
    made = case(name, **options)
    return made.launch, made.args, made.constants


CASES: dict[str, Launch] = {
    "clc_scale": (clc_scale[20], [MATRIX, MATRIX, 3.0], {}),
    "clc_scale_pair": (clc_scale[20], [MATRIX, MATRIX, 3.0], {"CTAS": 2}),
    **{f"blackwell_{name}": rung(name) for name in RUNGS},
    "blackwell_v7_nvfp4": rung("v7", make="nvfp4"),
}
