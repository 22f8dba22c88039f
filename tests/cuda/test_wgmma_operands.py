"""What `wgmma` fetches by the descriptors in the text, as PTX describes it, against the slices that the kernel names."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

import phalanx as px
from phalanx.cuda.module import generate
from phalanx.ir.types import I32, DType, bf16, f8e4m3, f32, i8, i32
from support.cuda_text import body, plan_of
from support.front import array

SWIZZLES = {1: (128, 0x70), 2: (64, 0x30), 3: (32, 0x10)}


@px.kernel(warps=lambda WARPS: WARPS)
def product(A, B, C, n, *, A_SHAPE, B_SHAPE, A_PART, B_PART, TA, TB, WARPS, ALONG, STAGES, ACC):
    """A product of parts (row, column, rows, columns) of the last of several stages."""
    a, b = px.shared((STAGES, *A_SHAPE), A.dtype), px.shared((STAGES, *B_SHAPE), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A.tile((0, 0), A_SHAPE), a[n], full)
        px.tma.load(B.tile((0, 0), B_SHAPE), b[n], full)
    full.wait(0)
    left = a[n][A_PART[0] : A_PART[0] + A_PART[2], A_PART[1] : A_PART[1] + A_PART[3]]
    right = b[n][B_PART[0] : B_PART[0] + B_PART[2], B_PART[1] : B_PART[1] + B_PART[3]]
    m, columns = A_PART[3] if TA else A_PART[2], B_PART[3] if TB else B_PART[2]
    acc = px.zeros((m, columns), ACC)
    px.wgmma(left.T if TA else left, right if TB else right.T, acc, along=ALONG)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:m, 0:columns], acc)


@dataclass(frozen=True)
class Side:
    """An operand: `rows` (of M or N) and K of a buffer, which may be contiguous along either."""

    transposed: bool
    rows: int
    depth: int
    first_row: int = 0
    first_depth: int = 0
    more_rows: int = 0
    more_depth: int = 0

    def turned(self, row: int, depth: int) -> tuple[int, int]:
        return (depth, row) if self.transposed else (row, depth)

    @property
    def part(self) -> tuple[int, ...]:
        return *self.turned(self.first_row, self.first_depth), *self.turned(self.rows, self.depth)

    @property
    def shape(self) -> tuple[int, int]:
        return self.turned(self.first_row + self.rows + self.more_rows, self.first_depth + self.depth + self.more_depth)


def side(rng: random.Random, rows: int, depth: int, step: int, transposed: bool) -> Side:
    def some(multiple: int) -> int:
        return multiple * rng.choice([0, 0, 1, 2, 3])

    if transposed:
        return Side(True, rows, depth, some(rng.choice([8, 16, 32, 64])), some(8), some(16), some(8))
    return Side(False, rows, depth, some(8), some(step), some(8), some(step))


def numbers(text: str, names: dict[str, int]) -> int:
    return int(eval(text.replace("/", "//"), {}, names))


def fetched(address: int, fields: int, transposed: bool, itemsize: int, row: int, k: int) -> int:
    """The byte that one instruction reads as element (row, k) of an operand: the canonical layouts of PTX."""
    leading, stride = (fields >> 16 & 0x3FFF) << 4, (fields >> 32 & 0x3FFF) << 4
    swizzle, mask = SWIZZLES[fields >> 62 & 3]
    panel = swizzle // itemsize
    if transposed:
        plain = address + row // panel * leading + k // 8 * stride + k % 8 * swizzle + row % panel * itemsize
    else:
        plain = address + row // 8 * stride + row % 8 * swizzle + k * itemsize
    return plain ^ (plain >> 3 & mask)


def shifts_of(text: str) -> list[tuple[int, int]]:
    """What each instruction adds to both descriptors: one of a statement of its own, or of one with several steps, whose
    distances from the first are those of A, then those of B."""
    found = []
    call = r"::wgmma_m64n\d+k\d+\w+?(?:_x(\d+)<([\d, -]+)>)?\(\w+(?: \+ \d+)?, px_a(?: \+ (\d+))?, px_b(?: \+ (\d+))?, \w+\)"
    for steps, distances, first_a, first_b in re.findall(call, text):
        more = [int(distance) for distance in distances.split(", ")] if steps else []
        assert len(more) == 2 * (int(steps or 1) - 1)
        for a, b in [(0, 0), *zip(more[: len(more) // 2], more[len(more) // 2 :])]:
            found.append((int(first_a or 0) + a, int(first_b or 0) + b))
    return found


def compare(dtype: DType, a: Side, b: Side, groups: int, along: str, stages: int) -> None:
    """Every instruction of every warpgroup; a product that is refused is an error of the test."""
    integers = dtype == i8
    plan = plan_of(
        product, (array(2, dtype), array(2, dtype), array(2, i32 if integers else f32), I32), A_SHAPE=a.shape,
        B_SHAPE=b.shape, A_PART=a.part, B_PART=b.part, TA=a.transposed, TB=b.transposed, WARPS=4 * groups, ALONG=along,
        STAGES=stages, ACC=px.i32 if integers else px.f32,
    )  # fmt: skip
    text = body(generate(plan))
    names = {"px_base": 0, "n": stages - 1}
    for name, value in re.findall(r"const unsigned (\w+) = (px_base[^;]*);", text):
        names[name] = numbers(value, names)
    descriptors = {
        name: (place, int(fields, 16))
        for name, place, fields in re.findall(r"px_([ab]) = ptx::wgmma_descriptor\((.*), (0x[0-9a-f]+)ull\)", text)
    }
    calls = shifts_of(text)
    high, wide = (groups, 1) if along == "m" else (1, groups)
    step, tiles = 32 // dtype.itemsize, a.rows // (64 * high)
    assert len(calls) == tiles * a.depth // step
    for group in range(groups):
        for number, shifts in enumerate(calls):
            now, tile = divmod(number, tiles)
            begins = {"a": 64 * (tile * high + (group if high > 1 else 0)), "b": b.rows // wide * (group if wide > 1 else 0)}
            for name, operand, rows, shift in (("a", a, 64, shifts[0]), ("b", b, b.rows // wide, shifts[1])):
                place, fields = descriptors[name]
                address = numbers(place, {**names, "px_warp_id": 4 * group}) + 16 * shift
                planned = next(p for buffer, p in plan.buffers.items() if buffer.name == name)
                for row in {*range(0, rows, 7), rows - 1}:
                    for k in {0, 1, step // 2, step - 1}:
                        index = operand.turned(
                            operand.first_row + begins[name] + row, operand.first_depth + now * step + k
                        )
                        want = planned.offset + planned.layout.offset((stages - 1, *index))
                        got = fetched(address, fields, operand.transposed, dtype.itemsize, row, k)
                        assert got == want, f"{name}: warpgroup {group}, instruction {number}, row {row}, k {k}"


@pytest.mark.share(9)
@pytest.mark.parametrize("seed", range(60))
def test_random_products(seed: int) -> None:
    rng = random.Random(seed)
    dtype = rng.choice([bf16, bf16, bf16, f8e4m3, f32, i8])
    groups, along, step = rng.choice([1, 1, 2, 4]), rng.choice("mn"), 32 // dtype.itemsize
    if along == "m":
        m, n = 64 * groups * rng.choice([1, 2] if groups < 4 else [1]), 16 * rng.choice([1, 2, 3, 4, 8, 12, 16])
    else:
        m, n = 64 * rng.choice([1, 2]), groups * rng.choice([16, 32, 64])
    depth = step * rng.choice([1, 2, 3, 4])
    a, b = (side(rng, rows, depth, step, dtype == bf16 and rng.random() < 0.5) for rows in (m, n))
    nbytes = dtype.itemsize * sum(operand.shape[0] * operand.shape[1] for operand in (a, b))
    stages = rng.choice([count for count in (1, 2, 3) if count * nbytes < 200_000])
    try:
        compare(dtype, a, b, groups, along, stages)
    except px.Error as refused:
        assert refused.message.startswith(("wgmma can't read", "px.tma.load can't copy")), refused
        assert a.first_row or a.first_depth or a.more_rows or b.first_row or b.first_depth or b.more_rows


WHOLE = Side(False, 64, 64)


@pytest.mark.parametrize(
    "a, b, groups, along",
    [
        (replace(WHOLE, first_depth=48, more_depth=16), replace(WHOLE, first_depth=48, more_depth=16), 1, "m"),
        (WHOLE, Side(True, 128, 64), 4, "n"),
        (WHOLE, Side(True, 64, 64), 4, "n"),
        (WHOLE, Side(True, 16, 64, first_row=40, more_rows=8), 1, "m"),
        (Side(True, 128, 64, first_row=64), Side(True, 192, 64, first_row=64), 2, "m"),
    ],
    ids=["steps cross a panel", "two groups a panel", "four groups a panel", "inside a panel", "from a panel on"],
)
def test_slices_and_shares(a: Side, b: Side, groups: int, along: Any) -> None:
    compare(bf16, a, b, groups, along, 2)
