"""The gradient of cross entropy: one read of the logits, whose probabilities are computed again, and one write."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, refused, require_config
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, choose_for, with_room
from phalanx.kernels.rowwise.rows import row_kernel, row_of
from phalanx.kernels.rowwise.softmax import row_statistics
from phalanx.kernels.rowwise.softmax_terms import softmax_terms, softmax_tile


@px.func
def of_row(V, row, ROWS):
    """What a vector has for a row, or for each of the rows that share a CTA."""
    if ROWS == 1:
        return px.load(V[row])
    return px.load(V[row : row + ROWS]).reshape(ROWS, 1)


@px.func
def gradient_tile(x, base, scale, target, factor, counts, at, WIDTH):
    """(e^x / sum - 1 at the target) times the factor of the row; 0 in a row that does not count."""
    p = softmax_tile(x.to(px.f32), base, scale, False)
    here = px.arange(WIDTH) == target - at
    return px.where(counts, px.where(here, p - 1.0, p) * factor, 0.0)


@row_kernel
def cross_entropy_backward_rows(X, T, G, Y, ignore, *, config):
    """Y = (softmax(X) - 1 at T) * G of each row; 0 where T is `ignore`, NaN where T is no class."""
    rows = row_of(X, config)
    wait_for_prior_launch()
    label = of_row(T, rows.row, config.rows)
    factor = of_row(G, rows.row, config.rows)
    x = rows.load(-float("inf"))
    largest, total, _, x = row_statistics(rows, x, None)
    base, scale = softmax_terms(largest, total, False)
    factor = px.where(label < X.shape[1], factor, float("nan"))
    factor = px.where(label >= 0, factor, float("nan"))
    counts = label != ignore
    target = label.to(px.i32)
    rows.start_again()
    for part in px.static_range(config.parts):
        at = rows.first + part * config.width
        if at < X.shape[1]:
            rows.store(Y, at, gradient_tile(x[part], base, scale, target, factor, counts, at, config.width))
    if config.shared > 0:
        for part in range(config.shared):
            at = rows.first + (config.parts + part) * config.width
            y = gradient_tile(px.load(rows.kept[part]), base, scale, target, factor, counts, at, config.width)
            rows.store(Y, at, y)


def cross_entropy_backward(
    d: Any, logits: Any, targets: Any, *, ignore_index: int = -100, config: RowConfig | None = None
) -> Any:
    """The gradient of the logits, from those of the losses of all rows, `d`, f32 in the targets' shape.

    `logits`, `targets` and `ignore_index` as in `cross_entropy`; the gradient has the logits' type and shape. A mean or a
    sum of the losses is a matter of `d`. Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``dx = cross_entropy_backward(np.full(len(targets), 1 / len(targets), np.float32), logits, targets)``.
    """
    info = info_of("logits", logits)
    labels = info_of("targets", targets, ("i32", "i64"))
    factors = info_of("d", d, ("f32",))
    for what, shape in (("targets", labels.shape), ("d", factors.shape)):
        if shape != info.shape[:-1]:
            raise refused(f"{what} has shape {shape}, the logits {info.shape}", "pass one number per row of logits")
    rows = as_rows(logits, info)
    count, columns = rows.shape
    result = empty(logits, (count, columns), info.dtype_name)
    if has_work(count, columns):
        chosen = with_room(require_config(config, RowConfig), columns) or choose_for(rows, LIMITS.fewer_held)
        cross_entropy_backward_rows[chosen.grid(count)](
            rows, targets.reshape(-1), d.reshape(-1), result, ignore_index, **chosen.constants()
        )
    return result.reshape(info.shape)
