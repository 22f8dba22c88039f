"""Hopper's tensor cores: `px.wgmma`, its groups, and `px.dot`."""

from __future__ import annotations

from typing import Any

from phalanx.ir.ops.tile import Empty
from phalanx.ir.ops.wgmma import ACCUMULATORS, ROWS, STEP_BYTES, Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import BOOL, DType, TileType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.control import require_condition
from phalanx.language.operators import describe, dtype_of, is_tile, shape_of
from phalanx.language.values import ViewValue

WARPGROUP = 4
MAX_N = 256
MAX_GROUPS = 7


@builtin("wgmma", inout="acc")
def wgmma(ctx: Builder, a: Any, b: Any, acc: Any, accumulate: Any = True, negate: Any = False) -> Any:
    """Begins ``acc += a @ b`` on the tensor cores and updates the variable `acc`: read it only after `px.wgmma_wait`.

    Whole warpgroups (an agent of a multiple of 4 warps that begins at one); sm_90a; PTX ``wgmma.mma_async``, with the
    ``wgmma.fence`` it needs. `a` is (M, K), a shared view or a register tile; `b` is (K, N), a shared view: for a
    buffer of shape (N, K) write ``b.T``. `accumulate` false (a constant or a run-time condition) leaves the old `acc`
    out, `negate` subtracts. Operands stay untouched until the wait.
    Example: ``px.wgmma(As[s], Bs[s].T, acc, accumulate=k > 0)``.
    """
    return multiply(ctx, "px.wgmma", a, b, acc, accumulate, negate)


@builtin("wgmma_commit")
def wgmma_commit(ctx: Builder) -> Any:
    """Closes the group of products that this agent has begun since the last commit.

    Whole warpgroups, as a `px.wgmma` agent; sm_90a; PTX ``wgmma.commit_group``. Example: ``px.wgmma_commit()``.
    """
    require_warpgroups(ctx, "px.wgmma_commit")
    ctx.emit(WgmmaCommit(loc=ctx.loc))


@builtin("wgmma_wait")
def wgmma_wait(ctx: Builder, n: Any) -> Any:
    """Waits until at most `n` groups of this agent are unfinished; they finish in order.

    Whole warpgroups, as a `px.wgmma` agent; sm_90a; PTX ``wgmma.wait_group``. What the finished groups read may be
    overwritten, and their accumulators may be read. Example: ``px.wgmma_wait(1)`` releases all but the newest group.
    """
    require_warpgroups(ctx, "px.wgmma_wait")
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= MAX_GROUPS:
        ctx.fail(
            f"px.wgmma_wait takes a constant from 0 to {MAX_GROUPS}, not {describe(n)}",
            "it is the number of newest groups that may still run: 0 waits for all",
        )
    wait_for_groups(ctx, n)


@builtin("dot")
def dot(ctx: Builder, a: Any, b: Any, acc: Any = None) -> Any:
    """``acc + a @ b``, finished when it returns: `px.wgmma`, its commit and its wait in one.

    Whole warpgroups (an agent of a multiple of 4 warps that begins at one); sm_90a; PTX ``wgmma.mma_async``. Operands
    as for `px.wgmma`; without `acc` the product alone. Example: ``acc = px.dot(As[s], Bs[s].T, acc)``.
    """
    accumulate = acc is not None
    if acc is None:
        a_view, b_view = operand(ctx, "px.dot", "a", a), operand(ctx, "px.dot", "b", b)
        shapes = [item.shape if isinstance(item, SharedView) else shape_of(item) for item in (a_view, b_view)]
        dtype = accumulator_dtype(ctx, "px.dot", operand_dtype(a_view), operand_dtype(b_view))
        acc = empty_tile(ctx, (shapes[0][0], shapes[1][-1]), dtype)
    product = multiply(ctx, "px.dot", a, b, acc, accumulate, False)
    ctx.emit(WgmmaCommit(loc=ctx.loc))
    return wait_for_groups(ctx, 0, product)


def multiply(ctx: Builder, what: str, a: Any, b: Any, acc: Any, accumulate: Any, negate: Any) -> Value:
    """The instruction, with everything checked that the tensor cores ask of it."""
    require_warpgroups(ctx, what)
    left, right = operand(ctx, what, "a", a), operand(ctx, what, "b", b)
    if not isinstance(right, SharedView):
        ctx.fail(
            f"{what}: b is read from shared memory, not from registers",
            "px.store the tile into a px.shared buffer first",
        )
    shape = left.shape if isinstance(left, SharedView) else shape_of(left)
    if len(shape) != 2 or len(right.shape) != 2:
        ctx.fail(
            f"{what} multiplies matrices, not shapes {shape} and {right.shape}", "index the stage of a ring first: a[s]"
        )
    if not is_tile(acc):
        ctx.fail(
            f"{what}: acc is the variable of a register tile, not {describe(acc)}",
            "make it with acc = px.zeros((M, N), px.f32)",
        )
    m, k, n = shape[0], shape[1], right.shape[1]
    if right.shape[0] != k:
        remedy = "operands are (M, K) and (K, N)"
        if right.shape[1] == k:
            remedy += ": for a buffer of shape (N, K) write b.T"
        ctx.fail(f"{what}: a has K = {k}, b has K = {right.shape[0]}", remedy)
    dtype = accumulator_dtype(ctx, what, operand_dtype(left), right.dtype)
    if shape_of(acc) != (m, n) or dtype_of(acc) != dtype:
        ctx.fail(
            f"{what}: acc is {acc.type}, the product is {TileType((m, n), dtype)}",
            "give acc the product's shape and type",
        )
    check_shape(ctx, what, m, n, k, right.dtype)
    check_major(ctx, what, "a", left, 1)
    check_major(ctx, what, "b", right, 0)
    use = require_condition(ctx, accumulate, f"accumulate= of {what}")
    if not isinstance(negate, bool):
        ctx.fail(f"negate= of {what} is a compile-time constant, not {describe(negate)}", "use two calls under an if")
    if negate and dtype.is_integer:
        ctx.fail(f"{what}: negate is for floating-point products", "subtract the tiles after the wait")
    result = Value(acc.type, acc.name)
    condition = Const(use, BOOL) if isinstance(use, bool) else use
    ctx.emit(Wgmma(left, right, acc, condition, ctx.agent.warps, result, negate, loc=ctx.loc))
    return result


def wait_for_groups(ctx: Builder, n: int, also: Value | None = None) -> Value | None:
    """The wait, with all variables that hold an accumulator bound to its results; the one of `also` is returned."""
    names = ctx.variables()
    accs = dict.fromkeys(names[key] for key in ctx.accumulators if is_tile(names.get(key)))
    if also is not None:
        accs[also] = None
    results = {acc: Value(acc.type, acc.name) for acc in accs}
    ctx.emit(WgmmaWait(n, tuple(results), tuple(results.values()), loc=ctx.loc))
    for key, value in names.items():
        if isinstance(value, Value) and value in results:
            names[key] = results[value]
    return results[also] if also is not None else None


def empty_tile(ctx: Builder, shape: tuple[int, ...], dtype: DType) -> Value:
    result = Value(TileType(shape, dtype))
    ctx.emit(Empty(result, loc=ctx.loc))
    return result


# What the hardware asks.


def require_warpgroups(ctx: Builder, what: str) -> None:
    agent = ctx.agent
    if agent.warps % WARPGROUP or agent.first % WARPGROUP:
        where = "this role" if agent.is_role else "this kernel"
        ctx.fail(
            f"{what} runs on whole warpgroups; {where} has {agent.warps} warps from warp {agent.first}",
            "use a multiple of 4 warps that begins at a multiple of 4, e.g. px.warps(4, 8)",
        )


def operand(ctx: Builder, what: str, name: str, item: Any) -> SharedView | Value:
    if is_tile(item):
        return item
    if isinstance(item, ViewValue) and isinstance(item.view, SharedView):
        if item.view.cta is not None:
            ctx.fail(f"{what}: {name} is in another CTA's shared memory", "copy it here first: px.cluster.copy")
        return item.view
    kinds = "a view of shared memory" + (" or a register tile" if name == "a" else "")
    ctx.fail(
        f"{what}: {name} is {kinds}, not {describe(item)}",
        "bring the tile into a px.shared buffer with px.tma.load",
    )


def operand_dtype(item: SharedView | Value) -> DType:
    return item.dtype if isinstance(item, SharedView) else dtype_of(item)


def accumulator_dtype(ctx: Builder, what: str, a: DType, b: DType) -> DType:
    found = ACCUMULATORS.get((a, b))
    if found is None:
        ctx.fail(
            f"{what}: the tensor cores do not multiply {a} by {b}",
            "both bf16, both f16, both f32 (as tf32), 8-bit floats in any mix, or 8-bit integers in any mix",
        )
    return found


def check_shape(ctx: Builder, what: str, m: int, n: int, k: int, dtype: DType) -> None:
    groups = ctx.agent.warps // WARPGROUP
    if m % (ROWS * groups):
        ctx.fail(
            f"{what}: M = {m} rows over {groups} warpgroup{'s' if groups > 1 else ''}",
            f"make M a multiple of {ROWS * groups}: {ROWS} rows for each warpgroup of the role",
        )
    if groups & (groups - 1) and m != ROWS * groups:
        ctx.fail(f"{what}: M = {m} rows over {groups} warpgroups", f"with {groups} warpgroups M is {ROWS * groups}")
    step = 16 if dtype.is_integer and n > 32 else 8
    if n % step or not 8 <= n <= MAX_N:
        ctx.fail(
            f"{what}: N = {n}", f"N is a multiple of {step} from 8 to {MAX_N}: use several accumulators for wider tiles"
        )
    least = STEP_BYTES // dtype.itemsize
    if k % least:
        ctx.fail(f"{what}: K = {k}", f"K is a multiple of {least} for {dtype}")


def check_major(ctx: Builder, what: str, name: str, item: SharedView | Value, k_axis: int) -> None:
    """Which axis of the buffer is contiguous: K, or for 16-bit types the other one."""
    if not isinstance(item, SharedView):
        return
    last = len(item.buffer.shape) - 1
    if last not in item.kept or set(item.kept) != {last - 1, last}:
        ctx.fail(
            f"{what}: {name} is not a matrix of the last two axes of '{item.buffer.name}'",
            "index the leading axes by integers: buffer[stage]",
        )
    if item.kept[k_axis] == last:
        return
    if item.dtype.bits != 16:
        rows = "M" if name == "a" else "N"
        ctx.fail(
            f"{what}: {name} is contiguous along {rows}, which the hardware reads for 16-bit types only",
            f"let '{item.buffer.name}' be contiguous along K: shape ({rows}, K){', and write b.T' * (name == 'b')}",
        )
