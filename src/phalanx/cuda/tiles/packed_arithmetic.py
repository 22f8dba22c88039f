"""Arithmetic on two elements of 16 bits at once: `add.rn.bf16x2` and its like.

The result is the one that is specified, computed in f32 and rounded: f32 has at least two bits more than twice those of bf16
and f16, so that rounding a sum, difference or product twice gives what rounding it once does, and what is below the normal
range is rounded once on the way. `.rn` is said, so that the assembler makes no `fma` of a product and a sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.elementwise import operand_element
from phalanx.cuda.tiles.index import local, slot_line
from phalanx.ir.types import DType, TileType, as_elements
from phalanx.ir.values import Const, Value

PACKED = ("bf16", "f16")
_PTX = {
    "add": "add.rn", "sub": "sub.rn", "mul": "mul.rn", "fma": "fma.rn", "max": "max.NaN", "min": "min.NaN",
}  # fmt: skip
_ON_BITS = {"neg": "^ 0x80008000u", "abs": "& 0x7fff7fffu"}


def emit_pairs(w: Writer, fn: str, result: Value, operands: Sequence[Value]) -> bool:
    """Defines a tile of 16-bit floats two elements at a time; False where the hardware has no such instruction for `fn`, or
    the thread's registers do not pair up."""
    dtype = scalar_dtype(result)
    if dtype.name not in PACKED or fn not in _PTX | _ON_BITS or not isinstance(result.type, TileType):
        return False
    slots = w.registers(result)
    if slots % 2:
        return False
    if w.uses(result):
        name, var = w.declare_tile(result), local(w, "i")
        pairs = [_pair(w, operand, result, var, dtype) for operand in operands]
        made = f"{w.use(_function(fn, dtype, len(operands)))}({', '.join(pairs)})"
        slot_line(w, slots, f"{w.use('halves_of')}({name} + {var}, {made});", var, step=2)
    return True


def _pair(w: Writer, operand: Value, result: Value, var: str, dtype: DType) -> str:
    """An operand's elements at two neighbouring slots of the result."""
    if isinstance(operand, Const):
        bits = int(as_elements(operand.value, dtype).view("u2"))
        return f"0x{bits << 16 | bits:08x}u"
    low, high = (operand_element(w, operand, result, at) for at in (var, f"({var} + 1)"))
    return f"{w.use('pair_of')}({low}, {high})"


def _function(fn: str, dtype: DType, count: int) -> Helper:
    names = "abc"[:count]
    parameters = [("unsigned", name) for name in names]
    if fn in _ON_BITS:
        return device_function(f"{fn}_pair", "unsigned", parameters, f"return a {_ON_BITS[fn]};")
    places = ", ".join(f"%{n}" for n in range(count + 1))
    given = ", ".join(f'"r"({name})' for name in names)
    body = f'unsigned d;\nasm("{_PTX[fn]}.{dtype.name}x2 {places};" : "=r"(d) : {given});\nreturn d;'
    return device_function(f"{fn}_{dtype.name}x2", "unsigned", parameters, body)
