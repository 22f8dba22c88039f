"""Small launches of attention to caches and lists of keys, for their mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mutation.launches import Case
from phalanx.kernels.attention.decode_config import DecodeConfig
from phalanx.kernels.attention.decode_ring import decode_ring
from phalanx.kernels.attention.decode_runs import decode_runs
from phalanx.kernels.attention.forms import CacheForm, ListForm, RunsForm
from phalanx.kernels.attention.latent_ring import latent_ring
from phalanx.kernels.attention.sparse_ring import sparse_latent, sparse_ring

BF16 = ml_dtypes.bfloat16


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    """Random arrays of bf16."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(BF16) for shape in shapes]


def decoding(C: int, tokens: int, narrow: bool = False) -> Callable[[], Case]:
    """One sequence, whose end lies inside a block: 3 blocks for each CTA, through rings of 2."""

    def make() -> Case:
        q, k, v = arrays((2, 32), (1, tokens + 5, 1, 32), (1, tokens + 5, 1, 32))
        if narrow:
            k, v = (x.astype(ml_dtypes.float8_e4m3fn) for x in (k, v))
        lengths = np.array([tokens], np.int32)
        args = [q, k, v, lengths, *[None] * 3, np.zeros((2, 32), BF16), None, 0.25, None, None, 1.0, None, 0, tokens + 5, 2]
        constants = {"config": DecodeConfig(C, 2), "form": CacheForm(32, 32, group=2, narrow=narrow)}
        return Case("decode_ring", decode_ring[C, 1, 1], args, constants)

    return make


def in_turns() -> Case:
    """70 rows, which two roles share: 3 blocks through rings of 2, the last one not full."""
    q, k, v = arrays((70, 32), (1, 175, 1, 32), (1, 175, 1, 32))
    args = [q, k, v, np.array([170], np.int32), *[None] * 3, np.zeros((70, 32), BF16), None, 0.25]
    args += [None, None, 1.0, None, 0, 175, 70]
    constants = {"config": DecodeConfig(1, 2, ctas=1, rows=128), "form": CacheForm(32, 32, group=70)}
    return Case("decode_ring", decode_ring[1, 1, 1], args, constants)


def in_runs() -> Case:
    """Two sequences of 3 and 1 blocks, of two heads in turn, which two CTAs share: 2 blocks each, through rings of 2."""
    q, k, v = arrays((8, 32), (2, 180, 1, 32), (2, 180, 1, 32))
    out, parts, logs = np.zeros((8, 32), BF16), np.zeros((256, 32), np.float32), np.zeros(256, np.float32)
    args = [q, k, v, np.array([85, 30], np.int32), None, out, None, parts, logs, 0.25, None, None, None, 0, 90, 4]
    constants = {"form": CacheForm(32, 32, group=2), "dealt": RunsForm(2, 2)}
    return Case("decode_runs", decode_runs[2], args, constants)


def latent(C: int) -> Callable[[], Case]:
    """One sequence over 3 blocks of a latent cache for each CTA, through a ring of 2."""

    def make() -> Case:
        q, k = arrays((2, 64), (1, 190 * C, 1, 64))
        lengths = np.array([190 * C - 3], np.int32)
        args = [q, k, lengths, None, np.zeros((2, 64), BF16), None, 0.25, None, None, None, 0, 190 * C, 2]
        constants = {"config": DecodeConfig(C, 2, ctas=1), "form": CacheForm(64, 64, group=2)}
        return Case("latent_ring", latent_ring[C, 1, 1], args, constants, schedules=6)

    return make


def sparse() -> Case:
    """One list of 3 blocks, the last one not full, through rings of 2."""
    q, k, v = arrays((2, 32), (90, 32), (90, 32))
    indices = np.random.default_rng(1).integers(-3, 95, (1, 1, 180)).astype(np.int32)
    args = [q, k, v, indices, np.zeros((2, 32), BF16), None, 0.25, 90, 1, 1, 2]
    return Case("sparse_ring", sparse_ring[1, 1], args, {"STAGES": 2, "form": ListForm(32, 32, group=2)})


def sparse_pair() -> Case:
    """A list of 3 blocks, of which each CTA of a pair gathers one half for both."""
    q, k = arrays((66, 64), (90, 64))
    indices = np.random.default_rng(1).integers(-3, 95, (1, 1, 180)).astype(np.int32)
    args = [q, k, indices, np.zeros((66, 64), BF16), None, 0.25, 90, 1, 1, 66]
    return Case("sparse_latent", sparse_latent[1, 2], args, {"form": ListForm(64, 64, group=66), "PAIR": True})


CACHES: dict[str, Callable[[], Case]] = {
    "decode_ring": decoding(1, 170),
    "decode_ring, cluster": decoding(2, 300),
    "decode_ring, 8 bits": decoding(1, 170, narrow=True),
    "decode_ring, in turns": in_turns,
    "decode_runs": in_runs,
    "latent_ring": latent(1),
    "latent_ring, cluster": latent(2),
    "sparse_ring": sparse,
    "sparse_latent, pair": sparse_pair,
}
