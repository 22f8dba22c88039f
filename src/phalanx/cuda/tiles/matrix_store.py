"""`stmatrix`: tiles in the tensor cores' fragment layout into shared memory, four 8 x 8 matrices at a time.

In a fragment, a lane holds two neighbours of row lane / 4; `stmatrix` takes such registers as they are, and from each
lane the address of one row of eight elements (16 bytes). So a store by `stmatrix` is a store of 16-byte chunks in
another layout: the one in which lane l has row l % 8 of matrix l / 8. Chunks are not separated by any swizzle.
Into a transposed view go transposed matrices (`.trans`): a chunk is then eight rows of one column of the fragment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.index import local, plus, slot_loop, times
from phalanx.cuda.tiles.shared_access import Offsets
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView
from phalanx.layouts.fragments import is_fragment
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import RegisterLayout, padded
from phalanx.layouts.shared import SharedLayout

CHUNK = 8  # elements of 16 bits
MATRICES = 4


@lru_cache(maxsize=256)
def chunk_layout(layout: RegisterLayout, transposed: bool = False) -> RegisterLayout | None:
    """The chunk whose address each lane gives, one slot per `stmatrix`; None if the tile is not in fragment
    layout. Chunks are pieces of rows, or of columns where the matrices are transposed."""
    bases = dict(layout.linear.bases)
    registers = bases["register"]
    if not is_fragment(layout) or len(registers) < 3 or registers[0] != (0, 1):
        return None
    if layout.shape[1] % CHUNK or layout.num_registers % (2 * MATRICES) or layout.replication:
        return None
    if any(column % CHUNK for _, column in (*registers[1:], *bases["warp"])):
        return None
    if transposed and any(row % CHUNK for row, _ in (layout.shape, *registers[1:], *bases["warp"])):
        return None
    first = layout.live_registers()[: 2 * MATRICES]
    if first != tuple(range(2 * MATRICES)):
        return None  # a dead register in the first group: some matrix would be outside the tile

    def chunks(image: tuple[int, ...]) -> tuple[int, int]:
        return (image[0] // CHUNK, image[1]) if transposed else (image[0], image[1] // CHUNK)

    shape = chunks(layout.shape)
    within = [(0, 1), (0, 2), (0, 4)] if transposed else [(1, 0), (2, 0), (4, 0)]
    lanes = [*within, chunks(registers[1]), chunks(registers[2])]
    try:
        linear = LinearLayout.make(
            {"register": [chunks(r) for r in registers[3:]], "lane": lanes, "warp": [chunks(b) for b in bases["warp"]]},
            padded(shape),
        )
        found = RegisterLayout(linear, shape, layout.warps)
    except ValueError:
        return None
    return found if found.num_registers * 2 * MATRICES == layout.num_registers else None


def stores_matrices(view: SharedView, layout: RegisterLayout, shared: SharedLayout) -> bool:
    """Whether a tile goes into a view by `stmatrix`."""
    if view.dtype.bits != 16 or view.cta is not None or view.index_axis is not None or len(view.kept) != 2:
        return False
    last = len(view.extents) - 1
    column = view.offsets[last]
    return (
        last in view.kept
        and isinstance(column, Const)
        and int(column.value) % CHUNK == 0
        and shared.panel_columns % CHUNK == 0
        and shared.columns % CHUNK == 0
        and shared.row_pitch % (CHUNK * 2) == 0
        and chunk_layout(layout, view.kept[0] == last) is not None
    )


def emit_matrix_store(
    w: Writer, view: SharedView, value: Value, layout: RegisterLayout, shared: SharedLayout, facts: Divisibility
) -> None:
    """The whole store; for views of which `stores_matrices` holds."""
    transposed = view.kept[0] == len(view.extents) - 1
    chunked = chunk_layout(layout, transposed)
    assert chunked is not None
    panel = None if shared.panel is None else shared.panel_columns // CHUNK
    space = replace(shared, shape=(*shared.shape[:-1], shared.columns // CHUNK), itemsize=2 * CHUNK, panel=panel)
    constants = [int(offset.value) if isinstance(offset, Const) else 0 for offset in view.offsets]
    constants[-1] //= CHUNK
    runtime = [(axis, offset) for axis, offset in enumerate(view.offsets) if not isinstance(offset, Const)]
    offsets = Offsets(w, chunked, space, view.kept, constants, runtime, facts)
    with w.block():
        base = plus(w.address(view.buffer), times("16", offsets.declare()))
        address = local(w, "a")
        w.line(f"const unsigned {address} = {base};")
        with slot_loop(w, chunked.num_registers) as i:
            source = w.name(value) if i == "0" else f"{w.name(value)} + 8 * {i}"
            place = plus(address, times("16", offsets.at(i)))
            words = local(w, "words")
            w.line(f"unsigned {words}[{MATRICES}];")
            w.line(f"{w.use('pack_words')}<{CHUNK}>({words}, {source});")
            w.line(f"{w.use('stmatrix_x4' + '_trans' * transposed)}({place}, {words});")
