"""Attention, forward: `attention`."""

from __future__ import annotations

from math import prod
from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention import arguments
from phalanx.kernels.attention.arguments import OPERANDS, Heads
from phalanx.kernels.attention.bands import choose_band
from phalanx.kernels.attention.config import AttentionConfig, choose, require_fits
from phalanx.kernels.attention.forms import OperandScales, PackedStarts, ScoreFactors, TileHeights, Window
from phalanx.kernels.attention.forward_blackwell import attend_blackwell, require_blackwell
from phalanx.kernels.attention.forward_tiles import attention_tiles
from phalanx.kernels.attention.heights import Heights, choose_heights
from phalanx.kernels.attention.narrow import turned_values
from phalanx.kernels.launches import sms_of
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import HALVES, empty, info_of, number_of, refused, require_config
from phalanx.kernels.products.targets import target_of
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.device.outlines import is_outlined
from phalanx.runtime.launch.replay import remembered


@remembered("q", "k", "v", "bias", "cu_seqlens_q", "cu_seqlens_k", "q_scale", "k_scale", "v_scale")
def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None, window: tuple[int, int] | None = None,
    softcap: float | None = None, bias: Any = None, lse: bool = False, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
    q_scale: Any = None, k_scale: Any = None, v_scale: Any = None, config: AttentionConfig | None = None,
    arch: str | None = None,
) -> Any:
    """``softmax(scale * q @ k.T) @ v`` of each head, without the scores in memory.

    `q` (batch, heads, queries, dim), `k` (batch, kv_heads, keys, dim), `v` (batch, kv_heads, keys, value_dim): torch,
    CuPy or NumPy, bf16, f16 or f8e4m3; dim and value_dim up to 256, quickest where they are 64, 96, 128, 160, 192, 224
    or 256, with which kernels compute. `heads` is a multiple of `kv_heads`: that many neighbours share keys and values.
    Strides are free but for the last, so that (batch, length, heads, dim) comes as ``.transpose(1, 2)``; what the copy
    engine can't read is copied first, with a `CopyWarning`. Scores, powers and sums are f32. The result has q's shape
    (with value_dim) and type.

    - `causal`: no query attends to keys behind its own. The last query stands beside the last key, as in
      FlashAttention; torch's ``is_causal`` puts the first beside the first, which differs where there are not as many
      queries as keys.
    - `window` (left, right): a query attends to as many keys before and behind its own and to no others; -1 or None is
      no bound.
    - `scale`: 1 / sqrt(dim) without it. `softcap`: scores become ``softcap * tanh(score / softcap)``, before the bias.
    - `bias`: (heads,) or (batch, heads) f32, ALiBi's slopes: ``-slope * |distance|`` is added to a score; or an array
      that broadcasts to (batch, heads, queries, keys), bf16, f16 or f32, added as it is: -inf keeps a key out.
    - `cu_seqlens_q`, `cu_seqlens_k`: vectors of i32, where each packed sequence begins and the last one ends, on the
      same device; then q is (total, heads, dim), k and v (total, kv_heads, ...), and so the result.
    - `q_scale`, `k_scale`, `v_scale`: numbers or arrays of one f32, by which the elements are multiplied: the scales of
      8-bit floats. Of these the result is bf16, powers are rounded to f8e4m3 for the second product, and values are first
      transposed into memory of their own.
    - `lse`: gives (result, logarithms of the sums of e^score), f32 of shape (batch, heads, queries), packed (heads,
      total).
    - `config` overrides the choice of warpgroups, blocks and stages, which `attention.config` explains.

    A query with no key to attend to has the result 0 and the logarithm -inf. sm_90a by `wgmma`, on the current stream,
    or the simulator for NumPy, where `arch` names the target. sm_100a and its kin by `tcgen05`: bf16 and f16, dim 64 and
    128, without bias and packed sequences; compiled and simulated, never run on Blackwell.
    Example: ``y = px.kernels.attention(q, k, v, causal=True)``.
    """
    sequences = arguments.require_lengths(cu_seqlens_q, cu_seqlens_k)
    heads = arguments.require_heads(q, k, v, varlen=sequences > 0)
    arguments.require_dims(heads)
    if sequences and heads.dtype not in HALVES:
        raise refused(f"packed sequences of {heads.dtype}", f"pass them as {' or '.join(HALVES)}")
    numbers, arrays = _scales(q_scale, k_scale, v_scale)
    left, right = arguments.reach_of(causal, window)
    product_scale = arguments.scale_of(scale, heads.dim) * numbers[0] * numbers[1]
    factor, slope, cap = _factors(product_scale, arguments.cap_of(softcap), bias is not None)
    bias_kind, added = arguments.bias_of(bias, heads, sequences)
    if is_outlined():
        return _results(q, heads, lse)
    target = target_of(info_of("q", q, OPERANDS), arch)
    if target.blackwell:
        scaled = any(given is not None for given in (q_scale, k_scale, v_scale))
        require_blackwell(heads, sequences, bias_kind, scaled, config)
        return attend_blackwell(q, k, v, heads, (factor, slope, cap), (left, right), lse, target)
    kind = "packed" if sequences else "window" if left is not None else "full" if right is None else "causal"
    biased = cap is not None or bias_kind is not None
    chosen = require_config(config, AttentionConfig) or choose(heads, kind=kind, biased=biased)
    require_fits(chosen, heads)
    of_values = None if numbers[2] == 1.0 else numbers[2]
    given = Given(heads, sequences, kind, left, right, factor, slope, cap, of_values, bias_kind)
    made = _results(q, heads, lse)
    result, logs = made if lse else (made, None)
    if heads.batch * heads.heads * heads.queries and heads.keys == 0:
        result[...] = 0
        if logs is not None:
            logs[...] = -float("inf")
    elif heads.batch * heads.heads * heads.queries:
        _launch(given, chosen, (q, k, v), result, logs, (added, cu_seqlens_q, cu_seqlens_k, *arrays), target.named)
    return made


def _results(q: Any, heads: Heads, lse: bool) -> Any:
    """New arrays for the result, and with `lse` for the logarithms of the sums."""
    result = arguments.result_like(q, heads.value_dim, heads.out_dtype)
    if not lse:
        return result
    rows = (heads.heads, heads.queries) if heads.varlen else (heads.batch, heads.heads, heads.queries)
    return result, empty(q, rows, "f32")


@frozen
class Given:
    """What a call asks for, but for its arrays: sizes, bounds, and what scores are multiplied by."""

    heads: Heads
    sequences: int
    kind: str
    left: int | None
    right: int | None
    factor: float | None
    slope: float | None
    cap: float | None
    v_scale: float | None
    bias_kind: str | None


def _launch(
    given: Given, config: AttentionConfig, arrays: tuple[Any, Any, Any], result: Any, logs: Any, others: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    """The launches of a call on Hopper; `others` are the arrays behind LSE."""
    heads = given.heads
    q = arrays[0]
    views = [arguments.packed_view(x) if given.sequences else x for x in (*arrays, result)]
    operands = [arguments.readable(what, x, "attention") for what, x in zip("qkv", views)]
    if heads.dtype not in HALVES:
        operands[2] = turned_values(operands[2], heads.columns[1])
    plan = choose_heights(heads, config, sms_of(q)) if given.kind == "full" else None
    grid = _grid(q, heads, given.sequences, config, plan)
    band = choose_band(heads, config, grid) if given.right is not None and not given.sequences else 1
    heights = TileHeights(*(None,) * 5)
    if plan is not None:
        heights = TileHeights(plan.whole, plan.more, plan.low, plan.first, plan.second)
    bias, starts_of_queries, starts_of_keys, *scales = others
    attention_tiles[grid](
        *operands, views[3], logs[None] if given.sequences and logs is not None else logs, bias,
        PackedStarts(starts_of_queries, starts_of_keys), OperandScales(*scales),
        ScoreFactors(given.factor, given.slope, given.cap, given.v_scale), Window(given.left, given.right),
        heads.group, band, heights,
        config=config, form=config.form(heads, given.bias_kind, _all_have_keys(given)), **named,
    )  # fmt: skip


def _all_have_keys(given: Given) -> bool:
    """Whether it is known that each query attends to a key: the first one does, and bounds move with the queries."""
    heads = given.heads
    bounded = given.right is not None and heads.keys - heads.queries + given.right < 0
    return not bounded and not given.sequences and given.bias_kind != "tile"


def _scales(*scales: Any) -> tuple[list[float], list[Any]]:
    """Scales of queries, keys and values: those that are numbers (1 where there is none), and those that are arrays."""
    numbers: list[float] = []
    arrays: list[Any] = []
    for what, scale in zip(("q_scale", "k_scale", "v_scale"), scales):
        if scale is None or describe(scale) is None:
            numbers.append(1.0 if scale is None else number_of(what, scale))
            arrays.append(None)
            continue
        info = info_of(what, scale, ("f32",))
        if prod(info.shape) != 1:
            raise refused(f"{what} has shape {info.shape}", "pass a number, or an array of one")
        numbers.append(1.0)
        arrays.append(scale.reshape(1))
    return numbers, arrays


def _factors(scale: float, cap: float | None, biased: bool) -> tuple[float | None, float | None, float | None]:
    """What the kernel multiplies scores by: in the softmax, or before a cap or a bias; and the cap, in units of log2."""
    if cap is not None:
        return None, scale / cap, cap * LOG2E
    if biased:
        return None, scale * LOG2E, None
    return scale * LOG2E, None, None


def _grid(q: Any, heads: Heads, sequences: int, config: AttentionConfig, plan: Heights | None) -> int:
    """CTAs: one for each SM, or for each tile where there are fewer."""
    rows = heads.queries // config.rows + sequences if sequences else px.cdiv(heads.queries, config.rows)
    tiles = rows * heads.heads * heads.batch if plan is None else plan.count(heads.heads * heads.batch)
    return max(1, min(sms_of(q), tiles))
