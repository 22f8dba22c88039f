"""Products of floats of 8 bits and less in the simulator: every two types, padded and packed memory, bytes on barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from support.narrow_products import (
    NARROW,
    PAIRS_OF_TYPES,
    given,
    operands,
    pair_products,
    product_of,
    products,
    scaled_products,
    scales,
)

F32 = np.float32


@pytest.mark.parametrize(("a", "b"), PAIRS_OF_TYPES)
def test_every_two_types(a: str, b: str) -> None:
    left, right = operands(a, b, N=8)
    c = np.zeros((128, 8), F32)
    products[1](given(left), given(right), c, N=8)
    np.testing.assert_array_equal(c, product_of(left, right))


@pytest.mark.share(2)
@pytest.mark.parametrize("constants", [{"TA": True}, {"TB": True, "N": 128}, {"TENSOR": True}, {"D": px.f16}], ids=str)
@pytest.mark.parametrize("name", NARROW)
def test_majors_places_and_accumulators(name: str, constants: dict[str, Any]) -> None:
    shape = {key: value for key, value in constants.items() if key in ("TA", "TB", "N")}
    left, right = operands(name, name, **shape)
    c = np.zeros((128, constants.get("N", 32)), np.float16 if "D" in constants else F32)
    args = given(left), given(right), c
    products[1](*args, **constants)
    wanted = product_of(left, right, shape.get("TA", False), shape.get("TB", False))
    np.testing.assert_allclose(c, wanted, rtol=0.02 if "D" in constants else 0, atol=2.0 if "D" in constants else 0)
    assert "TENSOR" not in constants or px.check(products[1], *args, **constants).ok


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("a", "b", "constants"),
    [
        ("f4e2m1", "f8e4m3", {}), ("f6e2m3", "f4e2m1", {"TENSOR": True}), ("f8e5m2", "f6e3m2", {"K": 256, "N": 256}),
        ("f4e2m1", "f4e2m1", {}), ("f4e2m1", "f4e2m1", {"PADDED": False, "TENSOR": True}),
    ],
)  # fmt: skip
def test_scales(a: str, b: str, constants: dict[str, Any]) -> None:
    n, k = constants.get("N", 128), constants.get("K", 128)
    left, right = operands(a, b, N=n, K=k)
    (sa, plain_a), (sb, plain_b) = scales(128, k // 32), scales(n, k // 32)
    c = np.zeros((128, n), F32)
    args = given(left), given(right), sa, sb, c
    scaled_products[1](*args, **constants)
    wide = [x.astype(F32) * np.repeat(s.astype(F32), 32, 1) for x, s in ((left, plain_a), (right, plain_b))]
    np.testing.assert_array_equal(c, wide[0] @ wide[1].T)
    assert "TENSOR" not in constants or px.check(scaled_products[1], *args, **constants).ok


def test_pairs() -> None:
    left, right = operands("f6e3m2", "f4e2m1", M=256, N=64)
    c = np.zeros((256, 64), F32)
    args = given(left), given(right), c
    pair_products[2](*args)
    np.testing.assert_array_equal(c, product_of(left, right))
    assert px.check(pair_products[2], *args).ok


@pytest.mark.parametrize(("name", "nbytes"), [("f4e2m1", 16 * 64), ("f6e2m3", 16 * 96), ("f6e3m2", 16 * 96)])
def test_barriers_count_the_bytes_of_the_array(name: str, nbytes: int) -> None:
    """Not those of the buffer, which has room between elements."""

    @px.kernel(warps=1)
    def counts(A, N, *, EXPECTED):
        s, full = px.shared((16, 128), A.dtype, padded=True), px.barrier(count=1)
        full.arrive_and_expect_tx(EXPECTED)
        px.tma.load(A[0:16, 0:128], s, full)
        full.wait(0)
        px.store(N[0], s.nbytes)

    n = np.zeros(1, np.int32)
    array = given(operands(name, name)[0])
    counts[1](array, n, EXPECTED=nbytes)
    assert n[0] == nbytes
    report = px.check(counts[1], array, n, EXPECTED=16 * 128)
    assert {finding.kind for finding in report.findings} == {"tx-mismatch"}


def test_dense_bytes_are_elements() -> None:
    """The same product from bytes, four elements to three, and from elements that stand for them."""
    left, right = operands("f6e2m3", "f6e3m2")
    first = np.zeros((128, 32), F32)
    products[1](given(left), given(right), first)
    arrays = []
    for x, dtype in ((left, px.f6e2m3), (right, px.f6e3m2)):
        a, b, c, d = (x.view(np.uint8)[:, part::4].astype(np.uint32) for part in range(4))
        word = a | b << 6 | c << 12 | d << 18
        data = np.stack([word & 255, word >> 8 & 255, word >> 16], -1).astype(np.uint8).reshape(len(x), -1)
        arrays.append(px.packed(data, dtype, dense=True))
    second = np.zeros_like(first)
    products[1](*arrays, second)
    np.testing.assert_array_equal(first, second)
