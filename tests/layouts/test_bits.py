"""Linear algebra over F2, and the text of linear maps."""

from __future__ import annotations

from functools import reduce
from operator import xor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import linear_expression
from phalanx.layouts.bits import Span, log2, next_power_of_two, round_up, set_bits, xor_combination

QUICK = settings(deadline=None, max_examples=60)


@QUICK
@given(st.lists(st.integers(0, 255), max_size=8), st.integers(0, 255))
def test_span_expresses_exactly_the_reachable_vectors(vectors: list[int], target: int) -> None:
    span = Span(vectors)
    reachable = {xor_combination(tuple(vectors), index) for index in range(1 << len(vectors))}
    assert 1 << span.rank == len(reachable)
    assert (target in span) == (target in reachable)
    mask = span.express(target)
    if mask is None:
        assert target not in reachable
    else:
        assert reduce(xor, (vectors[i] for i in set_bits(mask)), 0) == target
        assert set(set_bits(mask)) <= set(span.independent)


def test_span_prefers_the_first_vectors() -> None:
    span = Span([1, 1, 2, 3])
    assert span.independent == [0, 2]
    assert span.dependent == [1, 3]


def test_log2_refuses_what_is_not_a_power_of_two() -> None:
    assert [next_power_of_two(n) for n in (1, 2, 3, 5, 8)] == [1, 2, 4, 8, 8]
    assert round_up(5, 4) == 8
    with pytest.raises(ValueError, match="12 is not a power of two"):
        log2(12)


@QUICK
@given(
    st.lists(st.integers(0, 63), min_size=5, max_size=5),
    st.lists(st.integers(0, 63), min_size=0, max_size=3),
    st.integers(0, 63),
)
def test_expression_evaluates_to_the_linear_map(lane: list[int], warp: list[int], constant: int) -> None:
    code = compile(linear_expression([("lane", lane), ("warp", warp)], constant), "expression", "eval")
    for lane_index in range(32):
        for warp_index in range(1 << len(warp)):
            expected = (
                xor_combination(tuple(lane), lane_index) ^ xor_combination(tuple(warp), warp_index) ^ constant
            )
            assert eval(code, {"lane": lane_index, "warp": warp_index}) == expected


def test_expression_is_readable() -> None:
    assert linear_expression([("lane", (2, 4, 0, 0, 0)), ("warp", (0, 0))]) == "(lane & 3) * 2"
    assert linear_expression([("lane", (0, 0, 1, 2, 4)), ("warp", (16, 32))]) == "(lane >> 2) + warp * 16"
    assert linear_expression([("lane", (1, 2, 4, 8, 16))], 3) == "lane ^ 3"
    assert linear_expression([("lane", ())]) == "0"
