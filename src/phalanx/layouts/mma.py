"""What the tensor cores ask of operands: register fragments, and descriptors of tiles in shared memory."""

from __future__ import annotations

from functools import lru_cache

from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.ops.wgmma import ROWS, STEP_BYTES
from phalanx.layouts.bits import log2, next_power_of_two
from phalanx.layouts.fragments import wgmma_accumulator
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import RegisterLayout, padded
from phalanx.layouts.shared import CHUNK, SharedLayout

ATOM_ROWS = 8  # rows after which a swizzle pattern repeats
SWIZZLE_CODES = {128: 1, 64: 2, 32: 3}
NO_OFFSET = 1  # a field that the hardware ignores for this layout, in units of 16 bytes


@lru_cache(maxsize=256)
def wgmma_operand(m: int, k: int, warps: int, itemsize: int, along: str = "m") -> RegisterLayout:
    """The A operand of `wgmma.mma_async` in registers (sm_90a), with M spread over the warpgroups as the accumulator's.
    Where they share the columns instead (`along` "n"), each holds all of it.

    Each 32-bit register holds 4 / `itemsize` neighbours along K; a lane's four registers of one instruction are, in
    order, the (row, k) blocks (0, 0), (8, 0), (0, 16 bytes), (8, 16 bytes). For 16-bit types that is the
    accumulator's own layout.

    Example: `wgmma_operand(64, 128, warps=4, itemsize=2)` has 64 registers a thread, two to a 32-bit register.
    """
    if k * itemsize % STEP_BYTES:
        raise ValueError(f"K of a wgmma operand is a multiple of {STEP_BYTES // itemsize} elements, not {k}")
    groups = warps // WARPGROUP
    # the same spread of rows; columns differ
    rows = dict(wgmma_accumulator(m, 8, WARPGROUP if along == "n" else warps).linear.bases)
    copies = log2(next_power_of_two(groups)) if along == "n" else 0
    packed = log2(4 // itemsize)
    row_images = [image for image in rows["register"] if image[0] >= ROWS]
    columns = padded((m, k))[1]
    registers = [(0, 1 << b) for b in range(packed)] + [(8, 0)]
    registers += [(0, 1 << b) for b in range(packed + 2, log2(columns))]
    lanes = [(0, 1 << (packed + b)) for b in range(2)] + [(1, 0), (2, 0), (4, 0)]
    linear = LinearLayout.make(
        {"register": [*registers, *row_images], "lane": lanes, "warp": [*rows["warp"], *[(0, 0)] * copies]},
        padded((m, k)),
    )
    return RegisterLayout(linear, (m, k), warps)


@frozen
class SharedOperand:
    """How `wgmma` finds a tile in shared memory: descriptor fields, and where each piece of it begins.

    Offsets are bytes before the swizzle. `leading` and `stride` are the descriptor's two byte offsets; `transposed`
    says that the tile is MN-major. Row block r (of `rows` rows) and K step s of a tile that begins at column `column`
    of the buffer begin at `row_offset(r, column) + step_offset(s, column)` from there.
    """

    swizzle: int
    leading: int
    stride: int
    transposed: bool
    layout: SharedLayout
    step: int
    wide: bool = False
    """The swizzle moves 32 bytes together: Blackwell's, for 32-bit types that are read across K."""

    @property
    def high_word(self) -> int:
        """The descriptor without its address: bits 16 and up."""
        fields = (self.leading >> 4 & 0x3FFF) << 16 | (self.stride >> 4 & 0x3FFF) << 32
        return fields | SWIZZLE_CODES[self.swizzle] << 62

    def row_offset(self, row: int, column: int = 0) -> int:
        """Bytes from the tile's start, in column `column`, to its row (of M or N) `row`."""
        if self.transposed:
            return self._place(column + row) - self._place(column)
        return row * self.layout.row_pitch

    def step_offset(self, step: int, column: int = 0) -> int:
        """Bytes from the tile's start, in column `column`, to K step `step`."""
        element = step * self.step
        if self.transposed:
            return element * self.layout.row_pitch
        return self._place(column + element) - self._place(column)

    def _place(self, column: int) -> int:
        """Bytes from a row's start to its column: panel after panel."""
        layout = self.layout
        return column // layout.panel_columns * layout.panel_bytes + column % layout.panel_columns * layout.itemsize

    def reach_problem(self, column: int, rows: int) -> tuple[str, int] | None:
        """Why a tile of `rows` rows (of M or N) that begins in column `column` can't be read, and of how many columns
        its start should be a multiple; None if it can.

        What one instruction takes of a row lies in one panel (32 bytes of K), or in whole ones (MN-major), but for a
        tile that is all inside one.
        """
        layout = self.layout
        start = f"from byte {column * layout.itemsize} of its rows on"
        if not self.transposed:
            return (f"{start}, no multiple of {STEP_BYTES}", self.step) if column % self.step else None
        atom = 2 * CHUNK if self.wide else CHUNK
        chunk, inside = atom // layout.itemsize, column % layout.panel_columns
        if column % chunk:
            return f"{start}, no multiple of {atom}", chunk
        if inside and inside + rows > layout.panel_columns:
            return f"{start}, across the edge of a panel of {layout.panel_columns} columns", layout.panel_columns
        return None


def shared_operand(layout: SharedLayout, transposed: bool) -> SharedOperand:
    """The operand form of a tile whose last two dimensions are (rows, K), or (K, rows) if it is `transposed`
    (MN-major).

    ValueError says what the hardware can't read. Example: `shared_operand(SharedLayout((128, 64), 2, 128, 64), False)`
    has the stride 1024: eight rows of 128 bytes.
    """
    item = layout.itemsize
    if not layout.swizzle:
        row = layout.columns * item
        why = f": rows of {row} bytes can't have one" if row % STEP_BYTES else ""
        raise ValueError(f"wgmma reads tiles with a swizzle of 32, 64 or 128 bytes{why}")
    if layout.panel_columns * item != layout.swizzle or layout.row_pitch != layout.swizzle:
        raise ValueError(f"a panel is to be as wide as the swizzle of {layout.swizzle} bytes")
    if layout.rows % ATOM_ROWS:
        raise ValueError(f"its rows come in eights, not {layout.rows}")
    if transposed and item != 2:
        raise ValueError("only 16-bit types can be read across K (MN-major)")
    stride = ATOM_ROWS * layout.row_pitch
    leading = layout.panel_bytes if transposed else NO_OFFSET * 16
    return SharedOperand(layout.swizzle, leading, stride, transposed, layout, STEP_BYTES // item)
