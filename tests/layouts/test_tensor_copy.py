"""`tcgen05.cp`: the lanes of each shape against the hardware's table, and whole copies executed on bytes and cells."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tcgen05_words import SharedDescriptor
from phalanx.layouts.tensor_copy import COPY_SHAPES, EXPANSIONS, CopyPlan, plan_copy, source_offset
from phalanx.layouts.tensor_memory import TensorLayout, accumulator, scales, tensor_operand

# shape -> (rows, bytes of a row, lanes of row r)
TABLE = {
    "128x256b": (128, 32, lambda r: [r]),
    "128x128b": (128, 16, lambda r: [r]),
    "4x256b": (4, 32, lambda r: [32 * r]),
    "64x128b.warpx2::02_13": (64, 16, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (64, 16, lambda r: [64 * (r // 32) + r % 32, 64 * (r // 32) + r % 32 + 32]),
    "32x128b.warpx4": (32, 16, lambda r: [r, r + 32, r + 64, r + 96]),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_lanes_and_columns_of_each_shape(name: str) -> None:
    assert set(TABLE) == set(COPY_SHAPES)
    shape, (rows, row_bytes, lanes) = COPY_SHAPES[name], TABLE[name]
    assert (shape.rows, shape.row_bytes, shape.columns) == (rows, row_bytes, row_bytes // 4)
    linear = shape.linear()
    for r in range(rows):
        for b in range(row_bytes):
            lane, column, bit = linear(row=r, byte=b)
            assert ([lane + copy for copy in shape.copies], column, bit) == (lanes(r), b // 4, b % 4 * 8)


def where(word: int, row: int, byte: int) -> int:
    """The address of a byte of the source, from the bits of a descriptor."""
    start, leading, stride = (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4
    width = {0: 16, 6: 32, 4: 64, 2: 128}[word >> 61]
    at = start + row // 8 * stride + row % 8 * width + (byte // 16 * leading + byte % 16 if width == 16 else byte)
    return at ^ (at >> 7 & {16: 0, 32: 1, 64: 3, 128: 7}[width]) << 4


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_the_source(swizzle: int) -> None:
    descriptor = SharedDescriptor(2048 + 16, 512, 4096, swizzle)
    rows, bytes_ = np.arange(64)[:, None], np.arange(32)[None, :]
    found = source_offset(descriptor, rows, bytes_)
    word = descriptor.encode()
    assert all(found[r, b] == where(word, r, b) for r in range(64) for b in range(32))


def run(plan: CopyPlan, shared: np.ndarray, start: int) -> np.ndarray:
    """[lane, column, byte of the cell] after all copies of a plan; 0xEE where none wrote."""
    cells = np.full((128, 512, 4), 0xEE, dtype=np.uint8)
    for step in plan.steps:
        word = plan.descriptor.encode() + ((start + step.source) >> 4)
        rows, row_bytes, lanes = TABLE[step.shape.name]
        assert step.target % 4 == 0, "a copy begins on a multiple of 128 bits"
        for r in range(rows):
            for b in range(row_bytes):
                at = where(word, r, b)
                value = shared[at]
                if plan.expansion is not None:
                    bits = plan.expansion.bits
                    group = int.from_bytes(shared[at - b % 16 : at - b % 16 + 16].tobytes(), "little")
                    value = group >> b % 16 * bits & ((1 << bits) - 1)
                for lane in lanes(r):
                    cells[(step.target >> 16) + lane, (step.target & 0xFFFF) + b // 4, b % 4] = value
    return cells


def cells_of(layout: TensorLayout, values: np.ndarray) -> np.ndarray:
    """What tensor memory should hold: bytes of the cells where the layout puts a tile, 0xEE elsewhere."""
    words = np.zeros((128, 512), dtype=np.uint64)
    used = np.zeros((128, 512), dtype=bool)
    lane, column, bit = layout.place(np.ix_(*(np.arange(extent) for extent in values.shape)))
    for copy in layout.copies:
        np.bitwise_or.at(words, (lane + copy, column), values.astype(np.uint64) << bit.astype(np.uint64))
        used[lane + copy, column] = True
    result = np.stack([words >> np.uint64(8 * b) & np.uint64(255) for b in range(4)], axis=-1).astype(np.uint8)
    result[~used] = 0xEE
    return result


@pytest.mark.parametrize(("rows", "count"), [(128, 4), (256, 4), (128, 8), (384, 12)])
def test_scales_in_block_order(rows: int, count: int) -> None:
    source, target = SharedLayout((rows // 128, count // 4, 32, 4, 4), 1), scales((rows, count))
    plan = plan_copy(source, target)
    assert {step.shape.name for step in plan.steps} == {"32x128b.warpx4"}
    assert plan.descriptor == SharedDescriptor(0, 0, 128)
    values = np.random.default_rng(0).integers(0, 256, (rows, count))
    shared = np.zeros(1 << 16, dtype=np.uint8)
    for r in range(rows):
        for k in range(count):
            block = r // 128 * (count // 4) + k // 4  # 512 bytes each
            shared[1024 + 512 * block + r % 32 * 16 + r % 128 // 32 * 4 + k % 4] = values[r, k]
    assert np.array_equal(run(plan, shared, 1024), cells_of(target, values))


def test_the_scales_of_an_mxf8_kernel() -> None:
    """One copy each for SFA and SFB: sdesc(address, 0, 128, 0) to columns 256 and 260; address >> 4 | 8 << 32 | 1 << 46."""
    plan = plan_copy(SharedLayout((1, 1, 32, 4, 4), 1), scales((128, 4)))
    assert plan.descriptor.encode() == 0x0000_4008_0000_0000
    assert [(step.shape.name, step.source, step.target) for step in plan.steps] == [("32x128b.warpx4", 0, 0)]


@pytest.mark.share(9)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize(
    ("target", "item", "names"),
    [
        (tensor_operand((128, 128), 16), 2, {"128x256b"}),
        (tensor_operand((128, 128), 8), 1, {"128x256b"}),
        (tensor_operand((256, 64), 16), 2, {"128x256b"}),
        (accumulator((128, 32)), 4, {"128x256b"}),
        (tensor_operand((64, 128), 8, two_cta=True), 1, {"64x128b.warpx2::02_13"}),
    ],
    ids=str,
)
def test_matrices(target: TensorLayout, item: int, names: set[str], swizzle: int) -> None:
    source = SharedLayout(target.shape, item, swizzle, (swizzle or 16) // item)
    plan = plan_copy(source, target)
    assert {step.shape.name for step in plan.steps} == names
    values = np.random.default_rng(0).integers(0, 1 << 8 * item, target.shape)
    shared = np.zeros(1 << 17, dtype=np.uint8)
    for r in range(target.rows):
        for c in range(target.width):
            at = 1024 + int(source.offset((r, c)))
            shared[at : at + item] = list(int(values[r, c]).to_bytes(item, "little"))
    assert np.array_equal(run(plan, shared, 1024), cells_of(target, values))


def test_the_last_16_bytes_of_a_row() -> None:
    source, target = SharedLayout((128, 24), 2, 0, 8), tensor_operand((128, 24), 16)
    plan = plan_copy(source, target)
    assert [(step.shape.name, step.source, step.target) for step in plan.steps] == [
        ("128x256b", 0, 0),
        ("128x128b", 2 * 128 * 16, 8),
    ]


def test_packed_4_bit_elements() -> None:
    source, target = SharedLayout((128, 64), 1, 64, 64), tensor_operand((128, 128), 4)
    plan = plan_copy(source, target, element_bits=4)
    assert plan.expansion is None
    values = np.random.default_rng(0).integers(0, 16, target.shape)
    shared = np.zeros(1 << 17, dtype=np.uint8)
    for r in range(128):
        for c in range(64):
            shared[int(source.offset((r, c)))] = values[r, 2 * c] | values[r, 2 * c + 1] << 4
    assert np.array_equal(run(plan, shared, 0), cells_of(target, values))


@pytest.mark.parametrize("bits", [4, 6])
def test_expansion(bits: int) -> None:
    """16 elements in the first 8 (4-bit) or 12 (6-bit) of each 16 bytes become 16 bytes."""
    source, target = SharedLayout((128, 64), 1, 64, 64), tensor_operand((128, 64), 8)
    plan = plan_copy(source, target, element_bits=bits)
    assert plan.expansion is EXPANSIONS[bits]
    assert plan.expansion.name == {4: "b8x16.b4x16_p64", 6: "b8x16.b6x16_p32"}[bits]
    values = np.random.default_rng(0).integers(0, 1 << bits, target.shape)
    shared = np.zeros(1 << 17, dtype=np.uint8)
    for r in range(128):
        for c in range(0, 64, 16):
            packed = sum(int(values[r, c + j]) << j * bits for j in range(16))
            at = int(source.offset((r, c)))
            shared[at : at + 16] = list(packed.to_bytes(16, "little"))
            assert [plan.expansion.source_bit(c + j) for j in range(16)] == [8 * c + j * bits for j in range(16)]
    assert np.array_equal(run(plan, shared, 0), cells_of(target, values))


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (SharedLayout((64, 64), 2, 128, 64), tensor_operand((64, 64), 16), "store it from registers"),
        (SharedLayout((64, 64), 4, 128, 32), accumulator((64, 64), True), "store it from registers"),
        (SharedLayout((32, 64), 4, 128, 32), accumulator((32, 64)), "store it from registers"),
        (SharedLayout((128, 64), 2), tensor_operand((128, 64), 16), "tiles with a swizzle"),
        (SharedLayout((128, 64), 2, 128, 64), tensor_operand((128, 64), 8), "is not what operand D"),
        (SharedLayout((128, 64), 2, 128, 64), accumulator((2, 128, 32)), "fills a matrix"),
        (SharedLayout((128, 4), 1), scales((128, 4)), r"of the shape \(1, 1, 32, 4, 4\), not \(128, 4\)"),
        (SharedLayout((1, 2, 32, 4, 4), 1), scales((256, 4)), r"of the shape \(2, 1, 32, 4, 4\), not"),
    ],
)
def test_objections(source: SharedLayout, target: TensorLayout, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        plan_copy(source, target)
