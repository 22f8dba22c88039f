"""Gradients of softmax and of its logarithm, from the result: two reads, one write, both rows in a cluster's registers."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, require_config
from phalanx.kernels.rowwise.pairs import choose_pair, gradient_of
from phalanx.kernels.rowwise.row_config import RowConfig, with_room
from phalanx.kernels.rowwise.rows import row_kernel, row_of, row_sum, zeros


@px.func
def weighed(y, d, LOG):
    """What is summed along a row: the gradient times the probability, or of a logarithm the gradient itself."""
    return d.to(px.f32) if LOG else d.to(px.f32) * y.to(px.f32)


@px.func
def gradient_tile(y, d, total, LOG):
    """y (d - sum of d y), or for y = log p: d - p sum of d."""
    y = y.to(px.f32)
    d = d.to(px.f32)
    return d - px.exp2(y * LOG2E) * total if LOG else y * (d - total)


@row_kernel
def softmax_backward_rows(Y, D, X, *, config, LOG=False):
    """X, the gradient of the argument, from that of the result, D, and the result, Y."""
    rows = row_of(Y, config)
    others = row_of(D, config)
    wait_for_prior_launch()
    y = rows.load(0.0)
    d = others.load(0.0)
    sums = zeros(config.rows, config.width)
    for part in px.static_range(config.parts):
        sums = sums + weighed(y[part], d[part], LOG)
    if config.shared > 0:
        for part in range(config.shared):
            sums = sums + weighed(px.load(rows.kept[part]), px.load(others.kept[part]), LOG)
    total = row_sum(sums, config.rows)
    rows.start_again()
    for part in px.static_range(config.parts):
        at = rows.first + part * config.width
        if at < Y.shape[1]:
            rows.store(X, at, gradient_tile(y[part], d[part], total, LOG))
    if config.shared > 0:
        for part in range(config.shared):
            x = gradient_tile(px.load(rows.kept[part]), px.load(others.kept[part]), total, LOG)
            rows.store(X, rows.first + (config.parts + part) * config.width, x)


def softmax_backward(d: Any, y: Any, *, log: bool = False, config: RowConfig | None = None) -> Any:
    """The gradient of softmax's argument along the last axis, from that of its result `d` and the result `y`.

    With `log` of `log_softmax`. Arrays of one type and shape, bf16, f16 or f32, and so the gradient; sums are f32.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy. Example: ``dx = softmax_backward(d, softmax(x))``.
    """
    info = info_of("y", y)
    gradient_of("d", d, info)
    rows = as_rows(y, info)
    others = as_rows(d, info_of("d", d))
    count, columns = rows.shape
    x = empty(y, (count, columns), info.dtype_name)
    if has_work(count, columns):
        chosen = with_room(require_config(config, RowConfig), columns) or choose_pair(rows, others)
        softmax_backward_rows[chosen.grid(count)](rows, others, x, **chosen.constants(), LOG=log)
    return x.reshape(info.shape)
