"""Products cut into instructions: each is executed here from its words and addresses alone, on bytes and cells."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.ir.tensor_kinds import KINDS, Kind
from phalanx.layouts.mma import SharedOperand, shared_operand
from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tcgen05 import ProductStep, descriptor_of, split_product, tcgen05_operand
from phalanx.layouts.tcgen05_words import InstructionDescriptor
from phalanx.layouts.tensor_memory import TensorLayout, accumulator, scales, tensor_operand

TYPES = {
    "f16": ("f16", "f32"), "tf32": ("f32", "f32"), "f8f6f4": ("f8e4m3", "f32"), "i8": ("i8", "i32"),
    "mxf8f6f4": ("f8e4m3", "f32"), "mxf4": ("f4e2m1", "f32"), "mxf4nvf4": ("f4e2m1", "f32"),
}  # fmt: skip
SWIZZLE_OF_CODE = {0: 0, 2: 128, 4: 64, 6: 32}
BASE = 4096  # where tiles begin in shared memory


class Cta:
    """Shared memory as bytes and tensor memory as cells, read and written by the words of an instruction.

    Elements are whole numbers of `bits` bits; cells of the accumulator hold whole numbers. Nothing of `phalanx.layouts` is
    used: the rules are those of the hardware's text.
    """

    def __init__(self) -> None:
        self.shared = np.zeros(1 << 18, dtype=np.uint8)
        self.cells = np.zeros((128, 512), dtype=np.int64)

    def element(self, word: int, row: int, k: int, bits: int, transposed: bool) -> int:
        """Element (row of M or N, k) of the tile that a descriptor names."""
        start, leading, stride = (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4
        assert word >> 46 & 7 == 1 and word >> 49 & 7 == 0
        width = SWIZZLE_OF_CODE[word >> 61]
        if transposed:
            byte = row * bits // 8
            at = start + byte // width * leading + k // 8 * stride + k % 8 * width + byte % width
        else:
            byte = k * bits // 8
            at = start + row // 8 * stride
            at += row % 8 * width + byte if width else row % 8 * 16 + byte // 16 * leading + byte % 16
        chunks = {0: 0, 32: 1, 64: 3, 128: 7}[width]
        at ^= (at >> 7 & chunks) << 4
        if bits == 4:
            return int(self.shared[at]) >> 4 * (k % 2) & 15
        return int.from_bytes(self.shared[at : at + bits // 8].tobytes(), "little")

    def tensor_element(self, address: int, lane: int, k: int, bits: int) -> int:
        """Element k of a lane of the A operand in tensor memory."""
        per_cell = 32 // bits
        word = int(self.cells[(address >> 16) + lane, (address & 0xFFFF) + k // per_cell])
        return word >> k % per_cell * bits & ((1 << bits) - 1)

    def scale(self, address: int, row: int, byte: int, lane: int) -> int:
        """The scale of a row of A or B for whoever works in this lane: from the quarter of its own."""
        column = (address & 0xFFFF) + row // 128 * 4 + row % 128 // 32
        return int(self.cells[lane // 32 * 32 + row % 32, column]) >> 8 * byte & 255


def lane_of(form: str, row: int, column: int, n: int) -> tuple[int, int]:
    """Where row and column of an instruction's result lie."""
    if form == "F":
        return 32 * (row // 16) + row % 16, column
    if form == "B":
        return row + 64 * (column // (n // 2)), column % (n // 2)
    return row, column


def execute(
    ctas: list[Cta], kind: Kind, step: ProductStep, a: int, b: int, d: int, sa: int, sb: int, block: int, a_in_cells: bool
) -> None:
    """One tcgen05.mma: `a` and `b` are the descriptors (or A's address), `d`, `sa`, `sb` addresses, of the first step."""
    word = step.word
    scaled = kind.scaled
    n = (word >> 17 & 63) * 8
    m = (word >> 27 & 3) * 128 if scaled else (word >> 24 & 31) * 16
    trans_a, trans_b = bool(word >> 15 & 1), bool(word >> 16 & 1)
    bits, depth = kind.bits, 256 // kind.bits
    rows = m // len(ctas)
    form = {(1, 64): "F", (2, 64): "B"}.get((len(ctas), rows), "D")
    share = n // len(ctas)
    right = np.array(
        [[ctas[c // share].element(b + step.b, c % share, k, bits, trans_b) for k in range(depth)] for c in range(n)]
    )
    for cta in ctas:
        for r in range(rows):
            lefts: dict[int, np.ndarray] = {}  # by lane: A in tensor memory is read where the accumulator is
            for c in range(n):
                lane, column = lane_of(form, r, c, n)
                place = ((d + step.d >> 16) + lane, (d + step.d & 0xFFFF) + column)
                if lane not in lefts and a_in_cells:
                    lefts[lane] = np.array([cta.tensor_element(a + step.a, lane, k, bits) for k in range(depth)])
                elif lane not in lefts:
                    lefts[lane] = np.array([cta.element(a + step.a, r, k, bits, trans_a) for k in range(depth)])
                left = lefts[lane]
                products = left * right[c]
                if scaled:
                    per = depth // block
                    for part in range(per):
                        factor = cta.scale(sa + step.scale_a, r, (word >> 29 & 3) + part, lane)
                        factor *= cta.scale(sb + step.scale_b, c, (word >> 4 & 3) + part, lane)
                        products[part * block : (part + 1) * block] *= factor
                cta.cells[place] = (0 if step.first else cta.cells[place]) + int(products.sum())


def fill(cta: Cta, layout: SharedLayout, values: np.ndarray, bits: int) -> None:
    """Writes a matrix to shared memory where its layout says; 4-bit elements two to a byte."""
    if bits == 4:
        values, bits = values[:, ::2] | values[:, 1::2] << 4, 8
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            at = BASE + int(layout.offset((row, column)))
            cta.shared[at : at + bits // 8] = list(int(values[row, column]).to_bytes(bits // 8, "little"))


def fill_cells(cta: Cta, layout: TensorLayout, address: int, values: np.ndarray) -> None:
    lane, column, bit = layout.place(np.ix_(*(np.arange(extent) for extent in values.shape)))
    for copy in layout.copies:
        np.bitwise_or.at(cta.cells, (lane + copy + (address >> 16), column + (address & 0xFFFF)), values << bit)


def tile(rows: int, k: int, bits: int, transposed: bool, swizzle: int) -> SharedLayout:
    item = max(1, bits // 8)
    shape = (k, rows) if transposed else (rows, k if bits > 4 else k // 2)
    return SharedLayout(shape, item, swizzle, (swizzle or 16) // item)


CASES = [
    # kind, (rows, n, k), two_cta, (A, B MN-major), swizzle, block, A in tensor memory
    ("f16", (128, 16, 64), False, (False, False), 128, 0, False),
    ("f16", (64, 24, 32), False, (False, False), 64, 0, False),
    ("f16", (256, 8, 32), False, (False, False), 32, 0, False),
    ("f16", (128, 8, 32), False, (False, False), 0, 0, False),
    ("f16", (128, 64, 32), False, (True, True), 128, 0, False),
    ("f16", (64, 32, 16), False, (True, True), 32, 0, False),
    ("f16", (64, 512, 32), False, (False, True), 64, 0, False),
    ("f16", (64, 264, 16), False, (False, False), 32, 0, False),
    ("f16", (64, 320, 16), False, (True, True), 128, 0, False),  # five of 64: halves would begin inside a panel
    ("tf32", (128, 8, 16), False, (False, False), 64, 0, False),
    ("i8", (64, 32, 64), False, (False, True), 32, 0, False),
    ("f8f6f4", (128, 16, 128), False, (True, False), 128, 0, False),
    ("f16", (128, 32, 32), True, (False, False), 64, 0, False),
    ("f16", (64, 32, 32), True, (False, False), 64, 0, False),
    ("mxf8f6f4", (128, 16, 256), False, (False, False), 128, 32, False),
    ("mxf8f6f4", (128, 136, 64), False, (False, False), 64, 32, False),
    ("mxf8f6f4", (128, 16, 64), True, (False, False), 64, 32, False),
    ("mxf4", (128, 8, 256), False, (False, False), 128, 32, False),
    ("mxf4nvf4", (128, 8, 128), False, (False, False), 64, 16, False),
    ("f16", (128, 8, 64), False, (False, False), 128, 0, True),
    ("f16", (64, 8, 32), False, (False, False), 64, 0, True),
    ("f16", (64, 32, 32), True, (False, False), 64, 0, True),
    ("mxf4", (128, 8, 128), False, (False, False), 64, 32, True),
    ("i8", (256, 8, 64), False, (False, False), 64, 0, True),
]


@pytest.mark.share(9)
@pytest.mark.parametrize(("name", "shape", "two_cta", "major", "swizzle", "block", "a_in_cells"), CASES, ids=str)
def test_the_instructions_of_a_product(
    name: str,
    shape: tuple[int, int, int],
    two_cta: bool,
    major: tuple[bool, bool],
    swizzle: int,
    block: int,
    a_in_cells: bool,
) -> None:
    kind, (rows, n, k), count = KINDS[name], shape, 2 if two_cta else 1
    rng = np.random.default_rng(1)
    limit = 1 << min(kind.bits, 8)
    left = [rng.integers(0, limit, (rows, k)) for _ in range(count)]
    right = [rng.integers(0, limit, (n // count, k)) for _ in range(count)]
    layout_a, layout_b = tile(rows, k, kind.bits, major[0], swizzle), tile(n // count, k, kind.bits, major[1], swizzle)
    b_base = BASE + 131072
    ctas = [Cta() for _ in range(count)]
    d, acc = accumulator((rows, n), two_cta), 0
    if a_in_cells:
        a: SharedOperand | TensorLayout = tensor_operand((rows, k), kind.bits, two_cta)
        a_word = 384
    else:
        a = tcgen05_operand(layout_a, major[0], kind)
        a_word = descriptor_of(a, BASE).encode()
    b = tcgen05_operand(layout_b, major[1], kind)
    b_word = descriptor_of(b, b_base).encode()
    scale_a = scale_b = None
    factors: list[np.ndarray] = [np.ones((rows, 1), dtype=np.int64)] * count
    factor_b = np.ones((n, 1), dtype=np.int64)
    if block:
        scale_a, scale_b = scales((rows, k // block)), scales((n, k // block))
        factors = [rng.integers(1, 9, (rows, k // block)) for _ in range(count)]
        factor_b = rng.integers(1, 9, (n, k // block))
    for cta, mine, half, factor in zip(ctas, left, right, factors, strict=True):
        if a_in_cells:
            fill_cells(cta, a, a_word, mine)  # type: ignore[arg-type]
        else:
            fill(cta, layout_a, mine.T if major[0] else mine, kind.bits)
        cta.shared = np.roll(cta.shared, 131072)  # B is filled at the same place, A then lies behind
        fill(cta, layout_b, half.T if major[1] else half, kind.bits)
        cta.shared = np.roll(cta.shared, -131072)
        if block:
            fill_cells(cta, scale_a, 320, factor)  # type: ignore[arg-type]
            fill_cells(cta, scale_b, 352, factor_b)  # type: ignore[arg-type]
    operand, result = TYPES[name]
    word = InstructionDescriptor(
        name, operand, operand, result, 0, 0, *major, scale=("f8e8m0" if block else None)
    )
    steps = split_product(
        kind, shape, a, b, d, word, two_cta=two_cta, scale_a=scale_a, scale_b=scale_b, block=block
    )
    for step in steps:
        execute(ctas, kind, step, a_word, b_word, acc, 320, 352, block, a_in_cells)
    per = k // factors[0].shape[1]
    whole = np.concatenate(right) * np.repeat(factor_b, per, axis=1)
    lane, column, _ = d.place(np.ix_(np.arange(rows), np.arange(n)))
    for cta, mine, factor in zip(ctas, left, factors, strict=True):
        wanted = (mine * np.repeat(factor, per, axis=1)) @ whole.T
        assert np.array_equal(cta.cells[lane, column], wanted)


def words(steps: tuple[ProductStep, ...]) -> list[tuple[int, ...]]:
    return [(s.a, s.b, s.d, s.scale_a, s.scale_b, s.word, s.first) for s in steps]


def test_the_instructions_of_a_bf16_kernel_of_one_cta() -> None:
    """128 x 256, K step 64: four instructions on A and B, each 32 bytes (+2) further along K; one accumulator.

    idesc(1, 1, 1, 0, 0, 128, 256) is 0x08400490, sdesc(a, 16, 1024, 2) is a >> 4 | 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61.
    """
    a = tcgen05_operand(SharedLayout((4, 128, 64), 2, 128, 64), False, KINDS["f16"])
    b = tcgen05_operand(SharedLayout((4, 256, 64), 2, 128, 64), False, KINDS["f16"])
    assert descriptor_of(a, 1024).encode() == 0x4000_4040_0001_0040 == descriptor_of(b, 1024).encode()
    assert descriptor_of(a).fields == 0x4000_4040_0001_0000
    word = InstructionDescriptor("f16", "bf16", "bf16", "f32", 128, 256)
    steps = split_product(KINDS["f16"], (128, 256, 64), a, b, accumulator((128, 256)), word)
    assert words(steps) == [(2 * j, 2 * j, 0, 0, 0, 0x08400490, j == 0) for j in range(4)]


def test_the_instructions_of_an_mxf8_kernel_of_a_pair() -> None:
    """256 x 128 for two CTAs, K step 128: each has 128 rows of A, 64 of B, 4 columns of scales of A and 4 of B.

    Instruction j is 32 bytes (+2) further along K and takes byte j of the same cells:
    idesc_mx(0, 0, 256, 128, 1, 0, 0) | j << 29 | j << 4.
    """
    kind = KINDS["mxf8f6f4"]
    a = tcgen05_operand(SharedLayout((5, 128, 128), 1, 128, 128), False, kind)
    b = tcgen05_operand(SharedLayout((5, 64, 128), 1, 128, 128), False, kind)
    word = InstructionDescriptor("mxf8f6f4", "f8e4m3", "f8e4m3", "f32", 256, 128, scale="f8e8m0")
    steps = split_product(
        kind, (128, 128, 128), a, b, accumulator((128, 128), True), word,
        two_cta=True, scale_a=scales((128, 4)), scale_b=scales((128, 4)), block=32,
    )  # fmt: skip
    expected = [0x10A00000, 0x30A00010, 0x50A00020, 0x70A00030]
    assert words(steps) == [(2 * j, 2 * j, 0, 0, 0, expected[j], j == 0) for j in range(4)]
    assert accumulator((2, 128, 128), True).columns == 256  # two accumulators, then the scales from column 256 on
    assert scales((128, 4)).columns == 4


def test_scales_advance_with_k_and_the_columns() -> None:
    kind = KINDS["mxf4nvf4"]
    a = tcgen05_operand(SharedLayout((256, 64), 1, 64, 64), False, kind)
    b = tcgen05_operand(SharedLayout((512, 64), 1, 64, 64), False, kind)
    word = InstructionDescriptor("mxf4nvf4", "f4e2m1", "f4e2m1", "f32", 0, 0, scale="f8e4m3")
    steps = split_product(
        kind, (256, 512, 128), a, b, accumulator((256, 512)), word,
        scale_a=scales((256, 8)), scale_b=scales((512, 8)), block=16,
    )  # fmt: skip
    found = [(s.row, s.column, s.k, s.scale_a, s.scale_b, s.d) for s in steps]
    assert found == [
        (row, column, k, row // 128 * 4 + k // 64 * 8, column // 128 * 4 + k // 64 * 16, row // 128 * 512 + column)
        for row in (0, 128) for column in (0, 256) for k in (0, 64)
    ]  # fmt: skip


@pytest.mark.parametrize(("rows", "k", "item", "swizzle"), [(128, 64, 2, 128), (64, 128, 1, 64), (256, 64, 4, 32)])
def test_k_major_operands_are_those_of_wgmma(rows: int, k: int, item: int, swizzle: int) -> None:
    layout = SharedLayout((rows, k), item, swizzle, swizzle // item)
    assert tcgen05_operand(layout, False) == shared_operand(layout, False)


def test_a_view_that_begins_inside_its_buffer() -> None:
    layout = SharedLayout((128, 256), 2, 128, 64)
    operand, kind = tcgen05_operand(layout, False, KINDS["f16"]), KINDS["f16"]
    word = InstructionDescriptor("f16", "bf16", "bf16", "f32", 0, 0)
    steps = split_product(
        kind, (128, 128, 64), operand, operand, accumulator((128, 128)), word, a_column=32, b_column=192
    )
    panel = 128 * 128 // 16
    assert [step.a for step in steps] == [0, 2, panel - 4, panel - 2]  # the second half lies in the next panel
    assert [step.b for step in steps] == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("layout", "transposed", "kind", "text"),
    [
        (SharedLayout((128, 64), 2), False, "f16", "a swizzle of 32, 64 or 128 bytes, or in panels of 16 bytes"),
        (SharedLayout((128, 20), 2), False, "f16", "rows of 40 bytes can't have one"),
        (SharedLayout((128, 64), 2, 64, 64), False, "f16", "as wide as the swizzle of 64 bytes"),
        (SharedLayout((12, 64), 2, 128, 64), False, "f16", "come in eights, not 12"),
        (SharedLayout((32, 32), 4, 128, 32), True, "tf32", "under the swizzle of 128 bytes in atoms of 32"),
        (SharedLayout((64, 64), 2, 128, 64, wide=True), True, "f16", "tf32, and it alone, is read across K"),
        (SharedLayout((64, 64), 1, 64, 64), True, "mxf4", "4-bit operands of kind mxf4 are read along K alone"),
        (SharedLayout((64, 64), 2, 0, 8), True, "f16", "has a swizzle of 32, 64 or 128 bytes"),
    ],
)
def test_tiles_that_no_descriptor_names(layout: SharedLayout, transposed: bool, kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        tcgen05_operand(layout, transposed, KINDS[kind])


def test_words_that_are_read_across_k() -> None:
    """tf32, 64 rows of M: two panels of 32 columns, four rows of K to a pattern; a step of 8 is two of them."""
    operand = tcgen05_operand(SharedLayout((16, 64), 4, 128, 32, wide=True), True, KINDS["tf32"])
    assert (operand.leading, operand.stride, operand.step_offset(1), operand.row_offset(32)) == (2048, 512, 1024, 2048)
    assert descriptor_of(operand).encode() >> 61 == 1
    assert operand.reach_problem(8, 8) is None
    assert operand.reach_problem(4, 8) == ("from byte 16 of its rows on, no multiple of 32", 8)


def test_layouts_that_products_do_not_use() -> None:
    kind, word = KINDS["f16"], InstructionDescriptor("f16", "bf16", "bf16", "f32", 0, 0)
    operand = tcgen05_operand(SharedLayout((64, 64), 2, 128, 64), False, kind)
    with pytest.raises(ValueError, match="does not lie as products of 64 x 64 write it"):
        split_product(kind, (64, 64, 64), operand, operand, accumulator((64, 64), True), word)
    with pytest.raises(ValueError, match="does not lie as products of kind f16 read it"):
        split_product(kind, (64, 64, 64), tensor_operand((64, 64), 8), operand, accumulator((64, 64)), word)
    with pytest.raises(ValueError, match="kind f16 take no scales"):
        split_product(kind, (64, 64, 64), operand, operand, accumulator((64, 64)), word, scale_a=scales((64, 2)))
    with pytest.raises(ValueError, match="K of a product of kind f16 is a multiple of 16, not 40"):
        split_product(kind, (64, 64, 40), operand, operand, accumulator((64, 64)), word)
