"""Conversions to bf16 and f16 from types that f32 does not hold: rounded once, in the simulator, on the host and by PTX."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import DTYPES, as_elements
from support.host_cuda import COMPILER, MISSING, run_on_host

BITS, LEAST, LARGEST = {"bf16": 8, "f16": 11}, {"bf16": -126, "f16": -14}, {"bf16": 127, "f16": 15}


def once(x: float | int, name: str) -> float:
    """A number rounded by exact arithmetic, to nearest, ties to even."""
    size = abs(Fraction(x))
    if not size:
        return float(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, LEAST[name]) - BITS[name] + 1)
    found = float(round(size / step) * step)  # round() of a Fraction: ties to even
    found = float("inf") if found >= 2.0 ** (LARGEST[name] + 1) else found
    return -found if x < 0 else found


def doubles() -> np.ndarray:
    """Middles of two bf16 and of two f16, and what lies so close that f32 can't tell them apart."""
    rng = np.random.default_rng(3)
    found = []
    for bits in BITS.values():
        start = 1 + rng.integers(0, 1 << (bits - 1), 1000) / 2.0 ** (bits - 1) + 2.0**-bits
        found.append(start + rng.choice([0.0, 2.0**-33, -(2.0**-33), 2.0**-50, -(2.0**-50)], 1000))
    scaled = np.concatenate(found) * 2.0 ** rng.choice([-160, -140, -130, -126, -20, -14, -1, 0, 3, 15, 16, 127, 130], 2000)
    edges = [0.0, -0.0, 65519.99999999999, 65520.0, 3.3961775292304601e38, 3.396177529230460e38, 1e300, -1e300, 5e-324]
    values: np.ndarray = np.resize(np.concatenate([scaled, -scaled, edges]), 4096)
    return values


def integers(name: str) -> np.ndarray:
    """Middles of two bf16, and their neighbours."""
    info = np.iinfo(DTYPES[name].numpy)
    rng = np.random.default_rng(4)
    found = [0, 1, int(info.min), int(info.max)]
    while len(found) < 4096:
        shift = int(rng.integers(0, info.bits - 8))
        value = (int(rng.integers(128, 256)) << shift) + (1 << shift >> 1) + int(rng.integers(-1, 2))
        found.append(max(int(info.min), min(int(info.max), value if rng.integers(2) else -value)))
    return np.array(found, DTYPES[name].numpy)


def numbers(name: str) -> np.ndarray:
    return doubles() if name == "f64" else integers(name)


@px.kernel(warps=4)
def narrowed(X, Y, *, T):
    px.store(Y[0:4096], px.load(X[0:4096]).to(T))


@px.kernel(warps=1)
def constants(Y, *, C):
    px.store(Y[0:32], px.full((32,), C, Y.dtype))
    px.store(Y[32], px.bitcast(px.bitcast(Y.dtype(C), px.i16), Y.dtype))


PAIRS = [("f64", "bf16"), ("f64", "f16"), *[(source, "bf16") for source in ("i32", "u32", "i64", "u64")]]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source, target", PAIRS)
def test_rounded_once(source: str, target: str) -> None:
    x = numbers(source)
    wanted = np.array([once(value, target) for value in x.tolist()])
    assert (as_elements(x, DTYPES[target]).astype(np.float64) == wanted).all()
    in_simulator = np.zeros(4096, DTYPES[target].numpy)
    narrowed[1](x, in_simulator, T=DTYPES[target])
    assert (in_simulator.astype(np.float64) == wanted).all()
    if COMPILER is not None:
        on_host = np.zeros(4096, DTYPES[target].numpy)
        run_on_host(narrowed, 1, x, on_host, T=DTYPES[target])
        assert (on_host.astype(np.float64) == wanted).all()


@pytest.mark.parametrize(
    "name, value", [("bf16", 1 + 2**-8 + 2**-33), ("bf16", 2**33 + 2**25 + 1), ("f16", 1 + 2**-11 + 2**-40)]
)
def test_constants(name: str, value: Any) -> None:
    dtype, wanted = DTYPES[name], once(value, name)
    assert dtype(value) == wanted
    runs = [lambda y: constants[1](y, C=value), lambda y: run_on_host(constants, 1, y, C=value)]
    for run in runs[: 1 if COMPILER is None else 2]:
        y = np.zeros(33, dtype.numpy)
        run(y)
        assert (y.astype(np.float64) == wanted).all(), MISSING


@pytest.mark.parametrize("source, target", PAIRS)
def test_one_instruction(source: str, target: str) -> None:
    x, y = px.spec((4096,), DTYPES[source]), px.spec((4096,), DTYPES[target])
    ptx = px.compile(narrowed[1], x, y, T=DTYPES[target], arch="sm_90a").ptx
    kind = source.replace("i", "s")
    assert f"cvt.rn.{target}.{kind}" in ptx and "cvt.rn.f32" not in ptx


def test_not_a_number_and_infinity_stay() -> None:
    for name in BITS:
        got = as_elements(np.array([np.nan, np.inf, -np.inf]), DTYPES[name]).astype(np.float64)
        assert np.isnan(got[0]) and got[1:].tolist() == [np.inf, -np.inf]
    assert as_elements(np.ones(2, ml_dtypes.bfloat16), px.bf16).tolist() == [1, 1]
