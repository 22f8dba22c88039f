"""Arithmetic on scalars and register tiles as C++: unrolled loops over a thread's registers.

f16, bf16 and fp8 are stored as bits and computed in float. Reductions, running sums and layout changes that cross
warps use the agent's scratch memory; what is marked by `@needs_scratch` says how much.
"""

from __future__ import annotations

from phalanx.cuda.text.literals import literal
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles import arithmetic
from phalanx.cuda.tiles.arithmetic import compute_dtype
from phalanx.cuda.tiles.convert import conversion_scratch_bytes, emit_conversion
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.cumsum import cumsum_scratch_bytes, emit_cumsum
from phalanx.cuda.tiles.elementwise import (
    computed_operand,
    converts_codes,
    emit_codes,
    emit_elementwise,
    emit_grouped_cast,
    operand_element,
)
from phalanx.cuda.tiles.finished import needs_all_registers
from phalanx.cuda.tiles.fold import emit_reduce_by, emit_scan_by, fold_scratch_bytes
from phalanx.cuda.tiles.index import SlotTexts, element, local, local_slots, slot_line, slot_loop
from phalanx.cuda.tiles.inline_ptx import emit_ptx
from phalanx.cuda.tiles.limits import emit_limit, is_coordinates, only_in_limits
from phalanx.cuda.tiles.packed_arithmetic import emit_pairs
from phalanx.cuda.tiles.reduce import emit_reduce, reduce_scratch_bytes
from phalanx.cuda.tiles.scratch import Layouts, needs_scratch
from phalanx.errors import Error
from phalanx.ir.ops import tile as ir
from phalanx.ir.types import TileType
from phalanx.ir.values import Value, constant_of
from phalanx.layouts.parts import part_slots

needs_all_registers(ir.Binary, ir.Compare, ir.Fma, ir.Reduce, ir.Select, ir.Unary)
needs_all_registers(ir.Bitcast, ir.Cast, ir.ConvertLayout, ir.Keep, ir.Reshape, ir.Transpose, moves=True)


@needs_scratch(ir.Reduce)
def reduction_scratch(op: ir.Reduce, layouts: Layouts) -> int:
    """What warps hand to each other."""
    return reduce_scratch_bytes(op, layouts[op.x])


@needs_scratch(ir.CumSum)
def running_scratch(op: ir.CumSum, layouts: Layouts) -> int:
    """The sums of the warps before."""
    return cumsum_scratch_bytes(op, layouts[op.x])


@needs_scratch(ir.ReduceBy, ir.ScanBy)
def folding_scratch(op: ir.ReduceBy | ir.ScanBy, layouts: Layouts) -> int:
    """What warps hand to each other."""
    return fold_scratch_bytes(op, layouts[op.xs[0]])


@needs_scratch(ir.ConvertLayout, ir.Reshape)
def changing_scratch(op: ir.ConvertLayout | ir.Reshape, layouts: Layouts) -> int:
    """The tile, where its elements go from warp to warp."""
    if not isinstance(op.x.type, TileType) or not isinstance(op.result.type, TileType):
        return 0
    return conversion_scratch_bytes(layouts[op.x], layouts[op.result], scalar_dtype(op.x).itemsize)


@emits(ir.Unary, expression=True)
def emit_unary(w: Writer, op: ir.Unary) -> None:
    """Writes a function of each element, of two at once where the hardware has that."""
    if emit_pairs(w, op.fn, op.result, (op.x,)):
        return
    dtype = scalar_dtype(op.x)
    count = w.registers(op.result) if isinstance(op.result.type, TileType) else 1
    emit_elementwise(
        w, op.result, (op.x,), lambda x: arithmetic.narrow(w, arithmetic.unary_text(w, op.fn, x, dtype, count), dtype)
    )


@emits(ir.Binary, expression=True)
def emit_binary(w: Writer, op: ir.Binary) -> None:
    """Writes an operation on the elements of two tiles, on two of each at once where the hardware has that."""
    if emit_pairs(w, op.fn, op.result, (op.a, op.b)):
        return
    dtype, constant = scalar_dtype(op.a), constant_of(op.b)
    count = w.registers(op.result) if isinstance(op.result.type, TileType) else 1
    emit_elementwise(
        w,
        op.result,
        (op.a, op.b),
        lambda a, b: arithmetic.narrow(w, arithmetic.binary_text(w, op.fn, a, b, dtype, constant, count), dtype),
    )


@emits(ir.Fma, expression=True)
def emit_fma(w: Writer, op: ir.Fma) -> None:
    """Writes a fused multiplication and addition of each three elements."""
    dtype = scalar_dtype(op.result)
    operands = (op.a, op.b, op.c)
    if emit_pairs(w, "fma", op.result, operands):
        return
    emit_elementwise(w, op.result, operands, lambda a, b, c: arithmetic.fma_text(w, a, b, c, dtype), computed=False)


@emits(ir.InlinePtx)
def emit_inline_ptx(w: Writer, op: ir.InlinePtx) -> None:
    """Writes the user's PTX for each element, or for two at a time."""
    emit_ptx(w, op)


@emits(ir.SkippingProduct)
def emit_skipping_product(w: Writer, op: ir.SkippingProduct) -> None:
    """Writes the products under a condition on all factors of the warp: those of the thread, and a vote."""
    if w.uses(op.result) == 0:
        return
    dtype, i = scalar_dtype(op.result), local(w, "i")
    name = w.declare_tile(op.result)
    slot_line(w, w.registers(op.result), f"{name}[{i}] = {operand_element(w, op.x, op.result, i)};", i)
    with w.block():
        some = local(w, "some")
        if isinstance(op.factor.type, TileType):
            w.line(f"bool {some} = false;")
            factor = computed_operand(w, op.factor, op.factor, i)
            slot_line(w, w.registers(op.factor), f"{some} |= {factor} != {literal(1.0, compute_dtype(dtype))};", i)
        else:
            factor = computed_operand(w, op.factor, op.result, i)
            w.line(f"const bool {some} = {factor} != {literal(1.0, compute_dtype(dtype))};")
        with w.block(f"if (__any_sync(0xffffffffu, {some}))"):
            a, b = arithmetic.widen(w, f"{name}[{i}]", dtype), computed_operand(w, op.factor, op.result, i)
            body = arithmetic.narrow(w, arithmetic.binary_text(w, "mul", a, b, dtype), dtype)
            slot_line(w, w.registers(op.result), f"{name}[{i}] = {body};", i)


@emits(ir.Compare, expression=True)
def emit_compare(w: Writer, op: ir.Compare) -> None:
    """Writes a comparison of each pair of elements; coordinates are compared with what is left of their limits."""
    if not emit_limit(w, op):
        emit_elementwise(w, op.result, (op.a, op.b), lambda a, b: arithmetic.compare_text(op.fn, a, b))


@emits(ir.Select, expression=True)
def emit_select(w: Writer, op: ir.Select) -> None:
    """Writes one of two elements, by the condition at their place."""
    emit_elementwise(
        w, op.result, (op.cond, op.a, op.b), lambda cond, a, b: f"{cond} ? {a} : {b}", computed=False
    )


@emits(ir.Cast, expression=True)
def emit_cast(w: Writer, op: ir.Cast) -> None:
    """Writes a conversion of each element, of two at once where the hardware has that."""
    source, target = scalar_dtype(op.x), scalar_dtype(op.result)
    if converts_codes(w, op.x, op.result):
        made = w.definitions.get(op.x)
        emit_codes(w, op.x, op.result, made.x if isinstance(made, ir.Unpack) else None)
    elif not emit_grouped_cast(w, op.x, op.result):
        emit_elementwise(
            w, op.result, (op.x,), lambda x: arithmetic.cast_text(w, x, source, target), computed=False
        )


@emits(ir.Bitcast, expression=True)
def emit_bitcast(w: Writer, op: ir.Bitcast) -> None:
    """Writes the bits of each element, read as another type."""
    source, target = scalar_dtype(op.x), scalar_dtype(op.result)
    emit_elementwise(
        w, op.result, (op.x,), lambda x: arithmetic.bitcast_text(w, x, source, target), computed=False
    )


@emits(ir.Full)
def emit_full(w: Writer, op: ir.Full) -> None:
    """Writes one value in every register of the tile."""
    target = scalar_dtype(op.result)
    emit_elementwise(
        w, op.result, (op.value,), lambda x: arithmetic.cast_text(w, x, scalar_dtype(op.value), target), computed=False
    )


@emits(ir.Empty)
def emit_empty(w: Writer, op: ir.Empty) -> None:
    """Declares registers with nothing in them yet."""
    if w.uses(op.result):
        w.declare_tile(op.result)


@emits(ir.Part)
def emit_part(w: Writer, op: ir.Part) -> None:
    """Some of the thread's registers; a part whose elements other threads hold is refused."""
    if w.uses(op.result) == 0:
        return
    layout, shape = w.plan.layouts[op.x], w.plan.layouts[op.result].shape
    try:
        slots = part_slots(layout, op.starts, shape)
    except ValueError as problem:
        raise Error(
            f"this part of a tile would have to move between threads: {problem}",
            location=op.loc,
            remedy="cut at multiples of a power of two along an axis that each thread holds, or go through shared memory",
        ) from None
    name, var = w.declare_tile(op.result), local(w, "i")
    text = SlotTexts(w).at(slots, var, hint="part")
    slot_line(w, len(slots), f"{name}[{var}] = {element(w.name(op.x), text)};", var)


@emits(ir.Arange)
def emit_arange(w: Writer, op: ir.Arange) -> None:
    """Writes a tile whose every element is its own coordinate."""
    if w.uses(op.result) == 0 or only_in_limits(w, op.result):
        return
    name = w.declare_tile(op.result)
    layout = w.plan.layouts[op.result]
    dtype = scalar_dtype(op.result)
    with w.block():
        coordinates = Coordinates(w, layout)
        coordinates.declare(0)
        with slot_loop(w, layout.num_registers) as i:
            text = coordinates.at(0, i)
            w.line(f"{element(name, i)} = {text if dtype.name == 'i32' else f'({w.ctype(dtype)})({text})'};")


@emits(ir.Reduce)
def emit_reduction(w: Writer, op: ir.Reduce) -> None:
    """Writes a reduction along axes (`cuda.tiles.reduce`)."""
    emit_reduce(w, op)


@emits(ir.CumSum)
def emit_running_sum(w: Writer, op: ir.CumSum) -> None:
    """Writes a running sum (`cuda.tiles.cumsum`)."""
    emit_cumsum(w, op)


@emits(ir.ReduceBy)
def emit_fold(w: Writer, op: ir.ReduceBy) -> None:
    """Writes a reduction by a function of the user's (`cuda.tiles.fold`)."""
    emit_reduce_by(w, op)


@emits(ir.ScanBy)
def emit_running(w: Writer, op: ir.ScanBy) -> None:
    """Writes a scan by a function of the user's (`cuda.tiles.scan`)."""
    emit_scan_by(w, op)


@emits(ir.Transpose)
def emit_transpose(w: Writer, op: ir.Transpose) -> None:
    """Renames registers: only the elements that they stand for change."""
    assert w.plan.layouts[op.x].transpose(op.perm) == w.plan.layouts[op.result]
    if not (is_coordinates(w, op.result) and only_in_limits(w, op.result)):
        _rename(w, op.x, op.result)


def _rename(w: Writer, x: Value, result: Value) -> None:
    if w.uses(result):
        name, i = w.declare_tile(result), local(w, "i")
        slot_line(w, w.registers(result), f"{name}[{i}] = {w.name(x)}[{i}];", i)


@emits(ir.Reshape)
def emit_reshape(w: Writer, op: ir.Reshape) -> None:
    """Renames registers where the regrouped extents are powers of two, else a move through scratch memory."""
    if not isinstance(op.x.type, TileType):
        emit_elementwise(w, op.result, (op.x,), lambda x: x, computed=False)
    elif not isinstance(op.result.type, TileType):
        w.define(op.result, f"{w.name(op.x)}[0]")  # one element: every thread holds it
    elif w.uses(op.result) and not (is_coordinates(w, op.result) and only_in_limits(w, op.result)):
        emit_conversion(w, op, op.x, op.result)


@emits(ir.Unpack)
def emit_unpack(w: Writer, op: ir.Unpack) -> None:
    """Writes the elements of each byte, those in the lower bits first; not for conversions, which take the bytes."""
    if all(isinstance(reader, ir.Cast) and converts_codes(w, op.result, reader.result) for reader in w.readers(op.result)):
        return
    dtype = scalar_dtype(op.result)
    name, i, share = w.declare_tile(op.result), local(w, "i"), dtype.per_byte
    assert w.plan.layouts[op.x].subdivide(op.axis, share) == w.plan.layouts[op.result]
    mask, ctype = 2**dtype.bits - 1, w.ctype(dtype)
    lines = [
        f"{name}[{share} * {i} + {part}] = ({ctype})({w.name(op.x)}[{i}] >> {dtype.bits * part} & {mask});"
        for part in range(share)
    ]
    slot_line(w, w.registers(op.x), f"{{ {' '.join(lines)} }}", i)


@emits(ir.Pack)
def emit_pack(w: Writer, op: ir.Pack) -> None:
    """Writes the elements of each byte together."""
    if w.uses(op.result) == 0:
        return
    dtype = scalar_dtype(op.x)
    name, i, share = w.declare_tile(op.result), local(w, "i"), dtype.per_byte
    slots = local_slots(w.plan.layouts[op.x], w.plan.layouts[op.result].subdivide(op.axis, share))
    assert slots is not None, f"{op.x} is not laid out for its bytes"
    texts = SlotTexts(w)
    places = [texts.at(slots[part::share], i, hint="part") for part in range(share)]
    parts = [f"{element(w.name(op.x), place)} << {dtype.bits * part}" for part, place in enumerate(places)]
    slot_line(w, w.registers(op.result), f"{name}[{i}] = ({w.ctype(scalar_dtype(op.result))})({' | '.join(parts)});", i)


@emits(ir.Keep)
def emit_keep(w: Writer, op: ir.Keep) -> None:
    """Elements that do not fill words are left alone: there are too few to matter."""
    if not isinstance(op.result.type, TileType):
        wide = scalar_dtype(op.x).bits >= 32
        w.define(op.result, f"{w.use('keep_scalar')}({w.name(op.x)})" if wide else w.name(op.x))
        return
    slots = w.registers(op.result)
    if slots * scalar_dtype(op.x).itemsize % 4:
        _rename(w, op.x, op.result)
    elif w.uses(op.result):
        w.line(f"{w.use('keep_words')}<{slots}>({w.declare_tile(op.result)}, {w.name(op.x)});")


@emits(ir.ConvertLayout)
def emit_convert_layout(w: Writer, op: ir.ConvertLayout) -> None:
    """Writes how a tile moves to other registers, lanes and warps (`cuda.tiles.convert`)."""
    if w.uses(op.result):
        emit_conversion(w, op, op.x, op.result)
