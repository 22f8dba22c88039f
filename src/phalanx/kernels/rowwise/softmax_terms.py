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
        return largest + px.log2(total) * LN2, 1.0
    return largest, 1.0 / total


@px.func
def softmax_tile(tile, base, factor, LOG):
    """One tile of softmax, or of its logarithm."""
    if LOG:
        return tile - base
    return px.exp2((tile - base) * LOG2E) * factor


LARGE = 65536.0
"""Numbers of 8 bits beyond this are 512 and more apart: of their distances only that they are not 0 matters to e^x."""


@px.func
def fused_terms(base):
    """What `power_of` needs to know of what is subtracted from elements of 16 bits: minus it times log2(e), and this factor.

    Beyond `LARGE` the product would be rounded by more than an exponent has room for; there others are 256 and more away,
    and the factor is 1.
    """
    factor = px.where(px.abs(base) > LARGE, 1.0, LOG2E)
    return base * -factor, factor


@px.func
def power_of(x, terms):
    """e^(x - base) of a tile in f32. `terms` are the base and None, or what `fused_terms` says: an instruction less."""
    base, factor = terms
    if factor is None:
        return px.exp2((x - base) * LOG2E)
    return px.exp2(px.fma(x, factor, base))
