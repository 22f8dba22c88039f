"""`ldmatrix`: operands of the tensor cores from shared memory, up to four matrices of eight times 16 bytes at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.index import plus, slot_loop, times
from phalanx.cuda.tiles.shared_access import Offsets
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView
from phalanx.layouts.matrices import CHUNK_BYTES, Matrices, matrices
from phalanx.layouts.registers import RegisterLayout
from phalanx.layouts.shared import SharedLayout


@cache
def ldmatrix(count: int, transposed: bool) -> Helper:
    """`count` matrices; `address` is that of one row of 16 bytes."""
    name = f"ldmatrix_x{count}" + "_trans" * transposed
    places = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(words[{i}])' for i in range(count))
    mnemonic = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16"
    return Helper(
        name,
        f"__device__ __forceinline__ void {name}(unsigned* words, unsigned address) {{\n"
        f'  asm volatile("{mnemonic} {{{places}}}, [%{count}];"\n'
        f'               : {outputs} : "r"(address) : "memory");\n'
        "}",
    )


def contiguous_dim(view: SharedView) -> int | None:
    """The dimension of a view along which neighbours are neighbours in memory."""
    last = len(view.extents) - 1
    return view.kept.index(last) if last in view.kept and len(view.kept) == 2 else None


def matrices_of(view: SharedView, layout: RegisterLayout) -> Matrices | None:
    """How `ldmatrix` brings a view into a register layout, as far as the view and the layout go."""
    dim = contiguous_dim(view)
    if dim is None or view.cta is not None or view.index_axis is not None:
        return None
    if view.dtype.itemsize == 4 and view.dtype.name != "f32":
        return None
    column = view.offsets[-1]
    if not isinstance(column, Const) or int(column.value) * view.dtype.itemsize % CHUNK_BYTES:
        return None
    return matrices(layout, dim, view.dtype.itemsize)


def loads_matrices(view: SharedView, layout: RegisterLayout, shared: SharedLayout) -> Matrices | None:
    """The matrices by which a view is loaded, None where the buffer's rows are not made of whole chunks."""
    item = shared.itemsize
    if shared.panel_columns * item % CHUNK_BYTES or shared.columns * item % CHUNK_BYTES or shared.row_pitch % CHUNK_BYTES:
        return None
    return matrices_of(view, layout)


def emit_matrix_load(
    w: Writer, view: SharedView, result: Value, how: Matrices, shared: SharedLayout, facts: Divisibility
) -> None:
    """The whole load; for views of which `loads_matrices` holds."""
    item = shared.itemsize
    chunk = CHUNK_BYTES // item
    panel = None if shared.panel is None else shared.panel_columns // chunk
    space = replace(shared, shape=(*shared.shape[:-1], shared.columns // chunk), itemsize=CHUNK_BYTES, panel=panel)
    constants = [int(offset.value) if isinstance(offset, Const) else 0 for offset in view.offsets]
    constants[-1] //= chunk
    runtime = [(axis, offset) for axis, offset in enumerate(view.offsets) if not isinstance(offset, Const)]
    name = w.declare_tile(result)
    slots = w.registers(result)
    offsets = Offsets(w, how.layout, space, view.kept, constants, runtime, facts)
    with w.block():
        base = plus(w.address(view.buffer), times("16", offsets.declare()))
        address, words = "px_address", "px_words"
        w.line(f"const unsigned {address} = {base};")
        w.line(f"unsigned {words}[{slots * item // 4}];")
        with slot_loop(w, how.layout.num_registers) as i:
            target = words if i == "0" else f"{words} + {how.count} * {i}"
            w.line(f"{w.use(ldmatrix(how.count, how.transposed))}({target}, {plus(address, times('16', offsets.at(i)))});")
        if item < 4:
            w.line(f"{w.use('unpack_words')}<{slots}>({name}, {words});")
        else:
            with slot_loop(w, slots) as i:
                w.line(f"{name}[{i}] = __uint_as_float({words}[{i}]);")
