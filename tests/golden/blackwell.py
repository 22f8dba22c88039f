"""Kernels of Blackwell's own instructions, whose IR and CUDA text are kept for sm_100a."""

from __future__ import annotations

import sys
from pathlib import Path

import phalanx as px

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "blackwell"))
from clc_scale import clc_scale

MATRIX = px.spec((150, 200), px.f32)
CASES = {
    "clc_scale": (clc_scale[20], [MATRIX, MATRIX, 3.0], {}),
    "clc_scale_pair": (clc_scale[20], [MATRIX, MATRIX, 3.0], {"CTAS": 2}),
}
