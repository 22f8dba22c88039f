"""Bank conflicts and vector widths of register tiles in shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import (
    LinearLayout,
    RegisterLayout,
    SharedLayout,
    access_conflicts,
    best_vector,
    blocked,
    shared_offsets,
    warp_wavefronts,
)

QUICK = settings(deadline=None, max_examples=40)


def brute_force_wavefronts(reg: RegisterLayout, shared: SharedLayout, vector_bytes: int, axes=None) -> int:
    """Serve each group of lanes bank by bank, word by word."""
    width = vector_bytes // shared.itemsize
    group = {16: 8, 8: 16}.get(vector_bytes, 32)
    total = 0
    offsets = shared_offsets(reg, shared, axes=axes)
    for slot in range(0, reg.num_registers, width):
        for first in range(0, 32, group):
            words: dict[int, set[int]] = {}
            for lane in range(first, first + group):
                if reg.alive[slot, lane, 0]:
                    for byte in range(offsets[slot, lane, 0], offsets[slot, lane, 0] + vector_bytes, 4):
                        words.setdefault(byte // 4 % 32, set()).add(byte // 4)
            total += max((len(w) for w in words.values()), default=0)
    return total


@QUICK
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 4, 16]),
)
def test_wavefronts_by_brute_force(shape: tuple[int, int], itemsize: int, vector: int, padding: int) -> None:
    reg = blocked(shape, 2, vector=vector)
    padding = -(-padding // itemsize) * itemsize
    shared = SharedLayout(shape, itemsize, pitch=shape[1] * itemsize + padding)
    width = best_vector(reg, shared)
    assert warp_wavefronts(reg, shared, width * itemsize).total == brute_force_wavefronts(
        reg, shared, width * itemsize
    )


@pytest.mark.parametrize("vector", [1, 2, 4])
def test_rows_of_floats_have_no_conflicts(vector: int) -> None:
    shared = SharedLayout((32, 32 * vector), 4)
    assert access_conflicts(blocked((32, 32 * vector), 1, vector=vector), shared, 4 * vector) == 0


def test_a_column_of_floats_conflicts_32_ways_and_padding_heals_it() -> None:
    columns = blocked((32, 32), 1, order=(0, 1))
    assert access_conflicts(columns, SharedLayout((32, 32), 4), 4) == 32 * 31
    assert access_conflicts(columns, SharedLayout((32, 32), 4, pitch=132), 4) == 0


@pytest.mark.parametrize(("swizzle", "rows"), [(128, 8), (64, 8), (32, 8)])
def test_swizzles_spread_a_column_of_16_byte_chunks(swizzle: int, rows: int) -> None:
    """Eight lanes that read the same chunk of eight consecutive rows: what ldmatrix and wgmma do."""
    columns = swizzle // 2
    lanes = [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)]
    bits = (columns - 1).bit_length()
    linear = LinearLayout.make(
        {"register": [(0, 1 << b) for b in range(bits)], "lane": lanes, "warp": []}, (32, columns)
    )
    reg = RegisterLayout(linear, (32, columns), 1)
    assert access_conflicts(reg, SharedLayout((32, columns), 2, swizzle), 16) == 0
    assert access_conflicts(reg, SharedLayout((32, columns), 2), 16) > 0


def test_lanes_that_read_the_same_word_share_it() -> None:
    reg = blocked((4,), 1)
    cost = warp_wavefronts(reg, SharedLayout((4,), 4), 4)
    assert (cost.total, cost.ideal, cost.conflicts) == (1, 1, 0)


@pytest.mark.parametrize(
    ("reg_vector", "shared", "expected"),
    [
        (8, SharedLayout((64, 64), 2), 8),
        (8, SharedLayout((64, 64), 2, swizzle=128), 8),
        (8, SharedLayout((64, 64), 4), 4),
        (8, SharedLayout((64, 64), 2, pitch=132), 2),
        (2, SharedLayout((64, 64), 2), 2),
        (8, SharedLayout((64, 64), 2, panel=4), 4),
        (8, SharedLayout((3, 64, 64), 1), 8),
    ],
)
def test_best_vector(reg_vector: int, shared: SharedLayout, expected: int) -> None:
    assert best_vector(blocked((64, 64), 4, vector=reg_vector), shared) == expected


def test_best_vector_of_views() -> None:
    reg, shared = blocked((32, 32), 1, vector=8), SharedLayout((64, 64), 2)
    assert best_vector(reg, shared, column_multiple=4) == 4
    assert best_vector(reg, shared, column_multiple=1) == 1
    assert best_vector(reg, shared, max_bytes=4) == 2
    assert best_vector(reg, shared, axes=(1, 0)) == 1  # a transposed view
    assert best_vector(blocked((32, 32), 1, vector=8, order=(0, 1)), shared, axes=(1, 0)) == 8
    assert best_vector(blocked((32,), 1, vector=1), shared, axes=(0,)) == 1
    with pytest.raises(ValueError, match="do not place a tile"):
        best_vector(reg, shared, axes=(0, 0))


@QUICK
@given(
    st.tuples(st.integers(1, 24), st.integers(1, 48)),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 32, 64, 128]),
    st.one_of(st.none(), st.integers(1, 20)),
    st.integers(0, 4),
)
def test_vectors_are_contiguous_and_aligned_in_shared_memory(
    shape: tuple[int, int], itemsize: int, swizzle: int, panel: int | None, start: int
) -> None:
    shared = SharedLayout((2, shape[0] + 3, shape[1] + 8), itemsize, swizzle, panel)
    reg = blocked(shape, 2, vector=8)
    width = best_vector(reg, shared, column_multiple=start)
    offsets = shared_offsets(reg, shared, (1, 3, start)).reshape(-1, width, 32, 2)
    alive = reg.alive.reshape(offsets.shape)
    steps = offsets - offsets[:, :1] - np.arange(width)[None, :, None, None] * itemsize
    assert not steps[alive].any()
    assert not (offsets[:, 0][alive[:, 0]] % (width * itemsize)).any()
