"""What softmax computes of a tile: shared by the kernel that holds rows in registers and the one with a ring."""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.logarithms import LN2, LOG2E


@px.func
def finite(peak):
    """What is subtracted before an exponential: of a part that is all -inf, nothing, since -inf - -inf is no number."""
    return px.where(peak == -float("inf"), 0.0, peak)


@px.func
def softmax_terms(largest, total, LOG):
    """What each tile of the result is made with: what is subtracted, and the factor of its exponentials."""
    if LOG:
        terms = largest + px.log2(total) * LN2, 1.0
    else:
        terms = largest, 1.0 / total
    return terms


@px.func
def softmax_tile(tile, base, factor, LOG):
    """One tile of softmax, or of its logarithm."""
    if LOG:
        y = tile - base
    else:
        y = px.exp2((tile - base) * LOG2E) * factor
    return y
