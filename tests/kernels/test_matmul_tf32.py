"""Products of f32 on request, as tf32, in the simulator of both generations and as CUDA text; else they are refused."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import phalanx as px
from kernels.test_matmul import by_columns, numbers
from phalanx.kernels.products.matmul import CopyWarning, matmul
from support.library_launches import launches

matmul_module = sys.modules["phalanx.kernels.products.matmul"]  # the name is the function's
KERNELS = {"sm_90a": (matmul_module, "matmul_tiles"), "sm_100a": (matmul_module, "matmul_blackwell")}
F32 = np.float32


def as_tf32(x: np.ndarray) -> np.ndarray:
    """What the tensor cores read of it, in f64: the lowest 13 bits of the fraction are nothing to them."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def operands(m: int, n: int, k: int, *batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Two of f32, both contiguous along K."""
    return numbers(*batch, m, k, dtype=F32), by_columns(numbers(*batch, k, n, dtype=F32, seed=1))


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == F32 and got.shape == want.shape
    assert np.abs(got - want).max() <= 2.0**-18 * np.abs(want).max()


def as_the_tensor_cores(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return as_tf32(np.ascontiguousarray(a)) @ as_tf32(np.ascontiguousarray(b))


@pytest.mark.share(4)
@pytest.mark.parametrize("arch", KERNELS)
@pytest.mark.parametrize("m, n, k", [(136, 264, 80), (9, 16, 24), (64, 40, 4)])
def test_the_product_of_the_bits_that_are_read(arch: str, m: int, n: int, k: int) -> None:
    a, b = operands(m, n, k)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CopyWarning)
        got = matmul(a, b, tf32=True, arch=arch)
    close(got, as_the_tensor_cores(a, b))
    assert np.abs(got - a.astype(np.float64) @ b).max() > 1e-4, "of f32 itself it would be another one"


def test_batches_vectors_bias_and_activation() -> None:
    a, b = operands(24, 16, 32, 3)
    bias = numbers(16, dtype=F32)
    close(matmul(a, b, bias, "relu", tf32=True), np.maximum(as_the_tensor_cores(a, b) + bias, 0))
    close(matmul(a[0, 0], b[0], tf32=True), as_the_tensor_cores(a[0, :1], b[0])[0])
    assert not matmul(a[0, :, :0], b[0, :0], tf32=True).any(), "a sum of nothing"


def test_the_result_may_have_another_type() -> None:
    a, b = operands(24, 16, 32)
    got = matmul(a, b, tf32=True, out_dtype=px.f16)
    assert got.dtype == np.float16 and np.abs(got - as_the_tensor_cores(a, b)).max() < 2**-10 * np.abs(got).max()


@pytest.mark.parametrize("which", ("a", "b"))
def test_what_does_not_lie_along_k_is_copied_with_a_warning(which: str) -> None:
    a, b = operands(24, 16, 32)
    given = (by_columns(a), b) if which == "a" else (a, np.ascontiguousarray(b))
    with pytest.warns(CopyWarning, match=f"matmul copies {which}, .*: it is read along K only"):
        close(matmul(*given, tf32=True), as_the_tensor_cores(a, b))


def test_for_other_types_it_says_nothing() -> None:
    a, b = numbers(24, 32), by_columns(numbers(32, 16))
    assert np.array_equal(matmul(a, b, tf32=True), matmul(a, b))


@pytest.mark.share(2)
@pytest.mark.parametrize("arch, instruction", [("sm_90a", "wgmma.mma_async"), ("sm_100a", "tcgen05.mma")])
def test_the_text_has_the_instruction(arch: str, instruction: str) -> None:
    a, b = operands(256, 512, 256)
    with launches(KERNELS[arch], run=False) as found:
        matmul(a, b, tf32=True, arch=arch)
    made = found[0].compile(arch)
    assert made.spills == 0
    kind = {"wgmma.mma_async": "f32.tf32.tf32", "tcgen05.mma": "kind::tf32"}[instruction]
    assert any(instruction in line and kind in line for line in made.ptx.splitlines())


@pytest.mark.parametrize(
    "call, message, remedy",
    [
        (lambda a, b: matmul(a, b), "a has the element type f32, of which tensor cores read 10 bits of the fraction (tf32)",
         "pass tf32=True to have it so, or convert it to bf16 or f16"),
        (lambda a, b: matmul(a, b, tf32="yes"), "tf32 is of type str", "pass True or False"),
        (lambda a, b: matmul(a, numbers(32, 16), tf32=True), "a is f32, b is bf16",
         "pass both bf16, both f16, both f4e2m1, both f32, or 8-bit floats in any mix"),
    ],
)  # fmt: skip
def test_refused(call: Any, message: str, remedy: str) -> None:
    with pytest.raises(px.Error) as caught:
        call(*operands(24, 16, 32))
    assert caught.value.message == message and caught.value.remedy == remedy
