"""`tcgen05.ld` and `tcgen05.st`: which cell each register of a warp is, and how a tile is covered by such instructions.

Each shape is a linear map (register, lane of the warp) -> (lane, column) of tensor memory. Composed with where a tile lies
there (`TensorLayout`), it gives the tile's `RegisterLayout`: 16x256b on 64 rows is the accumulator of wgmma, 32x32b gives a
whole row to each thread.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from phalanx.frozen import frozen
from phalanx.layouts.bits import is_power_of_two, log2, next_power_of_two, previous_power_of_two
from phalanx.layouts.linear import Coordinates, LinearLayout
from phalanx.layouts.registers import RegisterLayout, padded
from phalanx.layouts.tensor_memory import QUARTER, TensorLayout, address

MAX_REGISTERS = 128
"""32-bit registers of a thread that one instruction can move."""
QUARTERS = 4
Cell = tuple[int, int]
"""(lane, column)"""


@frozen
class AccessShape:
    """One shape of `tcgen05.ld` and `.st`: the cells of the bits of a lane's and of a register's number, before repetition.

    `.xN` repeats it N times along the columns, in higher registers. `lanes` x `columns` is what it covers once.
    """

    name: str
    lane_cells: tuple[Cell, ...]
    register_cells: tuple[Cell, ...]
    lanes: int
    columns: int

    @property
    def registers(self) -> int:
        """Registers of a thread for x1."""
        return 1 << len(self.register_cells)

    @property
    def counts(self) -> tuple[int, ...]:
        """The legal N of `.xN`: powers of two with at most 128 registers."""
        return tuple(1 << b for b in range(log2(MAX_REGISTERS // self.registers) + 1))

    def linear(self, count: int = 1) -> LinearLayout:
        """(register, lane) -> (lane, column) for `.x{count}`, from the instruction's address on.

        With `.pack::16b` (of a load) or `.unpack::16b` (of a store) column c stands for the low halves of columns 2c and
        2c + 1 of tensor memory, in the low and the high half of the register: twice the columns for as many registers.
        """
        if count not in self.counts:
            raise ValueError(f"{self.name} is repeated {', '.join(map(str, self.counts))} times, not {count}")
        further = [(0, self.columns << b) for b in range(log2(count))]
        return LinearLayout.make(
            {"register": [*self.register_cells, *further], "lane": self.lane_cells}, (self.lanes, self.columns * count)
        )


ACCESS_SHAPES = {
    shape.name: shape
    for shape in (
        AccessShape("32x32b", ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0)), (), 32, 1),
        AccessShape("16x256b", ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), ((0, 1), (8, 0)), 16, 8),
        AccessShape("16x128b", ((0, 1), (0, 2), (1, 0), (2, 0), (4, 0)), ((8, 0),), 16, 4),
        AccessShape("16x64b", ((8, 0), (0, 1), (1, 0), (2, 0), (4, 0)), (), 16, 2),
    )
}
"""By name, the preferred ones first."""


@frozen
class AccessStep:
    """One instruction of each warp: `.x{count}` at `offset` from the warp's own address.

    Its registers are `registers` 32-bit ones, which hold the slots from `slot` on, in order.
    """

    offset: int
    count: int
    slot: int
    registers: int


@frozen
class TensorAccess:
    """One way to load or store a tile: a shape, the register layout it gives, and the instructions of each warp.

    Warp i (counted in its role) is at `warp_address(i)` from the tile's own address. `elements` slots share each 32-bit
    register; an f16 that has a cell to itself and is not packed is the low half of its register (`elements` 1). `packed`
    asks for `.pack::16b` of a load, `.unpack::16b` of a store.
    """

    shape: AccessShape
    packed: bool
    layout: RegisterLayout
    elements: int
    steps: tuple[AccessStep, ...]
    quarters: int
    group_columns: int

    def warp_address(self, warp: int) -> int:
        """What warp `warp` of the role adds: 32 lanes for each quarter, its share of the columns for each four warps."""
        return address(QUARTER * (warp % self.quarters), self.group_columns * (warp // self.quarters))

    def warp_expression(self, warp: str = "warp", divide: str = "/") -> str:
        """`warp_address` as text. Example: `(warp % 4 << 21) + warp / 4 * 128`."""
        warps = self.layout.warps
        terms = []
        if self.quarters > 1:
            terms.append(f"({warp} << 21)" if warps == self.quarters else f"({warp} % {self.quarters} << 21)")
        if warps > self.quarters:
            group = f"{warp} {divide} {self.quarters}" if self.quarters > 1 else warp
            terms.append(f"{group} * {self.group_columns}")
        return " + ".join(terms) or "0"


@frozen
class _Digit:
    """A bit of the number of a cell in the tile: where it leads in the tile, and how many columns (or lanes) on."""

    image: Coordinates
    columns: int
    lanes: int = 0
    splits: bool = False
    """Whether warps may share the tile by it: there are equally many cells with it and without."""


@lru_cache(maxsize=512)
def tensor_accesses(
    part: TensorLayout, warps: int, value_bits: int = 32, first_lane: int = 0, first_warp: int = 0, most: int = MAX_REGISTERS
) -> tuple[TensorAccess, ...]:
    """The ways in which a role of `warps` warps can load or store a whole matrix of tensor memory, preferred ones first.

    `part` is a matrix (`TensorLayout.part`, `.sub_layout`) whose first row lies in lane `first_lane`; `value_bits` those of
    its element type; `first_warp` the role's first warp in the CTA, which decides on the lanes that it reaches; `most` how
    many registers one instruction may take. Addresses are from the matrix's own, `TensorLayout.address(origin)`.

    ValueError says why there is none. Example: `tensor_accesses(accumulator((64, 128)), warps=4)[0].layout ==
    wgmma_accumulator(64, 128, 4)`.
    """
    if part.leading:
        raise ValueError(f"a load or store takes a matrix, not the shape {part.shape}")
    quarters = _check_warps(part, warps, first_lane, first_warp)
    found, reasons = [], []
    for shape in ACCESS_SHAPES.values():
        for packed in (True, False) if value_bits == 16 and part.bits == 32 else (False,):
            try:
                found.append(_access(part, shape, packed, warps, quarters, most))
            except ValueError as problem:
                reasons.append(str(problem))
    if not found:
        raise ValueError(reasons[0])
    return tuple(found)


def _check_warps(part: TensorLayout, warps: int, first_lane: int, first_warp: int) -> int:
    """How many quarters of the lanes the matrix has; ValueError if the role's warps are not those that reach them."""
    rows, width = part.shape
    lanes = part.place((np.arange(rows)[:, None], np.arange(0, width, part.per_cell)[None, :]))[0]
    reached = {int(lane) // QUARTER for lane in np.unique(lanes + np.array(part.copies)[:, None, None])}
    count, first = len(reached), first_lane // QUARTER
    if reached != set(range(count)):
        raise ValueError(f"the rows lie in the quarters {sorted(reached)} of the lanes, which are no neighbours")
    where = f"the tile lies in lanes {QUARTER * first} to {QUARTER * (first + count) - 1}"
    if warps % count or (count < QUARTERS and warps != count) or not is_power_of_two(warps // count):
        wanted = "4, 8 or 16" if count == QUARTERS else str(count)
        raise ValueError(f"{where}, a warp reaches 32 of them: {wanted} warps are needed, not {warps}")
    if first_warp % QUARTERS != first:
        raise ValueError(
            f"{where}, and warp w of a CTA reaches those from 32 * (w % 4) on: the first of {warps} warps that access it is "
            f"{first} or 4, 8, 12 more, not {first_warp}"
        )
    return count


def _lane_images(part: TensorLayout) -> dict[int, Coordinates]:
    """What each bit of the lane's number stands for in the tile: nothing for copies; bits of lanes that hold none of it are
    not there."""
    images: dict[int, Coordinates] = {}
    for bit, (lane, column, _) in enumerate(part.atom.basis("row")):
        if not column and 1 << bit < part.rows:
            images[lane] = (1 << bit, 0)
    if part.folded:
        half = part.width // 2
        if not is_power_of_two(half):
            raise ValueError(
                f"the second {half} of {part.width} columns lie in the upper lanes: registers hold both halves if each is a "
                "power of two"
            )
        images[64] = (0, half)
    for copy in part.copies:
        if copy and is_power_of_two(copy):
            images[copy] = (0, 0)
    return images


def _digits(part: TensorLayout) -> list[_Digit]:
    """The bits of a cell's number within a lane, from the nearest column to the farthest."""
    digits = [
        _Digit((1 << bit, 0), column)
        for bit, (_, column, _) in enumerate(part.atom.basis("row"))
        if column and 1 << bit < part.rows
    ]
    atoms, per_cell = part.column_atoms, part.per_cell
    for bit in range(log2(next_power_of_two(atoms))):
        digits.append(_Digit((0, per_cell << bit), part.column_step << bit, splits=atoms % (2 << bit) == 0))
    for bit in range(log2(next_power_of_two(part.row_atoms))):
        digits.append(_Digit((part.atom_rows << bit, 0), part.row_step << bit))
    return sorted(digits, key=lambda digit: digit.columns)


def _access(
    part: TensorLayout, shape: AccessShape, packed: bool, warps: int, quarters: int, most: int
) -> TensorAccess:
    digits, lanes = _digits(part), _lane_images(part)
    within = [_Digit((0, 1 << bit), 0) for bit in range(log2(part.per_cell))]
    cells = 2 if packed else 1  # columns of tensor memory for each column of the shape
    if packed:
        if not digits or digits[0].columns != 1:
            raise ValueError("there are no two neighbouring columns to pack into a register")
        within = [_Digit(digits[0].image, 0)]
        digits = digits[1:]
    unit = log2(shape.columns)
    if [digit.columns for digit in digits[:unit]] != [cells << bit for bit in range(unit)]:
        raise ValueError(f"{shape.name} takes {shape.columns * cells} neighbouring columns at a time")
    if shape.lanes == QUARTER and QUARTER // 2 not in lanes:
        raise ValueError(f"{shape.name} takes 32 lanes, the tile has 16 of each 32")

    def image(cell: Cell) -> Coordinates:
        lane, column = cell
        if column:
            return digits[log2(column)].image
        if lane not in lanes:
            raise ValueError(f"{shape.name} takes lanes that hold nothing of the tile")
        return lanes[lane]

    low = [*within, *(_Digit(image(cell), 0) for cell in shape.register_cells)]
    shared, kept = _share(digits[unit:], warps // quarters, part)
    upper = [_Digit(lanes[16], 0, 16)] if shape.lanes == 16 and 16 in lanes else []
    registers = [*low, *kept, *upper]
    quarter_images = [lanes[QUARTER << bit] for bit in range(log2(next_power_of_two(quarters)))]
    linear = LinearLayout.make(
        {
            "register": [digit.image for digit in registers],
            "lane": [image(cell) for cell in shape.lane_cells],
            "warp": [*quarter_images, *(digit.image for digit in shared)],
        },
        padded(part.shape),
    )
    layout = RegisterLayout(linear, part.shape, warps)
    if not layout.alive.all():
        raise ValueError(f"{shape.name} does not fit {part.rows} x {part.width}: instructions would go over its edge")
    steps = _steps(layout, registers, len(low), shape, len(within), cells, most)
    return TensorAccess(
        shape, packed, layout, 1 << len(within), steps, quarters, shared[0].columns if shared else 0
    )


def _share(digits: list[_Digit], groups: int, part: TensorLayout) -> tuple[list[_Digit], list[_Digit]]:
    """The digits by which groups of four warps share the tile, in neighbouring columns as many as possible, and the rest."""
    count = log2(groups)
    if not count:
        return [], digits
    able = [digit for digit in digits if digit.splits]
    if len(able) < count:
        raise ValueError(f"{part.width} columns can't be shared evenly by {groups} groups of warps")
    shared = able[-count:]
    return shared, [digit for digit in digits if digit not in shared]


def _steps(
    layout: RegisterLayout, registers: list[_Digit], low: int, shape: AccessShape, within: int, cells: int, most: int
) -> tuple[AccessStep, ...]:
    """The instructions of a warp: runs of neighbouring columns, cut into powers of two."""
    units: list[Cell] = []
    for register in layout.live_registers():
        if register & ((1 << low) - 1):
            continue
        chosen = [digit for bit, digit in enumerate(registers) if register >> bit & 1]
        units.append((sum(digit.lanes for digit in chosen), sum(digit.columns for digit in chosen)))
    width = shape.columns * cells
    limit = min(shape.counts[-1], previous_power_of_two(max(1, most // shape.registers)))
    steps, begin = [], 0
    while begin < len(units):
        lane, column = units[begin]
        length = 1
        while begin + length < len(units) and units[begin + length] == (lane, column + length * width):
            length += 1
        count = min(limit, previous_power_of_two(length))
        registers_of = count * shape.registers
        steps.append(AccessStep(address(lane, column), count, begin * shape.registers << within, registers_of))
        begin += count
    return tuple(steps)
