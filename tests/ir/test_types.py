"""Element types: their sizes in memory, and the conversions to floats of 8 bits and less, code by code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import DTYPES, FROM_NUMPY, LARGEST, rounded

SMALL = {"f4e2m1": 4, "f6e2m3": 6, "f6e3m2": 6, "f8e8m0": 8, "f8e4m3": 8, "f8e5m2": 8}


def every_code(name: str) -> np.ndarray:
    return np.arange(1 << SMALL[name], dtype=np.uint8).view(DTYPES[name].numpy)


def every_half() -> np.ndarray:
    with np.errstate(invalid="ignore"):  # not-a-number of all kinds
        return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16).astype(np.float32)


def nearest(x: float, name: str) -> float:
    """The number of the type that is closest, of two the one with the even code, by looking at all of them."""
    codes = every_code(name)
    if np.isnan(x):
        return float("nan") if SMALL[name] == 8 else LARGEST[name]
    values = codes.astype(np.float64)
    known = np.isfinite(values) & (np.signbit(values) == np.signbit(x))
    beyond = 2 * LARGEST[name]  # the largest is the nearest to all that is further away
    distance = np.where(known, np.abs(np.where(known, values, 0) - np.clip(x, -beyond, beyond)), np.inf)
    best = np.flatnonzero(distance == distance.min())
    even = [code for code in best if code % 2 == 0]
    return float(values[(even or list(best))[0]])


def test_the_new_types_are_known_everywhere():
    for name, bits in SMALL.items():
        dtype = DTYPES[name]
        assert getattr(px, name) is dtype and dtype.bits == bits and dtype.is_float and dtype.is_storage
        assert FROM_NUMPY[dtype.numpy] is dtype and dtype.numpy.itemsize == dtype.itemsize == 1


@pytest.mark.parametrize(
    "name, count, nbytes", [("f4e2m1", 64, 32), ("f4e2m1", 3, 2), ("f6e2m3", 64, 64), ("f8e8m0", 64, 64), ("bf16", 64, 128)]
)
def test_bytes_in_memory(name: str, count: int, nbytes: int):
    """Two elements of 4 bits share a byte, those of 6 bits have one each."""
    assert DTYPES[name].nbytes(count) == nbytes
    assert DTYPES[name].elements(nbytes) >= count


def test_no_type_takes_nothing():
    for dtype in DTYPES.values():
        assert dtype.itemsize >= 1 and dtype.nbytes(1) >= 1 and dtype.elements(16) * dtype.bits <= 128


@pytest.mark.parametrize("name", SMALL)
def test_every_code_comes_back(name: str):
    codes = every_code(name)
    again = rounded(codes.astype(np.float32), DTYPES[name])
    kept = ~np.isnan(codes.astype(np.float32)) & np.isfinite(codes.astype(np.float32))
    assert np.array_equal(again.view(np.uint8)[kept], codes.view(np.uint8)[kept])


@pytest.mark.share(7)
@pytest.mark.parametrize("name", LARGEST)
def test_every_half_becomes_the_nearest(name: str):
    halves = every_half()
    got = rounded(halves, DTYPES[name]).astype(np.float64)
    sample = np.concatenate([np.arange(0, 1 << 16, 7), np.arange(0x3000, 0x5000), np.arange(0x7BF0, 0x7C10)])
    for place in sample:
        want = nearest(float(halves[place]), name)
        assert got[place] == want or (np.isnan(want) and np.isnan(got[place])), float(halves[place])
    signs = ~np.isnan(halves) & (np.abs(halves) < 448)
    assert np.array_equal(np.signbit(got)[signs], np.signbit(halves)[signs])


@pytest.mark.parametrize("name", LARGEST)
def test_every_half_as_ml_dtypes_has_it(name: str):
    """Within the type's range; beyond it ml_dtypes has infinities and NaN where the hardware stays finite."""
    halves = every_half()
    inside = np.abs(halves) <= LARGEST[name]
    want = halves[inside].astype(DTYPES[name].numpy)
    assert np.array_equal(rounded(halves[inside], DTYPES[name]).view(np.uint8), want.view(np.uint8))


def test_powers_of_two_round_up_and_have_no_sign():
    e8m0 = DTYPES["f8e8m0"]
    halves = every_half()
    finite = np.isfinite(halves) & (halves != 0)
    got = rounded(halves[finite], e8m0).astype(np.float64)
    size = np.abs(halves[finite].astype(np.float64))
    assert (got >= size).all() and (got / 2 < size).all() and (np.log2(got) % 1 == 0).all()


@pytest.mark.parametrize(
    "x, code",
    [
        (0.0, 0), (-0.0, 0), (2.0**-149, 0), (2.0**-127, 0), (2.0**-127 + 2.0**-149, 1), (2.0**-126, 1), (1.0, 127),
        (-1.0, 127), (1.0000001, 128), (2.0**127, 254), (3.4e38, 254), (np.inf, 254), (-np.inf, 254), (np.nan, 255),
    ],
)
def test_the_ends_of_the_powers_of_two(x: float, code: int):
    assert int(rounded(np.float32([x]), DTYPES["f8e8m0"]).view(np.uint8)[0]) == code


@pytest.mark.parametrize("name", SMALL)
def test_numbers_on_the_host(name: str):
    dtype = DTYPES[name]
    assert dtype(1) == 1.0 and dtype(0.5) == 0.5
    assert dtype(1e9) == (2.0**30 if name == "f8e8m0" else LARGEST[name])
    assert np.float32(dtype(1.3)) == rounded(np.float32([1.3]), dtype).astype(np.float32)[0]


def test_ml_dtypes_agrees_on_what_a_power_of_two_is():
    codes = np.arange(255, dtype=np.uint8)
    assert np.array_equal(codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64), 2.0 ** (codes.astype(np.float64) - 127))
