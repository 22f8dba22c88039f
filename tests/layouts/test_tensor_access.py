"""`tcgen05.ld` and `.st`: register by register against the hardware's table, and whole tiles through a memory of cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.layouts.fragments import wgmma_accumulator
from phalanx.layouts.registers import collect, distribute
from phalanx.layouts.tensor_access import ACCESS_SHAPES, TensorAccess, tensor_accesses
from phalanx.layouts.tensor_memory import TensorLayout, accumulator, scales, tensor_operand

# lane l, register i -> (lane, column), from the hardware's table
TABLE = {
    "32x32b": lambda l, i: (l, i),
    "16x64b": lambda l, i: (l // 4 + 8 * (l % 2), (l // 2) % 2 + 2 * i),
    "16x128b": lambda l, i: (l // 4 + 8 * (i % 2), l % 4 + 4 * (i // 2)),
    "16x256b": lambda l, i: (l // 4 + 8 * ((i // 2) % 2), 2 * (l % 4) + i % 2 + 8 * (i // 4)),
}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}  # of x1
LARGEST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32}
COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}  # of x1


@pytest.mark.parametrize("name", TABLE)
def test_every_register_of_every_count(name: str) -> None:
    shape = ACCESS_SHAPES[name]
    assert set(TABLE) == set(ACCESS_SHAPES)
    count = 1
    while count <= LARGEST[name]:
        linear = shape.linear(count)
        assert linear.in_size("register") == REGISTERS[name] * count
        assert linear.shape == (int(name[:2]), COLUMNS[name] * count)
        for l in range(32):
            for i in range(REGISTERS[name] * count):
                assert linear(lane=l, register=i) == TABLE[name](l, i)
        count *= 2
    assert shape.counts[-1] == LARGEST[name]
    for wrong in (3, 2 * LARGEST[name]):
        with pytest.raises(ValueError, match=f"not {wrong}"):
            shape.linear(wrong)


class Cells:
    """A small tensor memory of 32-bit cells that executes loads and stores by the table above."""

    def __init__(self) -> None:
        self.words = np.full((128, 512), 0xDEAD0000, dtype=np.uint32)
        self.touched = np.zeros((128, 512), dtype=bool)

    def run(
        self, access: TensorAccess, base: int, warp: int, role: int, registers: list[np.ndarray] | None
    ) -> list[np.ndarray]:
        """Executes all instructions of a warp; `registers[i]` are the 32 lanes of register i. A load returns them."""
        loaded: list[np.ndarray] = []
        for step in access.steps:
            address = base + access.warp_address(warp) + step.offset
            lane0, column0 = address >> 16, address & 0xFFFF
            assert lane0 // 32 == (role + warp) % 4, "a warp reaches its own quarter of the lanes alone"
            assert lane0 % 32 == 0 or (access.shape.lanes == 16 and lane0 % 32 == 16)
            assert step.count in access.shape.counts
            assert step.registers == REGISTERS[access.shape.name] * step.count
            assert step.slot == len(loaded) * access.elements
            for i in range(step.registers):
                values = np.zeros(32, dtype=np.uint32)
                for l in range(32):
                    lane, column = TABLE[access.shape.name](l, i)
                    places = [(lane0 + lane, column0 + column)]
                    if access.packed:
                        places = [(lane0 + lane, column0 + 2 * column + half) for half in range(2)]
                    for half, place in enumerate(places):
                        if registers is None:
                            word = int(self.words[place])
                            values[l] |= (word & 0xFFFF) << 16 * half if access.packed else word
                        else:
                            value = int(registers[len(loaded)][l])
                            self.words[place] = value >> 16 * half & 0xFFFF if access.packed else value
                        self.touched[place] = True
                loaded.append(values)
        return loaded


def in_registers(access: TensorAccess, tile: np.ndarray, bits: int) -> np.ndarray:
    """[32-bit register, lane, warp] of a tile: slots packed, the lowest first."""
    slots = distribute(access.layout, tile).astype(np.uint32)
    packed = slots.reshape(-1, access.elements, 32, access.layout.warps)
    result = np.zeros((packed.shape[0], *packed.shape[2:]), dtype=np.uint32)
    for e in range(access.elements):
        result |= packed[:, e] << np.uint32(e * bits)
    return result


def check(
    layout: TensorLayout, warps: int, bits: int, origin: tuple[int, int], shape: tuple[int, int], role: int = 0
) -> list[str]:
    """Fills tensor memory by places, loads by instructions, stores by instructions, and compares places again."""
    part, base = layout.part(origin, shape), layout.address(origin)
    rng = np.random.default_rng(0)
    tile = rng.integers(0, 1 << min(bits, 31), shape, dtype=np.int64)
    index = (np.arange(shape[0])[:, None] + origin[0], np.arange(shape[1])[None, :] + origin[1])
    lane, column, bit = layout.place(index)
    accesses = tensor_accesses(part, warps, bits, base >> 16, role)
    for access in accesses:
        memory = Cells()
        memory.words[:] = 0
        for copy in layout.copies:
            np.bitwise_or.at(memory.words, (lane + copy, column), (tile << bit).astype(np.uint32))
        loaded = np.stack([np.stack(memory.run(access, base, warp, role, None)) for warp in range(warps)], axis=-1)
        assert np.array_equal(loaded, in_registers(access, tile, bits))
        mask = np.uint32((1 << bits) - 1)
        slots = np.stack([loaded >> np.uint32(e * bits) & mask for e in range(access.elements)], axis=1)
        assert np.array_equal(collect(access.layout, slots.reshape(-1, 32, warps)), tile)
        wanted = np.zeros((128, 512), dtype=bool)
        for copy in layout.copies:
            wanted[lane + copy, column] = True
        assert np.array_equal(memory.touched, wanted), "the cells of the tile are touched, and no others"
        written = Cells()
        for warp in range(warps):
            written.run(access, base, warp, role, list(loaded[:, :, warp]))
        assert np.array_equal(written.words[wanted], memory.words[wanted])
    return [access.shape.name + "+pack" * access.packed for access in accesses]


ALL = ["32x32b", "16x256b", "16x128b", "16x64b"]


@pytest.mark.share(9)
@pytest.mark.parametrize(
    ("layout", "warps", "bits", "shapes"),
    [
        (accumulator((128, 64)), 4, 32, ALL),
        (accumulator((128, 48)), 8, 32, ALL),
        (accumulator((128, 24)), 4, 32, ALL),
        (accumulator((128, 20)), 4, 32, ["32x32b", "16x128b", "16x64b"]),
        (accumulator((256, 24)), 4, 32, ALL),
        (accumulator((64, 32)), 4, 32, ALL[1:]),
        (accumulator((64, 40)), 4, 32, ALL[1:]),
        (accumulator((64, 32)), 8, 32, ALL[1:]),
        (accumulator((64, 32), two_cta=True), 4, 32, ALL),
        (accumulator((64, 64), two_cta=True), 8, 32, ALL),
        (accumulator((128, 32)), 4, 16, [n + p for n in ALL for p in ("+pack", "")]),
        (accumulator((64, 32)), 4, 16, [n + p for n in ALL[1:] for p in ("+pack", "")]),
        (tensor_operand((128, 64), 16), 4, 16, ALL),
        (tensor_operand((128, 96), 16), 8, 16, ALL),
        (tensor_operand((64, 64), 8), 4, 8, ALL[1:]),
        (tensor_operand((64, 64), 8, two_cta=True), 4, 8, ALL),
        (tensor_operand((128, 64), 4), 4, 4, ALL),
        (scales((128, 4)), 4, 8, ["32x32b", "16x128b", "16x64b"]),
        (scales((384, 8)), 4, 8, ["32x32b", "16x128b", "16x64b"]),
        (scales((256, 8)), 8, 8, ["32x32b", "16x256b", "16x128b", "16x64b"]),
    ],
    ids=str,
)
def test_whole_tiles(layout: TensorLayout, warps: int, bits: int, shapes: list[str]) -> None:
    assert check(layout, warps, bits, (0, 0), layout.shape) == shapes  # type: ignore[arg-type]


def test_parts_of_tiles() -> None:
    layout = accumulator((128, 256))
    assert check(layout, 4, 32, (0, 64), (128, 16)) == ALL
    assert check(layout, 2, 32, (64, 8), (64, 8), role=2) == ALL
    assert check(layout, 1, 32, (96, 8), (32, 8), role=7) == ALL
    assert check(layout, 3, 32, (0, 8), (96, 8), role=4) == ALL
    folded = accumulator((64, 48), two_cta=True)
    assert check(folded, 2, 32, (0, 24), (64, 24), role=2) == ALL
    assert check(accumulator((64, 48)), 2, 32, (32, 0), (32, 16), role=2) == ALL[1:]


@given(st.integers(1, 32), st.sampled_from([64, 128]), st.sampled_from([4, 8]), st.sampled_from([4, 16, 128]))
def test_any_columns(eighths: int, rows: int, warps: int, most: int) -> None:
    n = 8 * eighths
    try:
        accesses = tensor_accesses(accumulator((rows, n)), warps, most=most)
    except ValueError as problem:
        assert warps == 8 and "shared evenly" in str(problem) and n % 16
        return
    for access in accesses:
        assert access.layout.num_registers == rows * n // (32 * warps)
        assert sum(step.registers for step in access.steps) == access.layout.num_registers
        assert max(step.registers for step in access.steps) <= most
        slots = [slot for step in access.steps for slot in range(step.slot, step.slot + step.registers)]
        assert slots == list(range(access.layout.num_registers))


@pytest.mark.parametrize("n", [8, 64, 256])
def test_64_rows_are_the_accumulator_of_wgmma(n: int) -> None:
    access = tensor_accesses(accumulator((64, n)), 4)[0]
    assert access.shape.name == "16x256b"
    assert access.layout == wgmma_accumulator(64, n, 4)


def test_addresses_as_text() -> None:
    access = tensor_accesses(accumulator((128, 256)), 8)[0]
    assert access.warp_expression() == "(warp % 4 << 21) + warp / 4 * 128"
    text = access.warp_expression("w", "//")
    assert [eval(text, {"w": w}) for w in range(8)] == [access.warp_address(w) for w in range(8)]
    four = tensor_accesses(accumulator((128, 256)), 4)[0]
    assert four.warp_expression() == "(warp << 21)"
    assert [(step.offset, step.count) for step in four.steps] == [(0, 128), (128, 128)]
    one = tensor_accesses(accumulator((32, 8)), 1)[0]
    assert one.warp_expression() == "0"


def test_objections() -> None:
    layout = accumulator((128, 64))
    with pytest.raises(ValueError, match="lanes 0 to 127, a warp reaches 32 of them: 4, 8 or 16 warps are needed, not 2"):
        tensor_accesses(layout, 2)
    with pytest.raises(ValueError, match="the first of 4 warps that access it is 0 or 4, 8, 12 more, not 2"):
        tensor_accesses(layout, 4, first_warp=2)
    with pytest.raises(ValueError, match="lanes 64 to 127, a warp reaches 32 of them: 2 warps are needed, not 4"):
        tensor_accesses(layout.part((64, 0), (64, 64)), 4, first_lane=64)
    with pytest.raises(ValueError, match="the second 24 of 48 columns lie in the upper lanes"):
        tensor_accesses(accumulator((64, 48), two_cta=True), 4)
    with pytest.raises(ValueError, match="2 columns can't be shared evenly by 4 groups of warps"):
        tensor_accesses(layout.part((0, 0), (128, 2)), 16)
    with pytest.raises(ValueError, match="takes a matrix"):
        tensor_accesses(accumulator((2, 128, 8)), 4)
