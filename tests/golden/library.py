"""Kernels of the library for sm_90a, one of each family, whose IR and CUDA text are kept."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.decode_config import DecodeConfig
from phalanx.kernels.attention.decode_ring import decode_ring
from phalanx.kernels.attention.forms import CacheForm
from phalanx.kernels.products.split_config import SplitConfig
from phalanx.kernels.products.split_ring import split_ring
from phalanx.kernels.rowwise.losses import LossConfig, loss_rows
from phalanx.kernels.rowwise.teams import TeamConfig, norm_teams

Launch = tuple[Any, list[Any], dict[str, Any]]


def split_product() -> Launch:
    """64 rows by 640 columns; four CTAs of a cluster share a K of 8,192."""
    config = SplitConfig(64, 64, 4, 6, groups=1, pieces=4)
    a, b, c = px.spec((64, 8192), px.bf16), px.spec((640, 8192), px.bf16), px.spec((64, 640), px.bf16)
    return split_ring[config.grid(64, 640)], [a, b, c, c], config.constants()


def rows_by_teams() -> Launch:
    """layer_norm of 4,507 columns: rows begin at any element of a vector."""
    config = TeamConfig(2, 2, 9, slots=2)
    x, w = px.spec((64 * 4507,), px.bf16), px.spec((4507,), px.bf16)
    edges = {"PERIOD": 8, "BEGINS": 1, "ENDS": 2, "SIDES": True}
    return norm_teams[64], [x, w, w, x, 1e-5, 4507, 64], {"config": config, **edges, "CENTERED": True}


def losses() -> Launch:
    """Cross entropy of 1,001 columns, a warp to a row."""
    config = LossConfig(32, 4)
    x, whole = px.spec((64 * 1001,), px.bf16), px.spec((8 * 1001, 8), px.bf16)
    args = [x, whole, px.spec((64,), px.i64), None, px.spec((2, 64), px.f32), -100, 1001, None]
    return loss_rows[config.grid(64)], args, {**config.constants(), "EDGES": True}


def decoding() -> Launch:
    """One new token of eight sequences; eight heads of queries to each of two KV heads, caches in pages of 64 tokens."""
    q, pages, logs = px.spec((8 * 16, 128), px.bf16), px.spec((512, 64, 2, 128), px.bf16), px.spec((8 * 16,), px.f32)
    lengths, table = px.spec((8,), px.i32), px.spec((8, 64), px.i32)
    args = [q, pages, pages, lengths, table, None, None, q, logs, 0.125, None, None, 1.0, None, 0, 4096, 16]
    return decode_ring[2, 2, 8], args, {"config": DecodeConfig(2, 3), "form": CacheForm(group=8, page=64)}


CASES: dict[str, Launch] = {
    "split_ring": split_product(),
    "norm_teams": rows_by_teams(),
    "loss_rows": losses(),
    "decode_ring": decoding(),
}
