"""Cross entropy of rows of logits with one target each, forward: one read, and nothing of their size is written."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, is_among, refused, require_config
from phalanx.kernels.rowwise.rows import RowConfig, choose_for, row_kernel, row_of, zeros
from phalanx.kernels.rowwise.softmax import row_statistics
from phalanx.runtime.device.arrays import scalar_dtype
from phalanx.runtime.launch.replay import remembered

REDUCTIONS = ("mean", "sum", "none")


@row_kernel
def cross_entropy_rows(X, T, L, ignore, *, CLUSTER, WARPS, PER_SM, ROWS, WIDTH, PARTS, SHARED=0, ONCE=False):
    """The logarithm of sum(e^x) of each row, less the element that T names; 0 where T is `ignore`."""
    rows = row_of(X, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE)
    row, first = rows.row, rows.first
    wait_for_prior_launch()
    if ROWS == 1:
        label = px.load(T[row])
    else:
        label = px.load(T[row : row + ROWS]).reshape(ROWS, 1)
    x = rows.load(-float("inf"))
    target = label.to(px.i32)
    found = None
    if ROWS == 1:
        chosen = px.load(X[row, target]).to(px.f32)  # of a row that is on its way anyway
    else:
        found = zeros(ROWS, WIDTH)
        for part in px.static_range(PARTS):
            here = px.arange(WIDTH) == target - (first + part * WIDTH)
            found = px.where(here, x[part].to(px.f32), found)
        if SHARED > 0:
            for part in range(SHARED):
                here = px.arange(WIDTH) == target - (first + (PARTS + part) * WIDTH)
                found = px.where(here, px.load(rows.kept[part]).to(px.f32), found)
    largest, total, others, x = row_statistics(rows, x, found)
    if ROWS > 1:
        chosen = others
    loss = largest + px.log2(total) * LN2 - chosen
    loss = px.where(label < X.shape[1], loss, float("nan"))
    loss = px.where(label >= 0, loss, float("nan"))
    loss = px.where(label == ignore, 0.0, loss)
    if px.cluster.rank() == 0:
        if ROWS == 1:
            px.store(L[row], loss)
        else:
            px.store(L[row : row + ROWS], loss.reshape(ROWS))


def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    config: RowConfig | None = None,
) -> Any:
    """-log(softmax(logits)[target]) for every row of logits, and the mean or sum of them, or all ("none"), in f32.

    `logits`: a torch, CuPy or NumPy array of bf16, f16 or f32, the classes along its last axis; `targets`: one i32 or
    i64 per row. Rows whose target is `ignore_index` count for nothing; a target outside the classes gives NaN.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``loss = px.kernels.cross_entropy(logits, targets)``.
    """
    if not is_among(reduction, REDUCTIONS):
        raise refused(f"unknown reduction {reduction!r}", f"use one of {', '.join(REDUCTIONS)}")
    if scalar_dtype(ignore_index) not in ("i32", "i64"):
        raise refused(f"ignore_index={ignore_index!r} is no target", "pass an integer that the targets' type holds")
    losses = losses_of(logits, targets, int(ignore_index), config)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / (targets != ignore_index).sum()


@remembered("logits", "targets")
def losses_of(logits: Any, targets: Any, ignore_index: int, config: RowConfig | None) -> Any:
    """The loss of every row, in f32, as `cross_entropy` gives it for "none"."""
    info = info_of("logits", logits)
    labels = info_of("targets", targets, ("i32", "i64"))
    if labels.shape != info.shape[:-1]:
        raise refused(
            f"targets have shape {labels.shape}, the logits {info.shape}",
            "pass one target per row of logits: the logits' shape without its last axis",
        )
    if info.shape[-1] == 0:
        raise refused(f"logits of shape {info.shape} have no classes", "pass logits whose last axis has at least one")
    rows = as_rows(logits, info)
    count, _ = rows.shape
    losses = empty(logits, (count,), "f32")
    if has_work(count):
        config = require_config(config, RowConfig) or choose_for(rows, reads=True)
        flat = targets.reshape(-1)
        cross_entropy_rows[config.grid(count)](rows, flat, losses, ignore_index, **config.constants())
    return losses.reshape(info.shape[:-1])
