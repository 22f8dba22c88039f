"""Products with few rows, at the speed at which the weights stream in: split K, reduced inside a cluster."""

from __future__ import annotations

from typing import Any

from phalanx.kernels.matrices import (
    FLOATS,
    HALVES,
    empty,
    has_work,
    info_of,
    is_among,
    refused,
    require_config,
    require_vector,
)
from phalanx.kernels.products.activations import ACTIVATIONS
from phalanx.kernels.products.operand_recipes import AS_IT_IS, made_operands, operand_recipe, warn
from phalanx.kernels.products.split_config import MOST_ROWS, SplitConfig, choose_split
from phalanx.kernels.products.split_ring import split_ring
from phalanx.kernels.products.targets import target_of
from phalanx.runtime.launch.replay import remembered


@remembered("a", "b", "bias", "out", writes={"out": "out is not None"})
def split_k_matmul(
    a: Any, b: Any, bias: Any = None, activation: str | None = None, out: Any = None, config: SplitConfig | None = None
) -> Any:
    """``activation(a @ b + bias)`` for an `a` of few rows (1 to 512): the weights `b` stream in once.

    `a` (M, K) and `b` (K, N) bf16 or f16, on one device; both contiguous, or the `.T` of
    what is. `bias` (N,) of any float type, `activation` "relu", "gelu", "gelu_tanh" or "silu". `out` (M, N) of the
    operands' type or f32. Sums are f32 all the way. What the copy engine can't read (rows that do not begin at multiples
    of 16 bytes) is copied first, with a `CopyWarning`. sm_90a, or the simulator: on
    Blackwell `matmul` takes such products, too.
    Example: ``y = split_k_matmul(x, weight.T, bias, "silu")``.
    """
    left = info_of("a", a, HALVES)
    right = info_of("b", b, HALVES)
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[0]:
        raise refused(f"a has shape {left.shape}, b {right.shape}", "pass (M, K) and (K, N)")
    if left.dtype_name != right.dtype_name:
        raise refused(f"a is {left.dtype_name}, b is {right.dtype_name}", "pass operands of one element type")
    m, k = left.shape
    n = right.shape[1]
    target = target_of(left, None)
    if target.on_gpu and target.blackwell:
        raise refused(
            f"split_k_matmul on {target.device.arch}, which has no wgmma", "use px.kernels.matmul, which takes few rows too"
        )
    if m > MOST_ROWS and config is None:
        raise refused(f"a has {m} rows", f"this kernel is for at most {MOST_ROWS}")
    if not is_among(activation, ACTIVATIONS):
        raise refused(
            f"unknown activation {activation!r}", f"use one of {', '.join(map(str, ACTIVATIONS[1:]))}, or None"
        )
    if bias is not None:
        require_vector("bias", bias, n)
    if out is None:
        out = empty(a, (m, n), left.dtype_name)
    result = info_of("out", out, (left.dtype_name, "f32"))
    if result.shape != (m, n):
        raise refused(f"out has shape {result.shape}", f"pass one of shape {(m, n)}")
    if not has_work(m, n):
        return out
    if k == 0:
        raise refused("a has no columns", "the sum over none of them is the bias alone: write that")
    launch_split(a, b, bias, activation, out, require_config(config, SplitConfig))
    return out


def launch_split(
    a: Any, b: Any, bias: Any, activation: str | None, out: Any, config: SplitConfig | None, *, bias_of_rows: bool = False
) -> None:
    """The launch itself, of arguments that go together; with `bias_of_rows` the bias has an element for each row of `a`."""
    a_recipe, a_rows, a_note = operand_recipe("a", a, AS_IT_IS, -1, by="split_k_matmul")
    b_recipe, b_rows, b_note = operand_recipe("b", b, AS_IT_IS, -2, by="split_k_matmul")
    for note in (a_note, b_note):
        if note is not None:
            warn(note)
    m, n = tuple(out.shape)
    k = a.shape[1]
    result = info_of("out", out, FLOATS)
    flipped = result.strides[0] == 1 and not result.contiguous_inner  # as the product of few columns asks for it
    stored = out
    lies = result
    if flipped:
        stored = out.swapaxes(-1, -2)
        lies = info_of("out", stored, (result.dtype_name,))
    settings = config or choose_split(m, n, k, a_rows, b_rows)
    split_ring[settings.grid(m, n)](
        *made_operands((a_recipe, a), (b_recipe, b)), stored, stored if bias is None else bias, ROWS=b_rows, A_ROWS=a_rows,
        FLIPPED=flipped, WHOLE=lies.contiguous_inner and lies.aligned16, BIASED=bias is not None,
        BIAS_OF_ROWS=bias_of_rows, ACTIVATION=activation, **settings.constants(),
    )
