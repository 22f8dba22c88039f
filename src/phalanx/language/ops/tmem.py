"""`px.tmem`: buffers in tensor memory."""

from __future__ import annotations

from phalanx.ir.tensor_memory import LANES, LANES_PER_WARP, reaches_all_lanes
from phalanx.ir.values import constant_of
from phalanx.ir.views import TensorBuffer, TensorView, in_tensor
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import KernelObject, describe
from phalanx.language.ops.memory import check_outside_loops, require_view, unique_name
from phalanx.language.requirements import require_dtype, require_flag, require_shape
from phalanx.language.values import RunTimeRegion, ViewValue


@builtin("tmem")
def tmem(ctx: Builder, shape: object, dtype: object, reuse: object = None, padded: object = False) -> ViewValue:
    """A static buffer in this CTA's tensor memory: accumulators, A operands and scales of `px.tcgen05.mma`.

    Outside run-time loops, any agent; sm_100a and its kin; PTX ``tcgen05.alloc``, which the compiler writes once for all
    buffers of the kernel, with the hand-over of the address and the release at the end. The shape is logical, rows and
    columns with stages in front: ``acc[i]`` is one accumulator. Where elements lie follows from the use; columns are planned
    by the compiler, 512 of 32 bits in all. `reuse=x` takes over the columns of `x` under another shape and type. With
    ``padded=True`` each element of f4e2m1, f6e2m3 or f6e3m2 has a byte, as products with operands of 8 bits read them;
    `px.tcgen05.copy` from a padded buffer of shared memory fills it.
    Example: ``acc = px.tmem((2, 128, 256), px.f32)``.
    """
    check_outside_loops(ctx, "px.tmem")
    sizes = require_shape(ctx, "px.tmem", shape)
    element = require_dtype(ctx, "px.tmem", dtype)
    if len(sizes) < 2:
        ctx.fail(
            f"the shape of px.tmem has {len(sizes)} axis", "tensor memory holds matrices: (rows, columns), stages in front"
        )
    room = require_flag(ctx, "padded=", padded)
    if room and element.bits >= 8:
        remedy = "it is for f4e2m1, f6e2m3 and f6e3m2: others have a byte, or more"
        ctx.fail(f"padded=True for elements of {element}", remedy)
    if element.bits == 6 and not room:
        remedy = "tensor memory has a byte for each: px.tmem(shape, dtype, padded=True)"
        ctx.fail(f"px.tmem of {element} without padded=True", remedy)
    target = reuse.storage() if isinstance(reuse, KernelObject) else None
    if reuse is not None and not isinstance(target, TensorBuffer):
        ctx.fail(
            f"reuse= of px.tmem takes a buffer in tensor memory, not {describe(reuse)}",
            "e.g. px.tmem(shape, dtype, reuse=acc)",
        )
    buffer = TensorBuffer(unique_name(ctx, "tmem"), sizes, element, ctx.loc, target, padded=room)
    ctx.buffers.append(buffer)
    zero = operand(0)
    return ViewValue(TensorView(buffer, (zero,) * len(sizes), sizes, tuple(range(len(sizes)))))


def tensor_side(ctx: Builder, what: str, view: object) -> TensorView:
    """The matrix of tensor memory that an operand is: rows and columns of one stage, in their order."""
    region = require_view(ctx, what, view) if isinstance(view, ViewValue | RunTimeRegion) else None
    if region is None or not in_tensor(region):
        ctx.fail(f"{what} is a view of tensor memory, not {describe(view)}", "make one with px.tmem(shape, dtype)")
    last = len(region.buffer.shape) - 1
    if region.kept != (last - 1, last):
        ctx.fail(
            f"{what} is no matrix of '{region.buffer.name}'",
            f"index the stages by integers and keep rows and columns in their order: {region.buffer.name}[i]",
        )
    row = constant_of(region.offsets[last - 1])
    if row is None or int(row) % LANES_PER_WARP:
        ctx.fail(
            f"the rows of {what} do not begin at a constant multiple of {LANES_PER_WARP}",
            "rows of tensor memory are lanes: slice them by constants, e.g. acc[32:64]",
        )
    return region


def check_reach(ctx: Builder, what: str, region: TensorView) -> None:
    """Refuses rows that the warps of the agent do not reach: warp w has the lanes of 32 (w % 4) to + 31."""
    agent, rows = ctx.agent, region.shape[0]
    height = region.buffer.shape[-2]
    start = int(constant_of(region.offsets[-2]) or 0)
    shown = f"rows {start} to {start + rows - 1} of '{region.buffer.name}'"
    quarters = LANES // LANES_PER_WARP
    if height < LANES:  # lanes of all four warps
        first, needed = 0, quarters
    else:
        first, needed = start // LANES_PER_WARP % quarters, min(quarters, -(-rows // LANES_PER_WARP))
    if needed == 3 or (height >= LANES and (rows % LANES if rows > LANES else rows % LANES_PER_WARP)):
        remedy = "take 32, 64 or a multiple of 128 rows, or all of a buffer of 64"
        ctx.fail(f"{what}: {shown} are no rows that warps reach together", remedy)
    for begin in agent.firsts:
        if needed == quarters:
            reached = reaches_all_lanes(begin - first, agent.warps)
            if height == LANES // 2 and region.shape[1] < region.buffer.shape[-1]:  # of a pair: half of the columns
                reached = reached or (agent.warps == 2 and begin % 2 == 0)
        else:
            reached = agent.warps == needed and begin % quarters == first
        if not reached:
            where = "this role" if agent.is_role else "this kernel"
            last = begin + agent.warps - 1
            have = f"warp {last}" if agent.warps == 1 else f"warps {begin} to {last}"
            ctx.fail(
                f"{what}: {where} ({have}) does not reach {shown}",
                f"warp w reaches lanes 32 (w % 4) to + 31, here: {needed} warp{'s' * (needed > 1)} from a warp w on with "
                f"w % 4 == {first}" + ", or twice or four times as many, which share the columns" * (needed == quarters),
            )
