"""Fragments of the tensor cores and descriptors of shared tiles, against the hardware's own words."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.layouts.fragments import is_fragment
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


@pytest.mark.parametrize(
    "layout, transposed, message",
    [
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
