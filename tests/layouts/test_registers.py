"""Register layouts: ownership, dead registers, projections, the default layout and the MMA fragment."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import (
    LinearLayout,
    RegisterLayout,
    blocked,
    collect,
    distribute,
    operand_layout,
    vector_for,
    wgmma_accumulator,
)
from phalanx.layouts.blocked import whole_in_every_warp

QUICK = settings(deadline=None, max_examples=50)

extents = st.one_of(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(1, 40))
shapes = st.lists(extents, min_size=0, max_size=3).map(tuple).filter(lambda shape: math.prod(shape) <= 2048)


@st.composite
def blocked_layouts(draw: st.DrawFn, shape_strategy=shapes) -> RegisterLayout:
    shape = draw(shape_strategy)
    order = draw(st.permutations(range(len(shape))))
    axis = draw(st.one_of(st.none(), st.integers(0, len(shape) - 1))) if shape else None
    return blocked(
        shape, draw(st.sampled_from([1, 2, 3, 4, 6, 8])), draw(st.sampled_from([1, 2, 4, 8])), order, axis
    )


def holders(layout: RegisterLayout) -> dict[tuple[int, ...], list[tuple[int, int, int]]]:
    """Brute force: who holds each element of the real shape, as (register, lane, warp)."""
    found: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
    for register in range(layout.linear.in_size("register")):
        for lane in range(32):
            for warp in range(layout.warps):
                index = layout.coords(register, lane, warp)
                if all(i < n for i, n in zip(index, layout.shape)):
                    found.setdefault(index, []).append((register, lane, warp))
    return found


@QUICK
@given(blocked_layouts())
def test_every_element_has_exactly_one_owner(layout: RegisterLayout) -> None:
    found = holders(layout)
    assert set(found) == set(np.ndindex(*layout.shape))
    for threads in found.values():
        owners = [t for t in threads if layout.replication.is_owner(t[1], t[2])]
        assert len(owners) == 1


@QUICK
@given(blocked_layouts())
def test_live_registers_and_masks_by_enumeration(layout: RegisterLayout) -> None:
    alive: dict[int, set[tuple[int, int]]] = {}
    for threads in holders(layout).values():
        for register, lane, warp in threads:
            alive.setdefault(register, set()).add((lane, warp))
    assert layout.live_registers() == tuple(sorted(alive))
    assert layout.num_registers == len(alive)
    for slot, register in enumerate(layout.live_registers()):
        assert layout.slots[register] == slot
        assert layout.needs_mask(register) == (len(alive[register]) < 32 * layout.warps)
        lanes, warps = layout.alive[slot].nonzero()
        assert set(zip(lanes.tolist(), warps.tolist())) == alive[register]


@QUICK
@given(blocked_layouts())
def test_distribute_and_collect_are_inverse(layout: RegisterLayout) -> None:
    tile = np.arange(layout.size, dtype=np.float32).reshape(layout.shape)
    registers = distribute(layout, tile)
    assert registers.shape == (layout.num_registers, 32, layout.warps)
    assert np.array_equal(collect(layout, registers), tile)


def test_collect_notices_replicas_that_differ() -> None:
    layout = blocked((4,), 1)
    registers = distribute(layout, np.arange(4))
    registers[0, 5, 0] = 99
    with pytest.raises(ValueError, match="different values"):
        collect(layout, registers)


@QUICK
@given(blocked_layouts(), st.data())
def test_vectors_are_consecutive_aligned_and_whole(layout: RegisterLayout, data: st.DataObject) -> None:
    if not layout.shape:
        return
    dim = data.draw(st.integers(0, layout.rank - 1))
    width = layout.vector_width(dim, 8)
    assert layout.num_registers % width == 0
    coordinate = layout.coordinates[dim].reshape(-1, width, 32, layout.warps)
    assert (coordinate - coordinate[:, :1] == np.arange(width)[None, :, None, None]).all()
    assert (coordinate[:, 0] % width == 0).all()
    together = layout.alive.reshape(coordinate.shape)
    assert (together.any(axis=1) == together.all(axis=1)).all()
    for other in range(layout.rank):
        if other != dim:
            rest = layout.coordinates[other].reshape(coordinate.shape)
            assert (rest == rest[:, :1]).all()


@pytest.mark.parametrize(
    ("shape", "vector", "expected"), [((64, 64), 4, 4), ((64, 64), 1, 1), ((32, 6), 4, 2), ((32, 100), 8, 4)]
)
def test_blocked_has_the_vector_it_was_asked_for(shape: tuple[int, ...], vector: int, expected: int) -> None:
    assert blocked(shape, 4, vector=vector).vector_width(1, 16) == expected


def test_blocked_coalesces_lanes_and_gives_warps_the_rows() -> None:
    layout = blocked((64, 128), 4, vector=4)
    assert layout.coords(0, 1, 0) == (0, 4)
    assert layout.coords(0, 31, 0) == (0, 124)
    assert [layout.coords(0, 0, w)[0] for w in range(4)] == [0, 1, 2, 3]
    assert layout.num_registers == 64
    assert layout.thread_expression(1) == "lane * 4"
    assert layout.thread_expression(0, warp="w") == "w"


def test_blocked_follows_the_order() -> None:
    layout = blocked((64, 64), 4, vector=2, order=(0, 1))
    assert layout.vector_width(0, 8) == 2
    assert layout.vector_width(1, 8) == 1
    assert layout.coords(0, 1, 0) == (2, 0)


@pytest.mark.parametrize("shape", [(64, 64), (4, 1024), (128, 32), (256, 8)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reduced_axis_stays_within_a_warp_where_possible(shape: tuple[int, int], axis: int) -> None:
    layout = blocked(shape, 4, reduce_axis=axis)
    other = shape[1 - axis]
    if other >= 4 and not (axis == 0 and other == 8):
        assert layout.bits_along(axis).warp == ()
    assert not layout.replication


def test_reduced_axis_is_split_when_there_is_nothing_else() -> None:
    assert blocked((1, 4096), 4, vector=4, reduce_axis=1).bits_along(1).warp == (0, 1)


def test_small_tiles_replicate() -> None:
    layout = blocked((8,), 4)
    assert layout.replication.lane_mask == 0b11000
    assert layout.replication.warp_mask == 0b11
    assert layout.replication.factor == 16
    assert layout.num_registers == 1
    assert not blocked((256,), 4).replication


def test_warps_that_are_no_power_of_two_replicate_the_excess() -> None:
    layout = blocked((64, 64), 3)
    assert layout.replication.warp_mask == 0b10
    assert layout.coords(5, 7, 2) == layout.coords(5, 7, 0)


def test_scalar_tile() -> None:
    layout = blocked((), 4)
    assert (layout.num_registers, layout.size, layout.coords(0, 3, 1)) == (1, 1, ())
    assert layout.replication.lane_mask == 31


@QUICK
@given(blocked_layouts(st.lists(extents, min_size=1, max_size=3).map(tuple)), st.data())
def test_slice_by_brute_force(layout: RegisterLayout, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, layout.rank - 1))
    keepdims = data.draw(st.booleans())
    result = layout.slice(axis, keepdims)
    tile = np.arange(layout.size).reshape(layout.shape)
    reduced = tile.max(axis=axis, keepdims=keepdims)
    assert result.layout.shape == reduced.shape
    spread = np.broadcast_to(tile.max(axis=axis, keepdims=True), layout.shape)
    expected = distribute(layout, spread)
    got = distribute(result.layout, reduced)[list(result.register_map)]
    assert np.array_equal(got[layout.alive], expected[layout.alive])
    assert set(result.register_map) == set(range(result.layout.num_registers))


@QUICK
@given(blocked_layouts(), st.data())
def test_operand_layout_by_brute_force(layout: RegisterLayout, data: st.DataObject) -> None:
    dropped = data.draw(st.integers(0, layout.rank))
    shape = tuple(data.draw(st.sampled_from([1, n])) for n in layout.shape[dropped:])
    result = operand_layout(layout, shape)
    operand = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    got = distribute(result.layout, operand)[list(result.register_map)]
    expected = distribute(layout, np.broadcast_to(operand, layout.shape))
    assert np.array_equal(got[layout.alive], expected[layout.alive])
    # No register of the operand holds what another one of the same thread holds.
    assert result.layout.linear.dependent_bits("register") == ()


def test_operand_must_broadcast() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) does not broadcast to \(4, 8\)"):
        operand_layout(blocked((4, 8), 1), (3,))


def test_projection_solves_for_dependent_register_bits() -> None:
    linear = LinearLayout.make(
        {"register": [(1, 1), (0, 1)], "lane": [(2, 0), (4, 0), (8, 0), (16, 0), (0, 0)], "warp": []}, (32, 2)
    )
    layout = RegisterLayout(linear, (32, 2), 1)
    result = layout.operand((1, 2))
    assert result.layout.num_registers == 2
    assert result.register_map == (0, 1, 1, 0)


@QUICK
@given(blocked_layouts(), st.data())
def test_broadcast_to_keeps_the_operand_in_place(layout: RegisterLayout, data: st.DataObject) -> None:
    leading = data.draw(st.lists(st.integers(1, 5), max_size=1))
    shape = (*leading, *(data.draw(st.integers(1, 9)) if n == 1 else n for n in layout.shape))
    result = layout.broadcast_to(shape)
    assert result.shape == shape
    assert result.operand(layout.shape).layout == layout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((16, 64), (1024,)),
        ((3, 4), (12,)),
        ((12,), (3, 4)),
        ((5, 16, 3), (5, 4, 4, 3)),
        ((6, 8), (3, 16)),
        ((1, 7), (7, 1)),
    ],
)
def test_reshape_keeps_every_element_in_its_slot(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    layout = blocked(old, 2, vector=2)
    tile = np.arange(layout.size).reshape(old)
    result = layout.reshape(new)
    assert np.array_equal(distribute(result, tile.reshape(new)), distribute(layout, tile))


@pytest.mark.parametrize(("old", "new"), [((4, 3), (12,)), ((3, 5), (5, 3)), ((15,), (3, 5))])
def test_reshape_that_is_not_linear_is_refused(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="through shared memory"):
        blocked(old, 2).reshape(new)


@QUICK
@given(blocked_layouts(st.lists(extents, min_size=2, max_size=3).map(tuple)), st.randoms())
def test_transpose_and_expand_keep_slots(layout: RegisterLayout, random) -> None:
    perm = list(range(layout.rank))
    random.shuffle(perm)
    tile = np.arange(layout.size).reshape(layout.shape)
    assert np.array_equal(distribute(layout.transpose(perm), tile.transpose(perm)), distribute(layout, tile))
    assert np.array_equal(distribute(layout.expand(1), tile[:, None]), distribute(layout, tile))


@QUICK
@given(blocked_layouts())
def test_thread_expression_plus_register_offset_is_the_coordinate(layout: RegisterLayout) -> None:
    for dim in range(layout.rank):
        code = compile(layout.thread_expression(dim), "expression", "eval")
        for register in layout.live_registers()[:4]:
            for lane, warp in [(0, 0), (5, 0), (31, layout.warps - 1)]:
                thread = eval(code, {"lane": lane, "warp": warp})
                own = layout.register_offset(register)[dim]
                expected = layout.coords(register, lane, warp)[dim]
                assert thread ^ own == expected
                if layout.is_additive(dim):
                    assert thread + own == expected


@pytest.mark.parametrize(
    ("m", "n", "warps"), [(64, 8, 4), (64, 256, 4), (128, 96, 8), (192, 200, 12), (256, 64, 4), (192, 16, 4)]
)
def test_wgmma_accumulator_is_the_documented_fragment(m: int, n: int, warps: int) -> None:
    layout = wgmma_accumulator(m, n, warps)
    groups = warps // 4
    assert layout.num_registers == n // 2 * (m // 64 // groups)
    assert not any(layout.needs_mask(r) for r in layout.live_registers())
    for slot in range(layout.num_registers):
        high, i = divmod(slot, n // 2)
        for lane in range(32):
            for warp in range(warps):
                row = 16 * (warp % 4) + lane // 4 + 8 * (i // 2 % 2) + 64 * (warp // 4 + groups * high)
                column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
                assert tuple(c[slot, lane, warp] for c in layout.coordinates) == (row, column)


@pytest.mark.parametrize(
    ("m", "n", "warps", "message"),
    [
        (64, 64, 3, "whole warpgroups"),
        (96, 64, 4, "multiple of 64"),
        (64, 12, 4, "multiple of 8"),
        (64, 64, 8, "evenly"),
        (384, 64, 12, "evenly"),
    ],
)
def test_wgmma_accumulator_refuses(m: int, n: int, warps: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wgmma_accumulator(m, n, warps)


def test_bits_along_refuses_mixed_bits() -> None:
    linear = LinearLayout.make(
        {"register": [(0, 1)], "lane": [(1, 1), (2, 0), (4, 0), (8, 0), (0, 0)], "warp": []}, (16, 2)
    )
    layout = RegisterLayout(linear, (16, 2), 1)
    with pytest.raises(ValueError, match="bit 0 of lane moves along axis 1 and another"):
        layout.bits_along(1)
    assert wgmma_accumulator(64, 16, 4).bits_along(1) == wgmma_accumulator(128, 16, 4).bits_along(1)
    assert wgmma_accumulator(64, 16, 4).bits_along(1).lane == (0, 1)


def test_incomplete_layouts_are_refused() -> None:
    lanes = [(1,), (2,), (4,), (8,), (16,)]
    with pytest.raises(ValueError, match="held by none"):
        RegisterLayout(LinearLayout.make({"register": [], "lane": lanes, "warp": []}, (64,)), (64,), 1)
    with pytest.raises(ValueError, match="held by none of the 3 warps"):
        RegisterLayout(
            LinearLayout.make({"register": [], "lane": lanes, "warp": [(32,), (64,)]}, (128,)), (128,), 3
        )
    # Only the rows of warps that do not exist are beyond the tile: fine.
    RegisterLayout(
        LinearLayout.make({"register": [], "lane": lanes, "warp": [(32,), (64,)]}, (128,)), (96,), 3
    )


def test_vector_for_leaves_no_thread_idle() -> None:
    assert vector_for((128, 64), 4, 2) == 8
    assert vector_for((8, 16), 4, 4) == 1
    assert vector_for((128, 6), 1, 4) == 2
    assert vector_for((), 4, 4) == 1


def test_a_tile_that_is_whole_in_every_warp() -> None:
    cases = (((4, 16), 16, 2, 2), ((4, 16), 16, 1, 2), ((2, 8), 4, 4, 1), ((3, 5), 3, 2, 1))
    for shape, warps, vector, registers in cases:
        layout = whole_in_every_warp(shape, warps, vector)
        assert layout.num_registers == registers
        for warp in range(warps):
            assert set(layout.elements[:, :, warp].ravel().tolist()) - {-1} == set(range(layout.size))
    assert whole_in_every_warp((4, 16), 16, 2).elements[:, 3, 7].tolist() == [6, 7]


def test_register_layouts_print_who_holds_what() -> None:
    text = str(blocked((2, 4), 1, vector=2))
    assert text.splitlines() == [
        "register layout of 2 x 4 over 1 warp, 2 registers per thread, "
        "replicated over lane bits 0x1c and warp bits 0x0",
        "  |     0      1      2      3",
        "--+---------------------------",
        "0 | T0:0+  T0:1+  T1:0+  T1:1+",
        "1 | T2:0+  T2:1+  T3:0+  T3:1+",
    ]
    assert "..." in str(blocked((64, 64), 4))


@QUICK
@given(blocked_layouts(shapes.filter(bool)), st.data())
def test_elements_that_are_several(layout: RegisterLayout, data: st.DataObject) -> None:
    """Each slot becomes neighbours in neighbouring slots of the same thread; the way back is exact."""
    dim, parts = data.draw(st.integers(0, layout.rank - 1)), data.draw(st.sampled_from([2, 4]))
    several = layout.subdivide(dim, parts)
    assert several.shape == tuple(size * parts if d == dim else size for d, size in enumerate(layout.shape))
    assert several.num_registers == parts * layout.num_registers and several.warps == layout.warps
    for d in range(layout.rank):
        for part in range(parts):
            want = layout.coordinates[d] * parts + part if d == dim else layout.coordinates[d]
            assert np.array_equal(several.coordinates[d][part::parts], want)
    assert np.array_equal(several.alive[::parts], layout.alive)
    assert several.join(dim, parts) == layout


def test_neighbours_apart_can_not_be_joined() -> None:
    with pytest.raises(ValueError, match="not in neighbouring registers, 2 at a time"):
        blocked((64, 64), 4, vector=1).join(1, 2)
