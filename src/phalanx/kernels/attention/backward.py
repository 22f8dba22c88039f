"""Attention, backward: `attention_backward`."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.attention import arguments
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.backward_config import (
    KEYS,
    TOGETHER,
    BackwardConfig,
    choose_backward,
    require_config_fits,
)
from phalanx.kernels.attention.backward_keys import backward_keys
from phalanx.kernels.attention.backward_order import KeyOrder, choose_order
from phalanx.kernels.attention.backward_queries import backward_queries
from phalanx.kernels.attention.backward_rows import finish_sums, part_size, prepare_rows
from phalanx.kernels.attention.forms import GradientScores, KeyGradients, PackedStarts, QueryGradients
from phalanx.kernels.launches import sms_of
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import FLOATS, HALVES, empty, has_work, info_of, refused, require_config
from phalanx.runtime.device.arrays import ITEM_BYTES, ArgumentKind, kind_of
from phalanx.runtime.launch.launch_list import refuse_recording
from phalanx.runtime.launch.replay import remembered


@remembered("do", "q", "k", "v", "o", "lse", "bias", "cu_seqlens_q", "cu_seqlens_k")
def attention_backward(
    do: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None, bias: Any = None, dbias: bool = False,
    cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, deterministic: bool = False, config: BackwardConfig | None = None,
) -> Any:  # fmt: skip
    """The gradients ``(dq, dk, dv)`` of `attention`, from that of its result; with `dbias` also that of the bias.

    `do` is the gradient of the result, `o` and `lse` are what ``attention(..., lse=True)`` gave for `q`, `k` and `v` with
    the same `causal`, `scale`, `window`, `softcap`, `bias`, `cu_seqlens_q` and `cu_seqlens_k`, which mean the same here.
    bf16 or f16, heads and values of up to 256 elements; the gradients have the types and shapes
    of what they are gradients of, those of keys and values are summed over the query heads that share them. Queries with
    no key to attend to (`lse` -inf) have gradients 0, and add nothing to others.

    Gradients of queries are summed in f32 by as many CTAs as there are blocks of keys, in any order: repeats differ in the
    last bits. With `deterministic` a second kernel computes them by a pass of its own, in one order: repeats are equal bit
    for bit, for about 1.4 times the work. It also runs for `dbias`, with heads of 128 for a cap or a bias of four axes, for
    which the other has no registers, and with larger heads always. `dbias` needs a bias; where that was broadcast,
    gradients are summed along its axes of size 1 by atomic additions, which is refused with `deterministic`.

    `config` overrides the choice of blocks and stages, which `attention.backward_config` explains. sm_90a by `wgmma`, on
    the current stream, or the simulator for NumPy.
    Example: ``dq, dk, dv = px.kernels.attention_backward(do, q, k, v, *px.kernels.attention(q, k, v, lse=True))``.
    """
    sequences = arguments.require_lengths(cu_seqlens_q, cu_seqlens_k)
    heads = arguments.require_heads(q, k, v, varlen=sequences > 0, dtypes=HALVES)
    arguments.require_dims(heads)
    _require_results(do, o, lse, q, heads)
    left, right = arguments.reach_of(causal, window)
    cap = arguments.cap_of(softcap)
    factor = arguments.scale_of(scale, heads.dim)
    bias_kind, added = arguments.bias_of(bias, heads, sequences)
    gradients = _bias_gradients(bias, dbias, bias_kind, added, deterministic)
    widths = (heads.dim, heads.dim, heads.value_dim)
    dim = max(heads.columns)
    results = tuple(_gradient_like(x, width, heads.dtype) for x, width in zip((q, k, v), widths))
    if has_work(heads.batch, heads.heads, heads.queries, heads.keys):
        chosen = require_config(config, BackwardConfig) or choose_backward(
            dim, bounded=left is not None or right is not None, ragged=_may_end_early(heads), varlen=sequences > 0,
            capped=cap is not None, biased=bias_kind == "tile", sloped=bias_kind == "slopes",
        )  # fmt: skip
        require_config_fits(chosen, dim)
        views = [arguments.packed_view(x) if sequences else x for x in (q, k, v, do, o, *results)]
        operands = [arguments.readable(what, x, "attention_backward") for what, x in zip(("q", "k", "v", "do"), views)]
        scores = factor * LOG2E if cap is None else factor / cap, factor, cap, left, right
        call = _Call(heads, sequences or heads.batch, chosen, scores, added, bias_kind, cu_seqlens_q, cu_seqlens_k)
        call.launch(operands, views[4], lse[None] if sequences else lse, views[5:], gradients, deterministic)
    else:
        for result in results:
            result[...] = 0
    if gradients is None:
        return results
    return (*results, _converted(gradients.reshape(bias.shape), bias))


@frozen
class _Call:
    """The launches of one call. `scores`: what scores are multiplied by, the scale, the cap, the reach to both sides."""

    heads: Heads
    sequences: int
    config: BackwardConfig
    scores: tuple[Any, ...]
    bias: Any
    bias_kind: str | None
    cu_q: Any
    cu_k: Any

    @property
    def dim(self) -> int:
        """The number of columns with which kernels compute heads and values."""
        return max(self.heads.columns)

    def launch(
        self, operands: list[Any], o: Any, lse: Any, results: list[Any], gradients: Any, deterministic: bool
    ) -> None:
        heads = self.heads
        config = self.config
        scale = self.scores[1]
        q = operands[0]
        do = operands[3]
        dq, dk, dv = results
        dim = self.dim
        sizes = {"BM": config.queries, "D": dim}
        blocks = px.cdiv(heads.queries, config.queries)
        room = heads.queries // config.queries + self.sequences + 1 if heads.varlen else blocks
        stats = empty(q, (heads.batch, heads.heads, room, 2, config.queries), "f32")
        apart = deterministic or gradients is not None or config.apart
        rows_of_sums = heads.batch * heads.heads * room, 2, part_size(config.queries, dim)
        sums = None if apart else empty(q, rows_of_sums, "f32")
        rows = blocks, heads.heads, self.sequences
        prepare_rows[rows](o, do, lse, self.cu_q, stats, sums, **sizes)
        given = *operands, stats, self.bias, PackedStarts(self.cu_q, self.cu_k)
        scores = GradientScores(*self.scores)
        order = KeyOrder() if heads.varlen else choose_order(heads, self.scores[3], self.scores[4], sms_of(q))
        shares = order.shares if order.shares > 1 else None
        key_blocks = px.cdiv(heads.keys, KEYS)
        places = order.shares, heads.batch * heads.kv_heads * key_blocks, 2, KEYS // 2 * dim
        of_keys, of_values = (dk, dv) if shares is None else (empty(q, places, "f32"), empty(q, places, "f32"))
        for want in ("both",) if dim <= TOGETHER else ("values", "keys"):
            backward_keys[self._key_blocks() * order.shares](
                *given, sums, of_keys, of_values, scores, heads.group, order.band, shares, self.sequences,
                form=KeyGradients(
                    config.queries, dim, stages=2 if want == "values" else config.stages, bound=_may_end_early(heads),
                    bias_kind=self.bias_kind, early=config.early, ahead=config.ahead, want=want,
                ),
            )  # fmt: skip
        if shares is not None:
            grid = key_blocks, heads.kv_heads, self.sequences
            for shared, result, factor in ((of_keys, dk, scale), (of_values, dv, 1.0)):
                finish_sums[grid](shared, None, result, factor, key_blocks, BM=KEYS, D=dim)
        if apart:
            tiles = px.cdiv(heads.queries, 128) * heads.heads * self.sequences
            registers = {} if dim <= 192 else {"loader_regs": 24, "regs": 240}
            keys = 64  # of a block, as registers are left for
            if dim > 192:
                keys = 16 if gradients is not None else 32
            elif dim > TOGETHER and gradients is not None and self.scores[2] is not None:
                keys = 32
            for first, columns in self._columns():
                backward_queries[tiles](
                    *given, dq, gradients if first == 0 else None, scores, heads.group, order.band * heads.group,
                    form=QueryGradients(
                        config.queries, dim, first, columns, keys, bias_kind=self.bias_kind, **registers
                    ),
                )  # fmt: skip
        elif sums is not None:
            finish_sums[rows](sums[None], self.cu_q, dq, scale, room, **sizes)

    def _columns(self) -> list[tuple[int, int]]:
        """Columns of the queries' gradients, (first, how many), for each of which there is a pass.

        All at once, but for heads beyond 128 with a cap or a bias, which take the registers of a part of the sums.
        """
        dim = self.dim
        if dim <= TOGETHER or (self.bias_kind is None and self.scores[2] is None):
            return [(0, dim)]
        return [(0, TOGETHER), (TOGETHER, dim - TOGETHER)]

    def _key_blocks(self) -> int:
        """CTAs for all blocks of keys: with packed sequences as many as there may be."""
        heads = self.heads
        if heads.varlen:
            return (heads.keys // KEYS + self.sequences) * heads.kv_heads
        return px.cdiv(heads.keys, KEYS) * heads.kv_heads * heads.batch


def _may_end_early(heads: Heads) -> bool:
    """Whether keys may end within a CTA's block of them."""
    return heads.varlen or heads.keys % KEYS != 0


def _gradient_like(x: Any, width: int, dtype: str) -> Any:
    """A new array for a gradient, whose rows begin at multiples of 16 bytes, as the copy engine writes them."""
    step = COPY_CHUNK // ITEM_BYTES[dtype]
    if width % step == 0:
        return arguments.result_like(x, width, dtype)
    return arguments.result_like(x, px.cdiv(width, step) * step, dtype)[..., :width]


def _require_results(do: Any, o: Any, lse: Any, q: Any, heads: Heads) -> None:
    """Refuses results of `attention` that do not go with these queries."""
    queries = info_of("q", q, HALVES)
    shape = *queries.shape[:-1], heads.value_dim
    for what, x in (("do", do), ("o", o)):
        info = info_of(what, x, HALVES)
        if info.shape != shape or info.dtype_name != queries.dtype_name:
            raise refused(
                f"{what} is {info.dtype_name} of shape {info.shape}, the result of these is {queries.dtype_name} of {shape}",
                "pass the result of attention, and its gradient, in q's type and shape, as wide as v",
            )
    rows = (heads.heads, heads.queries) if heads.varlen else (heads.batch, heads.heads, heads.queries)
    info = info_of("lse", lse, ("f32",))
    if info.shape != rows:
        raise refused(f"lse has shape {info.shape}", f"pass what attention(..., lse=True) gave, of shape {rows}")


def _bias_gradients(bias: Any, dbias: Any, kind: str | None, added: Any, deterministic: bool) -> Any:
    """Zeros to which gradients of the bias are added, f32, or None where nobody asks for them; `added` is it, broadcast."""
    if not isinstance(dbias, bool | np.bool_):
        raise refused(f"dbias is of type {type(dbias).__name__}", "pass True or False")
    if not dbias:
        return None
    if kind is None:
        raise refused("dbias without a bias", "pass the bias that attention was given")
    shape = info_of("bias", bias, FLOATS).shape
    if deterministic and (kind == "slopes" or shape != tuple(added.shape)):
        raise refused(
            f"the gradient of a bias of shape {shape} is a sum in any order, and not deterministic",
            "expand the bias to (batch, heads, queries, keys) and sum its gradient, or leave deterministic out",
        )
    made = empty(bias, (1, *shape) if len(shape) == 1 else shape, "f32")
    made[...] = 0
    refuse_recording()  # no launch fills it
    return made


def _converted(x: Any, like: Any) -> Any:
    """The array in the element type of another one."""
    return x.to(like.dtype) if kind_of(x) is ArgumentKind.TORCH else x.astype(like.dtype)
