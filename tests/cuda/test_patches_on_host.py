"""The CUDA text of copies of a convolution's patches: its instructions, and what it does on the CPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support import host_tma
from support.host_cuda import COMPILER, MISSING
from support.patch_kernels import CASES, Convolution, convolved, sent_to_both, unfolded

BF16 = ml_dtypes.bfloat16
needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@needs_compiler
@pytest.mark.share(6)
@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("name", CASES)
def test_patches(name: str, dtype: Any) -> None:
    case = CASES[name]
    x = case.input(dtype)
    want = case.patches(x)
    y = np.zeros_like(want)
    host_tma.run(unfolded, (-(-len(want) // 32), case.channels // 16), x, y, **case.constants)
    np.testing.assert_array_equal(y, want)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_an_implicit_product(arch: str) -> None:
    """Patches in the swizzled operands of the tensor cores, in two boxes of 64 channels."""
    case = Convolution((2, 6, 8), 128, (3, 3), (1, 2), (1, 1), (1, 1))
    x, w = case.input(BF16), np.random.default_rng(1).integers(-3, 4, (32, 9, 128)).astype(BF16)
    want = np.einsum("mtc,ntc->mn", case.patches(x.astype(np.float32)), w.astype(np.float32))
    y = np.zeros_like(want)
    constants = {"KERNEL": (3, 3), "STRIDE": (1, 2), "PADDING": 1, "BC": 128, "STAGES": 2}
    module = host_tma.run(convolved, (-(-len(want) // 64), 1), x, w, y, arch=arch, **constants)
    np.testing.assert_array_equal(y, want)
    assert "2 boxes of 64 patches of 64 channels, 128-byte swizzle" in module.source


@needs_compiler
def test_multicast() -> None:
    x, y = np.random.default_rng(2).integers(-9, 10, (3, 4, 6, 32)).astype(np.float32), np.zeros((6, 32, 32), np.float32)
    want = y.copy()
    sent_to_both[6](x, want)
    host_tma.run(sent_to_both, 6, x, y)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(("name", "rank"), [("a line", 3), ("3 x 3, padded", 4), ("a volume", 5)])
def test_instructions(name: str, rank: int, arch: str) -> None:
    case = CASES[name]
    x = case.input(np.float32)
    made = px.compile(unfolded[4, 1], x, np.zeros_like(case.patches(x)), arch=arch, **case.constants)
    mnemonic = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
    (line,) = {line.strip() for line in made.ptx.splitlines() if "im2col" in line}
    assert line.startswith(mnemonic) and line.count(",") == 2 * rank
    assert made.cubin[:4] == b"\x7fELF" and any("a box of 32 patches of 16 channels" in note for note in made.notes)


def test_multicast_and_a_hint_are_modifiers() -> None:
    x = np.zeros((3, 4, 6, 32), np.float32)
    made = px.compile(sent_to_both[6], x, np.zeros((6, 32, 32), np.float32), arch="sm_90a")
    modifiers = ".im2col.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
    assert f"cp.async.bulk.tensor.4d.shared::cluster.global{modifiers}" in made.ptx
