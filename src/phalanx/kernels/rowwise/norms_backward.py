"""Gradients of RMSNorm and LayerNorm: two reads and one write, and the weights' gradients along the way.

Clusters are persistent: each goes through its share of the rows, holds a row of the argument and one of the gradient in
registers, and adds up what its rows give to the weights' gradients there, too. The sums of all clusters are a matrix with
a row for each, whose columns `both_column_sums` adds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import phalanx as px
from phalanx.kernels.launches import sms_of, wait_for_prior_launch
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, number_of, refused, require_config, require_vector
from phalanx.kernels.rowwise.column_sums import both_column_sums
from phalanx.kernels.rowwise.moments import total_of_warp
from phalanx.kernels.rowwise.pairs import gradient_of, pair_of
from phalanx.kernels.rowwise.row_config import VECTOR_BYTES, RowConfig, with_room
from phalanx.kernels.rowwise.rows import by_warp, fold, piece, pin_row, row_gather, row_sum, zeros
from phalanx.runtime.device.arrays import ITEM_BYTES, describe
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.symbolic.choices import chosen_by_sizes

HELD, HELD_CENTERED = 4, 3
"""Vectors of each row that a thread holds, beside f32 sums for the weights, or for weights and biases."""
HELD_AHEAD = 2
"""Vectors of each row that a thread holds which has the weights and the next row besides."""
THREADS = 512
"""Threads that an SM has registers for, of these kernels."""


@px.func
def load_weights(W, first, PARTS, WIDTH, AHEAD):
    """The weights of this CTA's columns, for all its rows; None if there are none, or if not AHEAD: each row loads them."""
    weights: Any = None
    if W is not None and AHEAD:
        weights = ()
        for part in px.static_range(PARTS):
            weights = (*weights, apart_from_rows(px.load(W[first + part * WIDTH : first + part * WIDTH + WIDTH])))
    return weights


@px.func
def weighted(d, W, weights, first, part, WIDTH):
    """The gradient behind the weights: tile `part` in f32, times the weights of its columns, where there are any."""
    d = d.to(px.f32)
    if weights is not None:
        d = d * px.keep(weights[part]).to(px.f32)  # kept in their own type: widened ones might take twice the registers
    elif W is not None:
        d = d * px.load(W[first + part * WIDTH : first + part * WIDTH + WIDTH]).to(px.f32)
    return d


@px.func
def load_pair(X, D, row, first, ROWS, WIDTH, PARTS, ONCE):
    """A row of the argument and of the gradient, or ROWS of them, all on their way together; zeros past the last row."""
    x: tuple[Any, ...] = ()
    d: tuple[Any, ...] = ()
    for part in px.static_range(PARTS):
        at = first + part * WIDTH
        x = (*x, px.load(piece(X, row, at, ROWS, WIDTH), once=ONCE))
        d = (*d, px.load(piece(D, row, at, ROWS, WIDTH), once=ONCE))
    return x, d


@px.func
def centered(x, mean, at, columns, WIDTH):
    """A tile less the mean, where there is one: 0 past the row's end."""
    x = x.to(px.f32)
    return x if mean is None else px.where(px.arange(WIDTH) < columns - at, x - mean, 0.0)


@px.func
def apart_from_rows(tile):
    """A vector in a register layout of its own: what is f32, and outside the loop, is not to say how rows are spread."""
    return tile.reshape(1, tile.shape[0]).reshape(tile.shape[0])


@px.func
def gathered_sums(X, squares, products, plain, ROWS, WARPS):
    """The sums of each row over the whole cluster, of two tiles or three that are spread as `X` is, by one exchange."""
    first = total_of_warp(by_warp(X, squares, ROWS, WARPS))
    second = total_of_warp(by_warp(X, products, ROWS, WARPS))
    third = None
    if plain is None:
        first, second = row_gather((first, second), ROWS)
    else:
        third = total_of_warp(by_warp(X, plain, ROWS, WARPS))
        first, second, third = row_gather((first, second, third), ROWS)
        third = fold(px.sum, third, ROWS)
    return fold(px.sum, first, ROWS), fold(px.sum, second, ROWS), third


@px.func
def store_sums(SUMS, sums, first, ROWS, WIDTH, PARTS):
    """What a cluster's rows gave to the gradient of a vector, as its row of SUMS."""
    for part in px.static_range(PARTS):
        at = first + part * WIDTH
        if at < SUMS.shape[1]:
            tile = sums[part]
            px.store(SUMS[px.cluster.id(), at : at + WIDTH], apart_from_rows(tile) if ROWS == 1 else px.sum(tile, axis=0))


@px.kernel(
    warps=lambda config: config.warps, cluster=lambda config: config.cluster, ctas_per_sm=lambda config: config.per_sm,
    pdl=True,
)  # fmt: skip
def norm_backward_rows(X, W, D, Y, SUMS, BIASES, eps, *, config, AHEAD=False, CENTERED=False):
    """Y, the gradient of X, from that of the result, D; what each cluster's rows give to weights and biases, or None.

    AHEAD: weights stay in registers, and the next row is on its way while the cluster exchanges what it knows of this one.
    """
    ROWS = config.rows
    WIDTH = config.width
    PARTS = config.parts
    # Step 1: sums for the gradients of weights and biases, and the weights.
    columns = X.shape[1]
    clusters = px.num_blocks(0) // config.cluster
    first = px.cluster.rank() * (PARTS * WIDTH)
    wait_for_prior_launch()
    of_weights: tuple[Any, ...] = ()
    of_biases: tuple[Any, ...] = ()
    for _ in px.static_range(PARTS):
        if SUMS is not None:
            of_weights = (*of_weights, zeros(ROWS, WIDTH))
        if BIASES is not None:
            of_biases = (*of_biases, zeros(ROWS, WIDTH))
    like = X if W is None or AHEAD or W.dtype.itemsize <= X.dtype.itemsize else W  # the loop's shortest vectors
    x: Any = None
    d: Any = None
    if AHEAD:
        x, d = load_pair(X, D, px.cluster.id() * ROWS, first, ROWS, WIDTH, PARTS, config.once)
    weights = load_weights(W, first, PARTS, WIDTH, AHEAD)  # behind the rows, whose register layout is chosen first
    # Step 2: row after row of this cluster.
    for unit in range(px.cluster.id(), px.cdiv(X.shape[0], ROWS), clusters):
        row = unit * ROWS
        if AHEAD:
            next_x, next_d = load_pair(X, D, row + clusters * ROWS, first, ROWS, WIDTH, PARTS, config.once)
        else:
            x, d = load_pair(X, D, row, first, ROWS, WIDTH, PARTS, config.once)
        # Step 2a: what is to be known of the row.
        mean = None
        if CENTERED:
            sums = zeros(ROWS, WIDTH)
            for part in px.static_range(PARTS):
                sums = sums + x[part].to(px.f32)
            mean = row_sum(sums, ROWS) / columns
        squares = zeros(ROWS, WIDTH)
        products = zeros(ROWS, WIDTH)
        plain = None
        if CENTERED:
            plain = zeros(ROWS, WIDTH)
        for part in px.static_range(PARTS):
            apart = centered(x[part], mean, first + part * WIDTH, columns, WIDTH)
            g = weighted(d[part], W, weights, first, part, WIDTH)
            squares = squares + apart * apart
            products = products + g * apart
            if CENTERED:
                plain = plain + g
        square, product, total = gathered_sums(like, squares, products, plain, ROWS, config.warps)
        x = pin_row(x, PARTS)
        d = pin_row(d, PARTS)
        # Step 2b: the gradient of the row, and what it gives to those of weights and biases.
        scale = px.rsqrt(square / columns + eps)
        slope = scale * scale * product / columns
        sums_of_weights: tuple[Any, ...] = ()
        sums_of_biases: tuple[Any, ...] = ()
        for part in px.static_range(PARTS):
            at = first + part * WIDTH
            apart = centered(x[part], mean, at, columns, WIDTH)
            y = weighted(d[part], W, weights, first, part, WIDTH) - apart * slope
            if CENTERED:
                y = y - total / columns
            px.store(piece(Y, row, at, ROWS, WIDTH), (y * scale).to(Y.dtype), once=config.once)
            if SUMS is not None:
                sums_of_weights = (*sums_of_weights, of_weights[part] + d[part].to(px.f32) * (apart * scale))
            if BIASES is not None:
                sums_of_biases = (*sums_of_biases, of_biases[part] + d[part].to(px.f32))
        of_weights = sums_of_weights
        of_biases = sums_of_biases
        if AHEAD:
            x = next_x
            d = next_d
    # Step 3: the sums of this cluster.
    if SUMS is not None:
        store_sums(SUMS, of_weights, first, ROWS, WIDTH, PARTS)
    if BIASES is not None:
        store_sums(BIASES, of_biases, first, ROWS, WIDTH, PARTS)


@remembered("d", "x", "weight")
def rms_norm_backward(
    d: Any, x: Any, weight: Any = None, eps: float = 1e-6, *, of_weight: bool = True, config: RowConfig | None = None
) -> tuple[Any, Any]:
    """The gradients ``(dx, dweight)`` of `rms_norm`, from that of its result; None for a weight that is None.

    Arrays as in `rms_norm`, `d` of x's type and shape. Sums are f32, in one order: repeats are equal. Without `of_weight`
    the second gradient is not computed, and is None. Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``dx, dw = rms_norm_backward(d, x, w)``.
    """
    dx, dweight, _ = _backward(d, x, weight, None, eps, of_weight, False, config, centered=False)
    return dx, dweight


@remembered("d", "x", "weight", "bias")
def layer_norm_backward(
    d: Any, x: Any, weight: Any = None, eps: float = 1e-5, *, of_weight: bool = True, bias: Any = None,
    config: RowConfig | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients ``(dx, dweight, dbias)`` of `layer_norm`; as `rms_norm_backward`, and None for a `bias` that is None.

    Example: ``dx, dw, db = layer_norm_backward(d, x, w, bias=b)``.
    """
    return _backward(d, x, weight, bias, eps, of_weight, bias is not None, config, centered=True)


def _backward(
    d: Any, x: Any, weight: Any, bias: Any, eps: float, of_weight: bool, of_bias: bool, config: RowConfig | None, *,
    centered: bool,
) -> tuple[Any, Any, Any]:
    info = info_of("x", x)
    gradient_of("d", d, info)
    rows = as_rows(x, info)
    others = as_rows(d, info_of("d", d))
    count, columns = rows.shape
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            require_vector(name, vector, columns)
    eps = number_of("eps", eps)
    config = require_config(config, RowConfig)
    y = empty(x, (count, columns), info.dtype_name)
    wanted = [vector if asked else None for vector, asked in ((weight, of_weight), (bias, of_bias))]
    if not has_work(count, columns):
        made = [None if vector is None else _zeros(vector, columns) for vector in wanted]
        return y.reshape(info.shape), made[0], made[1]
    chosen = with_room(config, columns) or choose_backward(rows, others, centered=centered)
    units = px.cdiv(count, chosen.rows)
    clusters = max(1, min(sms_of(x) * chosen.per_sm // chosen.cluster, units))
    sums = [None if vector is None else empty(x, (clusters, columns), "f32") for vector in wanted]
    norm_backward_rows[clusters * chosen.cluster](
        rows, weight, others, y, *sums, eps, **chosen.constants(), AHEAD=chosen.ahead, CENTERED=centered
    )
    asked = [
        None if part is None else (part, info_of("weight", vector).dtype_name) for part, vector in zip(sums, wanted)
    ]
    return y.reshape(info.shape), *_summed(*asked)


def _summed(of_weights: tuple[Any, str] | None, of_biases: tuple[Any, str] | None) -> tuple[Any, Any]:
    """The gradients of both vectors from what all clusters gave to them, with their types; None for what is not asked."""
    if of_weights is None:
        return None, None if of_biases is None else both_column_sums(of_biases, None)[0]
    return both_column_sums(of_weights, of_biases)


def choose_backward(rows: Any, others: Any, *, centered: bool) -> RowConfig:
    """The clusters of a backward pass: `pairs.choose_pair`, with registers left for the sums of the weights' gradients.

    Rows of which a thread of one CTA holds at most `HELD_AHEAD` vectors have their weights, and the next row, in registers
    besides. Anyone may call it; no hardware is involved. Example:
    ``choose_backward(np.zeros((8, 8192), np.float16), np.zeros((8, 8192), np.float16), centered=False).cluster == 1``.
    """
    first = describe(rows)
    second = describe(others)
    assert first is not None and second is not None
    return _chosen(first.shape[1], first.dtype_name, first.aligned16 and second.aligned16, centered)


@chosen_by_sizes
@cache
def _chosen(columns: int, dtype: str, aligned: bool, centered: bool) -> RowConfig:
    vector = VECTOR_BYTES // ITEM_BYTES[dtype]
    vectors = px.cdiv(columns, vector)
    most = 1 if centered and vectors > 128 * HELD_AHEAD else HELD_AHEAD  # more warps, more sums to fold: more registers
    if aligned and 64 < vectors <= 512 * most:
        threads = max(128, 1 << (px.cdiv(vectors, most) - 1).bit_length())
        parts = px.cdiv(vectors, threads)
        return RowConfig(1, threads // 32, 1, threads * vector, parts, per_sm=THREADS // threads, ahead=True)
    held = HELD_CENTERED if centered else HELD
    chosen = pair_of(columns, dtype, aligned, held)
    if chosen.shared:
        most = chosen.cluster * held * chosen.width
        raise refused(f"gradients of rows of {columns} columns do not fit a cluster", f"at most {most} columns do")
    return replace(chosen, once=False, per_sm=chosen.per_sm if chosen.rows == 1 else THREADS // (32 * chosen.warps))


def _zeros(like: Any, columns: int) -> Any:
    """The gradient of a vector that no row has touched."""
    made = empty(like, (columns,), info_of("weight", like).dtype_name)
    made[...] = 0
    return made
