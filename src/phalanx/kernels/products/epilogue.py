"""What follows a product: scales, a bias, an activation, and the way of the result to global memory (`Epilogue`).

Sums of parts of K that several CTAs have are added up here, too (`PartialSums`).
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.fetching import block
from phalanx.kernels.products.sums import by_place, by_thread


@px.func
def factor_of(alpha, SCALE_A, SCALE_B, SCALE_ROWS, SCALE_COLUMNS):
    """The product of the scales that are one number for the whole result, or None."""
    factor = alpha
    if SCALE_A is not None and not SCALE_ROWS:
        factor = px.load(SCALE_A[0]) if factor is None else factor * px.load(SCALE_A[0])
    if SCALE_B is not None and not SCALE_COLUMNS:
        factor = px.load(SCALE_B[0]) if factor is None else factor * px.load(SCALE_B[0])
    return factor


@px.func
def of_group(buffers, c):
    """The buffer of warpgroup `c`; None where there are none."""
    return None if buffers is None else buffers[c]


@px.func
def part_width(BN, PARTS, SWAPPED):
    """Columns of each of PARTS parts of BN: as many in each; swapped a power of two, but for the last ones."""
    width = px.cdiv(BN, PARTS)
    if PARTS > 1 and SWAPPED:
        for power in px.static_range(3, 8):
            width = 1 << power if 1 << (power - 1) < width <= 1 << power else width
    return width


@px.func
def cuts(BN, WIDTH):
    """Where the parts of BN columns begin, and how wide they are: WIDTH each, and powers of two for what is left."""
    found: tuple[Any, ...] = ()
    for whole in px.static_range(BN // WIDTH):
        found = (*found, (whole * WIDTH, WIDTH))
    left = BN % WIDTH
    for halvings in px.static_range(1, 6):
        size = WIDTH >> halvings
        if left & size:
            found = (*found, (BN - left % (2 * size), size))
    return found


@px.func
def pieces(start, width, BN):
    """What threads can cut from BN columns of sums for a part: all of them, or powers of two that begin at multiples."""
    found: tuple[Any, ...] = ()
    low = start
    for _ in px.static_range(2 * 5):
        size = BN if width == BN and low == 0 else 0
        for power in px.static_range(3, 8):
            size = 1 << power if width < BN and low % (1 << power) == 0 and low + (1 << power) <= start + width else size
        found = (*found, (low, size)) if size > 0 else found
        low = low + size
    return found


@px.struct
class Epilogue:
    """What is done to sums before they are stored, by one warpgroup: scales, bias, activation, one part after another.

    `out` is where a part waits for its TMA store; without it threads store. `row_scales`, `column_scales` and `row_bias`
    bring vectors from the layout in which they were loaded into that of the sums. SWAPPED: the sums are the transpose of a
    part of C, so that a bias with an element for each column of C has one for each row here.
    """

    C: Any
    BIAS: Any
    SCALE_A: Any
    SCALE_B: Any
    factor: Any
    out: Any
    row_scales: Any
    column_scales: Any
    row_bias: Any
    height: int
    width: int
    BN: int
    BIAS_KIND: Any
    ACTIVATION: Any
    SWAPPED: bool

    def scales(self, m, n):
        """A tile's scales of rows, and of columns for each part: a few registers; None where there are none."""
        rows = px.load(self.SCALE_A[m : m + self.height]) if self.row_scales is not None else None
        columns: tuple[Any, ...] = ()
        parts = cuts(self.BN, self.width) if self.column_scales is not None else ()
        for part in px.static_range(len(parts)):
            start, width = parts[part]
            columns = (*columns, px.load(self.SCALE_B[n + start : n + start + width]))
        return rows, columns

    def bias(self, z, m, n):
        """What a part reads of the bias; None where there is none."""
        if self.BIAS_KIND == "row" and self.SWAPPED:
            return px.load(self.BIAS[m : m + self.height])
        if self.BIAS_KIND == "row":
            return px.load(self.BIAS[n : n + self.width])
        if self.BIAS_KIND == "matrix":
            return px.load(block(self.BIAS, None, m, n, self.height, self.width))
        if self.BIAS_KIND == "batch":
            return px.load(block(self.BIAS, z, m, n, self.height, self.width))
        return None

    def finish(self, acc, rows, columns, bias):
        """A part of the result, in f32."""
        y = acc
        if self.factor is not None:
            y = y * self.factor
        if rows is not None:
            y = y * rows
        if columns is not None:
            y = y * columns
        if self.BIAS_KIND == "row":
            along = (self.height, 1) if self.SWAPPED else (1, self.width)
            y = y + (bias if len(bias.shape) == 2 else bias.reshape(*along)).to(px.f32)
        elif self.BIAS_KIND is not None:
            y = y + bias.to(px.f32)
        return activate(y, self.ACTIVATION, self.C.dtype == px.bf16)

    def store(self, acc, bias, rows_ahead, columns_ahead, z, m, n, sums=None):
        """All parts of a tile, of which the first one's bias was loaded before; `sums` may have more to add."""
        by_row = None
        by_column = None
        parts = cuts(self.BN, self.width)
        for part in px.static_range(len(parts)):
            start, width = parts[part]
            if self.out is not None:
                px.tma.wait(0, read=True)  # the part before has left the buffer
            # Vectors pass through shared memory into the sums' layout, behind the same barrier as the buffer.
            if self.row_scales is not None and part == 0:
                px.store(self.row_scales[:, 0], rows_ahead)
            if self.column_scales is not None:
                px.store(self.column_scales[0, :width], columns_ahead[part])
                by_column = px.load(self.column_scales[:, :width])
            if self.row_bias is not None and (part == 0 or not self.SWAPPED):
                px.store(self.row_bias[:, 0] if self.SWAPPED else self.row_bias[0], bias.to(px.f32))
                bias = px.load(self.row_bias)
            if self.row_scales is not None and part == 0:
                by_row = px.load(self.row_scales)
            several = pieces(start, width, self.BN)
            result = None
            if len(several) == 1:
                total = acc[:, start : start + width]
                if sums is not None:
                    total = sums.total(total, start)
                result = self.finish(total, by_row, by_column, bias).to(self.C.dtype)
            else:
                self.place(acc, by_row, several)
            if part + 1 < len(parts) and not self.SWAPPED:
                bias = self.bias(z, m, n + start + width)
            if self.out is not None and self.SWAPPED:
                px.store(self.out[:width].T, result)
                px.fence.async_proxy()
                px.tma.store(self.out[:width], block(self.C, z, n + start, m, width, self.height))
                px.tma.commit()
            elif self.out is not None:
                if result is not None:
                    px.store(self.out, result)
                px.fence.async_proxy()
                px.tma.store(self.out, block(self.C, z, m, n + start, self.height, width))
                px.tma.commit()
            else:
                px.store(block(self.C, z, m, n + start, self.height, width), result)

    def place(self, acc, by_row, several):
        """A part into the buffer of its store, piece by piece; what vectors hold for each of them is in shared memory."""
        first, _ = several[0]
        for piece in px.static_range(len(several)):
            low, size = several[piece]
            start = low - first
            end = low - first + size
            by_column = None if self.column_scales is None else px.load(self.column_scales[:, start:end])
            added = None if self.row_bias is None else px.load(self.row_bias[:, start:end])
            result = self.finish(acc[:, low : low + size], by_row, by_column, added)
            px.store(self.out[:, start:end], result.to(self.C.dtype))


@px.struct
class PartialSums:
    """The sums of the SPLIT parts of a tile, of one warpgroup, one after the other in W; `place` numbers the warpgroups.

    `part` is this CTA's own. `done` counts the parts that are there.
    """

    W: Any
    done: Any
    place: Any
    part: Any
    height: int
    BN: int
    width: int
    SPLIT: int

    def leave(self, acc):
        """Leaves this part's sums; gives whether all others had done so, so that this CTA is to add them up."""
        parts = cuts(self.BN, self.width)
        for piece in px.static_range(len(parts)):
            start, width = parts[piece]
            px.store(self.piece(self.part, start, width), by_thread(acc[:, start : start + width], FLAT=True))
        last = px.atomic_add(self.done[self.place], 1, order="acq_rel") == self.SPLIT - 1
        if last:
            px.atomic_exch(self.done[self.place], 0)
        return last

    def piece(self, part, start, width):
        """The view of this part's sums in global memory, for some columns."""
        first = ((self.place * self.SPLIT + part) * self.BN + start) * self.height
        return self.W[first : first + width * self.height]

    def total(self, own, start):
        """The sums of all parts, of the columns from `start` on, of which this CTA has its own in registers.

        They are added up in the order of the parts, whoever does it: the same call has the same result. Of two parts the
        order does not matter.
        """
        height, width = own.shape
        mine = by_thread(own, FLAT=True)
        if self.SPLIT == 2:
            added = mine + px.load(self.piece(1 - self.part, start, width))
        else:
            added = px.full(mine.shape, 0.0, px.f32)
            for part in range(self.SPLIT):
                there = px.load(self.piece(part, start, width))
                added = added + px.where(part == self.part, mine, there)
        return by_place(added, height, width)
