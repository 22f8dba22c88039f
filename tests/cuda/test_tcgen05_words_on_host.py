"""What the compiler's layouts say of Blackwell's words, executed on the CPU by code that was not written from them.

Descriptors, instruction words, places in tensor memory, loads, stores and copies come from `phalanx.layouts`; the machine
decodes them by itself. So an error in either shows, as long as it is not the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from phalanx.ir.tensor_kinds import KINDS
from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tcgen05 import descriptor_of, split_product, tcgen05_operand
from phalanx.layouts.tcgen05_words import InstructionDescriptor
from phalanx.layouts.tensor_access import TensorAccess, tensor_accesses
from phalanx.layouts.tensor_copy import plan_copy
from phalanx.layouts.tensor_memory import TensorLayout, accumulator, scales, tensor_operand
from support.blackwell_texts import kernel_text, one_instruction
from support.host_cuda import COMPILER, MISSING, launch
from support.host_hand import HandWritten

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i8": np.int8, "u8": np.uint8, "i32": np.int32,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f4e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
BASE = 4096  # where the addresses of shared memory begin
IMAGE, B_AT = 65536, 32768


@dataclass(frozen=True)
class Case:
    kind: str
    a: str
    b: str
    d: str = "f32"
    rows: int = 128
    n: int = 64
    k: int = 128
    swizzles: tuple[int, int] = (128, 128)
    transposed: tuple[bool, bool] = (False, False)
    pair: bool = False
    a_in_tensor_memory: bool = False
    scale: str | None = None
    block: int = 0


def tile(values: np.ndarray, swizzle: int, transposed: bool) -> tuple[SharedLayout, np.ndarray]:
    """A shared tile for values (rows, K): its layout and what it holds, containers as numbers."""
    data = values.T if transposed else values
    if values.dtype == NUMPY["f4e2m1"]:  # two to a byte
        codes = data.view(np.uint8)
        data = codes[:, ::2] | codes[:, 1::2] << 4
    item = data.dtype.itemsize
    return SharedLayout(data.shape, item, swizzle, (swizzle or 16) // item), np.ascontiguousarray(data).view(f"u{item}")


def put(image: np.ndarray, at: int, layout: SharedLayout, data: np.ndarray) -> None:
    offsets = layout.offsets()
    for byte in range(layout.itemsize):
        image[at + offsets + byte] = data >> 8 * byte & 255


def put_cells(cells: np.ndarray, at: int, layout: TensorLayout, codes: np.ndarray, bits: int) -> None:
    """Codes of so many bits into the cells where a layout has them, and into its copies."""
    lane, column, bit = layout.place(np.indices(layout.shape))
    mask = (1 << bits) - 1
    for copy in layout.copies:
        for where in np.ndindex(*layout.shape):
            place = lane[where] + copy, at + column[where]
            cells[place] = int(cells[place]) & ~(mask << int(bit[where])) & 0xFFFFFFFF | int(codes[where]) << int(bit[where])


def words_of(case: Case, layouts: dict[str, Any], at: dict[str, int]) -> np.ndarray:
    kind = KINDS[case.kind]
    word = InstructionDescriptor(
        case.kind, case.a, case.b, case.d, 0, 0, *case.transposed, scale=case.scale
    )
    steps = split_product(
        kind, (case.rows, case.n, case.k), layouts["a"], layouts["b"], layouts["d"], word, two_cta=case.pair,
        scale_a=layouts.get("sa"), scale_b=layouts.get("sb"), block=case.block,
    )  # fmt: skip
    left = 0 if case.a_in_tensor_memory else descriptor_of(layouts["a"], BASE).encode()
    right = descriptor_of(layouts["b"], BASE + B_AT).encode()
    return np.array(
        [[left if case.a_in_tensor_memory else left + s.a, right + s.b, s.word, at["d"] + s.d,
          at["a"] + (s.a if case.a_in_tensor_memory else 0), at["sa"] + s.scale_a, at["sb"] + s.scale_b, not s.first]
         for s in steps], np.uint64,
    )  # fmt: skip


CASES = {
    "bf16": Case("f16", "bf16", "bf16"),
    "bf16, 256 rows and 192 columns": Case("f16", "bf16", "bf16", rows=256, n=192, k=64),
    "384 columns": Case("f16", "f16", "f16", n=384, k=32, swizzles=(64, 64)),
    "64 rows": Case("f16", "bf16", "bf16", rows=64, n=24, k=64, swizzles=(32, 64)),
    "without a swizzle": Case("f16", "f16", "f16", "f16", n=16, k=64, swizzles=(0, 0)),
    "across K": Case("f16", "bf16", "bf16", k=64, transposed=(True, True)),
    "across K, other swizzles": Case("f16", "bf16", "bf16", n=48, k=48, swizzles=(64, 32), transposed=(True, True)),
    "across K, bytes": Case("f8f6f4", "f8e4m3", "f8e5m2", n=128, k=64, transposed=(True, True)),
    "tf32": Case("tf32", "f32", "f32", k=64),
    "fp8": Case("f8f6f4", "f8e4m3", "f8e5m2", "f16", k=256),
    "i8": Case("i8", "i8", "u8", "i32", n=32),
    "pair": Case("f16", "bf16", "bf16", n=256, k=64, pair=True),
    "pair, across K": Case("f16", "bf16", "bf16", n=128, k=64, transposed=(True, True), pair=True),
    "pair of 64 rows": Case("f16", "bf16", "bf16", rows=64, n=128, k=64, pair=True),
    "A in tensor memory": Case("f16", "bf16", "bf16", k=64, a_in_tensor_memory=True),
    "A in tensor memory, 64 rows": Case("f8f6f4", "f8e4m3", "f8e4m3", rows=64, a_in_tensor_memory=True),
    "A in tensor memory, pair of 64 rows": Case("f16", "f16", "f16", rows=64, k=64, a_in_tensor_memory=True, pair=True),
    "mxf8": Case("mxf8f6f4", "f8e4m3", "f8e4m3", k=256, scale="f8e8m0", block=32),
    "mxf8, many columns": Case("mxf8f6f4", "f8e4m3", "f8e5m2", n=192, scale="f8e8m0", block=32),
    "mxf8 pair": Case("mxf8f6f4", "f8e4m3", "f8e4m3", n=256, k=128, scale="f8e8m0", block=32, pair=True),
    "mxf4": Case("mxf4", "f4e2m1", "f4e2m1", k=256, scale="f8e8m0", block=32),
    "nvf4": Case("mxf4nvf4", "f4e2m1", "f4e2m1", k=256, scale="f8e4m3", block=16),
    "nvf4 with ue8m0": Case("mxf4nvf4", "f4e2m1", "f4e2m1", k=256, n=136, scale="f8e8m0", block=16),
    "nvf4 pair": Case("mxf4nvf4", "f4e2m1", "f4e2m1", n=128, k=256, scale="f8e4m3", block=16, pair=True),
    "mxf4 with A in tensor memory": Case(
        "mxf4", "f4e2m1", "f4e2m1", k=256, scale="f8e8m0", block=32, a_in_tensor_memory=True),
}  # fmt: skip


@pytest.mark.share(9)
@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(0)
    group, kind = 1 + case.pair, KINDS[case.kind]
    a, b = (rng.integers(0 if t == "u8" else -3, 4, (rows, case.k)).astype(NUMPY[t])
            for t, rows in ((case.a, case.rows * group), (case.b, case.n)))  # fmt: skip
    layouts: dict[str, Any] = {"d": accumulator((case.rows, case.n), case.pair)}
    at = {"d": 0, "a": 384, "sa": 448, "sb": 480}
    images = np.full((group, IMAGE), 0xA5, np.uint8)
    cells = rng.integers(0, 2**32, (group, 128, 512), dtype=np.uint32)
    exact = [a.astype(np.float64), b.astype(np.float64)]
    for rank in range(group):
        left, right = a[rank * case.rows :][: case.rows], b[rank * case.n // group :][: case.n // group]
        shared_a, held = tile(left, case.swizzles[0], case.transposed[0])
        shared_b, held_b = tile(right, case.swizzles[1], case.transposed[1])
        put(images[rank], B_AT, shared_b, held_b)
        layouts["b"] = tcgen05_operand(shared_b, case.transposed[1], kind)
        if case.a_in_tensor_memory:
            layouts["a"] = tensor_operand(left.shape, kind.bits, case.pair)
            put_cells(cells[rank], at["a"], layouts["a"], left.view(f"u{left.itemsize}"), kind.bits)
        else:
            put(images[rank], 0, shared_a, held)
            layouts["a"] = tcgen05_operand(shared_a, case.transposed[0], kind)
    if case.block:
        low = 124 if case.scale == "f8e8m0" else 0x30
        codes = [rng.integers(low, low + 6, (len(x), case.k // case.block)).astype(np.uint8) for x in exact]
        layouts["sa"], layouts["sb"] = scales((case.rows, codes[0].shape[1])), scales(codes[1].shape)
        for rank in range(group):
            put_cells(cells[rank], at["sa"], layouts["sa"], codes[0][rank * case.rows :][: case.rows], 8)
            put_cells(cells[rank], at["sb"], layouts["sb"], codes[1], 8)
        for n, code in enumerate(codes):
            values = 2.0 ** (code.astype(int) - 127) if low == 124 else code.view(NUMPY["f8e4m3"]).astype(float)
            exact[n] = exact[n] * np.repeat(values, case.block, axis=1)
    words = words_of(case, layouts, at)
    names = {"mxf4nvf4": "nvf4 per 16"}
    text, which = one_instruction(group, names.get(case.kind, case.kind), case.a_in_tensor_memory)
    launch(HandWritten(text, "one", 128, IMAGE, (group, 1, 1)), group, [images, words, cells, which, len(words)], 1)
    lane, column, _ = layouts["d"].place(np.indices((case.rows, case.n)))
    got = np.concatenate([cells[rank][lane, column] for rank in range(group)])
    got = got.astype(np.uint16).view(np.float16) if case.d == "f16" else got.view(NUMPY[case.d])
    assert np.array_equal(got, (exact[0] @ exact[1].T).astype(NUMPY[case.d]))


# ---------------------------------------------------------------------- copies

COPIES = {
    "scales": (SharedLayout((2, 2, 32, 4, 4), 1), scales((256, 8))),
    "operand of bf16": (SharedLayout((128, 64), 2, 128, 64), tensor_operand((128, 64), 16)),
    "operand of bytes": (SharedLayout((128, 48), 1, 0, 16), tensor_operand((128, 48), 8)),
    "operand of 64 rows in a pair": (SharedLayout((64, 32), 2, 64, 32), tensor_operand((64, 32), 16, True)),
    "256 rows": (SharedLayout((256, 32), 1, 32, 32), tensor_operand((256, 32), 8)),
    "accumulator": (SharedLayout((128, 16), 4, 64, 16), accumulator((128, 16))),
}


@pytest.mark.share(7)
@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str) -> None:
    source, target = COPIES[name]
    plan = plan_copy(source, target)
    statements = "\n".join(
        f'    asm volatile("tcgen05.cp.cta_group::1.{step.shape.name} [%0], %1;" :: "r"(t + {step.target}), '
        f'"l"({plan.descriptor.encode()}ull + ((place(bytes) + {step.source}) >> 4)) : "memory");'
        for step in plan.steps
    )
    text = kernel_text("tensor_memory.cuh") + kernel_text("copies.cu", head=False).replace("    COPIES;", statements)
    data = np.random.default_rng(0).integers(0, 256, source.shape, dtype=np.uint64) * 0x01030507
    data &= (1 << 8 * source.itemsize) - 1
    image, cells = np.zeros(32768, np.uint8), np.full((128, 128), 0xABCD1234, np.uint32)
    if len(source.shape) == 5:  # bytes in the order of memory: block by block, row r % 32, r / 32, k
        image[: data.size] = data.ravel()
        values = data.transpose(0, 3, 2, 1, 4).reshape(target.shape)
    else:
        put(image, 0, source, data)
        values = data
    want = cells.copy()
    put_cells(want, 0, target, values, target.bits)
    launch(HandWritten(text, "run", 128, 32768), 1, [image, cells], 1)
    assert np.array_equal(cells, want)


# ---------------------------------------------------------------------- loads and stores


def accesses() -> dict[str, tuple[TensorLayout, TensorAccess]]:
    found = {}
    for rows, n, pair, bits, warps in (
        (128, 64, False, 32, 4), (64, 32, False, 32, 4), (64, 64, True, 32, 4), (128, 24, False, 32, 4),
        (128, 64, False, 32, 8), (64, 32, False, 16, 4), (128, 32, False, 16, 4),
    ):  # fmt: skip
        part = accumulator((rows, n), pair)
        for access in tensor_accesses(part, warps, bits):
            how = f"{access.shape.name}{' packed' * access.packed}"
            found[f"{rows} x {n}{' of a pair' * pair}, {bits} bits, {warps} warps, {how}"] = (part, access)
    return found


ACCESSES = accesses()


def moves(access: TensorAccess, slots: int) -> str:
    """Loads all registers of a thread, halves of words where they are packed."""
    text = []
    for step in access.steps:
        first = step.slot // access.elements
        names = ", ".join(f"%{i}" for i in range(step.registers))
        outputs = ", ".join(f'"=r"(words[{first + i}])' for i in range(step.registers))
        mode = f"{access.shape.name}.x{step.count}{'.pack::16b' * access.packed}"
        text.append(
            f'  asm volatile("tcgen05.ld.sync.aligned.{mode}.b32 {{{names}}}, [%{step.registers}];" : {outputs} '
            f': "r"(t + {access.warp_expression()} + {step.offset}));'
        )
    return f"  unsigned words[{slots // access.elements}];\n" + "\n".join(text)


@pytest.mark.share(18)
@pytest.mark.parametrize("name", ACCESSES)
def test_loads(name: str) -> None:
    part, access = ACCESSES[name]
    slots = len(access.layout.live_registers())
    threads = 32 * access.layout.warps
    text = kernel_text("tensor_memory.cuh") + kernel_text("loads.cu", head=False).replace("  LOADS;", moves(access, slots))
    text = text.replace("THREADS", str(threads)).replace("COUNT", str(slots // access.elements))
    rng = np.random.default_rng(0)
    cells, values = rng.integers(0, 2**32, (128, 512), dtype=np.uint32), rng.integers(0, 2**16, part.shape)
    lane, column, _ = part.place(np.indices(part.shape))
    cells[lane, column] = values
    out = np.zeros((threads, slots // access.elements), np.uint32)
    launch(HandWritten(text, "run", threads), 1, [cells, out], 1)
    got = out.view(np.uint16).astype(np.int64) if access.elements == 2 else out.astype(np.int64)
    register, thread = np.meshgrid(access.layout.live_registers(), np.arange(threads))
    row, at = access.layout.linear.apply(register=register, lane=thread % 32, warp=thread // 32)
    assert np.array_equal(got, values[row, at])
