"""How each shared buffer is arranged: swizzle and panels, chosen by bank conflicts within what copies allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from phalanx.ir.core import Function, Note, Op
from phalanx.ir.effects import Proxy, When
from phalanx.ir.ops.memory import AtomicAdd, Load, Store
from phalanx.ir.types import TileType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedBuffer, SharedView
from phalanx.layouts.banks import best_vector, warp_wavefronts
from phalanx.layouts.mma import shared_operand
from phalanx.layouts.registers import RegisterLayout
from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tma import boxes, choose_panel
from phalanx.passes.divisibility import Divisibility, find_divisibility

SWIZZLES = (0, 32, 64, 128)
_SAMPLE = 8

# The register tile that goes with the view of an ordinary access.
_TILES: dict[type[Op], Callable[[Any], Value]] = {
    Load: lambda op: op.result,
    Store: lambda op: op.value,
    AtomicAdd: lambda op: op.value,
}


def choose_shared_layouts(
    function: Function, layouts: Mapping[Value, RegisterLayout]
) -> tuple[dict[SharedBuffer, SharedLayout], tuple[Note, ...]]:
    """The layout of every shared buffer; `layouts` are those of the register tiles that are loaded and stored.

    For `lower`. Of the layouts that the asynchronous copies of a buffer allow, the one with the fewest bank conflicts
    in its ordinary accesses wins, the plainest among equals.
    """
    facts = find_divisibility(function)
    copied: dict[SharedBuffer, list[SharedView]] = {buffer: [] for buffer in function.buffers}
    touched: dict[SharedBuffer, list[tuple[SharedView, RegisterLayout]]] = {buffer: [] for buffer in function.buffers}
    multiplied: dict[SharedBuffer, list[SharedView]] = {buffer: [] for buffer in function.buffers}
    for op in function.walk():
        for access in op.effects().accesses:
            view = access.region
            if not isinstance(view, SharedView):
                continue
            if access.when is When.MMA_GROUP:
                multiplied.setdefault(view.buffer, []).append(view)
            elif access.proxy is Proxy.ASYNC:
                copied.setdefault(view.buffer, []).append(view)
            elif type(op) in _TILES:
                tile = _TILES[type(op)](op)
                if isinstance(tile.type, TileType):
                    touched.setdefault(view.buffer, []).append((view, layouts[tile]))
    chosen: dict[SharedBuffer, SharedLayout] = {}
    notes: list[Note] = []
    for buffer in copied:
        layout, conflicts = _choose(buffer, copied[buffer], touched[buffer], multiplied[buffer], facts)
        chosen[buffer] = layout
        if layout.swizzle:
            notes.append(Note(f"{buffer.name}: {layout.swizzle}-byte swizzle, {conflicts} bank conflicts", buffer.loc))
        elif conflicts:
            notes.append(Note(f"{buffer.name}: {conflicts} bank conflicts that no allowed swizzle avoids", buffer.loc))
    return chosen, tuple(notes)


def _choose(
    buffer: SharedBuffer,
    copied: list[SharedView],
    touched: list[tuple[SharedView, RegisterLayout]],
    multiplied: list[SharedView],
    facts: Divisibility,
) -> tuple[SharedLayout, int]:
    best: tuple[tuple[int, ...], int, SharedLayout] | None = None
    for layout in _candidates(buffer, copied):
        pieces = _copies(layout, copied, facts)
        if pieces is None or not _is_operand(layout, multiplied):
            continue
        conflicts = sum(_conflicts(layout, view, tile, facts) for view, tile in touched)
        key = (conflicts, pieces, layout.swizzle) if not multiplied else (-layout.swizzle, conflicts, pieces)
        if best is None or key < best[0]:
            best = key, conflicts, layout
    if best is None:  # no copy can be planned: the pass that plans copies says why, at the copy
        return SharedLayout(buffer.shape, buffer.dtype.itemsize), 0
    return best[2], best[1]


def _candidates(buffer: SharedBuffer, copied: list[SharedView]) -> Iterator[SharedLayout]:
    itemsize = buffer.dtype.itemsize
    plain = SharedLayout(buffer.shape, itemsize, align=128 if copied and len(buffer.shape) > 2 else 1)
    if copied:
        plain = SharedLayout(buffer.shape, itemsize, align=128)
    if not any(_is_row(view) for view in copied):
        columns = max((view.extents[-1] for view in copied), default=0)
        if columns > 256:
            try:
                panel = choose_panel(buffer.shape[-1], itemsize)
                yield SharedLayout(buffer.shape, itemsize, panel=panel, align=128)
            except ValueError:
                pass
    yield plain
    if len(buffer.shape) < 2 or any(_is_row(view) for view in copied):
        return  # a row that is copied as one run of bytes has to be one
    for swizzle in SWIZZLES[1:]:
        if buffer.shape[-1] * itemsize % swizzle == 0:
            yield SharedLayout(buffer.shape, itemsize, swizzle, choose_panel(buffer.shape[-1], itemsize, swizzle))


def _is_operand(layout: SharedLayout, multiplied: list[SharedView]) -> bool:
    """Whether the tensor cores can read views of a buffer, if any do."""
    try:
        return not multiplied or bool(shared_operand(layout, transposed=False))
    except ValueError:
        return False


def _is_row(view: SharedView) -> bool:
    """Whether a copied region is one row: it may become a plain bulk copy."""
    return prod(view.extents[:-1]) == 1


def _copies(layout: SharedLayout, copied: list[SharedView], facts: Divisibility) -> int | None:
    """How many hardware copies all asynchronous accesses take in this layout; None if one of them is impossible."""
    total = 0
    for view in copied:
        if _is_row(view):
            total += 1
            continue
        lead = 0
        while lead < len(view.extents) - 1 and lead not in view.kept:
            lead += 1
        origin = [int(o.value) if isinstance(o, Const) else 0 for o in view.offsets[lead:]]
        panel = layout.panel_columns
        column = view.offsets[-1]
        if layout.panels > 1 and not isinstance(column, Const) and not facts.proves(column, 1, panel & -panel):
            return None
        try:
            inner = layout.sub_layout(lead)
            total += len(boxes(view.extents[lead:], inner, tuple(range(inner.rank)), origin).pieces)
        except ValueError:
            return None
    return total


def _conflicts(layout: SharedLayout, view: SharedView, tile: RegisterLayout, facts: Divisibility) -> int:
    """Bank conflicts of one warp's accesses to a view, from a sample; run-time offsets count as 0."""
    width = best_vector(tile, layout, facts.divisor(view.offsets[-1]), view.kept)
    start = [int(o.value) if isinstance(o, Const) else 0 for o in view.offsets]
    accesses = -(-tile.num_registers // width)
    seen = warp_wavefronts(tile, layout, width * layout.itemsize, start, view.kept, limit=_SAMPLE)
    return round(seen.conflicts * accesses / min(accesses, _SAMPLE))
