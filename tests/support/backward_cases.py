"""Gradients of attention in float64, for tests of the simulator and of GPUs."""

from __future__ import annotations

import numpy as np

from support.attention_cases import allowed, exact, exact_packed


def gradients(do, q, k, v, causal=False, window=None, scale=None, softcap=None, bias=None):
    """(dq, dk, dv, dbias, spread) of (batch, heads, length, dim) in float64.

    The last two are None without a bias; `spread` is the sum of the absolute values of what dbias is the sum of: where
    terms cancel (all of them, if the bias is the same for all keys), that is what errors are small beside.
    """
    do, q, k, v = (x.astype(np.float64) for x in (do, q, k, v))
    group, keys = q.shape[1] // k.shape[1], k.shape[2]
    wide_k, wide_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    raw = q @ wide_k.swapaxes(-1, -2) * scale
    s = softcap * np.tanh(raw / softcap) if softcap else raw
    beside, column = np.arange(q.shape[2])[:, None] + keys - q.shape[2], np.arange(keys)[None]
    slope = -np.abs(beside - column)
    if bias is not None:
        bias = np.asarray(bias, np.float64)
        s = s + (bias if bias.ndim == 4 else np.broadcast_to(bias, s.shape[:2])[..., None, None] * slope)
    s = np.where(allowed(q.shape[2], keys, causal, window), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(top == -np.inf, 0, top))
    total = p.sum(-1, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    dp = do @ wide_v.swapaxes(-1, -2)
    ds = p * (dp - (p @ wide_v * do).sum(-1, keepdims=True))
    dbias = spread = None
    if bias is not None:
        terms = ds if bias.ndim == 4 else ds * slope
        dbias, spread = summed(terms, bias.shape), summed(np.abs(terms), bias.shape)
    if softcap:
        ds = ds * (1 - np.tanh(raw / softcap) ** 2)

    def shared(x):
        """The sum over the query heads that share a head of keys."""
        return x.reshape(x.shape[0], k.shape[1], group, *x.shape[2:]).sum(2)

    back = ds.swapaxes(-1, -2)
    return ds @ wide_k * scale, shared(back @ q * scale), shared(p.swapaxes(-1, -2) @ do), dbias, spread


def summed(terms, shape):
    """(batch, heads, queries, keys) summed to the shape of a bias."""
    if len(shape) == 4:
        return terms.sum(tuple(axis for axis in range(4) if shape[axis] == 1), keepdims=True)
    return terms.sum((2, 3)).sum(0) if len(shape) == 1 else terms.sum((2, 3))


def packed_gradients(do, q, k, v, starts_q, starts_k, **options):
    """(dq, dk, dv) of packed sequences (total, heads, dim)."""
    found = [np.zeros(x.shape) for x in (q, k, v)]
    for i in range(len(starts_q) - 1):
        of_q, of_k = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
        if of_q.start < of_q.stop and of_k.start < of_k.stop:
            one = gradients(*(x.swapaxes(0, 1)[None] for x in (do[of_q], q[of_q], k[of_k], v[of_k])), **options)
            for whole, part, which in zip(found, one, (of_q, of_k, of_k)):
                whole[which] = part[0].swapaxes(0, 1)
    return found


def forward(q, k, v, starts=None, **options):
    """What `attention` gives, from float64: the result in q's type, and logarithms in f32."""
    o, logs = exact(q, k, v, **options) if starts is None else exact_packed(q, k, v, *starts, **options)
    return o.astype(q.dtype), logs.astype(np.float32)


SUMMED = 2e-5
"""What is left where gradients cancel (one key for a query: all of its weight is its own): roundings of sums in f32."""


def assert_gradients(got, want, rounding=2**-8):
    """As exact as the operands that are rounded: probabilities, gradients of scores, the result behind `o`."""
    for found, exactly in zip(got, want, strict=False):
        assert found.shape == exactly.shape and np.isfinite(np.asarray(found, np.float64)).all()
    for found, exactly in zip(got[:3], want, strict=False):
        size, error = (np.sqrt(np.mean(x**2)) if x.size else 0.0 for x in (exactly, np.asarray(found, np.float64) - exactly))
        assert error <= 1.5 * rounding * size + SUMMED, (error, size)
        most, largest = (np.abs(x).max(initial=0) for x in (np.asarray(found, np.float64) - exactly, exactly))
        assert most <= 3 * rounding * largest + 4 * SUMMED, (most, largest)
    if len(got) == 4:
        assert np.abs(got[3] - want[3]).max() <= 2 * rounding * want[4].max() + 1e-6
