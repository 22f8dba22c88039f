"""How each shared buffer is arranged: swizzle and panels, chosen by bank conflicts within what copies allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

import phalanx.cuda.lower.ops  # noqa: F401  # what the families registered
from phalanx.analysis.divisibility import Divisibility, find_divisibility
from phalanx.cuda.lower.layout_rules import Lands, Touch, wishes_of
from phalanx.cuda.lower.row_copies import copies_of, is_fast
from phalanx.ir.archs import COPY_CHUNK, EXPANDED_BOX, MAX_BOX
from phalanx.ir.core import Function, Note
from phalanx.ir.effects import Proxy, Use
from phalanx.ir.engines import MMA_ENGINE
from phalanx.ir.types import chunk_axes
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedBuffer, SharedView, in_shared
from phalanx.layouts.banks import best_vector, warp_wavefronts
from phalanx.layouts.mma import shared_operand
from phalanx.layouts.registers import RegisterLayout
from phalanx.layouts.shared import TMA_ALIGNMENT, SharedLayout
from phalanx.layouts.tma import boxes, choose_panel, merge_axes

SWIZZLES = (0, 32, 64, 128)
WORD_BYTES = 4
_SAMPLE = 8
NARROWEST = 32
"""Bytes of the boxes of the least swizzle: the copy engine takes as long for each row of such a box as for one of 128."""
NARROW_BOX = 8
"""What one more box of so few columns counts, in bank conflicts of a warp. Stores of results of 144 and 176 columns in nine
and eleven such boxes take up to 15% of a product (`sweep_narrow.json`), conflicts of two rows each next to nothing."""


def choose_shared_layouts(
    function: Function, layouts: Mapping[Value, RegisterLayout]
) -> tuple[dict[SharedBuffer, SharedLayout], tuple[Note, ...]]:
    """The layout of every shared buffer; `layouts` are those of the register tiles that are loaded and stored.

    For `lower`. Of the layouts that the asynchronous copies of a buffer allow, the one with the fewest bank conflicts
    in its ordinary accesses wins, the plainest among equals. Both ends of a copy from CTA to CTA are alike if they can
    be.
    """
    facts = find_divisibility(function)
    copied: dict[SharedBuffer, list[SharedView]] = {buffer: [] for buffer in function.shared_buffers}
    touched: dict[SharedBuffer, list[tuple[SharedView, RegisterLayout]]] = {buffer: [] for buffer in function.shared_buffers}
    multiplied: dict[SharedBuffer, list[SharedView]] = {buffer: [] for buffer in function.shared_buffers}
    gathered: dict[SharedBuffer, list[SharedView]] = {buffer: [] for buffer in function.shared_buffers}
    across: set[SharedBuffer] = set()
    pushed: list[tuple[SharedBuffer, SharedBuffer]] = []
    for op in function.walk():
        accesses = op.effects().accesses
        ends = [access.region for access in accesses if in_shared(access.region)]
        if len(ends) == 2 and len(accesses) == 2 and ends[1].cta is not None:
            pushed.append((ends[0].buffer, ends[1].buffer))  # works whatever the layouts, fastest between equal ones
            continue
        for access in accesses:
            view = access.region
            if not in_shared(view):
                continue
            if access.use is Use.OPERAND and access.proxy is Proxy.ASYNC:
                multiplied.setdefault(view.buffer, []).append(view)
                if access.across and access.engine is MMA_ENGINE and view.dtype.itemsize == WORD_BYTES:
                    across.add(view.buffer)
            elif access.use is Use.ROWS:
                gathered.setdefault(view.buffer, []).append(view)
            elif access.proxy is Proxy.ASYNC:
                copied.setdefault(view.buffer, []).append(view)
        for touch in (wish for wish in wishes_of(op) if isinstance(wish, Touch | Lands)):
            view = touch.view
            if in_shared(view) and view.index_axis is None:  # where indices lead, nobody knows
                touched.setdefault(view.buffer, []).append((view, layouts[touch.value]))
    found: dict[SharedBuffer, tuple[SharedLayout, int]] = {}
    for buffer in copied:
        found[buffer] = _choose(
            buffer, copied[buffer], touched[buffer], multiplied[buffer], gathered[buffer], facts, buffer in across
        )

    def conflicts_in(buffer: SharedBuffer, layout: SharedLayout) -> int | None:
        """Bank conflicts of a buffer's accesses in a layout; None if its copies or products do not allow it."""
        if _copies(layout, copied[buffer], facts) is None or not _is_operand(layout, multiplied[buffer]):
            return None
        if not all(is_fast(layout, view) for view in gathered[buffer]):
            return None
        return sum(_conflicts(layout, view, tile, facts) for view, tile in touched[buffer])

    for source, target in pushed:
        _make_alike(source, target, found, conflicts_in)
    chosen: dict[SharedBuffer, SharedLayout] = {}
    notes: list[Note] = []
    for buffer, (layout, conflicts) in found.items():
        chosen[buffer] = layout
        if layout.swizzle:
            notes.append(Note(f"{buffer.name}: {layout.swizzle}-byte swizzle, {conflicts} bank conflicts", buffer.loc))
        elif conflicts:
            left = f"{conflicts} bank conflicts that no swizzle avoids without narrow boxes"
            notes.append(Note(f"{buffer.name}: {left}", buffer.loc))
    return chosen, tuple(notes)


def _make_alike(
    source: SharedBuffer,
    target: SharedBuffer,
    found: dict[SharedBuffer, tuple[SharedLayout, int]],
    conflicts_in: Callable[[SharedBuffer, SharedLayout], int | None],
) -> None:
    """Gives one end of a push the layout of the other, where the matrices are equal and its other uses allow it."""
    layouts = found[source][0], found[target][0]
    if layouts[0].wide or layouts[1].wide:
        return
    if source is target or source.shape[-2:] != target.shape[-2:] or source.dtype.itemsize != target.dtype.itemsize:
        return
    if (layouts[0].swizzle, layouts[0].panel) == (layouts[1].swizzle, layouts[1].panel):
        return
    options = []
    for buffer, other in ((source, layouts[1]), (target, layouts[0])):
        align = found[buffer][0].align
        layout = SharedLayout(buffer.shape, buffer.dtype.itemsize, other.swizzle, other.panel, align=align)
        conflicts = conflicts_in(buffer, layout)
        if conflicts is not None:
            options.append((conflicts - found[buffer][1], buffer, (layout, conflicts)))
    if options:
        _, buffer, new = min(options, key=lambda option: option[0])
        found[buffer] = new


def _choose(
    buffer: SharedBuffer,
    copied: list[SharedView],
    touched: list[tuple[SharedView, RegisterLayout]],
    multiplied: list[SharedView],
    gathered: list[SharedView],
    facts: Divisibility,
    wide: bool,
) -> tuple[SharedLayout, int]:
    best: tuple[tuple[int, ...], int, SharedLayout] | None = None
    for layout in _candidates(buffer, copied, gathered, wide):
        pieces = _total([_copies(layout, copied, facts), *(copies_of(layout, view) for view in gathered)])
        slow = sum(not is_fast(layout, view) for view in gathered)
        if pieces is None or not _is_operand(layout, multiplied):
            continue
        conflicts = sum(_conflicts(layout, view, tile, facts) for view, tile in touched)
        narrow = NARROW_BOX * max(0, pieces - len(copied)) if layout.swizzle == NARROWEST else 0
        key = (slow, conflicts + narrow, pieces, layout.swizzle)
        if multiplied:
            key = (-layout.swizzle, slow, conflicts, pieces)
        if best is None or key < best[0]:
            best = key, conflicts, layout
    if best is None:  # no copy can be planned: the pass that plans copies says why, at the copy
        return SharedLayout(buffer.shape, buffer.dtype.itemsize), 0
    return best[2], best[1]


def _candidates(
    buffer: SharedBuffer, boxes_of: list[SharedView], gathered: list[SharedView], wide: bool
) -> Iterator[SharedLayout]:
    """Layouts to choose from; with `wide`, where tensor cores read words across K, the one in which they can.

    Rows by index come first in panels that four of them fill at once, and single ones as well.
    """
    copied = [*boxes_of, *gathered]
    itemsize = buffer.dtype.itemsize
    if wide and buffer.shape[-1] * itemsize % SWIZZLES[-1] == 0:
        yield SharedLayout(buffer.shape, itemsize, SWIZZLES[-1], SWIZZLES[-1] // itemsize, wide=True)
        return
    if copied and _chunk(buffer):
        yield SharedLayout(buffer.shape, itemsize, start=128)  # axes are merged in copies: no gaps between them
        return
    plain = SharedLayout(buffer.shape, itemsize, align=128 if copied and len(buffer.shape) > 2 else 1)
    if copied:
        plain = SharedLayout(buffer.shape, itemsize, align=128)
    if not any(_is_row(view) for view in copied):
        columns = max((view.extents[-1] for view in copied), default=0)
        for step in (*(TMA_ALIGNMENT,) * bool(gathered), COPY_CHUNK) if columns > MAX_BOX else ():
            try:
                panel = choose_panel(buffer.shape[-1], itemsize, step=step)
                yield SharedLayout(buffer.shape, itemsize, panel=panel, align=128)
            except ValueError:
                pass
    yield plain
    if len(buffer.shape) < 2 or any(_is_row(view) for view in copied):
        return  # a row that is copied as one run of bytes has to be one
    for swizzle in SWIZZLES[1:]:
        if buffer.shape[-1] * itemsize % swizzle == 0:
            yield SharedLayout(buffer.shape, itemsize, swizzle, choose_panel(buffer.shape[-1], itemsize, swizzle))


def _chunk(buffer: SharedBuffer) -> int:
    """How many of a buffer's last axes are 16 bytes together, none of which is as long: copies take these for one."""
    itemsize = buffer.dtype.itemsize
    strides = [prod(buffer.shape[axis + 1 :]) * itemsize for axis in range(len(buffer.shape))]
    return len(chunk_axes(buffer.shape, strides, itemsize))


def _total(parts: list[int | None]) -> int | None:
    """The sum; None if a part is None."""
    return None if None in parts else sum(part for part in parts if part is not None)


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
        if view.buffer.padded and layout.panel_columns != EXPANDED_BOX:
            return None
        if _is_row(view):
            total += 1
            continue
        lead = 0
        while lead < len(view.extents) - 1 and lead not in view.kept:
            lead += 1
        origin = [int(o.value) if isinstance(o, Const) else 0 for o in view.offsets[lead:]]
        extents = view.extents[lead:]
        panel = layout.panel_columns
        column = view.offsets[-1]
        begins = isinstance(column, Const) or facts.proves(column, 1, panel & -panel)
        if (layout.panels > 1 or layout.swizzle) and not begins:  # narrow boxes have the first columns of a panel
            return None
        try:
            inner = layout.sub_layout(lead)
            if (count := _chunk(view.buffer)) and extents[-count:] == inner.shape[-count:]:
                inner, origin = merge_axes(inner, count), origin[: 1 - count]
                extents = (*extents[:-count], inner.shape[-1])
            total += len(boxes(extents, inner, tuple(range(inner.rank)), origin).pieces)
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
