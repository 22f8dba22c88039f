"""`sparse_attention` in the simulator, against float64: lists of rows and of blocks, of heads and queries; latent caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.kernels.attention.decode_config import lone_ring
from phalanx.kernels.attention.forms import ListForm
from phalanx.kernels.attention.sparse import ROWS, Call, _latent, loop_tiles, sparse_attention
from phalanx.kernels.attention.sparse_loop import sparse_loop
from phalanx.kernels.attention.sparse_ring import sparse_latent, sparse_ring
from phalanx.kernels.matrices import HALVES, info_of
from phalanx.runtime.device.arrays import ArrayInfo
from support import host_tma
from support.decode_cases import BF16, error, listed
from support.host_cuda import COMPILER, MISSING

TOLERANCE = 0.012


def make(
    seed: int, tokens: int, entries: int, *, batch: int = 1, queries: int = 2, lists: int = 2, heads: int = 4,
    kv_heads: int = 2, list_heads: int = 2, size: int = 64, block: int = 1, dtype: Any = BF16,
) -> tuple[np.ndarray, ...]:
    """Queries, keys, values and lists that name tokens twice, none, and tokens that are not there; the first names none."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((batch, queries, heads, size)).astype(dtype)
    k, v = (rng.standard_normal((batch, tokens, kv_heads, size)).astype(dtype) for _ in range(2))
    indices = rng.integers(0, -(-tokens // block) + 2, (batch, lists, list_heads, entries)).astype(np.int32)
    indices[rng.random(indices.shape) < 0.2] = -1
    indices[0, 0, 0] = -1
    return q, k, v, indices


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "case",
    [{"tokens": 200, "entries": 70}, {"tokens": 300, "entries": 7, "block": 16, "lists": 1, "list_heads": 1}],
    ids=["rows", "blocks, lists of all heads and queries"],
)
def test_against_float64(case: dict[str, Any]) -> None:
    q, k, v, indices = make(0, **case)
    block = case.get("block", 1)
    assert error(sparse_attention(q, k, v, indices, block=block, lse=True), listed(q, k, v, indices, block)) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_cases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kv_heads, group = int(rng.choice([1, 2, 3])), int(rng.choice([1, 4, 8]))
    lists, each, block = (int(rng.choice(x)) for x in ([1, 3], [1, 2, 9], [1, 1, 2, 8, 32, 64, 128]))
    q, k, v, indices = make(
        seed, int(rng.integers(64, 400)), max(1, int(rng.integers(1, 500)) // block), batch=int(rng.choice([1, 2])),
        queries=lists * each, lists=lists, heads=kv_heads * group, kv_heads=kv_heads,
        list_heads=int(rng.choice([1, kv_heads])), size=int(rng.choice([64, 128])), block=block,
        dtype=BF16 if rng.random() < 0.7 else np.float16,
    )  # fmt: skip
    got = sparse_attention(q, k, v, indices.astype(rng.choice([np.int32, np.int64])), block=block, lse=True, scale=0.2)
    assert error(got, listed(q, k, v, indices, block, 0.2)) < 2 * TOLERANCE


@pytest.mark.parametrize(
    "heads, block", [(70, 1), pytest.param(8, 1, marks=pytest.mark.long), pytest.param(128, 32, marks=pytest.mark.long)]
)
def test_latent_caches(heads: int, block: int) -> None:
    """With two tiles of rows two CTAs gather for each other."""
    q, k, _, indices = make(1, 200, 80 // block, heads=heads, kv_heads=1, list_heads=1, size=192, block=block)
    got = sparse_attention(q, k, None, indices, block=block, v_dim=128, lse=True)
    assert error(got, listed(q, k, k[..., :128], indices, block)) < TOLERANCE


@pytest.mark.parametrize("C", [1, pytest.param(2, marks=pytest.mark.long)])
def test_checked_clean(C: int) -> None:
    q, k, v, indices = make(0, 150, 200, queries=1, lists=1)
    rows = [x.reshape(-1, 64) for x in (q, k, v)]
    args = (*rows, indices[0], np.zeros((4, 64), BF16), np.zeros(4, np.float32), 0.2, 150, 2, 1, 4)
    assert px.check(sparse_ring[C, 2], *args, C=C, STAGES=2, form=ListForm(64, 64, group=2)).ok


@pytest.mark.long
@pytest.mark.parametrize("pair", [False, True])
def test_latent_checked_clean(pair: bool) -> None:
    q, k, _, indices = make(0, 150, 200, queries=1, lists=1, heads=128, kv_heads=1, list_heads=1, size=192)
    args = (q.reshape(-1, 192), k.reshape(-1, 192), indices[0], np.zeros((128, 128), BF16), None, 0.2, 150, 1, 1, 128)
    assert px.check(sparse_latent[1, 2], *args, form=ListForm(192, 128, group=128), PAIR=pair).ok


RINGS = [(64, 6, 2, 1), (128, 2, 2, 1), (128, 3, 2, 4), (256, 2, 1, 1), (256, 3, 1, 2)]
"""Size of heads, stages, CTAs that are to share an SM, CTAs of a cluster."""


def compiled_ring(size: int, stages: int, ctas: int, C: int, block: int) -> px.Compiled:
    cache = px.spec((65536 * 8, size) if block < 16 else (1, 65536, 8, size), px.bf16)
    q, o = (px.spec((64 * 32, size), px.bf16) for _ in range(2))
    return px.compile(
        sparse_ring[64 * C, 8], q, cache, cache, px.spec((64, 8, 2048), px.i32), o, px.spec((64 * 32,), px.f32), 1.0,
        65536, 8, 64, 32, form=ListForm(size, size, entry=block), STAGES=stages, CTAS=ctas, C=C,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("block", [1, 8, 64])
@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_no_spills(ring: tuple[int, int, int, int], block: int) -> None:
    assert compiled_ring(*ring, block).spills == 0


@pytest.mark.long
@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_as_many_as_are_to_fit_on_an_sm(ring: tuple[int, int, int, int]) -> None:
    block = 1 if ring[1] <= lone_ring(ROWS, ring[0], ring[0])[0] else 64  # single rows have no longer rings
    assert compiled_ring(*ring, block).shared_bytes <= (232448 if ring[2] == 1 else 115712)


@pytest.mark.long
@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("block, pair", [(1, False), (1, True), (2, False), (8, False), (8, True), (64, False)])
def test_no_spills_of_latent_caches(block: int, pair: bool, lse: bool) -> None:
    cache = px.spec((65536, 576) if block < 16 else (1, 65536, 1, 576), px.bf16)
    made = px.compile(
        sparse_latent[64, 2], px.spec((64 * 128, 576), px.bf16), cache, px.spec((64, 1, 2048), px.i32),
        px.spec((64 * 128, 512), px.bf16), px.spec((64 * 128,), px.f32) if lse else None, 1.0, 65536, 1, 64, 128,
        form=ListForm(576, 512, group=128, entry=block), PAIR=pair,
    )  # fmt: skip
    assert made.spills == 0


def test_mistakes() -> None:
    q, k, v, indices = make(0, 100, 10)
    said = {
        "indices of shape (1, 2, 3, 10)": {"indices": np.zeros((1, 2, 3, 10), np.int32)},
        "3 lists for 2 queries": {"indices": np.zeros((1, 3, 1, 10), np.int32)},
        "block is 48": {"block": 48},
        "they differ in their last axis only": {"v": v[:, :50].copy()},
        "pass a contiguous array": {"k": k.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)},
        "v_dim is None without v": {"v": None},
        "scale is 0.0": {"scale": 0.0},
    }
    for text, changes in said.items():
        with pytest.raises(px.Error) as caught:
            sparse_attention(**{"q": q, "k": k, "v": v, "indices": indices, **changes})
        assert text in str(caught.value), text


def test_a_gpu_has_no_kernel_for_few_values_of_a_latent_cache() -> None:
    q, k, _, indices = make(0, 100, 10, kv_heads=1, list_heads=1, size=192)
    assert sparse_attention(q, k, None, indices, v_dim=128).shape == (1, 2, 4, 128)
    here = info_of("k", k, HALVES)
    on_gpu = ArrayInfo("cuda", 0, here.pointer, here.shape, here.strides, here.dtype_name)
    with pytest.raises(px.Error) as caught:
        _latent(on_gpu, 128, True)
    assert _latent(on_gpu, 128, False) == 128  # in tensor memory
    assert "pass v, or 256 columns and more: ptxas serialises the products of fewer" in str(caught.value)


OTHERS = ("sm_100a", "sm_120a")
"""Targets without wgmma."""


@pytest.mark.share(3)
@pytest.mark.parametrize("arch", OTHERS)
@pytest.mark.parametrize(
    "case",
    [
        {"tokens": 200, "entries": 70}, {"tokens": 300, "entries": 7, "block": 16, "lists": 1, "list_heads": 1},
        {"tokens": 300, "entries": 3, "block": 64, "size": 128, "heads": 140, "kv_heads": 1, "list_heads": 1},
    ],
    ids=["rows", "blocks, lists of all heads and queries", "several tiles of rows"],
)
def test_where_there_is_no_wgmma(case: dict[str, Any], arch: str) -> None:
    q, k, v, indices = make(0, **case)
    block = case.get("block", 1)
    got = sparse_attention(q, k, v, indices, block=block, lse=True, arch=arch)
    assert error(got, listed(q, k, v, indices, block)) < TOLERANCE


@pytest.mark.parametrize(("arch", "size", "v_dim"), [("sm_100a", 192, 128), ("sm_120a", 192, 128), ("sm_100a", 576, 512)])
def test_latent_caches_where_there_is_no_wgmma(arch: str, size: int, v_dim: int) -> None:
    q, k, _, indices = make(1, 200, 80, heads=70, kv_heads=1, list_heads=1, size=size)
    got = sparse_attention(q, k, None, indices, v_dim=v_dim, lse=True, arch=arch)
    assert error(got, listed(q, k, k[..., :v_dim], indices, 1)) < TOLERANCE


def compiled_loop(arch: str, size: int, v_size: int, block: int = 1, latent: bool = False) -> px.Compiled:
    call = Call(64, 1, 64, 1, size, v_size, 65536, 1, block, 2048, "bf16")
    rows, columns, keys = loop_tiles(call, arch_of(arch))
    cache = px.spec((65536, size), px.bf16)
    return px.compile(
        sparse_loop[64, 1, v_size // columns], px.spec((4096, size), px.bf16), cache,
        None if latent else px.spec((65536, v_size), px.bf16), px.spec((64, 1, 2048 // block), px.i32),
        px.spec((4096, v_size), px.bf16), px.spec((4096,), px.f32), 1.0, 65536, 1, 64, 64, arch=arch,
        form=ListForm(size, columns, group=64, entry=block, rows=rows, block=keys),
    )  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize("size, v_size", [(64, 64), (128, 128), (192, 192), (192, 128), (256, 256)])
@pytest.mark.parametrize("arch", OTHERS)
def test_the_loop_compiles_for_other_targets(size: int, v_size: int, arch: str) -> None:
    made = compiled_loop(arch, size, v_size)
    assert made.spills == 0 and "gather4" in made.ptx and "cp.async.cg" not in made.ptx
    assert ("tcgen05.mma" in made.ptx, "mma.sync" in made.ptx) == (arch == "sm_100a", arch == "sm_120a")


def test_the_loop_compiles_for_hopper_too() -> None:
    made = compiled_loop("sm_90a", 128, 128)
    assert made.spills == 0 and "wgmma.mma_async" in made.ptx and "gather4" not in made.ptx


@pytest.mark.parametrize("block", [1, pytest.param(64, marks=pytest.mark.long)])
def test_latent_caches_compile_in_tensor_memory(block: int) -> None:
    made = compiled_loop("sm_100a", 576, 512, block, latent=True)
    assert made.spills == 0 and "gather4" in made.ptx and "tcgen05.mma" in made.ptx


def test_keys_that_do_not_fit_an_sm() -> None:
    q, k, _, indices = make(1, 200, 80, heads=70, kv_heads=1, list_heads=1, size=576)
    with pytest.raises(px.Error) as caught:
        sparse_attention(q, k, None, indices, v_dim=512, arch="sm_120a")
    assert "keys of 576 elements on sm_120a, whose CTAs have 101,376 bytes of shared memory" in str(caught.value)


def loop_case() -> tuple[list[Any], dict[str, Any], np.ndarray]:
    """70 rows in tiles of 64, 40 entries in blocks of 16, values in two parts of 64 columns."""
    q, k, v, indices = make(3, 150, 40, queries=1, lists=1, heads=70, kv_heads=1, list_heads=1, size=128)
    indices[0, 0, 0, ::3] = np.arange(14) * 11  # it names some after all
    args = [q.reshape(-1, 128), k.reshape(-1, 128), v.reshape(-1, 128), indices[0], np.zeros((70, 128), BF16)]
    args += [np.zeros(70, np.float32), 128**-0.5 * np.log2(np.e), 150, 1, 1, 70]
    return args, {"form": ListForm(128, 64, group=70, block=16)}, listed(q, k, v, indices, 1)[0].reshape(70, 128)


@pytest.mark.parametrize("arch", OTHERS)
def test_the_loop_is_checked_clean(arch: str) -> None:
    args, constants, _ = loop_case()
    assert px.check(sparse_loop[1, 2, 2], *args, **constants, arch=arch, schedules=1).ok


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("arch", [*OTHERS, "sm_90a"])
def test_the_text_of_the_loop_on_the_cpu(arch: str) -> None:
    args, constants, want = loop_case()
    host_tma.run(sparse_loop, (1, 2, 2), *args, arch=arch, **constants)
    assert np.abs(args[4].astype(np.float64) - want).max() < 2 * TOLERANCE
