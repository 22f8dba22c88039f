"""Fragments of the tensor cores and descriptors of shared tiles, against the hardware's own words."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.layouts.fragments import is_fragment, mma_accumulator, mma_left, mma_right, mma_spread
from phalanx.layouts.matrices import matrices
from phalanx.layouts.mma import shared_operand, wgmma_accumulator, wgmma_operand
from phalanx.layouts.parts import part_layout, part_slots
from phalanx.layouts.shared import SharedLayout


@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_the_a_fragment(itemsize: int) -> None:
    """Register r of lane l: neighbours along K of row l / 4 (+8 for odd r), from byte 4 (l % 4) (+16 for r > 1)."""
    layout = wgmma_operand(64, 64 // itemsize, 4, itemsize)
    per = 4 // itemsize
    rows, columns = layout.coordinates
    for slot in range(layout.num_registers):
        register, within = divmod(slot, per)
        step, register = divmod(register, 4)
        for lane in (0, 1, 5, 31):
            for warp in range(4):
                assert rows[slot, lane, warp] == 16 * warp + lane // 4 + 8 * (register % 2)
                byte = 32 * step + 16 * (register // 2) + 4 * (lane % 4) + within * itemsize
                assert columns[slot, lane, warp] * itemsize == byte


def test_for_16_bits_the_fragments_agree() -> None:
    assert wgmma_operand(128, 64, 8, 2) == wgmma_accumulator(128, 64, 8)
    assert is_fragment(wgmma_accumulator(64, 8, 4))


def test_k_must_be_whole_steps() -> None:
    with pytest.raises(ValueError, match="multiple of 16"):
        wgmma_operand(64, 24, 4, 2)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_k_major_steps_lie_where_the_descriptor_says(swizzle: int, itemsize: int) -> None:
    layout = SharedLayout((128, 256 // itemsize), itemsize, swizzle, swizzle // itemsize)
    operand = shared_operand(layout, transposed=False)
    assert operand.stride == 8 * swizzle
    for row in (0, 8, 64, 120):
        for step in range(8):
            start = operand.row_offset(row) + operand.step_offset(step)
            assert layout.swizzled(start) == layout.offset((row, step * 32 // itemsize))
    # from one group of eight rows to the next
    assert layout.offset((8, 0)) - layout.offset((0, 0)) == operand.stride


def test_mn_major_steps_lie_where_the_descriptor_says() -> None:
    layout = SharedLayout((64, 256), 2, 128, 64)  # K x N
    operand = shared_operand(layout, transposed=True)
    assert operand.stride == 1024  # eight k
    assert operand.leading == 64 * 128  # the next 64 columns
    for column in (0, 64, 192):
        for step in range(4):
            start = operand.row_offset(column) + operand.step_offset(step)
            assert layout.swizzled(start) == layout.offset((16 * step, column))


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_steps_of_a_slice_along_k_go_on_in_the_next_panel(swizzle: int, itemsize: int) -> None:
    layout = SharedLayout((64, 256 // itemsize), itemsize, swizzle, swizzle // itemsize)
    operand, step = shared_operand(layout, transposed=False), 32 // itemsize
    for column in range(0, 4 * step, step):
        assert operand.reach_problem(column, 64) is None
        begin = layout.linear_offset_expression(["0", str(column)])
        for number in range(4):
            start = int(begin) + operand.row_offset(8, column) + operand.step_offset(number, column)
            assert layout.swizzled(start) == layout.offset((8, column + number * step))
    assert operand.reach_problem(step // 2, 64) == ("from byte 16 of its rows on, no multiple of 32", step)


def test_slices_across_k_begin_with_a_panel_or_lie_inside_one() -> None:
    layout = SharedLayout((64, 256), 2, 128, 64)  # K x N
    operand = shared_operand(layout, transposed=True)
    for column, rows in ((64, 192), (128, 128), (16, 48), (8, 8)):
        assert operand.reach_problem(column, rows) is None
        begin = int(layout.linear_offset_expression(["0", str(column)]))
        for row in range(0, rows, 64):
            assert layout.swizzled(begin + operand.row_offset(row, column)) == layout.offset((0, column + row))
    assert operand.reach_problem(32, 64) == ("from byte 64 of its rows on, across the edge of a panel of 64 columns", 64)
    assert operand.reach_problem(4, 8) == ("from byte 8 of its rows on, no multiple of 16", 8)


@pytest.mark.parametrize(
    "layout, transposed, message",
    [
        (SharedLayout((64, 24), 2), True, "rows of 48 bytes"),
        (SharedLayout((64, 64), 2), False, "swizzle"),
        (SharedLayout((64, 64), 2, 64, 64), False, "as wide as the swizzle"),
        (SharedLayout((64, 64), 1, 64, 64), True, "16-bit"),
        (SharedLayout((60, 64), 2, 128, 64), False, "eights"),
    ],
)
def test_what_the_hardware_can_not_read(layout: SharedLayout, transposed: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shared_operand(layout, transposed)


@pytest.mark.parametrize("starts, shape", [((0, 128), (128, 128)), ((0, 64), (128, 64)), ((0, 8), (128, 8))])
def test_parts_keep_every_element_in_its_thread(starts: tuple[int, int], shape: tuple[int, int]) -> None:
    whole = wgmma_accumulator(128, 256, 8)
    part, slots = part_layout(whole, starts, shape), part_slots(whole, starts, shape)
    assert len(slots) == part.num_registers == 128 * shape[1] // 256
    for dim in range(2):
        np.testing.assert_array_equal(part.coordinates[dim] + starts[dim], whole.coordinates[dim][list(slots)])


@pytest.mark.parametrize(
    "starts, shape", [((0, 0), (128, 4)), ((0, 4), (128, 8)), ((0, 0), (32, 256)), ((0, 0), (128, 24))]
)
def test_parts_that_would_move(starts: tuple[int, int], shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError):
        part_layout(wgmma_accumulator(128, 256, 8), starts, shape)


def test_parts_of_padded_tiles() -> None:
    whole = wgmma_accumulator(64, 192, 4)
    slots = part_slots(whole, (0, 128), (64, 64))
    assert slots == tuple(range(64, 96))


@pytest.mark.parametrize("groups, m, n", [(2, 64, 128), (2, 128, 32), (4, 64, 256), (3, 64, 192)])
def test_columns_shared_by_warpgroups(groups: int, m: int, n: int) -> None:
    """Each warpgroup holds what one alone would hold of its columns."""
    whole, alone = wgmma_accumulator(m, n, 4 * groups, "n"), wgmma_accumulator(m, n // groups, 4)
    assert whole.num_registers == alone.num_registers
    for group in range(groups):
        mine = slice(4 * group, 4 * group + 4)
        np.testing.assert_array_equal(whole.coordinates[0][:, :, mine], alone.coordinates[0])
        np.testing.assert_array_equal(whole.coordinates[1][:, :, mine], alone.coordinates[1] + group * (n // groups))
    operand = wgmma_operand(m, 64, 4 * groups, 2, "n")
    for group in range(groups):
        mine = slice(4 * group, 4 * group + 4)
        np.testing.assert_array_equal(operand.coordinates[0][:, :, mine], wgmma_operand(m, 64, 4, 2).coordinates[0])


def test_columns_that_can_not_be_shared() -> None:
    with pytest.raises(ValueError, match="powers of two"):
        wgmma_accumulator(64, 192, 8, "n")


@pytest.mark.parametrize(
    "m, n, warps, spread",
    [
        (64, 64, 4, (2, 2)), (16, 8, 4, (1, 1)), (128, 16, 8, (8, 1)), (48, 64, 4, (1, 4)), (16, 64, 6, (1, 4)),
        (32, 8, 3, (2, 1)),
    ],
)
def test_warps_share_rows_and_columns(m: int, n: int, warps: int, spread: tuple[int, int]) -> None:
    assert mma_spread(m, n, warps) == spread


@pytest.mark.parametrize("m, n, warps", [(64, 64, 4), (16, 24, 3), (48, 16, 2), (96, 8, 6)])
def test_the_fragments_of_mma_sync(m: int, n: int, warps: int) -> None:
    """By the PTX manual: group g = lane / 4, t = lane % 4; every block of 16 x 8 belongs to one warp as a whole."""
    high, wide = mma_spread(m, n, warps)
    layout = mma_accumulator(m, n, warps)
    assert is_fragment(layout) and layout.num_registers == 4 * (m // 16 // high) * (n // 8 // wide)
    rows, columns = layout.coordinates
    blocks = set()
    for warp in range(warps):
        for block in range(layout.num_registers // 4):
            first = rows[4 * block, 0, warp], columns[4 * block, 0, warp]
            assert first[0] % 16 == 0 and first[1] % 8 == 0
            blocks.add(first)
            for i in range(4):
                for lane in range(32):
                    assert rows[4 * block + i, lane, warp] == first[0] + lane // 4 + 8 * (i // 2)
                    assert columns[4 * block + i, lane, warp] == first[1] + 2 * (lane % 4) + i % 2
    assert len(blocks) == m * n // 128


@pytest.mark.parametrize("itemsize", [1, 2, 4])
@pytest.mark.parametrize("k_bytes", [32, 48, 128])
def test_the_operands_of_mma_sync(itemsize: int, k_bytes: int) -> None:
    """32-bit register r of a step: row g (+ 8 for odd r of A), k from byte 4 t (+ 16); columns g of B."""
    m, n, k, warps = 32, 48, k_bytes // itemsize, 2
    left, right = mma_left(m, n, k, warps, itemsize), mma_right(m, n, k, warps, itemsize)
    per, chunks = 4 // itemsize, k_bytes // 16
    sums = mma_accumulator(m, n, warps)
    for lane in (0, 1, 6, 31):
        for warp in range(warps):
            for slot in range(left.num_registers):
                word, within = divmod(slot, per)
                block, rest = divmod(word, 2 * chunks)
                chunk, eight = divmod(rest, 2)
                first = sums.coordinates[0][4 * block * (n // 8 // mma_spread(m, n, warps)[1]), 0, warp]
                assert left.coordinates[0][slot, lane, warp] == first + lane // 4 + 8 * eight
                assert left.coordinates[1][slot, lane, warp] * itemsize == 16 * chunk + 4 * (lane % 4) + within * itemsize
            for slot in range(right.num_registers):
                word, within = divmod(slot, per)
                block, chunk = divmod(word, chunks)
                assert right.coordinates[1][slot, lane, warp] == sums.coordinates[1][4 * block, 0, warp] + lane // 4
                assert right.coordinates[0][slot, lane, warp] * itemsize == 16 * chunk + 4 * (lane % 4) + within * itemsize


def test_what_mma_sync_does_not_take() -> None:
    with pytest.raises(ValueError, match="16 rows and 8 columns"):
        mma_accumulator(24, 8, 1)
    with pytest.raises(ValueError, match="multiple of 8 elements"):
        mma_left(16, 8, 12, 1, 2)


@pytest.mark.parametrize(
    "layout, dim, itemsize, count, transposed",
    [
        (mma_left(32, 32, 64, 2, 2), 1, 2, 4, False),
        (mma_left(32, 32, 64, 2, 2), 0, 2, 4, True),
        (mma_right(32, 32, 64, 2, 2), 0, 2, 4, False),
        (mma_right(32, 32, 64, 2, 2), 1, 2, 4, True),
        (mma_right(32, 24, 16, 1, 2), 0, 2, 2, False),  # three columns of blocks: two matrices at a time
        (mma_left(16, 8, 8, 1, 2), 1, 2, 2, False),
        (mma_right(16, 8, 8, 1, 2), 0, 2, 1, False),
        (mma_left(32, 32, 64, 2, 4), 1, 4, 4, False),
        (mma_left(32, 32, 64, 2, 1), 1, 1, 4, False),
        (wgmma_operand(64, 64, 4, 2), 1, 2, 4, False),
    ],
)
def test_ldmatrix_brings_operands(layout, dim: int, itemsize: int, count: int, transposed: bool) -> None:
    """Each lane's words come from the chunks that the lanes 8 j + row name."""
    found = matrices(layout, dim, itemsize)
    assert found is not None and (found.count, found.transposed) == (count, transposed)
    chunk, per = 16 // itemsize, 4 // itemsize
    for turn in range(found.layout.num_registers):
        for j in range(count):
            for lane in range(32):
                for warp in range(layout.warps):
                    for within in range(per):
                        slot = (turn * count + j) * per + within
                        want = [int(layout.coordinates[d][slot, lane, warp]) for d in range(2)]
                        row, inside = lane // 4, lane % 4 * per + within
                        if transposed:
                            row, inside = inside, row
                        got = [int(found.layout.coordinates[d][turn, 8 * j + row, warp]) for d in range(2)]
                        got[dim] = got[dim] * chunk + inside
                        assert got == want


@pytest.mark.parametrize("itemsize", [1, 4])
def test_ldmatrix_transposes_16_bits_only(itemsize: int) -> None:
    assert matrices(mma_left(32, 32, 64, 2, itemsize), 0, itemsize) is None
