"""The library's matmul on Blackwell: against NumPy in the simulator, checked, on the CPU as CUDA text, compiled."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from kernels.test_matmul import ACTIVATIONS, BF16, E4M3, E5M2, SCALES, as_is, by_columns, close, numbers, product
from phalanx.kernels import pack_scales, quantize
from phalanx.kernels.products.matmul import BlackwellConfig, CopyWarning, matmul
from phalanx.kernels.products.matmul_blackwell_config import candidates, choose_blackwell
from phalanx.kernels.products.matmul_config import Problem
from support.host_cuda import module_for
from support.library_launches import LibraryLaunch, launches

matmul_module = sys.modules["phalanx.kernels.products.matmul"]  # the name is the function's
KERNELS = ((matmul_module, "matmul_blackwell"),)
B200 = px.device().__class__("B200", "sm_100a", 148, 126 << 20, 232448, None)
FORMATS = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}


def plain_scales(scales: np.ndarray, rows: int, blocks: int) -> np.ndarray:
    """Scales (rows, blocks) of such in the order of blocks."""
    high, wide = scales.shape[:2]
    return np.ascontiguousarray(scales.transpose(0, 3, 2, 1, 4).reshape(high * 128, wide * 4)[:rows, :blocks])


class Quantized:
    """A random matrix as codes and scales, in both orders, and what they stand for."""

    def __init__(self, rows: int, k: int, name: str, seed: int = 0, tensor_scale: float = 1.0) -> None:
        x = numbers(rows, k, dtype=np.float32, seed=seed)
        self.codes, self.blocks = quantize(x, name, tensor_scale=tensor_scale)
        self.plain = plain_scales(self.blocks, rows, k // FORMATS[name])
        spread = np.repeat(self.plain.astype(np.float32), FORMATS[name], axis=1)
        self.values = self.codes.astype(np.float32) * spread * np.float32(tensor_scale)
        assert np.abs(self.values - x).max() <= np.abs(x).max() / 4


# What it computes.


@pytest.mark.share(7)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize("a_form", [as_is, by_columns])
@pytest.mark.parametrize("b_form", [as_is, by_columns])
def test_transposes_are_read_as_they_lie(dtype: Any, a_form: Callable, b_form: Callable) -> None:
    a, b = a_form(numbers(136, 80, dtype=dtype)), b_form(numbers(80, 264, dtype=dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CopyWarning)
        got = matmul(a, b, arch="sm_100a")
    assert got.dtype == dtype
    close(got, product(a, b))


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (77, 33, 17), (129, 257, 65), (0, 8, 8)])
@pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")
def test_any_shape(m: int, n: int, k: int) -> None:
    a, b = numbers(m, k), numbers(k, n)
    close(matmul(a, b, arch="sm_100a"), product(a, b))


def test_a_sum_of_nothing_is_the_bias() -> None:
    bias = numbers(8)
    assert np.array_equal(matmul(numbers(4, 0), numbers(0, 8), bias, arch="sm_100a"), np.broadcast_to(bias, (4, 8)))


@pytest.mark.share(2)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("axes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_bias_and_activation(activation: str, axes: int) -> None:
    a, b = numbers(136, 64), numbers(64, 72)
    bias = numbers(*(136, 72)[2 - axes :], dtype=np.float32)
    got = matmul(a, b, bias, activation, out_dtype=np.float32, arch="sm_100a")
    want = ACTIVATIONS[activation](product(a, b) + bias)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max() + 1e-5


@pytest.mark.share(4)
@pytest.mark.parametrize("left", SCALES)
def test_scales_of_8_bit_operands(left: str) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(200, 144, dtype=E4M3), by_columns(numbers(144, 136, dtype=E5M2))
    scale_a, scale_b = SCALES[left](rng, (200, 1)), SCALES["vector"](rng, (1, 136))
    got = matmul(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=np.float32, arch="sm_100a")
    rows = scale_a.reshape(-1, 1) if left == "flat" else scale_a
    close(got, product(a, b) * rows * scale_b)


def test_batches_and_results_by_columns() -> None:
    a, b, bias = numbers(3, 40, 24), numbers(3, 24, 72), numbers(3, 40, 72)
    close(matmul(a, b, bias, arch="sm_100a"), product(a, b) + bias.astype(np.float32))
    out = by_columns(np.zeros((136, 72), np.float32))
    assert matmul(a.reshape(120, 24)[:, :16], numbers(16, 72), out=out[:120], arch="sm_100a") is not None
    close(out[:120], product(a.reshape(120, 24)[:, :16], numbers(16, 72)))
    assert not out[120:].any()


@pytest.mark.share(7)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(200, 136, 352), (1, 8, 32)], ids=str)
def test_block_scales(name: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = Quantized(m, k, name), Quantized(n, k, name, seed=1)
    want = a.values @ b.values.T
    for left, right in ((a.blocks, b.blocks), (a.plain, b.plain), (a.blocks.reshape(-1), b.blocks)):
        close(matmul(a.codes, b.codes.T, scale_a=left, scale_b=right, out_dtype=np.float32), want)


@pytest.mark.share(2)
@pytest.mark.parametrize("form", [float, lambda x: np.full((1,), x, np.float32)], ids=["number", "array"])
def test_the_tensor_scale_of_nvfp4(form: Callable) -> None:
    a, b = Quantized(48, 64, "nvfp4", tensor_scale=2.0**-6), Quantized(40, 64, "nvfp4", tensor_scale=2.0**-7, seed=1)
    bias = numbers(40)
    got = matmul(a.codes, b.codes.T, bias, "relu", scale_a=a.plain, scale_b=b.blocks, tensor_scale=form(2.0**-13))
    assert got.dtype == BF16
    close(got, np.maximum(a.values @ b.values.T + bias.astype(np.float32), 0))


def test_e5m2_with_block_scales() -> None:
    a, b = numbers(40, 64, dtype=E5M2), numbers(24, 64, dtype=E4M3)
    scales = [np.full((rows, 2), 2.0**power).astype(ml_dtypes.float8_e8m0fnu) for rows, power in ((40, 3), (24, -5))]
    close(matmul(a, b.T, scale_a=scales[0], scale_b=pack_scales(scales[1])), 0.25 * product(a, b.T))


# The choreography, and the text.

CONFIGS = {
    "alone": BlackwellConfig(64, cluster=(1, 1)),
    "a pair": BlackwellConfig(64),
    "side by side": BlackwellConfig(64, cluster=(1, 2)),
    "four CTAs": BlackwellConfig(64, cluster=(2, 2)),
    "columns of B": BlackwellConfig(64, cluster=(4, 1)),
}
ON_HOST = ("alone", "a pair", "four CTAs")


def captured(*args: Any, run: bool = True, **options: Any) -> tuple[np.ndarray, LibraryLaunch]:
    """A product, and its launch."""
    matmul_module._PLANS.clear()  # a plan has the kernel in it
    try:
        with launches(*KERNELS, run=run) as found:
            got = matmul(*args, **options)
    finally:
        matmul_module._PLANS.clear()
    [launch] = found
    return got, launch


def run_everywhere(launch: LibraryLaunch, out: np.ndarray, want: np.ndarray, on_host: bool) -> None:
    """Checks a launch, and runs its text on the CPU."""
    report = launch.check(schedules=2, strict=True, arch="sm_100a")
    assert report.ok, report
    if on_host:
        out[...] = 0
        launch.on_host()
        close(out, want)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n != "a pair")) for n in CONFIGS])
def test_clusters(name: str) -> None:
    config = CONFIGS[name]
    a, b, bias = numbers(264, 72), numbers(72, 72), numbers(72)
    b = by_columns(b) if config.pair == 2 else b  # halves of columns are whole panels of 64
    got, launch = captured(a, b, bias, "relu", out_dtype=np.float32, config=config)
    want = np.maximum(product(a, b) + bias.astype(np.float32), 0)
    close(got, want)
    run_everywhere(launch, got, want, name in ON_HOST)


PAIRS = ((2, 1), (4, 1), (2, 2))
WITH_BLOCKS = [
    *(pytest.param(name, cluster, marks=[pytest.mark.long] * (cluster != PAIRS[0] or name != "mxfp8"))
      for name in FORMATS for cluster in PAIRS),
    pytest.param("nvfp4", (1, 1), marks=pytest.mark.long),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name, cluster", WITH_BLOCKS)
def test_clusters_with_block_scales(name: str, cluster: tuple[int, int]) -> None:
    m, n, k = 264, 136, 160 if name == "mxfp8" else 288
    a, b = Quantized(m, k, name), Quantized(n, k, name, seed=1)
    config = BlackwellConfig(128, 128 if name == "mxfp8" else 256, cluster)
    got, launch = captured(
        a.codes, b.codes.T, scale_a=a.blocks, scale_b=b.blocks, tensor_scale=0.5, out_dtype=np.float32, config=config
    )
    want = 0.5 * (a.values @ b.values.T)
    close(got, want)
    run_everywhere(launch, got, want, cluster == PAIRS[0])


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
def test_scales_bias_and_edges_everywhere() -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(150, 144, dtype=E4M3), by_columns(numbers(144, 72, dtype=E5M2))
    scale_a, scale_b = SCALES["vector"](rng, (150, 1)), SCALES["vector"](rng, (1, 72))
    bias, out = numbers(150, 72), by_columns(np.zeros((150, 72), np.float32))
    config = BlackwellConfig(64, 128, (1, 1))
    options = {"scale_a": scale_a, "scale_b": scale_b, "out": out, "config": config}
    got, launch = captured(a, b, bias, "silu", **options)
    want = ACTIVATIONS["silu"](product(a, b) * scale_a * scale_b + bias.astype(np.float32))
    close(got, want)
    run_everywhere(launch, got, want, on_host=True)


# Real sizes, compiled.


def zeros(*shape: int, dtype: Any = BF16) -> np.ndarray:
    return np.zeros(shape, dtype)


BIG = 2048
E8M0, E2M1 = ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn
REAL = {
    "bf16": (zeros(BIG, BIG), zeros(BIG, BIG).T, {}),
    "f16, nothing along K, a bias with rows": (
        zeros(BIG, BIG, dtype=np.float16).T, zeros(BIG, BIG, dtype=np.float16),
        {"bias": zeros(BIG, BIG, dtype=np.float32), "activation": "gelu", "out_dtype": np.float32},
    ),
    "8 bits, scales of rows and columns": (
        zeros(BIG, BIG, dtype=E4M3), zeros(BIG, BIG, dtype=E4M3).T,
        {"scale_a": zeros(BIG, 1, dtype=np.float32), "scale_b": zeros(1, BIG, dtype=np.float32), "bias": zeros(BIG)},
    ),
    "few rows": (zeros(16, BIG), zeros(BIG, BIG).T, {"activation": "silu"}),
    "mxfp8": (
        zeros(BIG, BIG, dtype=E4M3), zeros(BIG, BIG, dtype=E4M3).T,
        {"scale_a": zeros(16, 16, 32, 4, 4, dtype=E8M0), "scale_b": zeros(16, 16, 32, 4, 4, dtype=E8M0)},
    ),
    "nvfp4": (
        zeros(BIG, BIG, dtype=E2M1), zeros(BIG, BIG, dtype=E2M1).T,
        {
            "scale_a": zeros(16, 32, 32, 4, 4, dtype=E4M3), "scale_b": zeros(16, 32, 32, 4, 4, dtype=E4M3),
            "tensor_scale": 0.5,
        },
    ),
}  # fmt: skip


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_100a", pytest.param("sm_103a", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", REAL)
def test_the_chosen_kernels_compile_without_spills(name: str, arch: str) -> None:
    a, b, options = REAL[name]
    _, launch = captured(a, b, run=False, arch="sm_100a", **options)
    made = launch.compile(arch)
    assert made.spills == 0
    assert "tcgen05.mma" in made.ptx and made.arch == arch
    assert sum("px.dot runs as tcgen05 on the ring, issued" in note for note in made.notes) == 1


def test_the_notes_say_what_was_compiled() -> None:
    a, b, options = REAL["nvfp4"]
    _, launch = captured(a, b, run=False, arch="sm_100a", **options)
    made = launch.compile("sm_103a")
    assert made.spills == 0
    [note] = (note for note in made.notes if "px.dot" in note)
    assert ": px.dot runs as tcgen05 on the ring, issued for pairs of CTAs by a warp of its own" in note


# What is chosen.


def test_choices() -> None:
    def chosen(m: int, n: int, k: int, **more: Any) -> tuple[int, int]:
        config = choose_blackwell(Problem(m, n, k, **more), B200)
        assert config in candidates(Problem(m, n, k, **more))
        return config.pair, config.bn

    assert chosen(8192, 8192, 8192) == (2, 256)
    assert chosen(64, 8192, 8192) == (1, 64)
    mx = {"itemsize": 1, "block": 32}
    assert chosen(8192, 8192, 16384, **mx) == (2, 256)
    assert chosen(8192, 8192, 512, **mx) == (2, 128)
    for problem in (Problem(8192, 8192, 8192), Problem(300, 300, 300, itemsize=1, per_byte=2, block=16, out_itemsize=4)):
        for config in candidates(problem):
            matmul_module.require_fits_blackwell(config, problem)


def test_the_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(16, 16), numbers(16, 16)
    monkeypatch.setattr(px, "device", lambda ordinal=0: B200)
    _, launch = captured(a, b)
    assert launch.kernel.name == "matmul_blackwell"


@pytest.mark.share(4)
@pytest.mark.parametrize("out_dtype", [np.float32, BF16])
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("rows", [100, pytest.param(BIG, marks=pytest.mark.long)])
def test_the_choice_fits_with_all_that_an_epilogue_may_hold(out_dtype: Any, by_rows: bool, rows: int) -> None:
    a, b, bias = zeros(rows, 512, dtype=E4M3), zeros(BIG, 512, dtype=E4M3).T, zeros(rows, BIG, dtype=np.float32)
    out = zeros(rows, BIG, dtype=out_dtype) if by_rows else zeros(BIG, rows, dtype=out_dtype).T
    scales = {"scale_a": zeros(rows, 1, dtype=np.float32), "scale_b": zeros(1, BIG, dtype=np.float32)}
    _, launch = captured(a, b, bias, "gelu", out, run=False, arch="sm_100a", **scales)
    module = module_for(launch.kernel, launch.arguments, arch="sm_100a", **launch.constants)
    assert module.shared_bytes <= 232448  # else lowering would have refused it, too
