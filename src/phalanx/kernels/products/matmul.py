"""Products of matrices on the tensor cores of Hopper and Blackwell: `matmul`, with bias, activation, scales and batches."""

from __future__ import annotations

import sys
from dataclasses import field, replace
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.types import DType
from phalanx.kernels.matrices import FLOATS, HALVES, empty, has_work, info_of, is_among, like, refused, result_info
from phalanx.kernels.products.activations import ACTIVATIONS
from phalanx.kernels.products.block_scales import BLOCKS, BlockScaled, block_scaled, is_block_scale
from phalanx.kernels.products.matmul_blackwell import matmul_blackwell
from phalanx.kernels.products.matmul_blackwell_config import BlackwellConfig, choose_blackwell, require_fits_blackwell
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, choose, require_fits, split_choice
from phalanx.kernels.products.matmul_tiles import matmul_tiles
from phalanx.kernels.products.operand_recipes import (
    AS_IT_IS,
    CopyWarning,
    Recipe,
    batch_strides,
    broadcast_batch,
    folded,
    is_copyable,
    made_operands,
    operand_info,
    operand_recipe,
    warn,
)
from phalanx.kernels.products.product_form import ProductForm
from phalanx.kernels.products.split_config import SplitConfig
from phalanx.kernels.products.split_k import launch_split
from phalanx.kernels.products.targets import Target, target_of
from phalanx.kernels.products.tuned import measured
from phalanx.runtime.device.arrays import (
    DTYPE_NAMES,
    ITEM_BYTES,
    PER_BYTE,
    ArrayInfo,
    call_key,
    dense_strides,
    describe,
    scalar_dtype,
)
from phalanx.runtime.device.outlines import is_outlined
from phalanx.runtime.device.torch_tensors import refuse_gradients
from phalanx.runtime.launch.memory import LaunchMemory
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.symbolic.numbers import is_traced_real

NARROW = ("f8e4m3", "f8e5m2")
OPERANDS = (*HALVES, *NARROW, "f4e2m1", "f32")
SIMULATED_SMS = 4


@remembered("a", "b", "bias", "out", "scale_a", "scale_b", "tensor_scale", writes={"out": "out is not None"})
def matmul(
    a: Any, b: Any, bias: Any = None, activation: str | None = None, out: Any = None, *, scale_a: Any = None,
    scale_b: Any = None, tensor_scale: Any = None, out_dtype: Any = None,
    config: MatmulConfig | SplitConfig | BlackwellConfig | str | None = None, arch: str | None = None, tf32: bool = False,
) -> Any:
    """``activation(scale_a * scale_b * (a @ b) + bias)``, with torch.matmul's shapes.

    `a` (..., M, K) and `b` (..., K, N), torch, CuPy or NumPy: both bf16, both f16, or 8-bit floats (e4m3, e5m2) in any
    mix, with block scales also f4e2m1, with `tf32` both f32; vectors and batches broadcast as torch's do. Sums are f32. Any
    M, N, K; either operand may be the transposed view of a contiguous array. What the copy engine can't read (rows that do
    not begin at multiples of 16 bytes, operands of 8 or 32 bits that are not contiguous along K) is copied first, with a
    `CopyWarning`.

    - `bias`: (N,), (M, N) or the shape of the result, bf16, f16 or f32; `activation`: "relu", "gelu" (by erf),
      "gelu_tanh" or "silu". Both are applied in f32, before the result is rounded.
    - `scale_a`, `scale_b`: a number, an array of one f32, or a vector of f32: (M, 1) for a, (1, N) for b. Or block scales:
      8-bit floats with a scale of f8e8m0 for 32 elements along K (mxfp8), f4e2m1 with the same (mxfp4) or one of f8e4m3 for
      16 (nvfp4), as matrices (M, K / block) for a and (N, K / block) for b, or as `px.kernels.pack_scales`,
      `px.kernels.quantize` and torch order them. f4e2m1 is read along K: ``b`` is the ``.T`` of codes (N, K). Then
      `tensor_scale`, a number or an array of one f32, is the product of the operands' second scales (nvfp4).
    - `out` receives the result, whatever its strides; it may be the bias, and overlaps neither `a` nor `b`. Else the
      result has `out_dtype` (px.f32, px.bf16, px.f16), by default the operands' type, bf16 for 8-bit ones.
    - `config` overrides the choice of tiles, clusters and stages, which `matmul_config.choose` documents, and
      `matmul_blackwell_config.choose_blackwell` for Blackwell; "tune" measures the most promising configurations once, on
      arrays like these, and keeps the answer on disk. Without it, on Hopper,
      16-bit products with few rows or columns and a large other operand may go to `split_k_matmul`
      (`matmul_config.split_choice` has the rule).

    - `arch` names the target that the simulator runs, for NumPy: "sm_90a" without it, "sm_100a" for block scales.
    - `tf32` allows operands of f32, of which the tensor cores read 8 bits of the exponent and the first 10 of the fraction;
      without it they are refused. Such operands are read along K only, as 8-bit ones are.

    sm_90a by `wgmma`; sm_100a and its kin by `tcgen05` in tensor memory (compiled and simulated, never run there); block
    scales on the latter alone. On the current stream, or the simulator for NumPy. Example:
    ``y = px.kernels.matmul(x, w.T, bias, "gelu")``.
    """
    arrays = (a, b, bias, out, scale_a, scale_b, tensor_scale)
    refuse_gradients(("a", "b", "bias", "out", "scale_a", "scale_b", "tensor_scale"), arrays)
    key, plan = _known(arrays, (activation, out_dtype, config, arch, tf32))
    if plan is None:
        infos = operand_info("a", a, OPERANDS, -1), operand_info("b", b, OPERANDS, -2)
        _require_tf32(infos, tf32)
        options = {
            "scale_a": scale_a, "scale_b": scale_b, "tensor_scale": tensor_scale, "out_dtype": out_dtype, "config": config,
            "arch": arch, "tf32": tf32,
        }  # fmt: skip
        if 1 in (len(infos[0].shape), len(infos[1].shape)):
            return _with_vectors(a, b, bias, activation, out, infos, options)
        plan = _plan(a, b, bias, out, infos, activation, **options)
        if key is not None:
            _PLANS.keep(key, plan)
    for note in plan.notes:
        warn(note)
    result = empty(a, plan.shape, plan.dtype) if out is None else out
    if plan.bound is not None or plan.split is not None:
        plan.run(a, b, bias, result, scale_a, scale_b, tensor_scale)
    elif plan.loop:
        for i in range(plan.shape[0]):
            left, right, added = (_of_batch(x, i, len(plan.shape)) for x in (a, b, bias))
            same = {"scale_a": scale_a, "scale_b": scale_b, "config": config, "arch": arch, "tf32": tf32}
            matmul(left, right, added, activation, result[i], **same)
    elif has_work(*plan.shape):  # a sum of nothing
        rows, columns = (like(x, (*shape, 16), zero=True) for x, shape in ((a, plan.shape[:-1]), (b, (plan.shape[-1],))))
        matmul(rows, columns.swapaxes(-1, -2), bias, activation, result, arch=arch, tf32=tf32)
    return result


@frozen
class ProductPlan:
    """All that a product's arguments decide, except for their addresses.

    Without a kernel (`bound`) there is nothing to multiply, or (`loop`) the product is one of each matrix along the
    batch's first axis, or (`split`) another kernel multiplies, for which the recipes are then. `sums` are left in global
    memory on the way, where parts of K are summed up by different CTAs.
    """

    shape: tuple[int, ...]
    dtype: str
    a: Recipe = AS_IT_IS
    b: Recipe = AS_IT_IS
    c: Recipe = AS_IT_IS
    bias: Recipe = AS_IT_IS
    numbers: tuple[bool, bool] = (False, False)
    bound: Any = None
    constants: dict[str, Any] = field(default_factory=dict)
    loop: bool = False
    notes: tuple[str, ...] = ()
    split: tuple[str, SplitConfig] | None = None
    activation: str | None = None
    blocks: BlockScaled | None = None
    blackwell: bool = False
    swapped: bool = False
    sums: int = 0

    def run(self, a: Any, b: Any, bias: Any, out: Any, scale_a: Any, scale_b: Any, tensor_scale: Any) -> None:
        """Launches the kernel. Scales that are numbers travel as one argument, the others as vectors or in blocks."""
        if self.split is not None:
            self.run_split(a, b, bias, out)
            return
        alpha = None
        last: tuple[Any, ...] = (None, None)  # on Blackwell scales in blocks, else where parts of K leave their sums
        if not self.blackwell:
            last = (empty(a, (self.sums,), "f32") if self.sums else None,)
        if self.blocks is not None:
            last = self.blocks.a.make(scale_a), self.blocks.b.make(scale_b)
            scale_a = tensor_scale
            scale_b = None
        vectors = []
        for scale, is_number in zip((scale_a, scale_b), self.numbers):
            if is_number:
                alpha = (scale if is_traced_real(scale) else float(scale)) * (1.0 if alpha is None else alpha)
            vectors.append(None if scale is None or is_number else scale.reshape(-1))
        added = None if bias is None else self.bias.make(bias)
        operands = made_operands((self.a, a), (self.b, b))
        if self.swapped:
            operands = operands[::-1]
            vectors = vectors[::-1]
        self.bound(*operands, self.c.make(out), added, *vectors, alpha, *last, **self.constants)

    def run_split(self, a: Any, b: Any, bias: Any, out: Any) -> None:
        """Launches the kernel that splits K; with few columns of B on the transposed product, which has few rows."""
        assert self.split is not None
        side, config = self.split
        left = self.a.make(a)
        right = self.b.make(b)
        result = self.c.make(out)
        if side == "columns":
            left, right, result = (x.swapaxes(-1, -2) for x in (right, left, result))
        launch_split(left, right, bias, self.activation, result, config, bias_of_rows=side == "columns")


_PLANS = LaunchMemory()
"""Plans by the geometry of the arguments and the options, for arrays whose calls can't be repeated as launches."""


def _known(arrays: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[Any, ProductPlan | None]:
    """What a plan depends on (None where that can't be looked up), and the plan if there is one already."""
    if is_outlined():
        return None, None
    try:
        for x in arrays:
            describe(x)  # once for the whole call; one without memory is none of its plans'
        geometry, pointers = call_key(arrays)
        overlaps = pointers[3] is not None and pointers[3] in pointers[:2]  # out and an operand: refused
        key = (geometry, overlaps, rest)
        return key, _PLANS.kept.get(key)
    except (Error, TypeError):
        return None, None


def _plan(
    a: Any, b: Any, bias: Any, out: Any, infos: tuple[ArrayInfo, ArrayInfo], activation: str | None, *, scale_a: Any,
    scale_b: Any, tensor_scale: Any, out_dtype: Any, config: MatmulConfig | SplitConfig | BlackwellConfig | str | None,
    arch: str | None, tf32: bool,
) -> ProductPlan:
    """What is to be done for a product of matrices; `px.Error` if its arguments do not go together."""
    left, right = infos
    _require_factors(left, right)
    if not is_among(activation, ACTIVATIONS):
        raise refused(f"unknown activation {activation!r}", f"use one of {', '.join(map(repr, ACTIVATIONS))}")
    m, k = left.shape[-2:]
    n = right.shape[-1]
    batch = broadcast_batch(left.shape[:-2], right.shape[:-2])
    shape = (*batch, m, n)
    dtype = _result_dtype(left, out, out_dtype)
    result = describe(out) if out is not None else None
    if result is not None:
        _require_target(result, shape, left, right)
    blocks, scales = _scales_of(left, right, scale_a, scale_b, tensor_scale)
    added = None if bias is None else _bias_info(bias, shape)
    if not has_work(*shape, k):
        return ProductPlan(shape, dtype)

    if result is None:
        result = ArrayInfo(left.kind, left.device, 0, shape, dense_strides(shape), dtype)
    strides = [batch_strides(left, batch), batch_strides(right, batch), batch_strides(result, batch)]
    per_matrix = added is not None and len(added.shape) > 2
    if per_matrix and added is not None:
        strides.append(batch_strides(added, batch))
    axes = folded(batch, strides)
    if len(axes) > 1:
        return ProductPlan(shape, dtype, loop=True)
    count, step_a, step_b, step_c = axes[0][:4] if axes else (1, 0, 0, 0)
    is_row_bias = added is None or len(added.shape) == 1
    if step_b == 0 and _stacked(left, step_a) and _stacked(result, step_c) and is_row_bias and scales[0] != "vector":
        m = m * count
        count = 1
        step_a = 0
        step_c = 0  # one tall matrix
    plain = _matrices(left, step_a, (m, k)), _matrices(right, step_b, (k, n)), _matrices(result, step_c, (m, n))
    by_k_only = left.dtype_name == "f32"  # as the tensor cores take tf32
    a_recipe, a_by_k, a_note = operand_recipe("a", a, plain[0], -1, along_k_only=by_k_only)
    b_recipe, b_by_k, b_note = operand_recipe("b", b, plain[1], -2, along_k_only=by_k_only)
    staged = is_copyable(result)
    problem = Problem(
        m, n, k, count, ITEM_BYTES[left.dtype_name], ITEM_BYTES[dtype], (a_by_k, b_by_k),
        ITEM_BYTES[added.dtype_name] if added is not None and not is_row_bias else 0, staged, "vector" in scales,
        PER_BYTE.get(left.dtype_name, 1), 0 if blocks is None else blocks.block,
        added is not None or activation is not None,
    )
    target = target_of(left, arch, blackwell=blocks is not None or isinstance(config, BlackwellConfig))
    splittable = is_row_bias and scales == ["none", "none"] and dtype in (left.dtype_name, "f32")
    splittable = splittable and not target.blackwell and count == 1 and problem.itemsize == 2 and not a_note and not b_note
    if isinstance(config, str):
        if config != "tune" or target.blackwell:
            raise refused(f"config={config!r}", 'pass "tune" on Hopper, a configuration, or leave config= out')
        if not target.on_gpu:
            raise refused('config="tune" measures on a GPU, and a is a host array', "pass CUDA arrays, or leave config= out")
        arguments = (a, b, bias, out, scale_a, scale_b)
        config = measured(problem, target.device, splittable, arguments, activation, dtype)
    split = None
    if isinstance(config, SplitConfig):
        if not splittable:
            raise refused(
                "a SplitConfig for a product that can't be split",
                "split products of 16 bits without batches, scales and a bias that has rows, on Hopper",
            )
        split = "rows" if m <= n else "columns", config
    elif config is None and splittable:
        split = split_choice(problem, target.device)
    if split is not None:
        return ProductPlan(shape, dtype, *plain, split=split, activation=activation)
    bound, settings, sums = _kernel(problem, target, config)
    swapped = not target.blackwell and settings["config"].swapped
    left_one, right_one = (1, 0) if swapped else (0, 1)
    by_k = a_by_k, b_by_k
    form = ProductForm(
        by_k[left_one], by_k[right_one], staged, _bias_kind(added, per_matrix and count > 1), scales[left_one] == "vector",
        scales[right_one] == "vector", activation,
    )  # fmt: skip
    return ProductPlan(
        shape, dtype, a_recipe, b_recipe, plain[2],
        AS_IT_IS if added is None or is_row_bias else _matrices(added, axes[0][4] if per_matrix and axes else 0, (m, n)),
        (scales[0] == "number", scales[1] == "number"), bound, {**settings, "form": form, **target.named},
        notes=tuple(note for note in (a_note, b_note) if note), blocks=blocks, blackwell=target.blackwell,
        swapped=swapped, sums=sums,
    )


def _kernel(problem: Problem, target: Target, config: Any) -> tuple[Any, dict[str, Any], int]:
    """The kernel of a product with its grid, the constants that say how it is cut, and the sums that it leaves behind."""
    device = target.device if target.on_gpu else replace(target.device, sms=SIMULATED_SMS)
    if target.blackwell:
        if config is not None:
            require_fits_blackwell(config, problem)
        cut = config or choose_blackwell(problem, device)
        return matmul_blackwell[cut.grid(problem, device)], {**cut.constants(), "BLOCK": problem.block}, 0
    if config is not None:
        require_fits(config, problem)
    chosen = config or choose(problem, device)
    if chosen.split > 1 and not chosen.cut_tiles(problem, device):
        chosen = replace(chosen, split=1)
    cm, cn = chosen.cluster
    grid = cm * chosen.launched(problem, device), cn
    return matmul_tiles[grid], chosen.constants(), chosen.left_sums(problem, device)


def _scales_of(
    left: ArrayInfo, right: ArrayInfo, scale_a: Any, scale_b: Any, tensor_scale: Any
) -> tuple[BlockScaled | None, list[str]]:
    """The block scales, if there are any, and of what kind (`_scale_kind`) those of rows and columns are."""
    m = left.shape[-2]
    n = right.shape[-1]
    if is_block_scale(scale_a) or is_block_scale(scale_b):
        kind = _scale_kind("tensor_scale", tensor_scale, 1, (1, 1))
        return block_scaled(left, right, scale_a, scale_b), [kind, "none"]
    if tensor_scale is not None:
        raise refused(
            "tensor_scale without block scales", f"pass scale_a= or scale_b=, or block scales ({' or '.join(BLOCKS)}) there"
        )
    if "f4e2m1" in (left.dtype_name, right.dtype_name):
        raise refused(
            "operands of f4e2m1 without block scales", "pass scale_a= and scale_b= as px.kernels.quantize makes them"
        )
    return None, [_scale_kind("scale_a", scale_a, m, (m, 1)), _scale_kind("scale_b", scale_b, n, (1, n))]


def _require_factors(left: ArrayInfo, right: ArrayInfo) -> None:
    """Refuses operands whose types or shapes do not go together."""
    kinds = {left.dtype_name, right.dtype_name}
    if len(kinds) > 1 and not kinds <= set(NARROW):
        raise refused(
            f"a is {left.dtype_name}, b is {right.dtype_name}",
            "pass both bf16, both f16, both f4e2m1, both f32, or 8-bit floats in any mix",
        )
    if not left.shape or not right.shape or left.shape[-1] != right.shape[-2]:
        raise refused(
            f"a of shape {left.shape} and b of shape {right.shape} do not multiply",
            "the last axis of a is as long as the last but one of b: (..., M, K) and (..., K, N)",
        )


def _require_tf32(infos: tuple[ArrayInfo, ArrayInfo], allowed: Any) -> None:
    """Refuses operands of f32 where nobody allowed fewer bits."""
    if not isinstance(allowed, bool | np.bool_):
        raise refused(f"tf32 is of type {type(allowed).__name__}", "pass True or False")
    name = next((name for name, info in zip("ab", infos) if info.dtype_name == "f32"), None)
    if name is not None and not allowed:
        raise refused(
            f"{name} has the element type f32, of which tensor cores read 10 bits of the fraction (tf32)",
            "pass tf32=True to have it so, or convert it to bf16 or f16",
        )


def _require_target(result: ArrayInfo, shape: tuple[int, ...], left: ArrayInfo, right: ArrayInfo) -> None:
    """Refuses an `out` that has not the result's shape, or is where an operand is."""
    if result.shape != shape:
        raise refused(f"out has shape {result.shape}, the result {shape}", "pass an out= of the result's shape")
    if has_work(*shape) and result.pointer in (left.pointer, right.pointer):
        taken = "a" if result.pointer == left.pointer else "b"
        raise refused(f"out is where {taken} is, which is read while the result is written", "pass another array as out=")


def _matrices(info: ArrayInfo, step: int, matrix: tuple[int, int]) -> Recipe:
    """An argument as one matrix (`step` 0), which may be a batch of them on top of each other, or a batch along one axis."""
    if step == 0:
        return Recipe(drop=len(info.shape) - 2) if info.shape[-2:] == matrix else Recipe(shape=matrix)
    return AS_IT_IS if len(info.shape) == 3 else Recipe(shape=(-1, *matrix))


def _stacked(info: ArrayInfo, step: int) -> bool:
    """Whether the matrices of a batch follow each other as the rows of one do."""
    rows = info.shape[-2]
    stride = info.strides[-2]
    return step != 0 and (rows == 1 or step == rows * stride)


def _result_dtype(left: ArrayInfo, out: Any, asked: Any) -> str:
    """The result's element type: of `out`, or as asked for, or the operands'."""
    name = left.dtype_name if left.dtype_name in FLOATS else "bf16"
    if asked is not None:
        name = _dtype_name(asked)
        if name not in FLOATS:
            raise refused(f"out_dtype={asked!r} is no type of a result", f"use one of {', '.join(FLOATS)}")
    if out is None:
        return name
    found = result_info("out", out, FLOATS).dtype_name
    if asked is not None and found != name:
        raise refused(f"out is {found}, out_dtype is {name}", "leave out_dtype= out: the result has the type of out")
    return found


def _dtype_name(asked: Any) -> str:
    """The name of a dtype of this package, of NumPy or of torch."""
    if isinstance(asked, DType):
        return asked.name
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(asked, torch.dtype):
        return DTYPE_NAMES.get(str(asked).rpartition(".")[2], str(asked))
    if isinstance(asked, str):
        return DTYPE_NAMES.get(asked, asked)
    try:
        return DTYPE_NAMES.get(np.dtype(asked).name, str(asked))
    except TypeError:
        return str(asked)


def _scale_kind(what: str, scale: Any, size: int, shape: tuple[int, int]) -> str:
    """What a scale is: "none", "number", "one" (an array of one) or "vector"."""
    if scale is None:
        return "none"
    if scalar_dtype(scale) is not None:
        return "number"
    if describe(scale) is None:
        raise refused(f"{what} is a {type(scale).__name__}", f"pass a number, an array of one, or one of shape {shape}")
    info = info_of(what, scale, ("f32",))
    if all(extent == 1 for extent in info.shape):
        return "one"
    if info.shape not in (shape, (size,)):
        raise refused(f"{what} has shape {info.shape}", f"pass a number, an array of one, or one of shape {shape}")
    return "vector"


def _bias_info(bias: Any, shape: tuple[int, ...]) -> ArrayInfo:
    info = info_of("bias", bias)
    known = shape[-1:], shape[-2:], shape
    if info.shape not in known:
        names = dict.fromkeys(map(str, known))
        raise refused(f"bias has shape {info.shape}, the result {shape}", f"pass a bias of shape {' or '.join(names)}")
    return info


def _bias_kind(info: ArrayInfo | None, batched: bool) -> str | None:
    if info is None:
        return None
    if len(info.shape) == 1:
        return "row"
    return "batch" if batched else "matrix"


def _with_vectors(
    a: Any, b: Any, bias: Any, activation: str | None, out: Any, infos: tuple[ArrayInfo, ArrayInfo], options: dict[str, Any]
) -> Any:
    """Vectors as matrices of one row or column, which the result then loses again; a bias of its shape likewise."""
    rows, columns = (len(info.shape) == 1 for info in infos)
    if bias is not None:
        axes = len(info_of("bias", bias).shape)
        if rows and columns:
            bias = bias.reshape(1) if axes == 0 else bias
        elif columns:
            bias = bias[..., None]
        elif axes > 1:
            bias = bias[..., None, :]
    into = out
    if into is not None:
        into = into[..., None, :] if rows and not columns else into[..., None] if not rows else into[None, None]
    result = matmul(a[None] if rows else a, b[:, None] if columns else b, bias, activation, into, **options)
    if out is not None:
        return out
    shape = tuple(result.shape)
    return result.reshape(shape[:-2] + shape[-2:-1] * (not rows) + shape[-1:] * (not columns))


def _of_batch(x: Any, i: int, rank: int) -> Any:
    """Element `i` of a batch's first axis; arrays without that axis stay as they are."""
    if x is None or x.ndim < rank:
        return x
    return x[i if x.shape[0] > 1 else 0]


__all__ = ["ACTIVATIONS", "BlackwellConfig", "CopyWarning", "MatmulConfig", "Problem", "SplitConfig", "choose", "matmul"]
