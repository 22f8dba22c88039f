"""Hopper's tensor cores: `px.wgmma` and its groups."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.ops.tile import Empty
from phalanx.ir.ops.wgmma import ACCUMULATORS, Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import BOOL, DType, TileType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView, in_shared
from phalanx.ir.wgmma_rules import Objection, major_objection, shape_objection
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import describe, require_condition
from phalanx.language.operators import dtype_of, is_tile, shape_of
from phalanx.language.ops.tma_operands import refuse_rows_by_index
from phalanx.language.values import ViewValue

MAX_GROUPS = 7


@builtin("wgmma", inout="acc")
def wgmma(
    ctx: Builder,
    a: object,
    b: object,
    acc: object,
    accumulate: object = True,
    negate: object = False,
    along: object = "m",
) -> Value:
    """Begins ``acc += a @ b`` on the tensor cores and updates the variable `acc`: read it only after `px.wgmma_wait`.

    Whole warpgroups (an agent of a multiple of 4 warps that begins at one); sm_90a; PTX ``wgmma.mma_async``, with the
    ``wgmma.fence`` it needs. `a` is (M, K), a shared view or a register tile; `b` is (K, N), a shared view: for a
    buffer of shape (N, K) write ``b.T``. `acc` is f32 (i32 for 8-bit integers); for f16 and 8-bit floats it may be
    f16: then every instruction (32 bytes of K) rounds its sum to f16. `accumulate` false (a constant or a run-time
    condition) leaves the old `acc` out, `negate` subtracts. The agent's warpgroups share the rows of the tile, or its
    columns with ``along="n"``: then each has all rows of N / warpgroups columns, a power of two. Operands stay
    untouched until the wait. Example: ``px.wgmma(As[s], Bs[s].T, acc, accumulate=k > 0)``.
    """
    product = read_product(ctx, "px.wgmma", a, b, acc)
    shared_axis = require_along(ctx, "px.wgmma", along)
    objection = product.objection(ctx, shared_axis)
    if objection is not None:
        ctx.fail(objection[0], objection[1])
    return product.emit(ctx, accumulate, negate, shared_axis)


def require_along(ctx: Builder, what: str, along: object) -> str:
    """The axis of the tile that an agent's warpgroups share."""
    if not isinstance(along, str) or along not in ("m", "n"):
        ctx.fail(
            f'along= of {what} is "m" or "n", not {describe(along)}',
            "the warpgroups share the rows of the tile, or its columns",
        )
    return along


@builtin("wgmma_commit")
def wgmma_commit(ctx: Builder) -> None:
    """Closes the group of products that this agent has begun since the last commit.

    Whole warpgroups, as a `px.wgmma` agent; sm_90a; PTX ``wgmma.commit_group``. Example: ``px.wgmma_commit()``.
    """
    check_warpgroups(ctx, "px.wgmma_commit")
    ctx.emit(WgmmaCommit(loc=ctx.loc))


@builtin("wgmma_wait")
def wgmma_wait(ctx: Builder, n: object) -> None:
    """Waits until at most `n` groups of this agent are unfinished; they finish in order.

    Whole warpgroups, as a `px.wgmma` agent; sm_90a; PTX ``wgmma.wait_group``. What the finished groups read may be
    overwritten, and their accumulators may be read. Arithmetic on tiles that stands between the products and the wait is
    over before it: it runs while the tensor cores work. Example: ``px.wgmma_wait(1)`` releases all but the newest group.
    """
    check_warpgroups(ctx, "px.wgmma_wait")
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= MAX_GROUPS:
        ctx.fail(
            f"px.wgmma_wait takes a constant from 0 to {MAX_GROUPS}, not {describe(n)}",
            "it is the number of newest groups that may still run: 0 waits for all",
        )
    wait_for_groups(ctx, n)


@frozen
class Product:
    """`acc + a @ b` as a user asked for it, with shapes and types that fit together."""

    what: str
    a: SharedView | Value
    b: SharedView | Value
    acc: Value

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        m, k = shape_of_operand(self.a)
        return m, shape_of_operand(self.b)[1], k

    @property
    def dtype(self) -> DType:
        """The element type of `b`, which decides how deep an instruction is."""
        return operand_dtype(self.b)

    def objection(self, ctx: Builder, along: str) -> Objection | None:
        """Why `wgmma` can't do it, if it can't."""
        found = warpgroup_objection(ctx, self.what)
        if found is None and isinstance(self.b, Value):
            found = (
                f"{self.what}: b is read from shared memory, not from registers",
                "px.store the tile into a px.shared buffer first",
            )
        return (
            found
            or shape_objection(self.what, *self.shape, self.dtype, along, ctx.agent.warps)
            or major_objection(self.what, "a", self.a, 1)
            or major_objection(self.what, "b", self.b, 0)
        )

    def emit(self, ctx: Builder, accumulate: object, negate: object, along: str, fused: bool = False) -> Value:
        """The instruction; for products without an `objection`."""
        assert not isinstance(self.b, Value)
        use = require_condition(ctx, accumulate, f"accumulate= of {self.what}")
        if not isinstance(negate, bool):
            ctx.fail(
                f"negate= of {self.what} is a compile-time constant, not {describe(negate)}", "use two calls under an if"
            )
        if negate and dtype_of(self.acc).is_integer:
            ctx.fail(f"{self.what}: negate is for floating-point products", "subtract the tiles after the wait")
        result = Value(self.acc.type, self.acc.name)
        ctx.products.add(result)
        condition = Const(use, BOOL) if isinstance(use, bool) else use
        ctx.emit(
            Wgmma(self.a, self.b, self.acc, condition, ctx.agent.warps, result, negate, along, fused, loc=ctx.loc)
        )
        return result


def read_product(ctx: Builder, what: str, a: object, b: object, acc: object) -> Product:
    """The operands of a call, checked against each other; `acc` None stands for a new accumulator."""
    left, right = operand(ctx, what, "a", a), operand(ctx, what, "b", b)
    shapes = shape_of_operand(left), shape_of_operand(right)
    if len(shapes[0]) != 2 or len(shapes[1]) != 2:
        ctx.fail(
            f"{what} multiplies matrices, not shapes {shapes[0]} and {shapes[1]}",
            "px.sum(a * b) multiplies vectors" if len(shapes[0]) == len(shapes[1]) == 1 else
            "index the stage of a ring first: a[s]",
        )
    (m, k), (depth, n) = shapes
    if acc is not None and not is_tile(acc):
        ctx.fail(
            f"{what}: acc is the variable of a register tile, not {describe(acc)}",
            "make it with acc = px.zeros((M, N), px.f32)",
        )
    if depth != k:
        remedy = "operands are (M, K) and (K, N)"
        if n == k:
            remedy += ": for a buffer of shape (N, K) write b.T"
        ctx.fail(f"{what}: a has K = {k}, b has K = {depth}", remedy)
    dtypes = accumulator_dtypes(ctx, what, operand_dtype(left), operand_dtype(right))
    if acc is None:
        acc = empty_tile(ctx, (m, n), dtypes[0])
    if shape_of(acc) != (m, n) or dtype_of(acc) not in dtypes:
        products = " or ".join(str(TileType((m, n), dtype)) for dtype in dtypes)
        ctx.fail(f"{what}: acc is {acc.type}, the product is {products}", "give acc the product's shape and type")
    return Product(what, left, right, acc)


def wait_for_groups(ctx: Builder, n: int, also: Value | None = None) -> Value | None:
    """The wait, with all variables that hold an accumulator bound to its results; the one of `also` is returned."""
    names = ctx.variables()
    accs: dict[Value, None] = dict.fromkeys(found for key in ctx.accumulators if is_tile(found := names.get(key)))
    held = (item for value in names.values() if type(value) is tuple for item in value)
    accs |= dict.fromkeys(item for item in held if isinstance(item, Value) and item in ctx.products)
    if also is not None:
        accs[also] = None
    results = {acc: Value(acc.type, acc.name) for acc in accs}
    ctx.emit(WgmmaWait(n, tuple(results), tuple(results.values()), loc=ctx.loc))
    if n > 0:  # a later wait is for them, too, whatever variable holds them then
        ctx.products.update(results.values())
    for key, value in names.items():
        names[key] = _after(value, results)
    return results[also] if also is not None else None


def _after(value: object, results: dict[Value, Value]) -> object:
    """What a variable holds after a wait; tuples may hold accumulators."""
    if isinstance(value, Value):
        return results.get(value, value)
    if type(value) is tuple and any(item in results for item in value if isinstance(item, Value)):
        return tuple(_after(item, results) for item in value)
    return value


def empty_tile(ctx: Builder, shape: tuple[int, ...], dtype: DType) -> Value:
    """A tile without contents, for an accumulator that the first product does not read."""
    result = Value(TileType(shape, dtype))
    ctx.emit(Empty(result, loc=ctx.loc))
    return result


# What the hardware asks.


def warpgroup_objection(ctx: Builder, what: str) -> Objection | None:
    """Why the agent can't run `wgmma`, if it can't: it runs on whole warpgroups."""
    agent = ctx.agent
    if not (agent.warps % WARPGROUP or agent.first % WARPGROUP):
        return None
    where = "this role" if agent.is_role else "this kernel"
    return (
        f"{what} runs on whole warpgroups; {where} has {agent.warps} warp{'s' * (agent.warps > 1)} from warp {agent.first}",
        "use a multiple of 4 warps that begins at a multiple of 4, e.g. px.warps(4, 8)",
    )


def check_warpgroups(ctx: Builder, what: str) -> None:
    """Refuses an agent that is not made of whole warpgroups."""
    objection = warpgroup_objection(ctx, what)
    if objection is not None:
        ctx.fail(objection[0], objection[1])


def operand(ctx: Builder, what: str, name: str, item: object) -> SharedView | Value:
    """The shared view or register tile that an operand of a product is."""
    if is_tile(item):
        return item
    if isinstance(item, ViewValue) and in_shared(item.view):
        refuse_rows_by_index(ctx, f"{name} of {what}", item.view)
        if item.view.cta is not None:
            ctx.fail(f"{what}: {name} is in another CTA's shared memory", "copy it here first: px.cluster.copy")
        return item.view
    kinds = "a view of shared memory" + (" or a register tile" if name == "a" or what == "px.dot" else "")
    ctx.fail(
        f"{what}: {name} is {kinds}, not {describe(item)}",
        "bring the tile into a px.shared buffer with px.tma.load",
    )


def operand_dtype(item: SharedView | Value) -> DType:
    """The element type of an operand."""
    return dtype_of(item) if isinstance(item, Value) else item.dtype


def shape_of_operand(item: SharedView | Value) -> tuple[int, ...]:
    """The shape of an operand."""
    return shape_of(item) if isinstance(item, Value) else item.shape


def accumulator_dtypes(ctx: Builder, what: str, a: DType, b: DType) -> tuple[DType, ...]:
    """The element types that the accumulator of a product may have, the usual one first."""
    found = ACCUMULATORS.get((a, b))
    if found is None:
        ctx.fail(
            f"{what}: the tensor cores do not multiply {a} by {b}",
            "both bf16, both f16, both f32 (as tf32), 8-bit floats in any mix, or 8-bit integers in any mix",
        )
    return found
