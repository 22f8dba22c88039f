"""Copies whose last axes are 16 bytes together and one axis to the copy engine: scales in the order of blocks, five axes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.abi import TensorMapSlot
from phalanx.ir.types import chunk_axes
from phalanx.layouts import SharedLayout
from phalanx.layouts.tma import merge_axes
from phalanx.runtime.device.tensormap import geometry
from support import host_tma

E8M0 = ml_dtypes.float8_e8m0fnu


@pytest.mark.parametrize(
    ("shape", "strides", "itemsize", "chunk"),
    [
        ((2, 3, 32, 4, 4), (1536, 512, 16, 4, 1), 1, (4, 4)),
        ((32, 2, 2, 4), (16, 8, 4, 1), 1, (2, 2, 4)),
        ((32, 2, 4), (16, 8, 2), 2, (2, 4)),
        ((32, 4, 4), (32, 4, 1), 1, (4, 4)),  # rows with room between them
        ((32, 16), (16, 1), 1, ()),  # one axis is 16 bytes by itself
        ((32, 4, 4), (16, 1, 4), 1, ()),
        ((32, 4, 8), (32, 8, 1), 1, ()),
        ((32, 4, 4), (24, 4, 1), 1, ()),
        ((3, 4), (4, 1), 1, ()),
    ],
)
def test_which_axes_are_a_chunk(shape: Any, strides: Any, itemsize: int, chunk: tuple[int, ...]) -> None:
    assert chunk_axes(shape, strides, itemsize) == chunk


def test_merged_layouts_and_descriptors() -> None:
    assert merge_axes(SharedLayout((2, 32, 4, 4), 1, start=128), 2) == SharedLayout((2, 32, 16), 1, start=128)
    with pytest.raises(ValueError, match="are not one run of bytes"):
        merge_axes(SharedLayout((2, 32, 4, 4), 1, align=128), 2)
    slot = TensorMapSlot(0, (1, 2, 32, 16), merged=2)
    found = geometry(slot, "u8", (3, 4, 32, 4, 4), (2048, 512, 16, 4, 1), "S")
    assert (found.dims, found.byte_strides, found.box) == ((16, 32, 4, 3), (16, 512, 2048), (16, 32, 2, 1))
    with pytest.raises(px.Error, match="is copied with its last 2 axes as one, which are not contiguous"):
        geometry(slot, "u8", (3, 4, 32, 4, 4), (4096, 1024, 32, 8, 1), "S")


@px.kernel(warps=4)
def through(S, T, *, STAGES=2, BLOCKS=2):
    """Blocks of scales to shared memory and back, from stages that a loop fills."""
    s, full = px.shared((STAGES, 1, BLOCKS, 32, 4, 4), S.dtype), px.barrier(STAGES)
    row = px.block_id(0)
    for k in range(0, S.shape[1], BLOCKS):
        stage, turn = k // BLOCKS % STAGES, k // BLOCKS // STAGES
        with full[stage].transaction():
            px.tma.load(S[row : row + 1, k : k + BLOCKS, 0:32, 0:4, 0:4], s[stage], full[stage])
        full[stage].wait(turn % 2)
        px.tma.store(s[stage], T[row : row + 1, k : k + BLOCKS, 0:32, 0:4, 0:4])
        px.tma.commit()
        px.tma.wait(0)


def blocks(rows: int, columns: int) -> np.ndarray:
    numbers = np.random.default_rng(0).integers(0, 255, (rows, columns, 32, 4, 4), np.uint8)
    return numbers.view(E8M0)


def test_blocks_go_through_a_descriptor_with_one_axis_less() -> None:
    made = px.compile(through[3], *[px.spec((3, 5, 32, 4, 4), px.f8e8m0)] * 2, arch="sm_100a")
    assert "cp.async.bulk.tensor.4d.shared::cluster" in made.ptx and ".5d." not in made.ptx
    assert any("tma.load of S: tensor copy, a box of 1 x 2 x 32 x 16" in str(note) for note in made.notes), made.notes


def test_blocks_in_the_simulator_and_as_text() -> None:
    """Also where the last blocks lie beyond the array."""
    source = blocks(3, 5)
    expected, checked = np.zeros_like(source), np.zeros_like(source)
    through[3](source, expected)
    assert np.array_equal(expected.view(np.uint8), source.view(np.uint8))
    assert px.check(through[3], source, checked).ok
    for seed in range(2):
        found = np.zeros_like(source)
        host_tma.run(through, 3, source, found, arch="sm_100a", seed=seed)
        assert np.array_equal(found.view(np.uint8), source.view(np.uint8))


def test_chunks_with_gaps_between_them_are_rows_of_the_descriptor() -> None:
    wide = np.random.default_rng(1).integers(0, 255, (1, 4, 32, 8, 4), np.uint8).view(E8M0)
    source = wide[:, :, :, 2:6]
    assert not source.flags.c_contiguous
    target = np.zeros((1, 4, 32, 4, 4), E8M0)
    with pytest.raises(px.Error):  # the chunks begin 8 bytes after a multiple of 16
        through[1](source, target)
    source = np.ascontiguousarray(source)
    through[1](source, target)
    assert np.array_equal(target.view(np.uint8), source.view(np.uint8))


def test_a_part_of_a_chunk_is_refused_with_the_whole_as_the_remedy() -> None:
    @px.kernel(warps=1)
    def half(S):
        s, full = px.shared((32, 4, 2), S.dtype), px.barrier()
        with full.transaction():
            px.tma.load(S[0, 0, 0:32, 0:4, 0:2], s, full)
        full.wait(0)

    with pytest.raises(px.Error) as caught:
        px.compile(half[1], px.spec((1, 1, 32, 4, 4), px.u8), arch="sm_90a")
    assert caught.value.kind == "misaligned"
    assert caught.value.remedy == (
        "copy its last axes whole, [..., 0:4, 0:4]: together they are 16 bytes, which a copy takes for one axis"
    )
