"""The text of products of floats of 8 bits and less on the CPU: descriptors, instruction words, padding copies, expansions.

The harness takes elements of 4 and 6 bits out of their 16 bytes, and out of tensor memory, by code of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from fuzz.host import HostCase, run_batch
from support.host_cuda import COMPILER, MISSING, module_for
from support.narrow_products import (
    PAIRS_OF_TYPES,
    given,
    operands,
    pair_products,
    product_of,
    products,
    scaled_products,
    scales,
)

on_host = pytest.mark.skipif(COMPILER is None, reason=MISSING)
Numbers = dict[str, Any]
Launch = tuple[Any, int, list[Any], np.ndarray, Numbers]


def plain(a: str, b: str, **constants: Any) -> Launch:
    """A product of one CTA."""
    shape = {key: value for key, value in constants.items() if key in ("TA", "TB", "N", "M", "K")}
    left, right = operands(a, b, **shape)
    first, depth = constants.get("FIRST", 0), constants.get("DEPTH", constants.get("K", 128))
    ta, tb = shape.get("TA", False), shape.get("TB", False)
    parts = [x[first : first + depth] if across else x[:, first : first + depth] for x, across in ((left, ta), (right, tb))]
    return products, 1, [given(left), given(right)], product_of(*parts, ta, tb), constants


def paired(a: str, b: str, **constants: Any) -> Launch:
    """A product of two CTAs."""
    tb = constants.get("TB", False)
    left, right = operands(a, b, M=2 * constants.get("M", 128), N=constants.get("N", 64), TB=tb)
    return pair_products, 2, [given(left), given(right)], product_of(left, right, False, tb), constants


def with_scales(a: str, b: str, **constants: Any) -> Launch:
    """A product with a scale for 32 elements."""
    left, right = operands(a, b, N=128, K=128)
    (sa, plain_a), (sb, plain_b) = scales(128, 4), scales(128, 4)
    wide = [
        x.astype(np.float32) * np.repeat(s.astype(np.float32), 32, 1) for x, s in ((left, plain_a), (right, plain_b))
    ]
    return scaled_products, 1, [given(left), given(right), sa, sb], wide[0] @ wide[1].T, constants


LAUNCHES = [
    plain("f4e2m1", "f8e4m3", N=16), plain("f8e5m2", "f6e2m3", FIRST=32, DEPTH=64), plain("f6e3m2", "f4e2m1", M=64),
    plain("f6e2m3", "f6e3m2", TENSOR=True), plain("f4e2m1", "f8e5m2", TENSOR=True, K=256),
    plain("f4e2m1", "f6e2m3", TA=True, TB=True, N=128), plain("f6e3m2", "f8e4m3", TA=True),
    paired("f4e2m1", "f6e2m3", M=64), paired("f8e4m3", "f4e2m1", TB=True, N=256),
    with_scales("f6e2m3", "f4e2m1"), with_scales("f4e2m1", "f4e2m1"), with_scales("f6e3m2", "f8e4m3", TENSOR=True),
    with_scales("f4e2m1", "f4e2m1", PADDED=False, TENSOR=True),
]  # fmt: skip


def check(launches: list[Launch]) -> None:
    """All in one translation unit; sums are exact."""
    cases = []
    for number, (kernel, grid, args, wanted, constants) in enumerate(launches):
        full = [*args, np.zeros(wanted.shape, np.float32)]
        module = module_for(kernel, tuple(full), arch="sm_100a", **constants)
        cases.append(HostCase(module, grid, full, 1 + number % 2))
    for (_, _, args, wanted, constants), result in zip(launches, run_batch(cases), strict=True):
        what = f"{[str(getattr(x, 'dtype', '')) for x in args]} {constants}"
        assert result.failure is None, f"{what}\n{result.failure}"
        np.testing.assert_array_equal(result.args[-1], wanted, err_msg=what)


@on_host
def test_operands_of_four_six_and_eight_bits() -> None:
    check(LAUNCHES)


@pytest.mark.long
@on_host
def test_every_two_types() -> None:
    check([plain(a, b, N=16) for a, b in PAIRS_OF_TYPES] + [with_scales(a, b) for a, b in PAIRS_OF_TYPES])


def test_targets() -> None:
    """Expansions in the text; cubins without spills; a word on Hopper."""
    specs = px.spec((128, 128), px.f6e2m3, dense=True), px.spec((32, 128), px.f4e2m1), px.spec((128, 32), px.f32)
    made = px.compile(products[1], *specs, arch="sm_100a", TENSOR=True)
    assert made.cubin and made.spills == 0
    assert "tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32" in made.ptx and "kind::f8f6f4" in made.ptx
    assert "kind f8f6f4, 128 x 32 x 32" in "\n".join(map(str, made.notes))
    with pytest.raises(px.Error, match="sm_90a has no"):
        px.compile(products[1], *specs, arch="sm_90a")
