"""Integers of 4 bits: what conversions give, that text run on the CPU agrees, and what products of them cost."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.host_cuda import COMPILER, MISSING, run_on_host

BF16, I4, U4 = ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4
on_host = pytest.mark.skipif(COMPILER is None, reason=MISSING)
OTHERS = (
    np.float64, np.float32, np.float16, BF16, ml_dtypes.float8_e4m3fn, np.int8, np.uint8, np.int16, np.int32, np.uint32,
    np.int64, np.bool_,
)  # fmt: skip


def numbers(codes: np.ndarray, kind: Any) -> np.ndarray:
    """What codes of four bits stand for, by hand."""
    whole = codes.astype(np.int64) & 15
    return np.where(whole > 7, whole - 16, whole) if kind is I4 else whole


def drawn(seed: int, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 16, shape).astype(np.uint8).view(kind)


@px.kernel(warps=lambda W: W)
def converted(X, Y, *, M, N, W=4):
    px.store(Y[0:M, 0:N], px.load(X[0:M, 0:N]).to(Y.dtype))


@pytest.mark.parametrize("other", OTHERS, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("kind", [I4, U4], ids=lambda kind: np.dtype(kind).name)
def test_conversions(kind: Any, other: Any) -> None:
    """To another type, the number; back, integers wrap around, floats truncate and saturate."""
    x, y = drawn(1, (8, 24), kind), np.zeros((8, 24), other)
    converted[1](x, y, M=8, N=24)
    assert np.array_equal(y, numbers(x.view(np.uint8), kind).astype(other))
    rng = np.random.default_rng(2)
    back = np.zeros((8, 24), kind)
    if np.dtype(other).kind in "iub":
        y = rng.integers(-128 if np.dtype(other).kind == "i" else 0, 2 if other is np.bool_ else 128, (8, 24)).astype(other)
        want = numbers(y.astype(np.int64), kind)
    else:
        y = (rng.standard_normal((8, 24)) * 8).astype(other)
        y[0, :3] = [np.nan, -100.0, 100.0]
        low = -8 if kind is I4 else 0
        want = np.clip(np.nan_to_num(np.trunc(y.astype(np.float64)), nan=0.0), low, low + 15)
    converted[1](y, back, M=8, N=24)
    assert np.array_equal(back.astype(np.int64), want.astype(np.int64))


@on_host
@pytest.mark.share(6)
@pytest.mark.parametrize("other", OTHERS, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("kind", [I4, U4], ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("m, n, warps", [(16, 64, 4), (5, 6, 1), (3, 40, 2)])
def test_the_text_converts_alike(kind: Any, other: Any, m: int, n: int, warps: int) -> None:
    rng = np.random.default_rng(3)
    wide = (rng.standard_normal((m, n)) * 8).astype(other)
    for given, made in ((drawn(3, (m, n), kind), other), (wide, kind)):
        simulated, run = np.zeros((m, n), made), np.zeros((m, n), made)
        converted[1](given, simulated, M=m, N=n, W=warps)
        run_on_host(converted, 1, given.copy(), run, M=m, N=n, W=warps)
        assert np.array_equal(simulated.view(np.uint8), run.view(np.uint8))


@px.kernel(warps=4)
def moved(X, Y, Z, *, M=16, N=64, FILL=0):
    """Through registers with a fill, and through shared memory by the copy engine."""
    px.store(Y[0:M, 0:N], px.load(X[2 : 2 + M, 0:N], fill=FILL))
    s, bar = px.shared((M, N), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(X[0:M, 0:N], s, bar)
    bar.wait(0)
    px.store(Z[0:M, 0:N], px.load(s).to(px.i32))


@on_host
@pytest.mark.parametrize("kind, fill", [(I4, -3), (U4, 9)])
def test_they_are_moved_as_bytes(kind: Any, fill: int) -> None:
    x = drawn(4, (16, 64), kind)
    results = [(np.zeros((16, 64), kind), np.zeros((16, 64), np.int32)) for _ in range(2)]
    moved[1](x, *results[0], FILL=fill)
    run_on_host(moved, 1, x, *results[1], FILL=fill)
    for y, z in results:
        assert np.array_equal(y[:14].view(np.uint8), x[2:].view(np.uint8)) and (y[14:].astype(np.int32) == fill).all()
        assert np.array_equal(z, x.astype(np.int32))
    assert px.check(moved[1], x, *results[0]).ok


@px.kernel(warps=4)
def product(X, W, S, Z, C, *, BM=64, BN=64, BK=64):
    """`X @ ((W - Z) * S).T`: the weights are the left operand of the transposed product, which registers hold."""
    acc = px.zeros((BN, BM), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK)):
        w, s, z = px.load(W[0:BN, k : k + BK]), px.load(S[0:BN, k // BK]), px.load(Z[0:BN, k // BK])
        acc = px.dot((w.to(px.bf16) - z[:, None]) * s[:, None], px.load(X[0:BM, k : k + BK]).T, acc)
    px.store(C[0:BM, 0:BN], acc.T)


def weights(kind: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    x = rng.integers(-3, 4, (64, 192)).astype(BF16)
    s, z = rng.integers(1, 4, (64, 3)).astype(BF16), rng.integers(-4, 5, (64, 3)).astype(BF16)
    return [x, drawn(6, (64, 192), kind), s, z, np.zeros((64, 64), np.float32)]


@pytest.mark.parametrize("kind", [I4, U4], ids=lambda kind: np.dtype(kind).name)
def test_a_product_of_them(kind: Any) -> None:
    """Staged by the copy engine; exact, since all numbers are small."""
    x, w, s, z, c = args = weights(kind)
    wide = (w.astype(np.float32) - np.repeat(z.astype(np.float32), 64, 1)) * np.repeat(s.astype(np.float32), 64, 1)
    product[1](*args)
    assert np.array_equal(c, x.astype(np.float32) @ wide.T)
    if COMPILER is not None:
        run = [*args[:4], np.zeros_like(c)]
        run_on_host(product, 1, *run)
        assert np.array_equal(run[4], c)
    codes = w.view(np.uint8)
    packed = px.packed(np.ascontiguousarray(codes[:, 0::2] | codes[:, 1::2] << 4), px.i4 if kind is I4 else px.u4)
    made = px.compile(product[1], x, packed, s, z, c, arch="sm_90a")
    assert any("px.load of W: staged by the copy engine" in note for note in made.notes)
    assert any("px.dot runs as wgmma on the ring" in note for note in made.notes)
    conversions = re.findall(r"\bcvt\.\S*f\d\S*", made.ptx)
    assert not conversions, "all arithmetic of elements is on two of them"
    copies, rest = divmod(len(re.findall(r"sub\.rn\.bf16x2", made.ptx)), 64 * 64 // 128 // 2)
    assert copies > 0 and rest == 0, "the steps that stand in the text, each for two elements at once"


@pytest.mark.parametrize("kind", [I4, U4], ids=lambda kind: np.dtype(kind).name)
def test_bytes_are_converted_themselves(kind: Any) -> None:
    """A byte in a register of its own, as fragments of products have it, takes a multiplication and a mask; four that one
    load brought are taken from the register in which they came. Nothing takes integers out of a byte one by one."""
    small, name = px.i4 if kind is I4 else px.u4, np.dtype(kind).name.replace("uint", "u").replace("int", "i")
    bf16, f32 = (lambda *shape: px.spec(shape, px.bf16)), px.spec((64, 64), px.f32)
    single = px.compile(product[1], bf16(64, 192), px.spec((64, 192), small), bf16(64, 3), bf16(64, 3), f32, arch="sm_90a")
    several = px.compile(converted[1], px.spec((16, 64), small), bf16(16, 64), arch="sm_90a", M=16, N=64)
    assert f"ptx::{name}x2_to_bf16(" in single.source and f"ptx::{name}x8_to_bf16(" in several.source
    assert not any(">> 4 & 15" in made.source for made in (single, several))
    taken = len(re.findall(r"\bmul\.\S+\s+\S+, \S+, 4097;", single.ptx))
    assert taken and taken % (64 * 64 // 2 // 128) == 0, "one for each byte of a step"
    assert len(re.findall(r"\bprmt\.b32", several.ptx)) >= 16 * 64 // 2 // 128


@px.kernel
def there_and_back(X, Y, *, KIND):
    px.store(Y[0:8, 0:16], px.load(X[0:8, 0:16]).to(KIND).to(px.bf16))


@on_host
@pytest.mark.parametrize("kind", [px.i4, px.u4], ids=str)
def test_codes_that_were_computed_are_converted_in_pairs(kind: Any) -> None:
    x = np.random.default_rng(7).integers(-9, 18, (8, 16)).astype(np.float32)
    simulated, run = np.zeros((8, 16), BF16), np.zeros((8, 16), BF16)
    there_and_back[1](x, simulated, KIND=kind)
    run_on_host(there_and_back, 1, x, run, KIND=kind)
    assert np.array_equal(simulated.view(np.uint16), run.view(np.uint16))
    assert np.array_equal(simulated.astype(np.float32), np.clip(x, *((-8, 7) if kind is px.i4 else (0, 15))))


def test_nothing_computes_with_them() -> None:
    @px.kernel
    def sums(X):
        x = px.load(X[0:4])
        px.store(X[0:4], x + x)

    with pytest.raises(px.Error) as found:
        sums[1](np.zeros(4, I4))
    assert found.value.message == "'+' is not defined on i4 and i4"
    assert found.value.remedy == "convert operands of 8 bits and less first, e.g. x.to(px.f32)"


def test_numbers_on_the_host() -> None:
    assert [px.i4(9), px.u4(-1), px.u4(3.7), px.u4(300.5), px.i4(-100.0)] == [-7, 15, 3, 15, -8]
