"""Kernels of the library take turns on a stream: each may be set up early, none touches memory before its turn."""

from __future__ import annotations

import importlib
import pkgutil

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from mutation.launches import Case
from mutation.library import LIBRARY
from phalanx.kernels.attention.backward_rows import finish_sums, prepare_rows
from phalanx.kernels.attention.decode_ring import join_splits
from phalanx.kernels.attention.forms import ListForm
from phalanx.kernels.attention.narrow import turn_values
from phalanx.kernels.attention.sparse_loop import sparse_loop
from phalanx.kernels.gather import gather_tiles, scatter_tiles, sum_tiles
from phalanx.kernels.gather_backward import add_rows, dot_rows
from phalanx.kernels.padding import pad_rows, pad_tiles
from phalanx.kernels.products.activations_backward import activate_tiles
from phalanx.kernels.products.group_tiles import plan_groups
from phalanx.kernels.products.grouped_backward import group_sums
from phalanx.kernels.products.grouped_blackwell import grouped_blackwell
from phalanx.kernels.products.matmul_blackwell import matmul_blackwell
from phalanx.kernels.products.matmul_blackwell_config import BlackwellConfig
from phalanx.kernels.quantize import pack_scale_tiles, quantize_tiles
from phalanx.kernels.rowwise.column_sums import sum_columns
from phalanx.kernels.rowwise.cross_entropy import SUM_CTAS, sum_losses
from phalanx.kernels.rowwise.losses import LossConfig, join_pieces, loss_rows
from phalanx.kernels.rowwise.spans import SpanConfig, norm_spans, softmax_spans
from phalanx.kernels.rowwise.teams import TeamConfig, norm_teams
from phalanx.language.kernel import Kernel

X, Y, INDICES = np.ones((16, 128), np.float32), np.zeros((16, 128), np.float32), np.arange(16, dtype=np.int32)
E8M0 = ml_dtypes.float8_e8m0fnu
SCALES = np.zeros((1, 1, 32, 4, 4), E8M0)
HEADS, LOGS = np.ones((1, 2, 100, 64), ml_dtypes.bfloat16), np.zeros((1, 2, 100), np.float32)
SUMS, STATS = np.ones((4, 2, 32 * 64), np.float32), np.zeros((1, 2, 2, 2, 64), np.float32)
STARTS = np.array([0, 30, 100], np.int32)
CACHE, ROWS_OF_HEADS = np.ones((100, 64), ml_dtypes.bfloat16), np.ones((64, 64), ml_dtypes.bfloat16)
BEFORE_AND_AFTER_ATTENTION = {
    "prepare_rows": lambda: Case(
        "prepare_rows", prepare_rows[2, 2, 1], [HEADS, HEADS, LOGS, None, STATS, SUMS.copy()], {"BM": 64, "D": 64}
    ),
    "prepare_rows of packed sequences": lambda: Case(
        "prepare_rows", prepare_rows[2, 2, 2], [HEADS, HEADS, LOGS, STARTS, np.zeros((1, 2, 4, 2, 64), np.float32), None],
        {"BM": 64, "D": 64},
    ),
    "finish_sums": lambda: Case(
        "finish_sums", finish_sums[2, 2, 1], [SUMS[None], None, HEADS.copy(), 0.125, 2], {"BM": 64, "D": 64}
    ),
    "turn_values": lambda: Case(
        "turn_values", turn_values[2, 2, 1],
        [HEADS.astype(ml_dtypes.float8_e4m3fn), np.zeros((1, 2, 64, 112), ml_dtypes.float8_e4m3fn)], {"WIDE": 64},
    ),
    "join_splits": lambda: Case(
        "join_splits", join_splits[2],
        [np.ones((21, 32), np.float32), np.zeros(21, np.float32), np.zeros((7, 32), ml_dtypes.bfloat16),
         np.zeros(7, np.float32), 7],
        {"SPLITS": 3, "DV": 32},
    ),
    "sparse_loop": lambda: Case(
        "sparse_loop", sparse_loop[1, 1, 1],
        [ROWS_OF_HEADS, CACHE, CACHE, INDICES.reshape(1, 1, 16), ROWS_OF_HEADS.copy(), np.zeros(64, np.float32),
         1.0, 100, 1, 1, 64],
        {"form": ListForm(64, 64, group=64, block=32)},
    ),
}  # fmt: skip
WITHOUT_A_RING = {
    "gather_tiles": lambda: Case("gather_tiles", gather_tiles[1, 1], [X, INDICES, Y], {}),
    "scatter_tiles": lambda: Case("scatter_tiles", scatter_tiles[1, 1], [X, INDICES, Y], {"ADD": True}),
    "sum_tiles": lambda: Case(
        "sum_tiles", sum_tiles[1], [X.astype(np.float16), INDICES // 2, Y.astype(np.float16)], {"BN": 128}
    ),
    "pad_rows": lambda: Case("pad_rows", pad_rows[8], [X.reshape(-1), Y.copy(), 128, 4, X.reshape(-1), Y.copy(), 128], {}),
    "pad_tiles": lambda: Case("pad_tiles", pad_tiles[1, 2, 1], [X[None], Y[None]], {}),
    "pack_scale_tiles": lambda: Case("pack_scale_tiles", pack_scale_tiles[1, 1], [np.zeros((128, 4), E8M0), SCALES], {}),
    "quantize_tiles": lambda: Case(
        "quantize_tiles", quantize_tiles[1, 1], [X, np.zeros((16, 128), ml_dtypes.float4_e2m1fn), SCALES, 1.0],
        {"BLOCK": 32, "LARGEST": 6.0},
    ),
    "plan_groups": lambda: Case(
        "plan_groups", plan_groups[1], [np.array([3, 5], np.int32), np.zeros((4, 32), np.int32)], {"GROUPS": 2, "BM": 128}
    ),
    "sum_losses": lambda: Case(
        "sum_losses", sum_losses[SUM_CTAS], [X[:, 0].copy(), INDICES, np.zeros(1, np.float32), 3], {"MEAN": True}
    ),
}
SPAN, SHORT = SpanConfig(8, 2, 8, 2, warps=1).constants(), np.ones(9 * 11, np.float32)
SPANS = {
    "softmax_spans": lambda: Case("softmax_spans", softmax_spans[1], [SHORT, np.zeros_like(SHORT), 11], SPAN),
    "norm_spans": lambda: Case(
        "norm_spans", norm_spans[1], [SHORT, SHORT[:11], SHORT[:11], np.zeros_like(SHORT), 1e-6, 11], SPAN
    ),
}
WHOLE, LOSSES = SHORT[: SHORT.size // 4 * 4].reshape(-1, 4), np.zeros(9, np.float32)
IN_REGISTERS = {
    "loss_rows": lambda: Case(
        "loss_rows", loss_rows[1], [SHORT, WHOLE, INDICES[:9], LOSSES, None, -100, 11, None],
        {**LossConfig(2, 2, 1).constants(), "EDGES": True},
    ),
    "pieces of loss_rows": lambda: Case(
        "loss_rows", loss_rows[9], [SHORT, WHOLE, None, None, np.zeros((2, 9), np.float32), -100, 11, 1],
        {**LossConfig(64, 1, 2).constants(), "EDGES": True},
    ),
    "join_pieces": lambda: Case(
        "join_pieces", join_pieces[3], [SHORT, INDICES[:9], np.ones((2, 18), np.float32), LOSSES, -100, 11, 2], {}
    ),
}
TEAMS = TeamConfig(1, 2, 1)
BY_TEAMS = {
    "norm_teams": lambda: Case(
        "norm_teams", norm_teams[1], [SHORT, SHORT[:11], SHORT[:11], np.zeros_like(SHORT), 1e-6, 11, SHORT.size // 11],
        {"config": TEAMS, "CENTERED": True, "PERIOD": 4, "ENDS": 1},
    ),
}
FOR_GRADIENTS = {
    "add_rows": lambda: Case("add_rows", add_rows[1, 1], [X, INDICES, Y], {}),
    "dot_rows": lambda: Case("dot_rows", dot_rows[1], [X, X, X[:, 0].copy(), Y, np.zeros(16, np.float32)], {}),
    "activate_tiles": lambda: Case("activate_tiles", activate_tiles[1, 1], [X, X, Y], {"ACTIVATION": "gelu"}),
    "sum_columns": lambda: Case("sum_columns", sum_columns[2, 1], [X, np.zeros((1, 128), np.float32), None, None], {}),
    "group_sums": lambda: Case(
        "group_sums", group_sums[2, 2], [X, np.array([5, 11], np.int32), np.zeros((2, 128), np.float32)], {"GROUPS": 2}
    ),
}
A, B = np.ones((128, 64), ml_dtypes.bfloat16), np.ones((64, 64), ml_dtypes.bfloat16)
NARROW = BlackwellConfig(64, 64, (1, 1))
ONE_TILE = np.array([[0], [0], [128], [1]], np.int32)
"""The table of one tile of one group: the group, where its rows begin and end, and how many tiles there are."""
LOOPS_ON_BLACKWELL = {
    "matmul_blackwell": lambda: Case(
        "matmul_blackwell", matmul_blackwell[1, 1], [A, B, A.copy(), *[None] * 6], {"config": NARROW}
    ),
    "grouped_blackwell": lambda: Case(
        "grouped_blackwell", grouped_blackwell[1, 1], [A, None, B[None], A.copy(), ONE_TILE, None, None], {"config": NARROW}
    ),
}
ROWS = WITHOUT_A_RING | SPANS | IN_REGISTERS | BY_TEAMS
CASES = LIBRARY | LOOPS_ON_BLACKWELL | ROWS | BEFORE_AND_AFTER_ATTENTION | FOR_GRADIENTS
LOOKS_EARLY = {"join_runs"}
"""It reads lengths before its turn: the launch before it has waited for them (test_attention_decode_runs.py checks it)."""


def kernels_of_the_library() -> dict[str, Kernel]:
    found = {}
    for module in pkgutil.walk_packages(px.kernels.__path__, "phalanx.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel):
                found[value.name] = value
    return found


def test_every_kernel_may_be_set_up_early() -> None:
    kernels = kernels_of_the_library()
    assert len(kernels) > 10
    assert [name for name, kernel in kernels.items() if not (kernel.pdl or kernel.cooperative)] == []


def test_every_kernel_is_looked_at() -> None:
    early = {name for name, kernel in kernels_of_the_library().items() if kernel.pdl}
    assert {case().bound.kernel.name for case in CASES.values()} >= early - LOOKS_EARLY


@pytest.mark.share(4)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_touched_before_the_turn(name: str) -> None:
    case = CASES[name]()
    report = px.check(case.bound, *case.args, schedules=1, **case.constants)
    assert report.ok, report
    assert [note for note in report.notes if "px.wait_prior()" in note] == []
