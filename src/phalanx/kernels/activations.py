"""What may follow a product, fused into its epilogue: on f32 tiles, before the result is rounded."""

from __future__ import annotations

import phalanx as px

ACTIVATIONS = (None, "relu", "silu", "gelu")


@px.func
def activate(x, ACTIVATION):
    """`ACTIVATION` of a tile: None, "relu", "silu" (x times its sigmoid) or "gelu" (the exact one, by erf)."""
    if ACTIVATION == "relu":
        return px.maximum(x, 0.0)
    if ACTIVATION == "silu":
        return x * px.sigmoid(x)
    if ACTIVATION == "gelu":
        return 0.5 * x * (1.0 + px.erf(x * 0.7071067811865476))
    return x
