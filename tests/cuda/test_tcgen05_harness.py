"""`tcgen05.mma` on the CPU: every kind, layout and place of the operands, by images of shared and tensor memory.

A test writes the bytes of shared memory and the cells of tensor memory itself, as PTX's tables say, runs one instruction,
and reads all cells back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from phalanx.cuda.nvrtc import compile_cuda
from support.blackwell_texts import FURTHER, KINDS, instruction_text
from support.host_cuda import COMPILER, MISSING, HostFailure, launch
from support.host_hand import HandWritten

F16, BF16, F32, I8, U8 = np.float16, ml_dtypes.bfloat16, np.float32, np.int8, np.uint8
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
E2M1, E2M3, E3M2 = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn
needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)

COLUMNS, IMAGE = 512, 65536


TEXTS = {group: instruction_text(group) for group in (1, 2)}


@pytest.mark.share(2)
@pytest.mark.parametrize("group", TEXTS)
def test_the_texts_compile(group: int) -> None:
    assert compile_cuda(TEXTS[group], "sm_100a").resources[0].function == "one"


# ---------------------------------------------------------------------- images

WIDTHS = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}
BASE = 4096  # of shared memory, where addresses begin


def swizzled(address: int, swizzle: int) -> int:
    """Sixteen-byte parts of a row change places by the number of the row in its period; or parts of 32 bytes."""
    if swizzle == 1:
        return address ^ (address >> 7 & 3) << 5
    parts = {0: 0, 2: 7, 4: 3, 6: 1}[swizzle]
    return address ^ (address >> 7 & parts) << 4


def descriptor(address: int, leading: int, stride: int, swizzle: int) -> int:
    fields = (BASE + address) >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32
    return fields | 1 << 46 | swizzle << 61


def place_rows(image: np.ndarray, at: int, rows: np.ndarray, swizzle: int) -> int:
    """Puts a K-major operand's rows of 32 bytes into shared memory, in the second half of rows as wide as the swizzle."""
    width = WIDTHS[swizzle]
    inner = 32 if width > 32 else 0
    columns = len(rows) // 8 * 128  # without a swizzle: the right 16 bytes of all rows behind the left ones
    for r, row in enumerate(rows):
        for part in range(2):
            where = at + r // 8 * 128 + r % 8 * 16 + part * columns
            if swizzle:
                where = swizzled(at + r // 8 * 8 * width + r % 8 * width + inner + 16 * part, swizzle)
            image[where : where + 16] = row[16 * part : 16 * part + 16]
    return descriptor(at + inner, columns, 128, 0) if swizzle == 0 else descriptor(at + inner, 16, 8 * width, swizzle)


def place_columns(image: np.ndarray, at: int, values: np.ndarray, swizzle: int) -> int:
    """Puts an MN-major operand (rows, K) into shared memory: panels as wide as the swizzle, one behind the other."""
    rows, k = values.shape
    item, width = values.itemsize, WIDTHS[swizzle]
    panel, deep = width // item, 4 if swizzle == 1 else 8
    far = max(k * width, 1024)
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(rows, k, item)
    for r in range(rows):
        for i in range(k):
            where = swizzled(at + r // panel * far + i * width + r % panel * item, swizzle)
            image[where : where + item] = raw[r, i]
    if swizzle == 0:
        return descriptor(at, 8 * width, far, 0)  # without a swizzle the two strides change places
    return descriptor(at, far, deep * width, swizzle)


NARROW = {E2M1: 4, E2M3: 6, E3M2: 6}
"""Bits of those that are packed."""
CODES: dict[Any, int] = {F16: 0, BF16: 1, F32: 2, E4M3: 0, E5M2: 1, U8: 0, I8: 1, E2M1: 5, E2M3: 3, E3M2: 4}
RESULTS = {0: np.float16, 1: np.float32, 2: np.int32}


def row_bytes(values: np.ndarray, kind: str, contained: bool = False) -> np.ndarray:
    """Rows of an operand as 32 bytes each, as they lie in shared memory, or `contained` in tensor memory."""
    dtype = values.dtype.type
    if dtype not in NARROW:
        return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), 32)
    bits, codes = NARROW[dtype], values.view(np.uint8)
    if "f4" in kind and kind != "f8f6f4" and kind != "mxf8f6f4":  # two to a byte
        return codes[:, ::2] | codes[:, 1::2] << 4
    if contained:
        return codes << 2 if bits == 4 else codes
    packed = np.zeros((len(values), 2, 16), np.uint8)
    as_bits = np.unpackbits(codes.reshape(-1, 16, 1), axis=2, bitorder="little")[:, :, :bits]
    together = np.packbits(as_bits.reshape(-1, 16 * bits), axis=1, bitorder="little")
    packed[:, :, : 2 * bits] = together.reshape(len(values), 2, -1)
    return packed.reshape(len(values), 32)


# ---------------------------------------------------------------------- one instruction


@dataclass(frozen=True)
class Case:
    kind: str
    a: Any
    b: Any
    m: int = 128
    n: int = 32
    group: int = 1
    d: int = 1  # the type's code
    swizzle_a: int = 2
    swizzle_b: int = 2
    across_a: bool = False
    across_b: bool = False
    a_in_tensor_memory: bool = False
    accumulate: bool = True
    negate: int = 0
    lane: int = 0
    ids: tuple[int, int] = (0, 0)
    ue8m0: bool = True
    changes: dict[str, int] = field(default_factory=dict)  # bits of words, for what is wrong

    @property
    def k(self) -> int:
        return {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32}.get(self.kind, 64)

    @property
    def block(self) -> int:
        return 16 if self.kind == "nvf4 per 16" else 32

    @property
    def scaled(self) -> bool:
        return self.kind.startswith(("mx", "nv"))

    def word(self) -> int:
        if not self.scaled:
            word = self.d << 4 | CODES[self.a] << 7 | CODES[self.b] << 10 | self.m // 16 << 24
        else:
            four = self.k == 64
            types = (1, 1) if four else (CODES[self.a], CODES[self.b])
            word = types[0] << 7 | types[1] << 10 | self.m // 128 << 27
            word |= self.ue8m0 << 23 | self.ids[1] << 4 | self.ids[0] << 29
        return word | self.n // 8 << 17 | self.negate << 13 | self.across_a << 15 | self.across_b << 16


SCALES_A, SCALES_B, LEFT = 256, 272, 300  # columns


def values_of(rng: np.random.Generator, dtype: Any, shape: tuple[int, int]) -> np.ndarray:
    low = 0 if dtype is np.uint8 else -3
    return rng.integers(low, 4, shape).astype(dtype)


def where(case: Case, row: Any, column: Any) -> tuple[Any, Any, Any]:
    """The CTA, lane and column of an element of the result, or of many."""
    if case.group == 2 and case.m == 128:
        half = case.n // 2
        return row // 64, row % 64 + 64 * (column // half), column % half
    if case.m == 64:
        return 0, case.lane + 32 * (row // 16) + row % 16, column
    return row // 128, row % 128, column


def put_scales(cells: np.ndarray, column: int, codes: np.ndarray, first: int, rng: np.random.Generator) -> None:
    """Bytes of words in 32 lanes, repeated in the other quarters; what nobody reads is something else there."""
    for row, four in enumerate(codes):
        for quarter in range(4):
            word = rng.integers(0, 256, 4).astype(np.uint8)
            word[first : first + len(four)] = four
            cells[32 * quarter + row % 32, column + row // 32] = word.view(np.uint32)[0]


def prepared(case: Case, seed: int) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """The arguments of the kernel, what the result was before and what it should be."""
    rng = np.random.default_rng(seed)
    group, k = case.group, case.k
    images = np.full((group, IMAGE), 0xA5, np.uint8)
    cells = rng.integers(0, 2**32, (group, 128, COLUMNS), dtype=np.uint32)
    a, b = values_of(rng, case.a, (case.m, k)), values_of(rng, case.b, (case.n, k))
    before = rng.integers(-9, 10, (case.m, case.n))
    words = np.zeros(8, np.uint64)
    exact_a, exact_b = a.astype(np.float64), b.astype(np.float64)
    for rank in range(group):
        mine, right = (x[rank * len(x) // group : (rank + 1) * len(x) // group] for x in (a, b))
        if case.across_a:
            words[0] = place_columns(images[rank], 0, mine, case.swizzle_a)
        else:
            words[0] = place_rows(images[rank], 0, row_bytes(mine, case.kind), case.swizzle_a)
        if case.across_b:
            words[1] = place_columns(images[rank], 24576, right, case.swizzle_b)
        else:
            words[1] = place_rows(images[rank], 24576, row_bytes(right, case.kind), case.swizzle_b)
        if case.a_in_tensor_memory:
            images[rank, :24576] = 0xA5
            for row, data in enumerate(row_bytes(mine, case.kind, contained=True)):
                for column in range(0, case.n, max(1, case.n // 2)):  # where the row has its results
                    lane = where(case, row, column)[1]
                    cells[rank, lane, LEFT : LEFT + 8] = np.ascontiguousarray(data).view(np.uint32)
    if case.scaled:
        per_row, low = k // case.block, (124 if case.ue8m0 else 0x30)
        codes = [rng.integers(low, low + 8, (rows, per_row)).astype(np.uint8) for rows in (case.m, case.n)]
        for rank in range(group):
            put_scales(cells[rank], SCALES_A, codes[0][rank * case.m // group :][: case.m // group], case.ids[0], rng)
            put_scales(cells[rank], SCALES_B, codes[1], case.ids[1], rng)
        numbers = [2.0 ** (c.astype(int) - 127) if case.ue8m0 else c.view(E4M3).astype(float) for c in codes]
        exact_a, exact_b = (x * np.repeat(s, case.block, axis=1) for x, s in zip((exact_a, exact_b), numbers, strict=True))
    there = before.astype(RESULTS[case.d])
    bits = there.view(f"u{there.itemsize}").astype(np.uint32)
    cells[where(case, *np.indices(before.shape))] = bits | (0xABCD0000 if case.d == 0 else 0)
    products = exact_a @ exact_b.T * (-1 if case.negate in (1, 2) else 1)
    words[2:] = [case.word(), case.lane << 16, case.lane << 16 | LEFT, SCALES_A, SCALES_B, case.accumulate]
    for name, bits in case.changes.items():
        words[["a", "b", "word", "d", "ta", "sa", "sb"].index(name)] ^= np.uint64(bits)
    want = products + (before if case.accumulate else 0)
    which = 2 * list(KINDS).index(case.kind) + case.a_in_tensor_memory
    return [images, words, cells, which], cells.copy(), want


def run(case: Case, seed: int = 1) -> None:
    args, before, want = prepared(case, seed)
    check(case, args, before, want, seed)


def check(case: Case, args: list[Any], before: np.ndarray, want: np.ndarray, seed: int) -> None:
    """Runs the instruction: what is wanted has come, and nothing else has changed."""
    images, words, cells, which = args
    kernel = HandWritten(TEXTS[case.group], "one", threads=128, shared=IMAGE, cluster=(case.group, 1, 1))
    launch(kernel, case.group, [images, words, cells, which, 1], seed)
    places = where(case, *np.indices((case.m, case.n)))
    touched = np.zeros(cells.shape, bool)
    touched[places] = True
    words_there = cells[places].astype(np.uint16) if case.d == 0 else cells[places]
    assert np.array_equal(words_there.view(RESULTS[case.d]), want.astype(RESULTS[case.d]))
    assert np.array_equal(cells[~touched], before[~touched])


PLAIN = Case("f16", BF16, BF16)
CASES = {
    "layout D": PLAIN,
    "layout D, all columns": replace(PLAIN, n=256, accumulate=False),
    "layout F": replace(PLAIN, m=64, n=24),
    "layout F, upper lanes": replace(PLAIN, m=64, lane=16),
    "layout A": replace(PLAIN, m=256, group=2),
    "layout B": replace(PLAIN, m=128, group=2),
    "layout B, wide": replace(PLAIN, m=128, group=2, n=256, accumulate=False),
    **{f"{kind} of {a.__name__} and {b.__name__}, type {d}": Case(kind, a, b, d=d) for kind, a, b, d in (
        ("f16", F16, F16, 1), ("f16", F16, F16, 0), ("tf32", F32, F32, 1), ("f8f6f4", E4M3, E5M2, 1),
        ("f8f6f4", E5M2, E4M3, 0), ("f8f6f4", E2M1, E3M2, 1), ("f8f6f4", E2M3, E2M1, 1), ("i8", I8, U8, 2),
        ("i8", U8, I8, 2),
    )},
    **{f"swizzles {x} and {y}": replace(PLAIN, swizzle_a=x, swizzle_b=y) for x, y in ((0, 1), (1, 0), (4, 6), (6, 4))},
    **{f"M- and N-major, swizzles {x} and {y}": replace(PLAIN, across_a=True, across_b=True, swizzle_a=x, swizzle_b=y, n=64)
       for x, y in ((2, 4), (4, 6), (6, 0), (0, 2))},
    "M-major A of 8 bits": Case("f8f6f4", E4M3, E4M3, across_a=True, across_b=True, n=48),
    "tf32 M- and N-major": Case("tf32", F32, F32, across_a=True, across_b=True, swizzle_a=1, swizzle_b=1),
    "N-major B by a pair": replace(PLAIN, m=256, group=2, across_b=True, n=64),
    "negative A": replace(PLAIN, negate=1), "negative B": replace(PLAIN, negate=2),
    "both negative": replace(PLAIN, negate=3),
    **{f"A of {a.__name__} in tensor memory": Case(kind, a, b, a_in_tensor_memory=True, d=d) for kind, a, b, d in (
        ("f16", BF16, BF16, 1), ("tf32", F32, F32, 1), ("f8f6f4", E4M3, E4M3, 1), ("f8f6f4", E2M1, E4M3, 1),
        ("f8f6f4", E3M2, E4M3, 1), ("i8", I8, I8, 2),
    )},
    "A in tensor memory, layout F": replace(PLAIN, m=64, a_in_tensor_memory=True, lane=16),
    "A in tensor memory, layout A": replace(PLAIN, m=256, group=2, a_in_tensor_memory=True),
    "A in tensor memory, layout B": replace(PLAIN, m=128, group=2, a_in_tensor_memory=True),
    **{f"mxf8f6f4, scales {x} and {y}": Case("mxf8f6f4", E4M3, E5M2, ids=(x, y))
       for x, y in ((0, 0), (1, 3), (2, 1), (3, 2))},
    "mxf8f6f4 of 4 and 6 bits": Case("mxf8f6f4", E2M1, E3M2),
    "mxf8f6f4, more than 128 columns": Case("mxf8f6f4", E4M3, E4M3, n=200),
    "mxf8f6f4 by a pair": Case("mxf8f6f4", E4M3, E4M3, m=256, group=2, n=160, ids=(2, 1)),
    "mxf4": Case("mxf4", E2M1, E2M1, ids=(0, 2)), "mxf4, other scales": Case("mxf4", E2M1, E2M1, ids=(2, 0)),
    "mxf4 with A in tensor memory": Case("mxf4", E2M1, E2M1, a_in_tensor_memory=True),
    "nvf4": Case("nvf4 per 16", E2M1, E2M1, ue8m0=False), "nvf4 with ue8m0": Case("nvf4 per 16", E2M1, E2M1),
    "nvf4 per 32": Case("nvf4 per 32", E2M1, E2M1, ids=(2, 2)),
    "nvf4 by a pair": Case("nvf4 per 16", E2M1, E2M1, ue8m0=False, m=256, group=2, n=256, accumulate=False),
}  # fmt: skip


@needs_compiler
@pytest.mark.share(18)
@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    for seed in (1, 2):  # at once, and when the commit lands
        run(CASES[name], seed)


@needs_compiler
@pytest.mark.parametrize("name", FURTHER)
def test_lanes_that_are_off_and_sums_that_shrink(name: str) -> None:
    for seed in (1, 2):
        args, before, _ = prepared(replace(PLAIN, accumulate=False), seed)
        products = prepared(replace(PLAIN, accumulate=False), seed)[2]
        sums = prepared(PLAIN, seed)[2]
        there = sums - products
        args[1][7], args[3] = 1, 2 * len(KINDS) + list(FURTHER).index(name)
        want = products + there / {"shift": 8, "lanes and shift": 2}.get(name, 1)
        off = {"lanes": [*range(8), 127], "lanes and shift": [32]}.get(name, [])
        want[off] = there[off]
        check(PLAIN, args, before, want, seed)


MX, FOUR_BITS = Case("mxf8f6f4", E4M3, E4M3), Case("mxf4", E2M1, E2M1)
WRONG = {
    "bits 46 to 48": (replace(PLAIN, changes={"a": 1 << 47}), "bits 46 to 48 of a descriptor are 001"),
    "a reserved bit of a descriptor": (replace(PLAIN, changes={"b": 1 << 55}), "53 to 60 of a descriptor are 0"),
    "a base offset": (replace(PLAIN, changes={"a": 1 << 49}), "a descriptor with base offset 1"),
    "an absolute stride": (replace(PLAIN, changes={"a": 1 << 52}), "absolute address"),
    "a swizzle": (replace(PLAIN, changes={"a": 7 << 61}), "a descriptor with swizzle 5"),
    "a start inside a row": (replace(PLAIN, changes={"a": 5}), "32 bytes of A from byte 112 of rows of 128"),
    "bytes beyond shared memory": (replace(PLAIN, changes={"b": 1 << 13}), r"reads byte \d+ of shared memory, which has"),
    "sparsity": (replace(PLAIN, changes={"word": 4}), "a sparse instruction word"),
    "a reserved bit of the word": (replace(PLAIN, changes={"word": 1 << 6}), "bits 6, 23 and 29 to 31"),
    "D of another type": (replace(PLAIN, changes={"word": 1 << 5}), "kind f16 with type 3 of D"),
    "D of f16 for bf16": (replace(PLAIN, changes={"word": 1 << 4}), "bf16 with D of f16"),
    "A of another type": (replace(PLAIN, changes={"word": 1 << 8}), "kind f16 with type 3 of A"),
    "saturation of floats": (replace(PLAIN, changes={"word": 8}), "kind f16 that saturates"),
    "M": (replace(PLAIN, changes={"word": 1 << 24}), "cta_group::1 and M 144, N 32"),
    "M of a pair": (replace(PLAIN, m=256, group=2, changes={"word": 1 << 28}), "cta_group::2 and M 0"),
    "N of a pair": (replace(PLAIN, m=256, group=2, changes={"word": 1 << 17}), "M 256, N 40"),
    "N of integers": (
        replace(PLAIN, kind="i8", a=I8, b=I8, d=2, changes={"word": 1 << 17}), "kind i8 with cta_group::1 and M 128, N 40"),
    "D at a lane": (replace(PLAIN, changes={"d": 16 << 16}), "D at lane 16"),
    "D beyond the allocation": (replace(PLAIN, changes={"d": 500}), "column 512 of tensor memory"),
    "A at another lane than D": (
        replace(PLAIN, a_in_tensor_memory=True, changes={"ta": 16 << 16}), "A at lane 16 and D at lane 0"),
    "M-major tf32 with another swizzle": (
        Case("tf32", F32, F32, across_a=True, swizzle_a=2), "MN-major A of 32 bits and swizzle 2"),
    "M-major bf16 with atoms of 32 bytes": (
        replace(PLAIN, across_a=True, swizzle_a=1), "MN-major A of 16 bits and swizzle 1"),
    "N-major bytes": (Case("f8f6f4", E4M3, E4M3, across_b=True, n=24), "N-major B of 8 bits: N is a multiple of 16"),
    "scales of ue4m3 for mxf8": (replace(MX, changes={"word": 1 << 23}), "scales per 32 of ue4m3"),
    "M 128 of a pair with scales": (
        Case("mxf8f6f4", E4M3, E4M3, m=128, group=2), "cta_group::2 and M 128: how its scales lie is not known here"),
    "M 64 with scales": (replace(MX, changes={"word": 1 << 27}), "and M 0"),
    "K 96": (replace(FOUR_BITS, changes={"word": 1 << 31}), "K 96"),
    "MN-major with four bits": (replace(FOUR_BITS, changes={"word": 1 << 15}), "kind mxf4 with an MN-major operand"),
    "half of a pair of scales": (replace(FOUR_BITS, changes={"word": 1 << 4}), "2 scales of a row from byte 1"),
    "scales not at lane 0": (replace(MX, changes={"sa": 32 << 16}), "do not begin at lane 0"),
    "scales that differ": (
        replace(MX, changes={"sb": 40}), r"scales of B of row \d+ are 0x\w+ in lane \d+ and 0x\w+ in lane"),
}  # fmt: skip


@pytest.mark.share(2)
@needs_compiler
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(name: str) -> None:
    case, story = WRONG[name]
    for seed in (1, 2):
        with pytest.raises(HostFailure, match=story):
            run(case, seed)
