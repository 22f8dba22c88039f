"""Loops over tiles where there is tensor memory: a warp of its own multiplies, results leave part by part."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.ir.ops.control import Roles
from support.front import array, prepared
from support.host_build import COMPILER, MISSING
from support.host_cuda import run_on_host

ARCH = "sm_100a"


@px.kernel(warps=lambda WARPS: WARPS)
def fused(A, B, C, BIAS, ROWS, MATRIX, *, BM=128, BN=128, BK=32, WARPS=4):
    """An epilogue with a vector of columns, one of rows, a tile of memory, and numbers of columns."""
    columns = px.cdiv(C.shape[1], BN)
    for t in px.persistent(px.cdiv(C.shape[0], BM) * columns):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        scaled = acc * px.load(ROWS[m : m + BM])[:, None] + px.load(BIAS[n : n + BN])[None, :]
        other = scaled + px.load(MATRIX[m : m + BM, n : n + BN]).to(px.f32)
        odd = px.arange(BN) % 2 == 1
        px.store(C[m : m + BM, n : n + BN], px.where(odd[None, :], px.maximum(other, 0.0), other).to(C.dtype))


@px.kernel(warps=4)
def gated(A, B, G, C, D, *, BM=128, BN=64, BK=32):
    """Two sums a loop, two results."""
    columns = px.cdiv(C.shape[1], BN)
    for t in px.persistent(px.cdiv(C.shape[0], BM) * columns):
        m, n = t // columns * BM, t % columns * BN
        up, gate = px.zeros((BM, BN), px.f32), px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            a = px.load(A[m : m + BM, k : k + BK])
            up = px.dot(a, px.load(B[n : n + BN, k : k + BK]).T, up)
            gate = px.dot(a, px.load(G[n : n + BN, k : k + BK]).T, gate)
        px.store(D[m : m + BM, n : n + BN], gate)
        px.store(C[m : m + BM, n : n + BN], (up * px.maximum(gate, 0.0)).to(C.dtype))


@px.kernel(warps=4, cluster=lambda CTAS: CTAS)
def paired(A, B, C, *, BN=64, BK=64, CTAS=2, A_BY_K=True, B_BY_K=True, SEND=True):
    """CTAs of a cluster have one tile of B in common: two by two they multiply together."""
    columns, rank = px.cdiv(C.shape[1], BN), px.cluster.rank()
    for t in px.persistent(px.cdiv(C.shape[0], 128 * CTAS) * columns):
        m, n = (t // columns * CTAS + rank) * 128, t % columns * BN
        acc = px.zeros((128, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1 if A_BY_K else 0], BK), stages=2, multicast=SEND):
            a = px.load(A[m : m + 128, k : k + BK]) if A_BY_K else px.load(A[k : k + BK, m : m + 128]).T
            b = px.load(B[n : n + BN, k : k + BK]).T if B_BY_K else px.load(B[k : k + BK, n : n + BN])
            acc = px.dot(a, b, acc)
        px.store(C[m : m + 128, n : n + BN], acc.to(C.dtype))


@px.kernel(warps=4, cluster=(2, 2))
def squares(A, B, C, *, BN=64, BK=64):
    """Four CTAs: pairs have rows of their own, which the other pair wants too, and each pair other columns."""
    x, y, columns = px.cluster.rank(0), px.cluster.rank(1), px.cdiv(C.shape[1], 2 * BN)
    for t in px.persistent(px.cdiv(C.shape[0], 256) * columns):
        m, n = (t // columns * 2 + x) * 128, (t % columns * 2 + y) * BN
        acc = px.zeros((128, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            acc = px.dot(px.load(A[m : m + 128, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        px.store(C[m : m + 128, n : n + BN], acc.to(C.dtype))


@px.func
def blocks_of(X, i, step, ROWS, COUNT):
    """Scales in blocks of 128 rows by 4, as rows and columns."""
    high, wide = ROWS // 128, COUNT // 4
    blocks = px.load(X[i // 128 : i // 128 + high, step * wide : step * wide + wide, 0:32, 0:16])
    return blocks.reshape(high, wide, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(ROWS, COUNT)


@px.kernel(warps=4, cluster=lambda CTAS: CTAS)
def scaled(A, B, OF_A, OF_B, C, *, BN=128, BK=256, BLOCK=16, CTAS=1):
    """Blocks along K have scales, which go into tensor memory as they lie."""
    for t in px.persistent(px.cdiv(C.shape[1], BN)):
        m, acc = px.cluster.rank() * 128, px.zeros((128, BN), px.f32)
        for i in px.pipelined(range(px.cdiv(A.shape[1], BK)), stages=2):
            a, b = px.load(A[m : m + 128, i * BK : i * BK + BK]), px.load(B[t * BN : t * BN + BN, i * BK : i * BK + BK])
            of_a, of_b = blocks_of(OF_A, m, i, 128, BK // BLOCK), blocks_of(OF_B, t * BN, i, BN, BK // BLOCK)
            acc = px.dot(a, b.T, acc, scale_a=of_a, scale_b=of_b)
        px.store(C[m : m + 128, t * BN : t * BN + BN], acc)


@px.kernel(warps=4)
def turned(A, B, C, *, BM=128, BN=128, BK=32):
    """The transpose leaves: no columns of the sums are rows of it that go together."""
    for t in px.persistent(px.cdiv(C.shape[1], BM)):
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            acc = px.dot(px.load(A[t * BM : t * BM + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        px.store(C[0:BN, t * BM : t * BM + BM], acc.T.to(C.dtype))


@px.kernel(warps=4)
def other_work(A, B, C, LIMIT, *, BM=128, BN=64, BK=32, HOW="begun"):
    """Loops whose products stay with those who compute."""
    for t in px.persistent(px.cdiv(C.shape[0], BM)):
        m = t * BM
        acc = px.load(C[m : m + BM, 0:BN]) if HOW == "begun" else px.zeros((BM, BN), px.f32)
        total = px.zeros((BM,), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            if HOW == "ends" and k > LIMIT:
                break
            a, b = px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK])
            if HOW == "sometimes":
                if k > LIMIT:
                    acc = px.dot(a, b.T, acc)
            else:
                acc = px.dot(a, b.T, acc)
            if HOW == "sums":
                total = total + px.sum(a.to(px.f32), 1)
        px.store(C[m : m + BM, 0:BN], acc + total[:, None])


def whole(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> np.ndarray:
    """Small whole numbers: sums are exact in every order."""
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(dtype)


def of_fused(m: int, n: int, k: int, dtype: Any = ml_dtypes.bfloat16) -> list[np.ndarray]:
    f32 = np.float32
    return [whole(m, k), whole(n, k), np.zeros((m, n), dtype), whole(n, dtype=f32), whole(m, dtype=f32), whole(m, n)]


def wanted(a: Any, b: Any, c: Any, bias: Any, rows: Any, matrix: Any) -> np.ndarray:
    other = a.astype(np.float32) @ b.astype(np.float32).T * rows[:, None] + bias + matrix.astype(np.float32)
    odd = np.arange(other.shape[1]) % 2 == 1
    return np.where(odd, np.maximum(other, 0), other).astype(c.dtype)


def said(bound: Any, *args: Any, **constants: Any) -> list[str]:
    notes = px.compile(bound, *args, arch=ARCH, **constants).notes
    return [note.split(": ", 1)[1] for note in notes]


@pytest.mark.parametrize(("size", "constants"), [
    ((300, 200, 96), {}), ((200, 256, 40), {"BN": 256, "WARPS": 8}), ((128, 128, 0), {}), ((256, 64, 32), {"BN": 64}),
    ((100, 136, 72), {"BM": 64}),
])  # fmt: skip
def test_an_epilogue_of_all_kinds(size: tuple[int, int, int], constants: dict[str, Any]) -> None:
    args = of_fused(*size)
    fused[2](*args, arch=ARCH, **constants)
    np.testing.assert_array_equal(args[2], wanted(*args))
    report = px.check(fused[2], *args, arch=ARCH, **constants)
    assert report.ok, report


@pytest.mark.parametrize("k", [0, 32, 104])
def test_two_sums_and_two_results(k: int) -> None:
    a, b, g = whole(200, k), whole(130, k), whole(131, k)[:130]
    c, d = np.zeros((200, 130), np.float32), np.zeros((200, 130), np.float32)
    gated[2](a, b, g, c, d, arch=ARCH)
    up, gate = (a.astype(np.float32) @ x.astype(np.float32).T for x in (b, g))
    np.testing.assert_array_equal(d, gate)
    np.testing.assert_array_equal(c, up * np.maximum(gate, 0))
    assert px.check(gated[2], a, b, g, c, d, arch=ARCH).ok


def test_three_roles_and_what_each_does() -> None:
    kernel = prepared(
        fused, (*(array(2, px.bf16),) * 3, array(1, px.f32), array(1, px.f32), array(2, px.bf16)), arch_of(ARCH), BN=256
    )
    (together,) = [op for op in kernel.walk() if isinstance(op, Roles)]
    roles = {role.name: [inner.mnemonic for inner in role.body.walk()] for role in together.regions}
    assert list(roles) == ["producer", "multiplier", "consumer"]
    assert roles["multiplier"].count("tcgen05.mma") == 1
    assert roles["multiplier"].count("tcgen05.commit") == 2  # one for a stage, one for the sums
    assert "tcgen05.mma" not in roles["producer"] + roles["consumer"]
    assert roles["consumer"].count("tcgen05.load") == roles["consumer"].count("tma.store") == 4


def test_what_the_notes_say() -> None:
    found = said(fused[2], *of_fused(256, 256, 64), BN=256)
    assert "px.pipelined: 1 warp more fetches, 1 gives the tensor cores their work (6 warps in all)" in found
    (dot,) = [note for note in found if note.startswith("px.dot")]
    assert dot == (
        "px.dot runs as tcgen05 on the ring, issued by a warp of its own; its sum has two places of tensor memory, in turn"
    )
    assert "px.store of C: leaves in 4 parts through 16384 bytes of shared memory, while the next tile is computed" in found


def test_sums_that_fill_tensor_memory_have_one_place() -> None:
    a, b, c = whole(256, 64), whole(256, 64), np.zeros((256, 256), np.float32)
    (dot,) = [note for note in said(gated[1], a, b, b, c, c.copy(), BN=256) if note.startswith("px.dot runs as tcgen05")][:1]
    assert dot.endswith("its sum has one place of tensor memory")


def test_a_transpose_leaves_as_a_whole() -> None:
    a, b, c = whole(200, 72), whole(128, 72), np.zeros((128, 200), np.float32)
    turned[2](a, b, c, arch=ARCH)
    np.testing.assert_array_equal(c.T, a.astype(np.float32) @ b.astype(np.float32).T)
    assert px.check(turned[2], a, b, c, arch=ARCH).ok
    assert "px.dot runs as tcgen05 on the ring, issued by" in "".join(said(turned[2], a, b, c))


@pytest.mark.parametrize("how", ["begun", "ends", "sometimes", "sums"])
def test_other_work_in_a_step_keeps_the_products_with_it(how: str) -> None:
    a, b, c = whole(200, 104), whole(64, 104), whole(200, 64, dtype=np.float32)
    plain = c.copy()
    other_work[2](a, b, plain, 40, arch=ARCH, pipelined=False, HOW=how)
    assert not any("issued by a warp of its own" in note for note in said(other_work[2], a, b, c, 40, HOW=how))
    other_work[2](a, b, c, 40, arch=ARCH, HOW=how)
    np.testing.assert_array_equal(c, plain)


PAIRS: list[dict[str, Any]] = [{}, {"CTAS": 4}, {"A_BY_K": False}, {"B_BY_K": False, "BN": 128}]


def of_paired(A_BY_K: bool = True, B_BY_K: bool = True, k: int = 72, **_: Any) -> tuple[Any, list[np.ndarray]]:
    a, b = whole(304, k), whole(136, k)
    args = [a if A_BY_K else a.T.copy(), b if B_BY_K else b.T.copy(), np.zeros((304, 136), ml_dtypes.bfloat16)]
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16), args


@pytest.mark.parametrize("constants", PAIRS)
def test_pairs_of_ctas(constants: dict[str, Any]) -> None:
    want, args = of_paired(**constants)
    found = said(paired[4], *args, **constants)
    assert any("px.load of B: staged by the copy engine, each CTA of a pair a half" in note for note in found)
    assert any("tcgen05 on the ring, issued for pairs of CTAs by a warp of its own" in note for note in found)
    paired[4](*args, arch=ARCH, **constants)
    np.testing.assert_array_equal(args[2], want)
    report = px.check(paired[4], *args, arch=ARCH, **constants)
    assert report.ok, report


def test_pairs_that_share_rows() -> None:
    want, args = of_paired()
    squares[4, 2](*args, arch=ARCH)
    np.testing.assert_array_equal(args[2], want)
    report = px.check(squares[4, 2], *args, arch=ARCH)
    assert report.ok, report


F4, E4M3 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize(("ctas", "kind"), [(1, ml_dtypes.float8_e8m0fnu), (2, ml_dtypes.float8_e4m3fn)])
def test_scales_of_blocks(ctas: int, kind: Any) -> None:
    rows, k = 128 * ctas, 288
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (n, k)).astype(F4) for n in (rows, 136))
    plain = [2.0 ** rng.integers(-1, 2, (n, 32)) for n in (rows, 256)]  # of what is outside, too
    turned = [x.reshape(-1, 4, 32, 8, 4).transpose(0, 3, 2, 1, 4).reshape(-1, 8, 32, 16).astype(kind) for x in plain]
    c = np.zeros((rows, 136), np.float32)
    args = (a, b, *turned, c)
    left, right = (x.astype(np.float32) * np.repeat(s, 16, 1)[: len(x), :k] for x, s in zip((a, b), plain, strict=True))
    scaled[ctas](*args, CTAS=ctas, arch=ARCH)
    np.testing.assert_array_equal(c, left @ right.T)
    report = px.check(scaled[ctas], *args, CTAS=ctas, arch=ARCH, strict=True, schedules=2)
    assert report.ok, report
    found = said(scaled[ctas], *args, CTAS=ctas)
    who = "issued for pairs of CTAs" if ctas == 2 else "issued"
    assert any(note.startswith(f"px.dot runs as tcgen05 on the ring, {who} by a warp of its own") for note in found)
    assert sum("staged by the copy engine" in note for note in found) == 4


def test_where_nobody_packs_four_bits() -> None:
    """Another target has the product of warps, which reads packed memory, not registers."""
    args = (whole(128, 256, dtype=F4), whole(128, 256, dtype=F4), *(np.ones((1, 4, 32, 16), E4M3) for _ in range(2)))
    with pytest.raises(px.Error, match=r"a of px\.dot is a register tile of f4e2m1"):
        px.compile(scaled[1], *args, np.zeros((128, 128), np.float32), arch="sm_120a")


def test_nothing_to_multiply_in_pairs() -> None:
    want, args = of_paired(k=0)
    paired[2](*args, arch=ARCH)
    np.testing.assert_array_equal(args[2], want)


@pytest.mark.parametrize("constants", [{"SEND": False}, {"BN": 8}, {"B_BY_K": False}])
def test_no_pairs(constants: dict[str, Any]) -> None:
    """Nothing is to be sent; half of the columns are too few; they are less than a row of the swizzle."""
    want, args = of_paired(**constants)
    assert not any("pairs of CTAs" in note for note in said(paired[4], *args, **constants))
    paired[4](*args, arch=ARCH, **constants)
    np.testing.assert_array_equal(args[2], want)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("constants", PAIRS[:2])
def test_the_text_of_pairs_on_the_cpu(constants: dict[str, Any]) -> None:
    want, args = of_paired(**constants)
    run_on_host(paired, 4, *args, arch=ARCH, **constants)
    np.testing.assert_array_equal(args[2], want)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("constants", [{}, {"BN": 256, "WARPS": 8}])
def test_the_text_on_the_cpu(constants: dict[str, Any]) -> None:
    args = of_fused(140, 136, 72)
    run_on_host(fused, 2, *args, arch=ARCH, **constants)
    np.testing.assert_array_equal(args[2], wanted(*args))
