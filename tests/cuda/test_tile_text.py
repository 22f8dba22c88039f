"""The text of tile instructions: short loops, right functions, and that it compiles for both targets without spills."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

import phalanx as px
from phalanx.ir.types import F32, I32, bf16, f8e4m3, f16, f64, i8, i32, i64
from support.cuda_text import body, compiles, module_of
from support.front import array


@px.kernel(warps=4)
def scale(X, Y, alpha, *, BM=64, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m:m + BM, n:n + BN], px.load(X[m:m + BM, n:n + BN]) * alpha)


@px.kernel(warps=4)
def doubled(X, Y, *, M=64, N=64):
    px.store(Y[0:M, 0:N], px.load(X[0:M, 0:N]) * 2.0)


def test_elementwise_is_one_loop() -> None:
    text = body(module_of(scale, (array(2), array(2), F32)))
    assert re.search(r"#pragma unroll\n  for \(int i = 0; i < 32; \+\+i\) \w+\[i\] = \w+\[i\] \* alpha;", text)


def test_aligned_rows_are_moved_in_vectors_of_16_bytes() -> None:
    text = body(module_of(scale, (array(2), array(2), F32)))
    assert "ptx::load_vector<4>" in text and "ptx::store_vector_if<4>" in text
    assert "if (X.shape[1] % 4 == 0 || n <= X.shape[1] - 64)" in text, "the offset is known to be a multiple of 4"
    assert re.search(r"load_(vector|words)<8>", body(module_of(doubled, (array(2, bf16), array(2, bf16)))))
    assert "load_vector" not in body(module_of(scale, (array(2, aligned=False), array(2), F32)))
    strided = body(module_of(scale, (array(2, unit_inner=False), array(2), F32)))
    assert "load_vector" not in strided and "X.stride[1]" in strided


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "dtype, rows, columns, stored",
    [
        (px.f32, 64, 64, {"v4.u32": 8}), (px.bf16, 64, 64, {"v4.u32": 4}), (px.f64, 64, 32, {"v4.u32": 8}),
        (px.f32, 512, 2, {"v2.u32": 4}),
    ],
)  # fmt: skip
def test_stores_of_vectors_do_not_fall_apart(dtype: Any, rows: int, columns: int, stored: dict[str, int]) -> None:
    """Not even where rows lie a stride apart, from which NVRTC derives the address of every word by itself."""
    x = px.spec((4096, 64), dtype)
    ptx = px.compile(doubled[1], x, x, M=rows, N=columns).ptx
    assert Counter(re.findall(r"st\.global\.(\S+)", ptx)) == stored


@px.kernel(warps=4)
def shifted_and_scaled(X, S, Y, *, N=1024):
    x, s = px.load(X[0:N]), px.load(S[0:N])
    px.store(Y[0:N], (x - 136.0) * s + x)


@pytest.mark.parametrize("dtype, computed", [(px.bf16, ".rn.bf16x2"), (px.f16, ".rn.f16x2")])
def test_arithmetic_of_16_bits_takes_two_elements_at_once(dtype: Any, computed: str) -> None:
    """Nothing is converted or packed for it, and a product and a sum stay two instructions."""
    x = px.spec((1024,), dtype)
    ptx = px.compile(shifted_and_scaled[1], x, x, x).ptx
    found = Counter(re.findall(r"^\s+((?:\w+\.\S*16\S*)|prmt\S*) ", ptx, re.MULTILINE))
    assert found == {f"{fn}{computed}": 1024 // 2 // 128 for fn in ("sub", "mul", "add")}


@px.kernel(warps=4)
def shifted(X, Y, n, *, N=256):
    px.store(Y[0:N], px.load(X[n:n + N]))


def test_an_unknown_offset_is_tested_at_run_time() -> None:
    assert "if (n % 2 == 0 && (X.shape[0] % 2 == 0 || n <= X.shape[0] - 256))" in body(
        module_of(shifted, (array(1), array(1), I32))
    )


def test_addresses_are_computed_in_64_bits() -> None:
    text = module_of(scale, (array(2), array(2), F32)).source
    assert "long long stride[" in text
    assert re.search(r"X\.data \+ \(\(int\)\w+ \* X\.stride\[0\] \+ \(int\)\w+\)", text)


@px.kernel(warps=4)
def reduces(X, Y, *, N=512):
    x = px.load(X[0:N])
    px.store(Y[0], px.sum(x, 0))
    px.store(Y[1], px.max(x, 0))


@px.kernel(warps=4)
def reduces_in_a_loop(X, Y, n, *, N=512):
    for k in range(n):
        px.store(Y[k], px.sum(px.load(X[k, 0:N]), 0))


def test_reductions_shuffle_then_meet_in_scratch_memory() -> None:
    module = module_of(reduces, (array(1), array(1)))
    text = body(module)
    assert "ptx::shuffle_xor" in text
    assert module.shared_bytes == 16, "a number per warp"
    compiles(reduces, (array(1), array(1)))


def test_the_next_use_of_scratch_memory_waits_for_the_last() -> None:
    once = body(module_of(reduces, (array(1), array(1))))
    assert once.count("__syncthreads();") == 3
    assert once.count("// scratch memory is free") == 1
    again = body(module_of(reduces_in_a_loop, (array(2), array(1), I32)))
    assert again.count("__syncthreads();") == 2
    assert again.count("// scratch memory is free") == 1


@px.kernel(warps=4)
def store_row(X, Y, *, M=16, N=64):
    px.store(Y[0:M], px.sum(px.load(X[0:M, 0:N]), 1))


def test_replicated_elements_are_stored_by_their_owner() -> None:
    text = body(module_of(store_row, (array(2), array(1))))
    assert re.search(r"if \(\(px_lane & \d+\) == 0", text)


@px.kernel(warps=4)
def all_types(A, B, C, D, E, F, *, N=256):
    a = px.load(A[0:N])
    px.store(B[0:N], a.to(px.bf16))
    px.store(C[0:N], a.to(px.f8e4m3))
    px.store(D[0:N], px.load(B[0:N]).to(px.i64))
    px.store(E[0:N], px.load(C[0:N]).to(px.f16) * 2.0)
    px.store(F[0:N], a.to(px.i8))


TYPES = (array(1), array(1, bf16), array(1, f8e4m3), array(1, i64), array(1, f16), array(1, i8))


def test_conversions_use_ptx_cvt_two_at_a_time() -> None:
    source = module_of(all_types, TYPES).source
    assert "cvt.rn.bf16x2.f32" in source and "cvt.rn.satfinite.e4m3x2.f32" in source
    compiles(all_types, TYPES)


@px.kernel(warps=4)
def functions(X, Y, *, N=256):
    x = px.load(X[0:N])
    y = px.exp(x) + px.exp2(x) + px.log(x) + px.log2(x) + px.sqrt(x) + px.rsqrt(x) + px.tanh(x) + px.erf(x)
    px.store(Y[0:N], y + px.sigmoid(x) + px.sin(x) + px.cos(x) + px.floor(x) + px.ceil(x) + px.abs(x)
             + px.reciprocal(x) + px.tanh(x, approx=True))


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [px.f32, px.f64, px.f16], ids=str)
def test_functions_are_built_in(dtype: px.DType) -> None:
    compiles(functions, (array(1, dtype), array(1, dtype)))


@px.kernel(warps=4)
def integers(X, Y, d, *, N=256):
    x = px.load(X[0:N])
    y = x // 8 + x % 8 + x // d + x % d + (x << 2) + (x >> 1) + (x & 3) + (x ^ 5) + (x | 9) + px.maximum(x, d)
    px.store(Y[0:N], y * y)


def test_integers_wrap_and_floor() -> None:
    text = body(module_of(integers, (array(1, i32), array(1, i32), I32)))
    assert ">> 3" in text and "& 7" in text, "powers of two shift and mask"
    assert "ptx::floor_div<int>" in text and "ptx::floor_mod<int>" in text and "ptx::wrap_mul" in text
    compiles(integers, (array(1, i32), array(1, i32), I32))


@px.kernel(warps=2)
def adds(X, Y, *, DTYPE, N=64):
    s = px.shared((N,), DTYPE)
    x = px.load(X[0:N])
    px.store(s, x)
    old = px.atomic_add(s, x)
    px.atomic_add(s[3], px.load(X[0]))
    first = px.atomic_add(Y[0], px.load(X[0]))
    px.atomic_add(Y[0:N], old + first)
    px.atomic_add(s.at(0), x)


@pytest.mark.share(7)
@pytest.mark.parametrize("dtype", [px.f32, px.f64, px.i32, px.u32, px.i64, px.u64, px.f16, px.bf16], ids=str)
def test_atomics_in_every_space(dtype: px.DType) -> None:
    source = module_of(adds, (array(1, dtype), array(1, dtype)), DTYPE=dtype).source
    for space in ("global", "shared::cta", "shared::cluster"):
        assert re.search(rf"(red|atom)\.relaxed\.\w+\.{space}\.add\.", source), space
    assert ("noftz" in source) == (dtype in (px.f16, px.bf16))
    compiles(adds, (array(1, dtype), array(1, dtype)), DTYPE=dtype)


@px.kernel(warps=2, cluster=lambda C: C)
def updates(X, Y, *, C, N=64):
    s = px.shared((N,), X.dtype)
    x = px.load(X[0:N])
    px.store(s, x)
    px.atomic_max(Y[0:N], x)
    px.atomic_min(s, x)
    px.atomic_exch(s.at(0), x)
    px.store(Y[0:N], px.atomic_max(s[px.arange(N)], x))


@pytest.mark.share(14)
@pytest.mark.parametrize("dtype", [px.f32, px.f64, px.i32, px.u32, px.i64, px.u64, px.f16, px.bf16], ids=str)
def test_updates_are_instructions_or_loops_around_compare_and_swap(dtype: px.DType) -> None:
    """Integers have instructions; floats of any width are compared and swapped as bits; 16 bits are also exchanged so."""
    for cluster, scope in ((1, "cta"), (2, "cluster")):  # a peer may update the same element
        source = module_of(updates, (array(1, dtype), array(1, dtype)), C=cluster).source
        found = set(re.findall(r"\b(?:red|atom)\.relaxed\.\w+\.[\w:]+\.\w+\.\w+", source))
        whole = dtype.name.replace("i", "s")
        bits = f"b{dtype.bits}"
        if dtype.is_float:
            wanted = {f"atom.relaxed.gpu.global.cas.{bits}", f"atom.relaxed.{scope}.shared::cta.cas.{bits}"}
        else:
            wanted = {f"red.relaxed.gpu.global.max.{whole}", f"red.relaxed.{scope}.shared::cta.min.{whole}"}
            wanted |= {f"atom.relaxed.{scope}.shared::cta.max.{whole}"}
        exchange = "cas" if dtype.bits == 16 else "exch"
        assert found == wanted | {f"atom.relaxed.{scope}.shared::cluster.{exchange}.{bits}"}
        compiles(updates, (array(1, dtype), array(1, dtype)), C=cluster)


@px.kernel(warps=4, cluster=2)
def peers(X, Y, *, DTYPE, M=16, N=32):
    s = px.shared((2, M, N), DTYPE)
    other = px.cluster.rank() ^ 1
    px.store(s[1].at(other), px.load(X[0:M, 0:N]))
    px.fence.cluster()
    px.fence.async_proxy()
    px.cluster.sync()
    px.store(Y[0:M, 0:N], px.load(s[1].at(other)))
    px.store(Y[0, 0], s.at(other)[1, 2, 3])


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [px.f32, px.f64, px.f16, px.i8], ids=str)
def test_a_peers_memory_is_reached_by_its_mapped_address(dtype: px.DType) -> None:
    source = module_of(peers, (array(2, dtype), array(2, dtype)), DTYPE=dtype).source
    assert "mapa.shared::cluster.u32" in source
    assert "ld.shared::cluster" in source and "st.shared::cluster" in source
    assert "fence.acq_rel.cluster" in source and "fence.proxy.async.shared::cta" in source
    compiles(peers, (array(2, dtype), array(2, dtype)), DTYPE=dtype)


@px.kernel(warps=4)
def scans_and_turns(X, Y, Z, *, M=32, N=64):
    x = px.load(X[0:M, 0:N])
    px.store(Y[0:N, 0:M], px.cumsum(x, 0).T)
    px.store(Z[0:24], px.argmax(px.load(X[0:24, 0:10]), 1))


def test_scans_transposes_and_argmax_compile() -> None:
    compiles(scans_and_turns, (array(2), array(2), array(1, i32)))


@px.kernel(warps=4)
def shapes(X, Y, *, M=6, N=10):
    px.store(Y[0:15, 0:4], px.load(X[0:M, 0:N]).reshape(15, 4))


def test_odd_shapes_are_masked() -> None:
    text = body(module_of(shapes, (array(2), array(2))))
    assert "< 10" in text or "< 6" in text
    compiles(shapes, (array(2), array(2)))


@px.kernel(warps=4)
def doubles(X, Y, *, N=128):
    px.store(Y[0:N], px.exp(px.load(X[0:N])) % 2.0 // 0.3)


def test_float_remainders_compile() -> None:
    compiles(doubles, (array(1, f64), array(1, f64)))
    compiles(doubles, (array(1), array(1)))


@px.kernel(warps=1)
def twice(X, Y, n, *, KEEP, N=64):
    px.store(Y[n : n + N], px.load(X[n : n + N]))
    if KEEP:
        n = px.keep(n)
    px.store(Y[n : n + N], px.load(X[n : n + N]) + 1.0)


def test_indices_from_a_kept_offset_are_made_again() -> None:
    compared = []
    for keep in (False, True):
        made = px.compile(twice[1], px.spec((64,), px.f32), px.spec((64,), px.f32), 5, KEEP=keep)
        compared.append(len(re.findall(r"setp\.\w+\.\w32", made.ptx)))
    assert compared[1] > compared[0], "as many bounds as before, for each offset its own"


@px.kernel(warps=1)
def extremes(X, Y, *, FN, N=64):
    x = px.load(X[0:N])
    if FN == "max":
        px.store(Y[0], px.max(px.maximum(x, 0.5)))
    else:
        px.store(Y[0], px.min(px.minimum(x, 0.5)))


@pytest.mark.parametrize("fn", ("max", "min"))
def test_extremes_of_floats_keep_a_nan(fn: str) -> None:
    """Two elements a lane, then one instruction for the warp: each step one that keeps a NaN, none that drops it."""
    ptx = px.compile(extremes[1], px.spec((64,), px.f32), px.spec((1,), px.f32), FN=fn).ptx
    kept = len(re.findall(r"(?:max|min)\.NaN\.f32", ptx))
    assert kept == 4 and not re.search(r"(?:max|min)\.f32", ptx)
    assert ptx.count("redux.sync.max.s32") == 1
    compiles(extremes, (array(1, f64), array(1, f64)), FN=fn)


@px.kernel(warps=4)
def row_results(X, Y, *, FN, ROWS=4):
    x = px.load(X[0:ROWS, 0:256])
    if FN == "max":
        y = px.max(x, 1)
    elif FN == "min":
        y = px.min(x, 1)
    elif FN == "sum":
        y = px.sum(x, 1)
    elif FN == "argmax":
        y = px.argmax(x, 1)
    elif FN == "any":
        y = px.any(x, 1)
    else:
        y = px.all(x, 1)
    px.store(Y[0:ROWS], y)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "dtype, fn, expected",
    [
        (dtype, fn, {f"redux.sync.{'add' if fn == 'sum' else fn}.{'s' if fn == 'sum' or dtype.kind == 'int' else 'u'}32": 1})
        for dtype in (px.i32, px.u32, px.i16, px.u8) for fn in ("max", "min", "sum")
    ] + [
        (px.f32, "argmax", {"redux.sync.max.s32": 1, "redux.sync.min.s32": 1}),
        (px.u32, "argmax", {"redux.sync.max.u32": 1, "redux.sync.min.s32": 1}),
        (px.i32, "any", {"vote.sync.any.pred": 1}), (px.f32, "all", {"vote.sync.all.pred": 1}),
        (px.i64, "max", {"shfl.sync.bfly.b32": 10}), (px.f32, "sum", {"shfl.sync.bfly.b32": 5}),
    ],
)  # fmt: skip
def test_a_warp_folds_by_one_instruction(dtype: Any, fn: str, expected: dict[str, int]) -> None:
    result = {"argmax": px.i32, "any": px.bool, "all": px.bool}.get(fn, dtype)
    ptx = px.compile(row_results[1], px.spec((4, 256), dtype), px.spec((4,), result), FN=fn).ptx
    assert Counter(re.findall(r"\b(?:redux|vote|shfl\.sync\.bfly)[.\w]*", ptx)) == expected


def test_a_place_costs_two_comparisons_an_element() -> None:
    ptx = px.compile(row_results[1], px.spec((4, 256), px.f32), px.spec((4,), px.i32), FN="argmax").ptx
    assert len(re.findall(r"setp\.\w+\.f32", ptx)) == 2 * 256 // 32


@px.kernel(warps=4)
def named_like_a_loop_variable(X, Y):
    first = px.load(X[0:64, 0:64]) + 1.0
    px.store(Y[0:64, 0:64], first)
    i = px.load(X[0:64, 0:64]) + 2.0
    px.store(Y[64:128, 0:64], i)


def test_variables_of_loops_are_not_the_users() -> None:
    """The compiler's own `i` comes first here, and the user's is another."""
    compiles(named_like_a_loop_variable, (array(2), array(2)))


@px.kernel(warps=4)
def sums(X, Y, row, *, N=512, ASSUMED=False):
    x = px.load(X[0:N])
    if ASSUMED:
        px.assume(row >= 0)
        px.assume(row < Y.shape[0])
        px.assume(Y.shape[1] >= 2 * N)
    px.atomic_add(Y[row, N : 2 * N], x)


def test_neighbours_are_added_four_at_a_time() -> None:
    """Where rows are whole vectors; assumptions say that all of it lies in the array, and nothing is asked."""
    whole = array(2, whole=True)
    module = module_of(sums, (array(1, whole=True), whole, I32))
    assert "red.relaxed.gpu.global.add.v4.f32" in module.source
    assert "ptx::inside" in body(module)
    said = body(module_of(sums, (array(1, whole=True), whole, I32), ASSUMED=True))
    assert "reduce_add_f32_global_v4(" in said and "inside(" not in said.split("px.atomic_add")[1]
    compiles(sums, (array(1, whole=True), whole, I32), ASSUMED=True)
    assert "_v4(" not in body(module_of(sums, (array(1), array(2, aligned=False), I32)))
    halves = module_of(sums, (array(1, bf16), array(2, bf16, whole=True), I32))
    assert "red.relaxed.gpu.global.add.noftz.v4.bf16" in halves.source  # four elements a thread has, 8 bytes
    compiles(sums, (array(1, bf16), array(2, bf16, whole=True), I32))


@px.kernel(warps=4)
def masked(A, B, C, n):
    """Scores whose columns have limits, one for each row."""
    b = px.shared((64, 80), B.dtype)
    px.store(b, px.load(B[0:64, 0:80]))
    px.fence.async_proxy()
    s = px.dot(px.load(A[0:64, 0:64]), b)
    ok = px.arange(80).reshape(1, 80) < n + px.arange(64).reshape(64, 1)
    px.store(C[0:64, 0:80], px.where(ok, s, 0.0))


def test_columns_are_constants_beside_their_limits() -> None:
    """Two limits a thread, less the thread's own place; then a constant for each of its forty scores."""
    types = (array(2, dtype=bf16), array(2, dtype=bf16), array(2), I32)
    text = body(module_of(masked, types))
    assert "int limit[2];" in text and re.search(r"ok\[i\] = .*\(i & 1\).* < limit\[", text)
    assert text.count("px_lane & 3") >= 1 and not re.search(r"int \w+\[20\];", text), "no tile of columns"
