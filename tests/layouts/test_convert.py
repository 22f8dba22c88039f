"""Conversions between register layouts, each proved by carrying out its plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import (
    Conversion,
    Identity,
    LinearLayout,
    RegisterLayout,
    RegisterPermute,
    Shuffle,
    ThroughShared,
    blocked,
    collect,
    distribute,
    execute,
    padded,
    plan_conversion,
    wgmma_accumulator,
)

QUICK = settings(deadline=None, max_examples=50)


def prove(
    source: RegisterLayout, destination: RegisterLayout, dtype=np.float32, limit: int | None = None
) -> Conversion:
    """Plan the conversion, carry it out, and compare every live register of every thread."""
    itemsize = np.dtype(dtype).itemsize
    plan = plan_conversion(source, destination, itemsize, limit)
    tile = np.arange(1, source.size + 1).astype(dtype).reshape(source.shape)
    before = distribute(source, tile)
    before[~source.alive] = dtype(0)  # what dead registers hold must not matter
    after = execute(plan, source, destination, before)
    expected = distribute(destination, tile.reshape(destination.shape))
    assert after.shape == expected.shape
    assert np.array_equal(after[destination.alive], expected[destination.alive])
    assert np.array_equal(collect(destination, after), tile.reshape(destination.shape))
    return plan


@st.composite
def pairs(draw: st.DrawFn):
    shape = tuple(
        draw(
            st.lists(
                st.one_of(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(1, 24)), min_size=1, max_size=3
            )
        )
    )
    warps = draw(st.sampled_from([1, 2, 3, 4]))

    def one() -> RegisterLayout:
        order = draw(st.permutations(range(len(shape))))
        return blocked(shape, warps, draw(st.sampled_from([1, 2, 4, 8])), order)

    return one(), one()


@QUICK
@given(pairs(), st.sampled_from([np.uint16, np.float32, np.int64]))
def test_conversions_between_blocked_layouts(case, dtype) -> None:
    prove(*case, dtype)


@QUICK
@given(pairs(), st.integers(256, 2048))
def test_conversions_in_rounds(case, limit: int) -> None:
    source, destination = case
    try:
        plan = prove(source, destination, np.float32, limit)
    except ValueError as error:
        assert "does not fit" in str(error)
        return
    if isinstance(plan, ThroughShared):
        assert plan.nbytes <= limit


@st.composite
def scrambled(
    draw: st.DrawFn, shape: tuple[int, ...], warps: int, within_warp_of: RegisterLayout | None = None
):
    """A layout whose basis vectors are shuffled; optionally only among registers and lanes."""
    bits = [
        (0,) * d + (1 << b,) + (0,) * (len(shape) - d - 1)
        for d, n in enumerate(padded(shape))
        for b in range((n - 1).bit_length())
    ]
    warp_bits = (warps - 1).bit_length()
    if within_warp_of is not None:
        warp_images = list(within_warp_of.linear.basis("warp"))
        bits = [b for b in bits if b not in warp_images]
    else:
        bits = draw(st.permutations(bits))
        warp_images, bits = list(bits[:warp_bits]), list(bits[warp_bits:])
        warp_images += [(0,) * len(shape)] * (warp_bits - len(warp_images))
    bits = draw(st.permutations(bits))
    lanes = list(bits[:5]) + [(0,) * len(shape)] * (5 - len(bits[:5]))
    linear = LinearLayout.make(
        {"register": bits[5:], "lane": draw(st.permutations(lanes)), "warp": warp_images}, padded(shape)
    )
    # Mix registers and lanes into each other: still every element once, but no permutation of bits.
    flat = {name: list(images) for name, images in linear.flat_bases.items()}
    for _ in range(draw(st.integers(0, 3))):
        pool = [(name, i) for name in ("register", "lane") for i in range(len(flat[name]))]
        (a, i), (b, j) = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        if (a, i) != (b, j) and flat[a][i]:
            flat[a][i] ^= flat[b][j]
    return RegisterLayout(LinearLayout.from_flat(flat, padded(shape)), shape, warps)


def converts_between_arbitrary_linear_layouts(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(8, 16), (16, 8, 2), (7, 12), (4, 4), (64, 3)]))
    warps = data.draw(st.sampled_from([1, 2, 4]))
    prove(data.draw(scrambled(shape, warps)), data.draw(scrambled(shape, warps)))


@settings(QUICK, max_examples=15)
@given(st.data())
def test_conversions_between_arbitrary_linear_layouts(data: st.DataObject) -> None:
    converts_between_arbitrary_linear_layouts(data)


@pytest.mark.long
@QUICK
@given(st.data())
def test_more_conversions_between_arbitrary_linear_layouts(data: st.DataObject) -> None:
    converts_between_arbitrary_linear_layouts(data)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_conversions_within_a_warp(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(8, 32), (4, 16), (12, 16), (4, 2)]))
    source = data.draw(scrambled(shape, 2))
    destination = data.draw(scrambled(shape, 2, within_warp_of=source))
    prove(source, destination)


def test_equal_layouts_need_nothing() -> None:
    layout = blocked((64, 64), 4)
    assert isinstance(prove(layout, layout), Identity)


def test_a_reshape_that_is_linear_needs_nothing() -> None:
    layout = blocked((16, 64), 4)
    assert isinstance(prove(layout, layout.reshape((1024,))), Identity)
    assert isinstance(prove(layout.reshape((1024,)), layout), Identity)


def test_a_reshape_that_is_not_linear_goes_through_shared_memory() -> None:
    plan = prove(blocked((6, 10), 2, vector=2), blocked((15, 4), 2, vector=4))
    assert isinstance(plan, ThroughShared)
    assert "not linear" in plan.reason


def test_register_order_is_a_permutation() -> None:
    source = blocked((32, 8), 1, order=(0, 1))
    bases = dict(source.linear.bases)
    bases["register"] = bases["register"][::-1]
    destination = RegisterLayout(LinearLayout.make(bases, (32, 8)), (32, 8), 1)
    plan = prove(source, destination)
    assert isinstance(plan, RegisterPermute)
    assert plan.map == (0, 4, 2, 6, 1, 5, 3, 7)


def test_replicated_data_is_picked_without_moving() -> None:
    # Every lane of the source has all four elements; each lane of the destination keeps one.
    nothing = [(0,)] * 5
    source = RegisterLayout(
        LinearLayout.make({"register": [(1,), (2,)], "lane": nothing, "warp": []}, (4,)), (4,), 1
    )
    plan = prove(source, blocked((4,), 1))
    assert isinstance(plan, Shuffle)
    assert plan.shuffles == 0
    assert plan.selectors == ((1, 0), (2, 0))
    assert plan.steps[0].choices == (0, 1, 2, 3)


def test_lanes_are_shuffled_when_only_lanes_move() -> None:
    source, destination = blocked((32, 4), 1, order=(0, 1)), blocked((32, 4), 1, order=(0, 1))
    bases = dict(destination.linear.bases)
    bases["lane"] = bases["lane"][::-1]
    plan = prove(source, RegisterLayout(LinearLayout.make(bases, (32, 4)), (32, 4), 1))
    assert isinstance(plan, Shuffle)
    assert plan.shuffles == 4
    assert plan.selectors == ()
    step = plan.steps[0]
    code = plan.source_lane_expression(step)
    assert [eval(code, {"lane": lane, "warp": 0}) for lane in range(32)] == [
        plan.source_lane(step, lane, 0) for lane in range(32)
    ]


def test_gathering_what_one_lane_holds_selects_at_the_destination() -> None:
    source = blocked((4,), 1)  # lane l holds element l % 4
    nothing = [(0,)] * 5
    everyone = RegisterLayout(
        LinearLayout.make({"register": [(1,), (2,)], "lane": nothing, "warp": []}, (4,)), (4,), 1
    )
    plan = prove(source, everyone)
    assert isinstance(plan, Shuffle)
    assert plan.select_at == "destination"
    assert plan.shuffles == 4


def test_moves_between_warps_go_through_shared_memory() -> None:
    plan = prove(blocked((64, 64), 4, vector=4), wgmma_accumulator(64, 64, 4))
    assert isinstance(plan, ThroughShared)
    assert plan.reason == "elements move between warps"
    assert (plan.write_vector, plan.read_vector) == (4, 2)
    assert plan.conflicts == 0
    assert str(plan).startswith("through ")
    assert len(plan.rounds) == 1


def test_complex_shuffles_are_left_to_shared_memory() -> None:
    plan = prove(blocked((32, 32), 1, order=(0, 1)), blocked((32, 32), 1, order=(1, 0)))
    assert isinstance(plan, ThroughShared)
    assert "more than 4 registers" in plan.reason


def test_rounds_bound_the_scratch_memory() -> None:
    source, destination = wgmma_accumulator(128, 64, 4), blocked((128, 64), 4, vector=4)
    plan = prove(source, destination, np.float32, 20_000)
    assert isinstance(plan, ThroughShared)
    assert plan.nbytes <= 20_000
    assert (len(plan.rounds), plan.round_axis, plan.round_extent) == (2, 0, 64)
    # Both halves are told apart by registers alone: no thread has to compare coordinates.
    assert not any(r.masked for r in plan.rounds)
    assert sorted(s for r in plan.rounds for s in r.write_slots) == list(range(source.num_registers))
    # Smaller ones are not.
    small = prove(source, destination, np.float32, 10_000)
    assert isinstance(small, ThroughShared)
    assert small.nbytes <= 10_000
    assert all(r.masked for r in small.rounds)
    with pytest.raises(ValueError, match="does not fit 16 bytes"):
        plan_conversion(source, destination, 4, 16)


def test_what_can_not_be_converted() -> None:
    with pytest.raises(ValueError, match="between 4 and 2 warps"):
        plan_conversion(blocked((8, 8), 4), blocked((8, 8), 2), 4)
    with pytest.raises(ValueError, match="different sizes"):
        plan_conversion(blocked((8, 8), 4), blocked((8, 4), 4), 4)
