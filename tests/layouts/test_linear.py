"""The algebra of linear layouts: composition, inversion, products, slices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import LinearLayout

QUICK = settings(deadline=None, max_examples=50)

shapes = st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3).map(tuple)


@st.composite
def layouts(
    draw: st.DrawFn, names: tuple[str, ...] = ("register", "lane"), shape: tuple[int, ...] | None = None
):
    target = draw(shapes) if shape is None else shape
    bases = {name: draw(st.lists(st.integers(0, math.prod(target) - 1), max_size=4)) for name in names}
    return LinearLayout.from_flat(bases, target)


def all_indices(layout: LinearLayout):
    for flat in range(1 << layout.total_in_bits):
        index = {}
        for name in layout.in_names:
            index[name] = flat % layout.in_size(name)
            flat //= layout.in_size(name)
        yield index


@QUICK
@given(layouts())
def test_array_form_agrees_with_the_scalar_form(layout: LinearLayout) -> None:
    image = layout.flat_image()
    for index in all_indices(layout):
        assert image[tuple(index[name] for name in layout.in_names)] == layout.flat(**index)
        arrays = layout.apply(**{name: np.array([value]) for name, value in index.items()})
        assert tuple(int(a[0]) for a in arrays) == layout(**index)


@QUICK
@given(layouts())
def test_application_is_linear(layout: LinearLayout) -> None:
    indices = list(all_indices(layout))
    for a, b in zip(indices, reversed(indices)):
        both = {name: a[name] ^ b[name] for name in a}
        assert layout.flat(**both) == layout.flat(**a) ^ layout.flat(**b)


@QUICK
@given(layouts())
def test_injective_and_surjective_by_enumeration(layout: LinearLayout) -> None:
    image = layout.flat_image().reshape(-1)
    assert layout.is_injective == (len(set(image.tolist())) == image.size)
    assert layout.is_surjective == (set(image.tolist()) == set(range(layout.out_size)))
    assert layout.covers() == layout.is_surjective


@QUICK
@given(layouts(), st.data())
def test_covers_looks_at_the_wanted_elements_only(layout: LinearLayout, data: st.DataObject) -> None:
    extents = tuple(data.draw(st.integers(1, size)) for size in layout.shape)
    reached = {layout(**index) for index in all_indices(layout)}
    assert layout.covers(extents) == all(index in reached for index in np.ndindex(*extents))


@QUICK
@given(layouts())
def test_inverse_is_left_or_right_inverse(layout: LinearLayout) -> None:
    if not (layout.is_injective or layout.is_surjective):
        with pytest.raises(ValueError, match="neither injective nor surjective"):
            layout.invert()
        return
    inverse = layout.invert()
    assert inverse.shape == tuple(layout.in_size(name) for name in layout.in_names)
    if layout.is_injective:
        there_and_back = layout.compose(inverse)
        for index in all_indices(layout):
            assert there_and_back(**index) == tuple(index[name] for name in layout.in_names)
    if layout.is_surjective:
        back_and_there = inverse.compose(layout)
        for coordinates in np.ndindex(*layout.shape):
            assert back_and_there(**{f"dim{d}": c for d, c in enumerate(coordinates)}) == coordinates
    if layout.is_injective and layout.is_surjective:
        assert inverse.invert(layout.in_names) == layout


def test_right_inverse_names_the_first_holder() -> None:
    layout = LinearLayout.make({"register": [(1,), (0,)], "lane": [(2,), (2,)]}, (4,))
    assert layout.invert()(dim0=3) == (1, 1)


@QUICK
@given(layouts(shape=(4, 8)), layouts(names=("a", "b"), shape=(2, 4)), st.data())
def test_compose_applies_one_after_the_other(
    first: LinearLayout, second: LinearLayout, data: st.DataObject
) -> None:
    sized = LinearLayout.from_flat(
        {
            "a": data.draw(st.lists(st.integers(0, 7), min_size=2, max_size=2)),
            "b": data.draw(st.lists(st.integers(0, 7), min_size=3, max_size=3)),
        },
        (2, 4),
    )
    composed = first.compose(sized)
    for index in all_indices(first):
        a, b = first(**index)
        assert composed(**index) == sized(a=a, b=b)
    if (second.in_size("a"), second.in_size("b")) != (4, 8):
        with pytest.raises(ValueError, match="can't compose"):
            first.compose(second)


@QUICK
@given(layouts(), st.data())
def test_composition_is_associative(first: LinearLayout, data: st.DataObject) -> None:
    def any_map(bits: int) -> LinearLayout:
        images = data.draw(st.lists(st.integers(0, 15), min_size=bits, max_size=bits))
        return LinearLayout.from_flat({"x": images}, (16,))

    second, third = any_map(first.out_bits), any_map(4)
    assert first.compose(second).compose(third) == first.compose(second.compose(third))


@QUICK
@given(layouts())
def test_identity_is_neutral(layout: LinearLayout) -> None:
    assert layout.compose(LinearLayout.identity(layout.shape)) == layout


def gives_the_low_bits_to_the_first(low: LinearLayout, high: LinearLayout) -> None:
    product = LinearLayout.product(low, high)
    assert product.shape == (8, 8)
    for a in all_indices(low):
        for b in all_indices(high):
            lane = a["lane"] + b["lane"] * low.in_size("lane")
            expected = tuple(x + y * size for x, y, size in zip(low(**a), high(**b), low.shape))
            assert product(register=a["register"], lane=lane, warp=b["warp"]) == expected


FACTORS = layouts(shape=(2, 4)), layouts(names=("lane", "warp"), shape=(4, 2))


@settings(QUICK, max_examples=12)
@given(*FACTORS)
def test_product_gives_the_low_bits_to_the_first(low: LinearLayout, high: LinearLayout) -> None:
    gives_the_low_bits_to_the_first(low, high)


@pytest.mark.long
@QUICK
@given(*FACTORS)
def test_more_products_give_the_low_bits_to_the_first(low: LinearLayout, high: LinearLayout) -> None:
    gives_the_low_bits_to_the_first(low, high)


@QUICK
@given(layouts(shape=(2, 4, 8)), st.integers(-3, 2))
def test_slice_forgets_one_coordinate(layout: LinearLayout, dim: int) -> None:
    for index in all_indices(layout):
        kept = [c for d, c in enumerate(layout(**index)) if d != dim % 3]
        assert layout.slice(dim)(**index) == tuple(kept)
        assert layout.slice(dim, keepdims=True)(**index) == (*kept[: dim % 3], 0, *kept[dim % 3 :])
        assert layout.slice(dim).expand(dim % 3) == layout.slice(dim, keepdims=True)


@QUICK
@given(layouts(shape=(2, 4, 8)))
def test_reshape_and_transpose_move_elements_like_numpy(layout: LinearLayout) -> None:
    tile = np.arange(64).reshape(2, 4, 8)
    for index in all_indices(layout):
        value = tile[layout(**index)]
        assert tile.reshape(8, 8)[layout.reshape((8, 8))(**index)] == value
        assert tile.transpose(2, 0, 1)[layout.transpose((2, 0, 1))(**index)] == value
        assert layout.flatten()(**index) == (value,)


def test_broadcast_and_dependent_bits() -> None:
    layout = LinearLayout.make({"register": [(1, 0), (0, 0)], "lane": [(1, 0), (0, 1), (0, 0)]}, (2, 2))
    assert layout.broadcast_bits("register") == (1,)
    assert layout.broadcast_bits("lane") == (2,)
    assert layout.dependent_bits("lane") == (0, 2)
    with pytest.raises(ValueError, match="no input named 'warp'"):
        layout.broadcast_bits("warp")


def test_wrong_layouts_are_refused() -> None:
    with pytest.raises(ValueError, match="power-of-two sizes"):
        LinearLayout.make({"lane": []}, (3,))
    with pytest.raises(ValueError, match="outside the shape"):
        LinearLayout.make({"lane": [(4,)]}, (4,))
    with pytest.raises(ValueError, match="sizes differ"):
        LinearLayout.identity(8).reshape((4, 4))
    with pytest.raises(ValueError, match=r"index=8 is outside 0\.\.7"):
        LinearLayout.identity(8)(index=8)


def test_equal_layouts_hash_alike_and_print() -> None:
    layout = LinearLayout.make({"lane": [(0, 1), (1, 0)]}, (2, 2))
    assert {layout: 1}[LinearLayout.make({"lane": [[0, 1], [1, 0]]}, [2, 2])] == 1
    assert repr(layout) == "LinearLayout(lane=[(0, 1), (1, 0)], shape=(2, 2))"
    assert str(layout).splitlines() == [
        "linear layout (lane 4) -> 2 x 2",
        "     |  bit 0   bit 1",
        "-----+---------------",
        "lane | (0, 1)  (1, 0)",
    ]
