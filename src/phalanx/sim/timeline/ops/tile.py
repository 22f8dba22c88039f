"""Arithmetic on tiles: every thread has its share of the elements, and each element takes an instruction or more."""

from math import prod
from typing import Any

from phalanx.ir.core import Op
from phalanx.ir.ops import tile as ir
from phalanx.ir.types import TileType
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

LANES = 32
SHUFFLE = 25
"""Cycles in which an element gets from one thread of a warp to another."""
UNARY: dict[str, tuple[float, float]] = {
    "exp": (2, 1),
    "exp2": (1, 1),
    "log": (2, 1),
    "log2": (1, 1),
    "sqrt": (3, 1),
    "rsqrt": (1, 1),
    "reciprocal": (1, 1),
    "tanh": (8, 2),
    "tanh_approx": (1, 1),
    "erf": (16, 1),
    "sigmoid": (4, 2),
    "sin": (20, 1),
    "cos": (20, 1),
}
"""Instructions for an element, and those of them for the special function unit; 1 and 0 of the others."""
BINARY: dict[str, float] = {"div": 8, "floordiv": 16, "mod": 16}
"""Instructions for an element; 1 of the others."""

free(ir.Full, ir.Empty, ir.Arange, why="numbers that instructions name")


def share(value: Any, warps: float) -> float:
    """The elements of a tile that a thread has; pairs of 2-byte elements count as one."""
    shape = getattr(value.type, "shape", ())
    count = max(1.0, prod(shape) / (LANES * warps))
    return count / 2 if value.type.dtype.itemsize == 2 and value.type.dtype.is_float and count > 1 else count


@cost(ir.Unary)
def unary(op: ir.Unary, warps: float, rates: Rates) -> Cost:
    """Some functions go to the special function unit."""
    issue, special = UNARY.get(op.fn, (1, 0))
    count = share(op.x, warps)
    return Cost(issue=issue * count, special=special * count)


@cost(ir.Binary)
def binary(op: ir.Binary, warps: float, rates: Rates) -> Cost:
    """An instruction for an element, for divisions several."""
    count = share(op.result, warps)
    return Cost(issue=BINARY.get(op.fn, 1) * count, special=count if op.fn == "div" else 0)


@cost(ir.Compare)
def compare(op: ir.Compare, warps: float, rates: Rates) -> Cost:
    """What a select does with it is mostly one instruction for both."""
    return Cost(issue=share(op.a, warps) / 2)


@cost(ir.Fma, ir.Select, ir.SkippingProduct)
def elementwise(op: Any, warps: float, rates: Rates) -> Cost:
    """An instruction for an element."""
    return Cost(issue=share(op.result, warps))


@cost(ir.Cast)
def cast(op: ir.Cast, warps: float, rates: Rates) -> Cost:
    """An instruction for an element, or for two where the narrower type is that of pairs."""
    return Cost(issue=min(share(op.x, warps), share(op.result, warps)))


@cost(ir.Pack, ir.Unpack)
def packed(op: ir.Pack | ir.Unpack, warps: float, rates: Rates) -> Cost:
    """Bits are shifted into place, and out of it."""
    return Cost(issue=2 * share(op.x, warps))


@cost(ir.InlinePtx)
def inline_ptx(op: ir.InlinePtx, warps: float, rates: Rates) -> Cost:
    """As many instructions as the user wrote."""
    return Cost(issue=max(1, op.text.count(";")) * share(op.results[0], warps) / op.pack)


@cost(ir.Reduce, ir.ReduceBy)
def reduce(op: ir.Reduce | ir.ReduceBy, warps: float, rates: Rates) -> Cost:
    """Each thread folds what it has; then threads of a row do, and for other axes warps through shared memory."""
    x = op.x if isinstance(op, ir.Reduce) else op.xs[0]
    width = 1 if isinstance(op, ir.Reduce) else max(1, len(op.by.ops))
    assert isinstance(x.type, TileType)
    rows = len(x.type.shape) > 1 and op.axis == len(x.type.shape) - 1
    return Cost(issue=width * share(x, warps) + 8, stands=2 * SHUFFLE if rows else 5 * SHUFFLE + 2 * rates.sync)


@cost(ir.CumSum, ir.ScanBy)
def scan(op: ir.CumSum | ir.ScanBy, warps: float, rates: Rates) -> Cost:
    """Each thread adds up what it has, then threads and warps in steps."""
    x = op.x if isinstance(op, ir.CumSum) else op.xs[0]
    return Cost(issue=3 * share(x, warps) + 16, stands=5 * SHUFFLE + 2 * rates.sync)


@cost(ir.ConvertLayout)
def convert(op: ir.ConvertLayout, warps: float, rates: Rates) -> Cost:
    """Through shared memory, and back."""
    return Cost(issue=2 * share(op.x, warps), stands=2 * rates.sync + rates.shared_latency)


@cost(ir.Bitcast, ir.Reshape, ir.Transpose, ir.Part, ir.Keep)
def renamed(op: Op, warps: float, rates: Rates) -> Cost:
    """The result is in the registers of the operand, and takes no instruction."""
    return Cost(hands_on=True)
