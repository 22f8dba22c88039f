"""Attention as operators: forward with its gradient, decoding from a cache, and attention to listed keys."""

from __future__ import annotations

from typing import Any

import torch

from phalanx import kernels
from phalanx.errors import Error, caller_location
from phalanx.torch.calls import NUMBERS, batched_along, first_axis, nothing, refuse_config
from phalanx.torch.library import Rule, operator, ops
from phalanx.torch.plain import is_recorded
from phalanx.torch.straight import straight

MASKS = "bool causal=False, float? scale=None, int? left=None, int? right=None, float? softcap=None, Tensor? bias=None"
PACKED = "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None"


def _window(left: int | None, right: int | None) -> tuple[int, int] | None:
    """The window as the library takes it, from two numbers as operators take them."""
    if left is None and right is None:
        return None
    return -1 if left is None else left, -1 if right is None else right


# --- the gradient -------------------------------------------------------------------------------------------------------


@operator(
    "attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
    f"{MASKS}, bool dbias=False, {PACKED}, bool deterministic=False) -> (Tensor, Tensor, Tensor, Tensor)",
    second="attention",
)
def _attention_backward(
    do: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, causal: bool = False, scale: Any = None, left: Any = None,
    right: Any = None, softcap: Any = None, bias: Any = None, dbias: bool = False, cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None, deterministic: bool = False,
) -> Any:
    made = kernels.attention_backward(
        do, q, k, v, o, lse, causal=causal, scale=scale, window=_window(left, right), softcap=softcap, bias=bias,
        dbias=dbias, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, deterministic=deterministic,
    )  # fmt: skip
    return made if dbias else (*made, nothing(q))


@straight(kernels.attention_backward, "do", "q", "k", "v", "o", "lse", "bias", "cu_seqlens_q", "cu_seqlens_k")
def attention_backward(
    do: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *, causal: bool = False, scale: float | None = None,
    window: Any = None, softcap: float | None = None, bias: Any = None, dbias: bool = False, cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None, deterministic: bool = False, config: Any = None,
) -> Any:
    """`px.kernels.attention_backward`, for eager and compiled code; it has no gradient itself.

    Example: ``dq, dk, dv = px.torch.attention_backward(do, q, k, v, o, lse)``.
    """
    refuse_config(config)
    left, right = (None, None) if window is None else window
    made = ops.attention_backward(
        do, q, k, v, o, lse, causal, scale, left, right, softcap, bias, dbias, cu_seqlens_q, cu_seqlens_k, deterministic
    )
    return made if dbias else made[:3]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, causal, scale, left, right, softcap, bias, _, cu_q, cu_k, *scales = inputs
    if any(one is not None for one in scales):
        raise Error(
            "attention with scales has no gradient: this one would be lost", location=caller_location(),
            remedy="pass bf16 or f16 queries, keys and values without q_scale, k_scale and v_scale",
        )
    ctx.options = causal, scale, left, right, softcap
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, bias, cu_q, cu_k, *output)


def _gradients(ctx: Any, do: Any, dlse: Any) -> Any:
    if dlse is not None and dlse.numel():
        raise Error(
            "the logarithms of attention's sums (lse=True) have no gradient", remedy="use lse.detach(), or leave lse out"
        )
    q, k, v, bias, cu_q, cu_k, o, lse = ctx.saved_tensors
    if do is None:
        return (None,) * 18
    if lse.numel() == 0 and o.numel():  # nobody asked for the sums: they are computed again
        o, lse = ops.attention(q, k, v, *ctx.options, bias, True, cu_q, cu_k)
    dbias = bias is not None and ctx.needs_input_grad[8]
    do = do if do.stride(-1) == 1 and 0 not in do.stride() else do.contiguous()
    dq, dk, dv, db = ops.attention_backward(
        do, q, k, v, o, lse, *ctx.options, bias, dbias, cu_q, cu_k, torch.are_deterministic_algorithms_enabled()
    )
    return dq, dk, dv, *(None,) * 5, db if dbias else None, *(None,) * 9


def _batched(info: Any, axes: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
    """Calls of many batches as one of a larger batch."""
    if any(axis is not None for axis in axes[3:]) or rest[5] is not None or rest[7] is not None:
        raise Error(
            "vmap over attention with a bias or packed sequences", location=caller_location(),
            remedy="map over q, k and v alone",
        )
    size = info.batch_size
    given = [first_axis(x, axis, size).flatten(0, 1) for x, axis in zip((q, k, v), axes)]
    o, lse = ops.attention(*given, *rest)
    o = o.unflatten(0, (size, -1))
    return (o, lse.unflatten(0, (size, -1)) if lse.numel() else lse.unsqueeze(0).expand(size, 0)), (0, 0)


@operator(
    f"attention(Tensor q, Tensor k, Tensor v, {MASKS}, bool lse=False, {PACKED}, Tensor? q_scale=None, "
    "Tensor? k_scale=None, Tensor? v_scale=None, float? q_factor=None, float? k_factor=None, float? v_factor=None) "
    "-> (Tensor, Tensor)",
    rule=Rule(_save, _gradients), casts=("q", "k", "v"), batch=_batched,
)
def _attention(
    q: Any, k: Any, v: Any, causal: bool = False, scale: Any = None, left: Any = None, right: Any = None,
    softcap: Any = None, bias: Any = None, lse: bool = False, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
    q_scale: Any = None, k_scale: Any = None, v_scale: Any = None, q_factor: Any = None, k_factor: Any = None,
    v_factor: Any = None,
) -> Any:
    made = kernels.attention(
        q, k, v, causal=causal, scale=scale, window=_window(left, right), softcap=softcap, bias=bias, lse=lse,
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, q_scale=q_factor if q_scale is None else q_scale,
        k_scale=k_factor if k_scale is None else k_scale, v_scale=v_factor if v_scale is None else v_scale,
    )  # fmt: skip
    return made if lse else (made, nothing(q))


def _apart(scale: Any) -> tuple[Any, float | None]:
    """A scale as a tensor, or as a number."""
    return (None, float(scale)) if isinstance(scale, NUMBERS) else (scale, None)


@straight(
    kernels.attention, "q", "k", "v", "bias", "cu_seqlens_q", "cu_seqlens_k", "q_scale", "k_scale", "v_scale", casts=True,
    rare=("window", "softcap", "bias", "cu_seqlens_q", "cu_seqlens_k", "q_scale", "k_scale", "v_scale", "config", "arch"),
)
def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None, window: Any = None,
    softcap: float | None = None, bias: Any = None, lse: bool = False, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
    q_scale: Any = None, k_scale: Any = None, v_scale: Any = None, config: Any = None, arch: str | None = None,
) -> Any:
    """`px.kernels.attention` with gradients of q, k, v and the bias, for eager and compiled code; takes autocast's type.

    Gradients are `attention_backward`'s: bf16 and f16; repeats are equal where
    ``torch.use_deterministic_algorithms(True)`` is set. The logarithms that `lse` asks for have none.
    Example: ``y = px.torch.attention(q, k, v, causal=True)``.
    """
    refuse_config(config or arch)
    left, right = (None, None) if window is None else window
    scales = [_apart(one) for one in (q_scale, k_scale, v_scale)]
    o, logs = ops.attention(
        q, k, v, causal, scale, left, right, softcap, bias, lse or is_recorded(q, k, v, bias), cu_seqlens_q, cu_seqlens_k,
        *(tensor for tensor, _ in scales), *(number for _, number in scales),
    )
    return (o, logs) if lse else o


# --- decoding and lists -------------------------------------------------------------------------------------------------


def _batched_decoding(info: Any, axes: Any, q: Any, k: Any, v: Any, lengths: Any, pages: Any, *rest: Any) -> Any:
    """Sequences of many calls as those of one; with pages their caches are one pool, and shared."""
    decode = ops.attention_decode
    if pages is None:
        return batched_along(lambda: decode, 4, 2)(info, axes, q, k, v, lengths, pages, *rest)
    if axes[1] is not None or axes[2] is not None:
        raise Error(
            "vmap over a paged cache", location=caller_location(),
            remedy="map over q, lengths and pages: one pool has the pages of all sequences",
        )
    through = batched_along(lambda: lambda q, lengths, pages, *others: decode(q, k, v, lengths, pages, *others), 3, 2)
    return through(info, (axes[0], *axes[3:]), q, lengths, pages, *rest)


@operator(
    "attention_decode(Tensor q, Tensor k_cache, Tensor? v_cache, Tensor lengths, Tensor? pages=None, bool causal=True, "
    "float? scale=None, int? left=None, int? right=None, float? softcap=None, bool lse=False, Tensor? k_scale=None, "
    "Tensor? v_scale=None, float? k_factor=None, float? v_factor=None, int? v_dim=None) -> (Tensor, Tensor)",
    batch=_batched_decoding,
)
def _attention_decode(
    q: Any, k_cache: Any, v_cache: Any, lengths: Any, pages: Any = None, causal: bool = True, scale: Any = None,
    left: Any = None, right: Any = None, softcap: Any = None, lse: bool = False, k_scale: Any = None, v_scale: Any = None,
    k_factor: Any = None, v_factor: Any = None, v_dim: Any = None,
) -> Any:
    made = kernels.attention_decode(
        q, k_cache, v_cache, lengths, pages=pages, causal=causal, scale=scale, window=_window(left, right),
        softcap=softcap, lse=lse, k_scale=k_factor if k_scale is None else k_scale,
        v_scale=v_factor if v_scale is None else v_scale, v_dim=v_dim,
    )  # fmt: skip
    return made if lse else (made, nothing(q))


@straight(
    kernels.attention_decode, "q", "k_cache", "v_cache", "lengths", "pages", "k_scale", "v_scale",
    rare=("window", "softcap", "k_scale", "v_scale", "v_dim", "config"),
)
def attention_decode(
    q: Any, k_cache: Any, v_cache: Any, lengths: Any, *, pages: Any = None, causal: bool = True,
    scale: float | None = None, window: Any = None, softcap: float | None = None, lse: bool = False, k_scale: Any = None,
    v_scale: Any = None, v_dim: int | None = None, config: Any = None,
) -> Any:
    """`px.kernels.attention_decode`, for eager and compiled code; it has no gradient.

    Example: ``o = px.torch.attention_decode(q, k_cache, v_cache, lengths, pages=table)``.
    """
    refuse_config(config)
    left, right = (None, None) if window is None else window
    (k_tensor, k_number), (v_tensor, v_number) = _apart(k_scale), _apart(v_scale)
    o, logs = ops.attention_decode(
        q, k_cache, v_cache, lengths, pages, causal, scale, left, right, softcap, lse, k_tensor, v_tensor, k_number,
        v_number, v_dim,
    )
    return (o, logs) if lse else o


@operator(
    "sparse_attention(Tensor q, Tensor k, Tensor? v, Tensor indices, int block=1, float? scale=None, bool lse=False, "
    "int? v_dim=None) -> (Tensor, Tensor)",
    batch=batched_along(lambda: torch.ops.phalanx.sparse_attention, 4, 2),
)
def _sparse_attention(
    q: Any, k: Any, v: Any, indices: Any, block: int = 1, scale: Any = None, lse: bool = False, v_dim: Any = None
) -> Any:
    made = kernels.sparse_attention(q, k, v, indices, block=block, scale=scale, lse=lse, v_dim=v_dim)
    return made if lse else (made, nothing(q))


@straight(kernels.sparse_attention, "q", "k", "v", "indices")
def sparse_attention(
    q: Any, k: Any, v: Any, indices: Any, *, block: int = 1, scale: float | None = None, lse: bool = False,
    v_dim: int | None = None,
) -> Any:
    """`px.kernels.sparse_attention`, for eager and compiled code; it has no gradient.

    Example: ``o = px.torch.sparse_attention(q, k, v, indices)``.
    """
    o, logs = ops.sparse_attention(q, k, v, indices, block, scale, lse, v_dim)
    return (o, logs) if lse else o
