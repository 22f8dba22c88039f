"""Cross entropy of rows of logits with one target each: one read; its gradient takes their place with one write."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, is_among, refused, require_config, result_info
from phalanx.kernels.rowwise.losses import LossConfig, choose_losses, launch_losses
from phalanx.kernels.rowwise.row_config import LIMITS, VECTOR_BYTES, RowConfig, places, run_of
from phalanx.kernels.rowwise.rows import each_row, row_kernel, zeros
from phalanx.kernels.rowwise.softmax import row_statistics
from phalanx.kernels.rowwise.softmax_terms import softmax_terms, softmax_tile
from phalanx.kernels.rowwise.stream_config import run_for_stream
from phalanx.runtime.device.arrays import dense_strides, scalar_dtype
from phalanx.runtime.launch.replay import remembered

SUM_CTAS, SUM_WARPS = 8, 16
"""CTAs, and warps of each, that add up the losses of all rows: some microseconds for a hundred thousand."""
REDUCTIONS = ("mean", "sum", "none")


@px.func
def chosen_in_row(rows, x, target):
    """A tile with the element that `target` names of each row, where this CTA has it, and zeros."""
    found = zeros(rows.ROWS, rows.WIDTH)
    for part in px.static_range(rows.PARTS):
        here = px.arange(rows.WIDTH) == target - (rows.first + part * rows.WIDTH)
        found = px.where(here, x[part].to(px.f32), found)
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            here = px.arange(rows.WIDTH) == target - (rows.first + (rows.PARTS + part) * rows.WIDTH)
            found = px.where(here, rows.beyond(part).to(px.f32), found)
    return found


@px.func
def store_gradient(rows, x, G, largest, total, target, each):
    """(e^x / sum(e^x), less 1 at the target) times `each`, for each tile of the rows."""
    base, factor = softmax_terms(largest, total, False)
    rows.start_again()
    for part in px.static_range(rows.PARTS):
        at = rows.first + part * rows.WIDTH
        if at < rows.length:
            y = softmax_tile(x[part].to(px.f32), base, factor, False)
            y = px.where(px.arange(rows.WIDTH) == target - at, y - 1.0, y)
            rows.store(G, at, y * each)
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            at = rows.first + (rows.PARTS + part) * rows.WIDTH
            y = softmax_tile(rows.beyond(part).to(px.f32), base, factor, False)
            y = px.where(px.arange(rows.WIDTH) == target - at, y - 1.0, y)
            rows.store(G, at, y * each)


@px.func
def labels_of(rows, T, ignore):
    """The target of a row, or of each of the rows that share a CTA."""
    row = rows.row
    if rows.ROWS == 1:
        return px.load(T[row], fill=ignore)
    return px.load(T[row : row + rows.ROWS]).reshape(rows.ROWS, 1)


@px.func
def cross_entropy_row(rows, label, x, L, G, N, ignore):
    """The loss of a row, by the warps that have loaded it, and its gradient where there is a G to put it."""
    row = rows.row
    inside = (label >= 0) & (label < rows.columns)
    target = label.to(px.i32) + rows.shift
    found = None
    if rows.ROWS > 1 or G is not None:  # in the place of the logits the other CTAs of the cluster put gradients
        found = chosen_in_row(rows, x, target)
    elif len(rows.X.shape) == 1:
        chosen = px.load(rows.X[rows.begin + label.to(px.i32)]).to(px.f32)  # of a row that is on its way anyway
    else:
        chosen = px.load(rows.X[row, label.to(px.i32)]).to(px.f32)
    largest, total, others, x = row_statistics(rows, x, found)
    if found is not None:
        chosen = others
    loss = px.where(inside, largest + px.log2(total) * LN2 - chosen, float("nan"))
    loss = px.where(label == ignore, 0.0, loss)
    if px.cluster.rank() == 0:
        if rows.ROWS == 1:
            px.store(L[row], loss)
        else:
            px.store(L[row : row + rows.ROWS], loss.reshape(rows.ROWS))
    if G is not None:
        each = 1.0 if N is None else 1.0 / px.load(N[0]).to(px.f32)
        each = px.where(inside, each, float("nan"))
        store_gradient(rows, x, G, largest, total, target, px.where(label == ignore, 0.0, each))


@row_kernel
def cross_entropy_rows(X, T, L, G, N, ignore, columns, *, config):
    """The logarithm of sum(e^x) of each row, less the element that T names; 0 where T is `ignore`.

    With a G, which may be X itself, the gradient of each loss, divided by N[0] if there is an N, goes there.
    """
    before = (labels_of, T, ignore)
    after = (cross_entropy_row, L, G, N, ignore)
    each_row(X, columns, -float("inf"), before, after, config)


@px.func
def sums_of_warps(tile):
    """The sum of what each warp has of a tile."""
    return px.sum(tile.reshape(SUM_WARPS, tile.shape[0] // SUM_WARPS), axis=1, keepdims=True)


@px.kernel(warps=SUM_WARPS, cluster=SUM_CTAS, exit_sync=False, pdl=True)
def sum_losses(L, T, R, ignore, *, WIDTH=2048, TURNS=4, MEAN=False):
    """R[0] = the sum of all losses; their mean over the targets that are not `ignore` with MEAN.

    With T None, L[0] has sums of some losses each, and L[1] says of how many that count.
    """
    wait_for_prior_launch()
    COUNT = L.shape[0] if T is not None else L.shape[1]
    first = px.cluster.rank() * (TURNS * WIDTH)
    step = px.cluster.size() * (TURNS * WIDTH)
    losses = px.zeros((WIDTH,), px.f32)
    counted = px.zeros((WIDTH,), px.f32)
    for at in range(first, COUNT, step):
        some: tuple[Any, ...] = ()
        for turn in px.static_range(TURNS):  # all are on their way before the first is used
            here = at + turn * WIDTH
            counts: Any = None
            if MEAN and T is None:
                counts = px.load(L[1, here : here + WIDTH])
            elif MEAN:
                counts = px.load(T[here : here + WIDTH], fill=ignore)
            some = (*some, (px.load(L[0, here : here + WIDTH] if T is None else L[here : here + WIDTH]), counts))
        for loss, counts in some:
            losses = losses + loss
            if MEAN:
                counted = counted + (counts if T is None else px.where(counts != ignore, 1.0, 0.0))
    sums, counts = px.cluster.gather((sums_of_warps(losses), sums_of_warps(counted)))  # one exchange for both
    if px.cluster.rank() == 0:
        px.store(R[0], px.sum(sums) / px.sum(counts) if MEAN else px.sum(sums))


@remembered("logits", "targets", writes={"logits": "gradient"})
def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    gradient: bool = False,
    config: RowConfig | LossConfig | None = None,
) -> Any:
    """-log(softmax(logits)[target]) for every row of logits, and the mean or sum of them, or all ("none"), in f32.

    `logits`: a torch, CuPy or NumPy array of bf16, f16 or f32, the classes along its last axis; `targets`: one i32 or
    i64 per row. Rows whose target is `ignore_index` count for nothing; a target outside the classes gives NaN.
    `gradient`: the gradient of the mean, or else of the sum, with respect to the logits takes their place; they are
    contiguous then. So a training step reads and writes them once.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``loss = px.kernels.cross_entropy(logits, targets, gradient=True)``.
    """
    if not is_among(reduction, REDUCTIONS):
        raise refused(f"unknown reduction {reduction!r}", f"use one of {', '.join(REDUCTIONS)}")
    if scalar_dtype(ignore_index) not in ("i32", "i64"):
        raise refused(f"ignore_index={ignore_index!r} is no target", "pass an integer that the targets' type holds")
    if gradient:
        count = (targets != ignore_index).sum().reshape(1) if reduction == "mean" else None
        losses = losses_and_gradients(logits, targets, count, int(ignore_index), require_config(config, RowConfig))
    else:
        config = require_config(config, RowConfig, LossConfig) or loss_for(logits, targets)
        whole = isinstance(config, LossConfig) and config.pieces(logits.shape[-1], logits.dtype.itemsize) == 1
        if reduction != "none" and whole:
            return sum_of_rows(logits, targets, int(ignore_index), reduction == "mean", config)[0]
        losses = losses_of(logits, targets, int(ignore_index), config)
    if reduction == "none":
        return losses
    if 0 in losses.shape:
        return losses.sum() if reduction == "sum" else losses.sum() * float("nan")
    return sum_of(losses, targets, int(ignore_index), reduction == "mean")[0]


def loss_for(logits: Any, targets: Any) -> LossConfig | None:
    """The configuration for logits that are one run of memory, or None."""
    rows, _ = _operands(logits, targets)
    count, columns = rows.shape
    if not has_work(count) or run_of(rows) is None:
        return None
    return choose_losses(columns, rows.dtype.itemsize)


@remembered("logits", "targets")
def sum_of_rows(logits: Any, targets: Any, ignore_index: int, mean: bool, config: LossConfig) -> Any:
    """The sum of the losses of all rows, or their mean over the targets that are not `ignore_index`: a vector of one f32.

    The kernel that reads the rows adds up the losses of those that share a warp.
    """
    rows, flat = _operands(logits, targets)
    count, columns = rows.shape
    some = config.sums(count)
    sums = empty(logits, (2, px.cdiv(some, VECTOR_BYTES) * VECTOR_BYTES), "f32")[:, :some]
    launch_losses(config, run_for_stream(rows), flat, None, sums, ignore_index, count, columns)
    result = empty(logits, (1,), "f32")
    sum_losses[SUM_CTAS](sums, None, result, ignore_index, MEAN=mean)
    return result


@remembered("losses", "targets")
def sum_of(losses: Any, targets: Any, ignore_index: int, mean: bool) -> Any:
    """The sum of all losses, or their mean over the targets that are not `ignore_index`: a vector of one f32.

    One launch, which overlaps the one that makes the losses, in the place of the array's own comparison, sums and division.
    """
    result = empty(losses, (1,), "f32")
    if has_work():
        sum_losses[SUM_CTAS](losses.reshape(-1), targets.reshape(-1), result, ignore_index, MEAN=mean)
    return result


@remembered("logits", "targets")
def losses_of(logits: Any, targets: Any, ignore_index: int, config: RowConfig | LossConfig | None) -> Any:
    """The loss of every row, in f32, as `cross_entropy` gives it for "none"."""
    rows, flat = _operands(logits, targets)
    count, columns = rows.shape
    losses = empty(logits, (count,), "f32")
    args: tuple[Any, ...]
    if has_work(count):
        if isinstance(config, LossConfig):
            launch_losses(config, run_for_stream(rows), flat, losses, None, ignore_index, count, columns)
        else:
            given, length, config = places(rows, config, reads=True)
            args = (given, flat, losses, None, None, ignore_index, length)
            cross_entropy_rows[config.grid(count)](*args, **config.constants())
    return losses.reshape(targets.shape)


@remembered("logits", "targets", "count")
def losses_and_gradients(logits: Any, targets: Any, count: Any, ignore_index: int, config: RowConfig | None) -> Any:
    """The loss of every row; gradients, divided by `count` where it is given, take the place of the logits."""
    info = result_info("logits", logits)
    if info.strides != dense_strides(info.shape):
        raise refused("logits have gaps between their elements, or another order", "pass a contiguous array")
    rows, flat = _operands(logits, targets)
    losses = empty(logits, (rows.shape[0],), "f32")
    if has_work(rows.shape[0]):
        given, length, config = places(rows, config, held=LIMITS.fewer_held, reads=True, again=True)
        args = (given, flat, losses, given, count, ignore_index, length)
        cross_entropy_rows[config.grid(rows.shape[0])](*args, **config.constants())
    return losses.reshape(targets.shape)


def _operands(logits: Any, targets: Any) -> tuple[Any, Any]:
    """The logits as a matrix, and the targets as a vector."""
    info = info_of("logits", logits)
    labels = info_of("targets", targets, ("i32", "i64"))
    if labels.shape != info.shape[:-1]:
        raise refused(
            f"targets have shape {labels.shape}, the logits {info.shape}",
            "pass one target per row of logits: the logits' shape without its last axis",
        )
    if info.shape[-1] == 0:
        raise refused(f"logits of shape {info.shape} have no classes", "pass logits whose last axis has at least one")
    return as_rows(logits, info), targets.reshape(-1)
