"""Attention in float64, for tests of the simulator and of GPUs; and the arrays they take."""

from __future__ import annotations

import ml_dtypes
import numpy as np

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def heads(rng, *shape, dtype=BF16, amplitude=1.0):
    """Random normal numbers."""
    return (rng.standard_normal(shape) * amplitude).astype(dtype)


def allowed(queries, keys, causal=False, window=None):
    """Which keys each query may attend to: the last query stands beside the last key."""
    beside, column = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None]
    ok = np.ones((queries, keys), bool)
    left, right = window or (-1, -1)
    if left is not None and left >= 0:
        ok &= column >= beside - left
    if right is not None and right >= 0:
        ok &= column <= beside + right
    return ok & (column <= beside) if causal else ok


def exact(q, k, v, causal=False, window=None, scale=None, softcap=None, bias=None):
    """(result, logarithms of sums) of (batch, heads, length, dim) in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        bias = np.asarray(bias, np.float64)
        if bias.ndim < 4:
            distance = np.abs(np.arange(s.shape[2])[:, None] + s.shape[3] - s.shape[2] - np.arange(s.shape[3])[None])
            bias = -np.broadcast_to(bias, s.shape[:2])[..., None, None] * distance
        s = s + bias
    s = np.where(allowed(*s.shape[2:], causal, window), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    base = np.where(top == -np.inf, 0, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.exp(s - base)
        total = p.sum(-1, keepdims=True)
        return np.where(total == 0, 0, p @ v / np.where(total == 0, 1, total)), (base + np.log(total))[..., 0]


def exact_packed(q, k, v, starts_q, starts_k, **options):
    """The same of packed sequences (total, heads, dim): result (total, heads, dim), logarithms (heads, total)."""
    result, logs = np.zeros((*q.shape[:2], v.shape[2])), np.full((q.shape[1], q.shape[0]), -np.inf)
    for i in range(len(starts_q) - 1):
        of_q, of_k = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        part = [x.swapaxes(0, 1)[None] for x in (q[of_q], k[of_k], v[of_k])]
        one, log = exact(*part, **options)
        result[of_q], logs[:, of_q] = one[0].swapaxes(0, 1), log[0]
    return result, logs


def assert_close(got, logs, want, want_logs, rounding=2**-8):
    """Results as exact as powers and results of 8 bits are (`rounding` of what is summed); logarithms as f32 is."""
    got = np.asarray(got, np.float64)
    assert np.isfinite(got).all()
    largest = max(1.0, np.abs(want).max(initial=0))
    np.testing.assert_allclose(got, want, rtol=2 * rounding, atol=rounding * largest)
    error = np.sqrt(np.mean((got - want) ** 2)) / max(np.sqrt(np.mean(want**2)), 1e-30)
    assert error < 1.5 * rounding, error
    if logs is not None:
        np.testing.assert_allclose(logs, want_logs, rtol=1e-5, atol=2e-5)
