"""px.auto: the number of stages that shared memory has room for, the same wherever the kernel goes."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.launch.specialise import read_arguments, specialise

LIMIT = 232448


@px.kernel(warps=4)
def copy(X, Y, *, BM=64, BN=64, STAGES=px.auto, OTHERS=16):
    s = px.shared((STAGES, BM, BN), X.dtype)
    others = px.shared((OTHERS,), px.u8)
    full = px.barrier(STAGES)
    ring = px.ring(STAGES)
    px.store(others, px.zeros((OTHERS,), px.u8))
    for n in range(0, X.shape[1], BN):
        with full[ring.stage].transaction():
            px.tma.load(X[0:BM, n : n + BN], s[ring.stage], full[ring.stage])
        full[ring.stage].wait(ring.parity)
        px.store(Y[0:BM, n : n + BN], px.load(s[ring.stage]) + STAGES)
        ring.advance()


ARGS = (px.spec((64, 1024), px.f32), px.spec((64, 1024), px.f32))


def stages(kernel=copy, **constants) -> int:
    return specialise(kernel, read_arguments(kernel, ARGS), kernel.bind_constants(constants)).constants["STAGES"]


@pytest.mark.share(2)
@pytest.mark.parametrize("others, want", [(16, 14), (100_000, 8)])
def test_as_many_as_fit(others: int, want: int) -> None:
    found = px.compile(copy[1], *ARGS, OTHERS=others)
    assert f"STAGES={want}," in found.ir
    assert found.shared_bytes <= LIMIT < found.shared_bytes + 64 * 64 * 4 + 8
    (note,) = [note for note in found.notes if "px.auto" in note]
    assert f"STAGES={want} (px.auto): {found.shared_bytes:,} of 232,448 bytes" in note


def test_bounds() -> None:
    assert stages(STAGES=px.auto(most=5)) == 5
    assert stages(BN=16) == 16, "unless asked for more"
    assert stages(STAGES=px.auto(least=3, most=3)) == 3


def test_a_number_is_a_number() -> None:
    assert stages(STAGES=2) == 2


@px.kernel(warps=4, ctas_per_sm=2)
def two_on_an_sm(X, Y, *, STAGES=px.auto):
    s = px.shared((STAGES, 64, 64), px.f32)
    for n in px.static_range(STAGES):
        px.store(s[n], px.load(X[0:64, 64 * n : 64 * n + 64]))
    px.store(Y[0:64, 0:64], px.load(s[0]))


def test_two_ctas_share_an_sm() -> None:
    found = px.compile(two_on_an_sm[1], *ARGS)
    assert "STAGES=7" in found.ir
    assert 2 * (found.shared_bytes + 1024) <= 228 << 10


def test_the_simulator_takes_the_same_number() -> None:
    x, y = np.zeros((64, 1024), np.float32), np.zeros((64, 1024), np.float32)
    copy[1](x, y)
    assert (y == 14).all()
    y[:] = 0
    copy[lambda STAGES: STAGES // 14](x, y)  # a grid may depend on it
    assert (y == 14).all()
    assert px.check(copy[1], x, y).ok


def test_it_follows_the_types() -> None:
    x, y = np.zeros((64, 1024), np.float64), np.zeros((64, 1024), np.float64)
    copy[1](x, y)
    assert (y == 7).all()


@px.kernel
def useless(X, Y, *, STAGES=px.auto):
    px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]) + STAGES)


def refusal(**constants) -> px.Error:
    with pytest.raises(px.Error) as caught:
        stages(**constants)
    return caught.value


def test_refused() -> None:
    error = refusal(STAGES=px.auto, BM=px.auto)
    assert "BM, STAGES" in error.message and "one of them" in error.remedy
    error = refusal(BM=128, BN=256)
    assert "262," in error.message and "STAGES=2" in error.message and "px.auto(least=1)" in error.remedy
    error = refusal(kernel=useless)
    assert "does not grow with it" in error.message
    with pytest.raises(px.Error, match=r"px\.auto"):
        px.auto(least=4, most=2)
