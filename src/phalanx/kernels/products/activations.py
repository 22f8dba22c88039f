"""What may follow a product, fused into its epilogue: on f32 tiles, before the result is rounded.

Forms with few instructions, since an epilogue is not hidden behind the products: per element one multiplication or
addition is 250 cycles of a tile of 128 x 256, one exponential, reciprocal or tanh 1,000.
"""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.logarithms import LOG2E

ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")

INVERSE_SQRT2 = 0.7071067811865476
# Abramowitz and Stegun 7.1.26: erf with an error of at most 1.5e-7; half of its coefficients.
ERF_P = 0.3275911
HALF_ERF = (0.127414796, -0.142248368, 0.7107068705, -0.7265760135, 0.5307027145)
GELU_A = 0.7978845608028654
GELU_B = 0.044715  # sqrt(2 / pi), and the cubic term of the usual approximation


@px.func
def gelu(x):
    """x times the normal distribution's integral up to x: half of x (1 + erf(x / sqrt 2))."""
    size = px.abs(x)
    t = px.reciprocal(1.0 + (ERF_P * INVERSE_SQRT2) * size)
    series = ((((HALF_ERF[4] * t + HALF_ERF[3]) * t + HALF_ERF[2]) * t + HALF_ERF[1]) * t + HALF_ERF[0]) * t
    tail = series * px.exp2(x * ((-0.5 * LOG2E) * x))  # of the distribution, beyond |x|
    return px.maximum(x, 0.0) - size * tail


@px.func
def gelu_tanh(x, COARSE):
    """Half of x (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3); 0.5 (1 + tanh u) is sigmoid(2 u)."""
    if COARSE:
        half = 0.5 * x
        return half + half * px.tanh(x * (GELU_A + (GELU_A * GELU_B) * (x * x)), approx=True)
    scale = -2.0 * LOG2E * GELU_A
    return x * px.reciprocal(1.0 + px.exp2(x * (scale + (scale * GELU_B) * (x * x))))


@px.func
def activate(x, ACTIVATION, COARSE=False):
    """`ACTIVATION` of a tile: None, "relu", "gelu" (by erf, off by 1.5e-7 of |x|), "gelu_tanh", "silu" (x sigmoid(x)).

    `COARSE` allows an error of 2.5e-4 of |x|, an eighth of what rounding to bf16 may add: "gelu_tanh" is then one
    ``tanh.approx``. A product passes it where its result is bf16.
    """
    if ACTIVATION == "relu":
        return px.maximum(x, 0.0)
    if ACTIVATION == "gelu":
        return gelu(x)
    if ACTIVATION == "gelu_tanh":
        return gelu_tanh(x, COARSE)
    if ACTIVATION == "silu":
        return x * px.reciprocal(1.0 + px.exp2((-LOG2E) * x))
    return x
