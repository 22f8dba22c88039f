"""`px.kernels.attention` in the simulator, against float64."""

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.attention import forward
from phalanx.kernels.attention.config import NARROW, AttentionConfig
from phalanx.kernels.attention.forward import attention
from support.attention_cases import BF16, F8, allowed, assert_close, exact, exact_packed, heads
from support.library_launches import launches

SMALL = AttentionConfig(groups=2, keys=64)
OWN = AttentionConfig(groups=1, keys=32, query_stages=1, slack=0.0)


def both(q, k, v, config=None, rounding=2**-8, **options):
    """Ours, with logarithms, beside float64."""
    got, logs = attention(q, k, v, lse=True, config=config, **options)
    assert got.dtype == q.dtype and logs.dtype == np.float32
    want, want_logs = exact(q, k, v, **options)
    assert_close(got, logs, want, want_logs, rounding)
    return got


def test_causal_heads_that_share_keys_and_rows_that_see_none():
    rng = np.random.default_rng(0)
    for queries, keys, causal in ((190, 260, True), (260, 100, True), (1, 65, True), (70, 1, True)):
        both(heads(rng, 1, 4, queries, 64), heads(rng, 1, 2, keys, 64), heads(rng, 1, 2, keys, 64), SMALL, causal=causal)


@pytest.mark.long
def test_result_is_the_same_whoever_takes_the_tiles():
    rng = np.random.default_rng(1)
    q, k, v = heads(rng, 2, 2, 300, 64), heads(rng, 2, 1, 200, 64, amplitude=4), heads(rng, 2, 1, 200, 64)
    got = both(q, k, v, SMALL)
    for _ in range(2):
        np.testing.assert_array_equal(attention(q, k, v, config=SMALL), got)
    turned = attention(*(np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v)), config=SMALL)
    np.testing.assert_array_equal(turned, got)
    assert turned.swapaxes(1, 2).flags.c_contiguous


def test_packed_sequences_know_nothing_of_each_other():
    rng = np.random.default_rng(2)
    starts_q, starts_k = (np.array(x, np.int32) for x in ([0, 1, 70, 70, 200, 290, 300], [0, 50, 90, 200, 200, 333, 340]))
    q, k, v = heads(rng, 300, 2, 64), heads(rng, 340, 1, 64), heads(rng, 340, 1, 64)
    config = AttentionConfig(groups=1, keys=64)
    got, logs = attention(q, k, v, causal=True, lse=True, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k, config=config)
    want, want_logs = exact_packed(q, k, v, starts_q, starts_k, causal=True)
    assert got.shape == (300, 2, 64) and logs.shape == (2, 300)
    assert_close(got, logs, want, want_logs)


def test_no_keys_and_no_queries():
    q, none = np.ones((1, 2, 5, 64), BF16), np.ones((1, 2, 0, 64), BF16)
    got, logs = attention(q, none, none, lse=True)
    assert (got == 0).all() and (logs == -np.inf).all()
    assert attention(none, q, q).shape == none.shape


@pytest.mark.parametrize("dim, wide, options", [
    (72, 72, {"causal": True}), (40, 40, {}), (80, 24, {"window": (20, 5)}),
    *(pytest.param(*sizes, {"causal": True}, marks=pytest.mark.long) for sizes in ((160, 160), (240, 200), (176, 100))),
])  # fmt: skip
def test_heads_of_any_size_without_a_copy(dim, wide, options):
    """The copy engine brings zeros for columns that are not there; what lies beside the result stays as it was."""
    rng = np.random.default_rng(12)
    wider = heads(rng, 1, 70, 2, dim + 8)
    q = wider[..., :dim].swapaxes(1, 2)  # rows lie apart: behind each there are other numbers
    both(q, heads(rng, 1, 1, 90, dim), heads(rng, 1, 1, 90, wide), **options)


def test_packed_sequences_of_odd_heads():
    rng = np.random.default_rng(13)
    starts = np.int32([0, 30, 30, 75])
    q, k, v = heads(rng, 75, 2, 80), heads(rng, 75, 1, 80), heads(rng, 75, 1, 80)
    got, logs = attention(q, k, v, causal=True, lse=True, cu_seqlens_q=starts, cu_seqlens_k=starts)
    assert_close(got, logs, *exact_packed(q, k, v, starts, starts, causal=True))


def test_a_launch_with_odd_heads_is_clean():
    rng = np.random.default_rng(14)
    with launches((forward, "attention_tiles")) as found:
        attention(*(heads(rng, 1, 1, 70, 72) for _ in range(3)), config=OWN)
    report = found[0].check(schedules=1)
    assert report.ok, str(report)


@pytest.mark.filterwarnings("ignore:attention copies [kv]")
def test_rows_that_the_copy_engine_can_not_read_are_copied():
    rng = np.random.default_rng(15)
    q, k, v = (heads(rng, 1, 1, 40, 75) for _ in range(3))
    with pytest.warns(UserWarning, match=r"attention copies q, of shape \(1, 1, 40, 75\)"):
        got, logs = attention(q, k, v, lse=True)
    assert_close(got, logs, *exact(q, k, v))


def test_what_reads_bad_strides_is_copied_with_a_warning():
    rng = np.random.default_rng(3)
    wide = heads(rng, 1, 1, 40, 68)
    with pytest.warns(UserWarning, match=r"attention copies k, of shape \(1, 1, 40, 64\) and .*: its rows do not begin"):
        got = attention(wide[..., :64].copy(), wide[..., :64], wide[..., :64].copy(), config=OWN)
    np.testing.assert_array_equal(got, attention(*(wide[..., :64].copy(),) * 3, config=OWN))


WRONG = [
    ({"bias": np.zeros((3,), np.float32)}, "bias has shape (3,)", "pass slopes (2,) or (1, 2), or a bias of four axes"),
    ({"bias": np.zeros((1, 2, 3, 4), np.float32)}, "bias has shape (1, 2, 3, 4)",
     "pass one that broadcasts to (1, 2, 40, 40), or slopes (2,)"),
    ({"config": AttentionConfig(keys=72)}, "blocks of 72 keys", "give a multiple of 16 up to 256"),
    ({"config": AttentionConfig(keys=48)}, "2 stages of 48 keys",
     "give at least 3: a group holds one while it passes on those beyond its reach"),
    ({"config": AttentionConfig(groups=4)}, "4 warpgroups", "give 1, 2 or 3"),
    ({"config": "fast"}, "config is 'fast'", "give a AttentionConfig, or leave it out"),
    ({"scale": "big"}, "scale is 'big'", "give a number, or leave it out"),
    ({"q_scale": np.ones(2, np.float32)}, "q_scale has shape (2,)", "pass a number, or an array of one"),
]  # fmt: skip


@pytest.mark.parametrize("options, message, remedy", WRONG, ids=[message for _, message, _ in WRONG])
def test_options_that_do_not_go_together(options, message, remedy):
    x = np.zeros((1, 2, 40, 64), BF16)
    with pytest.raises(px.Error) as caught:
        attention(x, x, x, **options)
    assert (caught.value.message, caught.value.remedy) == (message, remedy)
    assert caught.value.location.file.endswith("test_attention.py")


MASKS = [
    {}, {"causal": True}, {"window": (33, 20)}, {"causal": True, "window": (70, -1)}, {"window": (-1, 5)},
    {"window": (0, 0)},
]  # fmt: skip
SIZES = [(64, 64), (96, 96), (128, 128), (160, 160), (192, 128), (192, 192), (224, 224), (256, 256)]


@pytest.mark.long
@pytest.mark.parametrize("dim, wide", SIZES)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_every_size_and_mask(dim, wide, mask):
    rng = np.random.default_rng(dim + wide)
    for queries, keys, dtype, amplitude in ((300, 211, BF16, 1), (137, 300, np.float16, 8)):
        q = heads(rng, 1, 4, queries, dim, dtype=dtype, amplitude=amplitude)
        k = heads(rng, 1, 2, keys, dim, dtype=dtype)
        v = heads(rng, 1, 2, keys, wide, dtype=dtype)
        both(q, k, v, rounding=2**-8 if dtype == BF16 else 2**-10, **mask)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.choice([40, 64, 96, 112, 128]))
    kv = int(rng.choice([1, 2]))
    batch, group, queries, keys = (int(rng.integers(1, most)) for most in (3, 4, 301, 301))
    mask = {"causal": bool(rng.random() < 0.5)}
    if rng.random() < 0.5:
        mask["window"] = tuple(int(x) for x in rng.integers(-1, 200, 2))
    config = AttentionConfig(
        groups=int(rng.choice([1, 2, 3])), keys=int(rng.choice([64, 80, 128])), stages=int(rng.choice([2, 3])),
        query_stages=int(rng.choice([1, 2])), slack=float(rng.choice([0, 8])),
    )  # fmt: skip
    amplitude = float(rng.choice([1, 3, 8]))
    q = heads(rng, batch, kv * group, queries, dim, amplitude=amplitude)
    k, v = heads(rng, batch, kv, keys, dim), heads(rng, batch, kv, keys, dim)
    both(q, k, v, config, **mask)


@pytest.mark.long
@pytest.mark.parametrize("mask", [{}, {"causal": True}], ids=str)
def test_caps_slopes_and_biases(mask):
    rng = np.random.default_rng(5)
    q, k, v = heads(rng, 2, 2, 100, 64, amplitude=3), heads(rng, 2, 1, 150, 64), heads(rng, 2, 1, 150, 64)
    slopes = np.array([0.5, 0.01], np.float32)
    bias = rng.standard_normal((1, 2, 100, 150)).astype(np.float32)
    bias[0, 0, 3], bias[0, 1, :, 10:30] = -np.inf, -np.inf
    both(q, k, v, softcap=5.0, **mask)
    both(q, k, v, bias=slopes, **mask)
    both(q, k, v, bias=np.stack([slopes, 2 * slopes]), softcap=20.0, scale=0.3, **mask)
    both(q, k, v, bias=bias, **mask)
    both(q, k, v, bias=bias[:, :1, :1].astype(BF16), softcap=5.0, **mask)


def narrow_powers(q, k, v, keys, causal):
    """Float64 attention in blocks of keys from the last on, powers rounded to e4m3 beside the maximum so far."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = np.where(allowed(q.shape[2], k.shape[2], causal), q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -np.inf)
    top, total, result = np.full((*s.shape[:-1], 1), -np.inf), 0.0, 0.0
    for first in range((k.shape[2] - 1) // keys * keys, -1, -keys):
        block = s[..., first : first + keys]
        new = np.maximum(top, block.max(-1, keepdims=True))
        base = np.where(new == -np.inf, 0, new)
        p, alpha = np.exp(block - base), np.exp(top - base)
        rounded = (256 * p).astype(np.float32).astype(F8).astype(np.float64) / 256
        total, top = total * alpha + p.sum(-1, keepdims=True), new
        result = result * alpha + rounded @ v[..., first : first + keys, :]
    return result / total


def test_8_bit_floats_with_powers_rounded_the_same_way():
    rng = np.random.default_rng(7)
    q, k, v = (heads(rng, 1, 1, n, 64, dtype=F8) for n in (100, 211, 211))
    config = AttentionConfig(groups=1, keys=64, query_stages=1, slack=0.0)
    half = np.full(1, 0.5, np.float32)
    got, logs = attention(q, k, v, causal=True, lse=True, q_scale=2.0, k_scale=half, v_scale=half, config=config)
    assert got.dtype == BF16
    want = narrow_powers(q, k, v, 64, True) / 2
    error = np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want)
    assert error < 0.004, error
    np.testing.assert_allclose(logs, exact(q, k, v, causal=True)[1], rtol=1e-5, atol=2e-5)


@pytest.mark.long
@pytest.mark.parametrize("dim, wide", SIZES)
def test_8_bit_floats_of_every_size(dim, wide):
    rng = np.random.default_rng(8)
    q, k, v = (heads(rng, 1, 1, n, d, dtype=F8) for n, d in ((70, dim), (300, dim), (300, wide)))
    got = attention(q, k, v).astype(np.float64)
    want = narrow_powers(q, k, v, NARROW[dim].keys, False)
    assert np.linalg.norm(got - want) / np.linalg.norm(want) < 0.004


@pytest.mark.long
def test_numbers_that_are_none_stay_in_their_rows():
    rng = np.random.default_rng(6)
    q, k, v = (heads(rng, 1, 1, 200, 64) for _ in range(3))
    q[0, 0, 7, 3], q[0, 0, 9] = np.nan, np.inf
    got, logs = attention(q, k, v, lse=True, config=SMALL)
    bad = np.isnan(got.astype(np.float32)).any(-1)[0, 0]
    assert set(np.flatnonzero(bad)) == {7, 9} and set(np.flatnonzero(np.isnan(logs[0, 0]))) == {7, 9}
    k[0, 0, 150, 0] = np.nan
    assert np.isnan(attention(q, k, v, config=SMALL).astype(np.float32)).all()
    masked = attention(q, k, v, causal=True, config=SMALL).astype(np.float32)
    assert np.isnan(masked[0, 0, 150:]).all() and not np.isnan(masked[0, 0, 10:150]).any()
