"""Parts that attention kernels share, one by one against NumPy: masks, caps, the softmax in steps, checks of arguments."""

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.attention import arguments
from phalanx.kernels.attention.scores import (
    NOTHING,
    Reach,
    capped,
    distances,
    first_step,
    log_sums,
    row_sums,
    softmax_step,
)


@px.kernel(warps=4)
def mask_block(S, OUT, BLOCKS, queries, keys, left, right, row, key, *, ROWS=64, KEYS=32):
    reach = Reach(queries, keys, left, right)
    px.store(OUT[0:ROWS, 0:KEYS], reach.masked(px.load(S[0:ROWS, 0:KEYS]), row, key, ROWS, KEYS))
    some, whole = reach.blocks(row, ROWS, KEYS), reach.whole_blocks(row, ROWS, KEYS)
    px.store(BLOCKS[0], some[0])
    px.store(BLOCKS[1], some[1])
    px.store(BLOCKS[2], whole[0])
    px.store(BLOCKS[3], whole[1])


def allowed(queries, keys, left, right, rows):
    """Which keys each of `rows` may attend to."""
    beside, columns = rows[:, None] + keys - queries, np.arange(keys)[None]
    ok = np.ones((len(rows), keys), bool)
    if left is not None:
        ok &= columns >= beside - left
    if right is not None:
        ok &= columns <= beside + right
    return ok


@pytest.mark.parametrize("left, right", [(None, None), (None, 0), (5, None), (3, 2), (0, 0), (40, 7)])
@pytest.mark.parametrize("queries, keys, row", [(100, 70, 0), (100, 170, -28), (64, 64, 0), (150, 100, 86)])
def test_masks_and_blocks_are_those_of_the_definition(queries, keys, left, right, row):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((64, 32)).astype(np.float32)
    ok = allowed(queries, keys, left, right, np.arange(row, row + 64))
    seen = [block for block in range(px.cdiv(keys, 32)) if ok[:, block * 32 : block * 32 + 32].any()]
    whole = [block for block in range(keys // 32) if ok[:, block * 32 : block * 32 + 32].all()]
    for key in (0, 32, 64, 96):
        out, blocks = np.zeros_like(scores), np.zeros(4, np.int32)
        mask_block[1](scores, out, blocks, queries, keys, left, right, row, key)
        part = np.zeros((64, 32), bool)
        inside = ok[:, key : key + 32]
        part[:, : inside.shape[1]] = inside
        np.testing.assert_array_equal(out, np.where(part, scores, NOTHING))
        assert all(blocks[0] <= block < blocks[1] for block in seen)
        assert blocks[1] <= px.cdiv(keys, 32) and blocks[0] >= 0
        assert list(range(blocks[2], blocks[3])) == whole


@px.kernel(warps=4)
def softmax_blocks(S, P, LSE, ALPHA, factor, *, ROWS=64, KEYS=32, EMPTY=True, SLACK=0.0):
    p, top, sums = first_step(px.load(S[0:ROWS, 0:KEYS]), factor, ROWS, KEYS, EMPTY)
    px.store(P[0:ROWS, 0:KEYS], p)
    for block in px.static_range(1, 4):
        n = block * KEYS
        p, top, sums, alpha = softmax_step(px.load(S[0:ROWS, n : n + KEYS]), top, sums, factor, ROWS, KEYS, EMPTY, SLACK)
        px.store(P[0:ROWS, n : n + KEYS], p)
        px.store(ALPHA[block, 0:ROWS], alpha)
    _, total = row_sums(sums)
    px.store(LSE[0:ROWS], log_sums(top, total))


@pytest.mark.parametrize("slack", [0.0, 8.0])
def test_steps_of_the_softmax_add_up(slack):
    rng = np.random.default_rng(1)
    s = (rng.standard_normal((64, 128)) * 6).astype(np.float32)
    s[3, :64], s[5], s[7, 32:] = NOTHING, NOTHING, NOTHING
    p, lse, alpha = np.zeros_like(s), np.zeros(64, np.float32), np.ones((4, 64), np.float32)
    softmax_blocks[1](s, p, lse, alpha, 1.4426950408889634, SLACK=slack)
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(s.astype(np.float64)).sum(1))
    np.testing.assert_allclose(lse, expected, rtol=1e-5, atol=1e-5)
    assert lse[5] == NOTHING and p.max() <= 2**slack * 1.00001 and (p[5] == 0).all()
    moved = np.isfinite(s).any(1) & (alpha[1:] != 1).any(0)
    if slack:
        assert 0 < moved.sum() < 40  # most rows are never rescaled
    for block in range(1, 4):
        p[:, : block * 32] *= alpha[block][:, None]
    with np.errstate(invalid="ignore"):
        share = p / p.sum(1, keepdims=True)
        exact = np.exp(s - expected[:, None])
    np.testing.assert_allclose(np.delete(share, 5, 0), np.delete(exact, 5, 0), rtol=1e-4, atol=1e-6)


@px.kernel(warps=4)
def cap_and_slope(S, C, A, slope, cap, *, ROWS=64, KEYS=32):
    px.store(C[0:ROWS, 0:KEYS], capped(px.load(S[0:ROWS, 0:KEYS]), slope, cap))
    px.store(A[0:ROWS, 0:KEYS], distances(Reach(100, 130, None, None), 3, 20, ROWS, KEYS))


def test_caps_saturate_and_distances_are_counted_from_the_key_beside():
    s = np.linspace(-400, 400, 64 * 32, dtype=np.float32).reshape(64, 32)
    c, a = np.zeros_like(s), np.zeros_like(s)
    cap_and_slope[1](s, c, a, 0.02, 30.0)
    np.testing.assert_allclose(c, 30 * np.tanh(0.02 * s.astype(np.float64)), atol=1e-5)
    np.testing.assert_array_equal(a, np.abs((3 + 30 + np.arange(64))[:, None] - (20 + np.arange(32))[None]))


def heads(*shape):
    return np.zeros(shape, ml_dtypes.bfloat16)


WRONG = [
    (lambda: arguments.require_heads(heads(2, 4, 5, 64), heads(1, 2, 7, 64), heads(1, 2, 7, 64)),
     "q has shape (2, 4, 5, 64), k (1, 2, 7, 64)", "q and k have the same batch and the same last axis"),
    (lambda: arguments.require_heads(heads(2, 4, 5, 64), heads(2, 2, 7, 64), heads(2, 2, 6, 64)),
     "k has shape (2, 2, 7, 64), v (2, 2, 6, 64)", "k and v differ in their last axis only"),
    (lambda: arguments.require_heads(heads(2, 3, 5, 64), heads(2, 2, 7, 64), heads(2, 2, 7, 64)),
     "3 heads of q for 2 of k and v", "each head of k and v serves the same number of heads of q"),
    (lambda: arguments.require_heads(heads(4, 5, 64), heads(2, 2, 7, 64), heads(2, 2, 7, 64)),
     "q has shape (4, 5, 64)", "pass (batch, heads, length, dim)"),
    (lambda: arguments.require_heads(heads(1, 2, 5, 64), heads(1, 2, 7, 64).astype(np.float16), heads(1, 2, 7, 64)),
     "q is bf16, k f16, v bf16", "pass all three in one element type"),
    (lambda: arguments.require_heads(heads(1, 2, 5, 64).astype(np.float32), heads(1, 2, 7, 64), heads(1, 2, 7, 64)),
     "q has the element type f32", "convert it to one of bf16, f16, f8e4m3"),
    (lambda: arguments.require_dims(arguments.require_heads(*(heads(1, 1, 4, 257),) * 3)),
     "heads of 257 elements", "heads have 1 to 256 elements"),
    (lambda: arguments.require_dims(arguments.require_heads(*(heads(1, 1, 4, size) for size in (64, 64, 0)))),
     "values of 0 elements", "heads have 1 to 256 elements"),
    (lambda: arguments.reach_of(True, 5), "window is 5",
     "pass (left, right), two integers: how many keys before and behind its own a query sees; -1 or None for all"),
    (lambda: arguments.reach_of("yes", None), "causal is 'yes'", "pass True or False"),
    (lambda: arguments.cap_of(-1), "softcap is -1.0", "give a positive number, or leave it out"),
    (lambda: arguments.require_lengths(np.zeros(3, np.int32), None), "cu_seqlens_k is missing",
     "pass both cu_seqlens_q and cu_seqlens_k, or neither"),
    (lambda: arguments.require_lengths(np.zeros(3, np.int32), np.zeros(4, np.int32)),
     "cu_seqlens_q has shape (3,), cu_seqlens_k (4,)",
     "pass two vectors of sequences + 1 numbers: where each begins, and where the last one ends"),
]  # fmt: skip


@pytest.mark.parametrize("call, message, remedy", WRONG, ids=[message for _, message, _ in WRONG])
def test_arguments_that_do_not_go_together(call, message, remedy):
    with pytest.raises(px.Error) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.remedy == remedy
    assert caught.value.location.file.endswith("test_attention_scores.py")


def test_windows_and_causality_as_bounds():
    assert arguments.reach_of(True, None) == (None, 0)
    assert arguments.reach_of(True, (7, 3)) == (7, 0)
    assert arguments.reach_of(False, (-1, 3)) == (None, 3)
    assert arguments.reach_of(False, (2, None)) == (2, None)


def test_results_lie_as_queries_do():
    plain, turned = heads(2, 3, 5, 64), heads(2, 5, 3, 64).swapaxes(1, 2)
    assert arguments.result_like(plain, 32, "bf16").flags.c_contiguous
    result = arguments.result_like(turned, 32, "bf16")
    assert result.shape == (2, 3, 5, 32) and result.swapaxes(1, 2).flags.c_contiguous
