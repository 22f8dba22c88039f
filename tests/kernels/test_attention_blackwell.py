"""`px.kernels.attention` in tensor memory: against float64, checked, as text on the CPU, and compiled for its targets."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
import support.host_tma  # noqa: F401
from phalanx.kernels.attention.forward import attention
from phalanx.kernels.attention.forward_blackwell import FEWER_KEYS, KEYS, RING, attention_blackwell
from support.attention_cases import BF16, assert_close, exact, heads
from support.host_cuda import COMPILER, MISSING, run_on_host

ARCH = "sm_100a"


def compare(q, k, v, rounding=2**-8, **options):
    got, logs = attention(q, k, v, lse=True, arch=ARCH, **options)
    assert got.dtype == q.dtype and logs.dtype == np.float32
    assert_close(got, logs, *exact(q, k, v, **options), rounding)


def test_causal_heads_that_share_keys_and_rows_that_see_none():
    """No length is a multiple; there are fewer keys than queries, of which the first attend to nothing."""
    rng = np.random.default_rng(0)
    compare(heads(rng, 1, 2, 300, 64), heads(rng, 1, 1, 200, 64), heads(rng, 1, 1, 200, 64), causal=True)


@pytest.mark.long
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (70, 5)}, {"causal": True, "softcap": 2.0}, {"scale": 0.5}], ids=str
)
def test_against_float64(dim, options):
    rng = np.random.default_rng(dim)
    shapes = (((2, 2, 1, 290, 333), 1.0, BF16), ((1, 4, 2, 513, 150), 4.0, np.float16), ((1, 1, 1, 1, 130), 8.0, BF16))
    for shape, amplitude, dtype in shapes:
        batch, count, shared, queries, keys = shape
        q = heads(rng, batch, count, queries, dim, dtype=dtype, amplitude=amplitude)
        k, v = (heads(rng, batch, shared, keys, dim, dtype=dtype) for _ in range(2))
        compare(q, k, v, rounding=2**-8 if dtype is BF16 else 2**-10, **options)


SMALL = {"DIM": 16, "KEYS": 32, "STAGES": 3, "PART": 16}


def small(rng, queries, keys, right=None, left=None, amplitude=3.0):
    """Arguments of the kernel with two heads on one of keys: scores are in units of log2, and grow much between blocks."""
    q = heads(rng, 1, 2, queries, 16, amplitude=amplitude)
    k, v = heads(rng, 1, 1, keys, 16), heads(rng, 1, 1, keys, 16)
    return [q, k, v, np.zeros_like(q), np.zeros(q.shape[:3], np.float32), 1.0, None, None, left, right, 2]


def right_ones(args):
    left, right = args[8:10]
    window = (-1 if left is None else left, -1 if right is None else right)
    want, logs = exact(*args[:3], scale=np.log(2), window=window)
    assert_close(args[3], args[4], want, logs)


def test_checked_clean():
    args = small(np.random.default_rng(1), 150, 100, right=0, left=40)
    report = px.check(attention_blackwell[1], *args, **SMALL, schedules=3)
    assert report.ok, report


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_the_text_runs_on_the_cpu():
    """Two pairs of tiles on one CTA: rings go round, results are corrected."""
    args = small(np.random.default_rng(2), 200, 100, right=0)
    run_on_host(attention_blackwell, 1, *args, arch=ARCH, **SMALL)
    right_ones(args)


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("bounds", [{}, {"right": 0}, {"right": 3, "left": 40}], ids=str)
def test_more_text_on_the_cpu(bounds):
    for seed in range(2):
        args = small(np.random.default_rng(seed), 300, 230, **bounds)
        run_on_host(attention_blackwell, 2, *args, arch=ARCH, seed=seed, **SMALL)
        right_ones(args)


def compiled(arch, dim, dtype, left=None, right=None, cap=None, lse=False):
    array, keys = px.spec((2, 8, 4096, dim), dtype), KEYS if left is None and cap is None else FEWER_KEYS
    logs = px.spec((2, 8, 4096), px.f32) if lse else None
    return px.compile(
        attention_blackwell[148], *[array] * 4, logs, 1.0, None if cap is None else 0.1, cap, left, right, 1, arch=arch,
        DIM=dim, KEYS=keys, STAGES=RING // (keys * dim),
    )


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize(
    "options", [{}, {"right": 0, "lse": True}, {"left": 64, "right": 0}, {"right": 0, "cap": 3.0}], ids=str
)
def test_it_compiles_without_spills(arch, dim, options):
    for dtype in (px.bf16, px.f16) if options.get("lse") else (px.bf16,):
        made = compiled(arch, dim, dtype, **options)
        assert made.spills == 0 and made.cubin[:4] == b"\x7fELF"
        assert "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1]" in made.source  # powers are an operand in tensor memory


REFUSED = [
    ({"bias": np.zeros(2, np.float32)}, "a bias in tensor memory", "leave it out; sm_90a has it"),
    ({"config": "fast"}, "config= of attention in tensor memory", "leave it out: it is for sm_90a's kernel"),
]


@pytest.mark.parametrize(("options", "message", "remedy"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_it_does_not_have_is_refused(options, message, remedy):
    x = np.ones((1, 2, 40, 64), BF16)
    with pytest.raises(px.Error) as caught:
        attention(x, x, x, arch=ARCH, **options)
    assert (caught.value.message, caught.value.remedy) == (message, remedy)


def test_without_keys_there_is_nothing_to_attend_to():
    q, none = np.ones((1, 2, 5, 64), BF16), np.ones((1, 2, 0, 64), BF16)
    got, logs = attention(q, none, none, lse=True, arch=ARCH)
    assert (got == 0).all() and (logs == -np.inf).all() and attention(none, q, q, arch=ARCH).shape == none.shape


def test_packed_sequences_and_other_sizes_are_refused():
    x, starts = np.ones((40, 2, 64), BF16), np.array([0, 40], np.int32)
    with pytest.raises(px.Error, match="packed sequences in tensor memory"):
        attention(x, x, x, cu_seqlens_q=starts, cu_seqlens_k=starts, arch=ARCH)
    x = np.ones((1, 2, 40, 96), BF16)
    with pytest.raises(px.Error, match="heads of 96 elements"):
        attention(x, x, x, arch=ARCH)
