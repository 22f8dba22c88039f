"""Tensor cores in CUDA text: which instructions, with which operands; compiled for the GPU that has them."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.tiles.matrix_store import chunk_layout
from phalanx.ir.types import DType, ScalarType, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, u8
from phalanx.layouts.fragments import wgmma_accumulator
from support.cuda_text import body, module_of
from support.front import array
from support.product_kernels import halves, slices


@px.kernel(warps=4)
def product(A, B, C, *, M=64, N=64, K=64, TA=False, TB=False, NEGATE=False):
    a = px.shared((K, M) if TA else (M, K), A.dtype)
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A.tile((0, 0), a.shape), a, full)
        px.tma.load(B.tile((0, 0), b.shape), b, full)
    full.wait(0)
    acc = px.zeros((M, N), C.dtype)
    px.wgmma(a.T if TA else a, b if TB else b.T, acc, negate=NEGATE)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:M, 0:N], acc)


def types(a: DType, b: DType, c: DType = f32):
    return array(2, a), array(2, b), array(2, c)


def compiled(kernel, types_, **constants):
    module = module_of(kernel, types_, **constants)
    image = compile_cuda(module.source, "sm_90a")
    resources = image.resources_of(module.entry)
    assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0)
    return module, image.ptx


def instructions(ptx: str) -> list[str]:
    return re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\S+)", ptx)


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "a, b, c, name, count",
    [
        (bf16, bf16, f32, "m64n64k16.f32.bf16.bf16", 4),
        (f16, f16, f32, "m64n64k16.f32.f16.f16", 4),
        (f32, f32, f32, "m64n64k8.f32.tf32.tf32", 8),
        (f8e4m3, f8e5m2, f32, "m64n64k32.f32.e4m3.e5m2", 2),
        (i8, u8, i32, "m64n64k32.s32.s8.u8", 2),
        (f16, f16, f16, "m64n64k16.f16.f16.f16", 4),
        (f8e5m2, f8e4m3, f16, "m64n64k32.f16.e5m2.e4m3", 2),
    ],
)
def test_types(a: DType, b: DType, c: DType, name: str, count: int) -> None:
    _, ptx = compiled(product, types(a, b, c))
    assert instructions(ptx) == [name] * count


@pytest.mark.share(4)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_majors_are_flags_of_the_instruction(ta: bool, tb: bool) -> None:
    module, _ = compiled(product, types(bf16, bf16), TA=ta, TB=tb, NEGATE=True)
    assert f"p, -1, 1, {int(ta)}, {int(tb)};" in module.source


@pytest.mark.share(8)
@pytest.mark.parametrize("n", [8, 24, 96, 192, 256])
def test_widths(n: int) -> None:
    _, ptx = compiled(product, types(bf16, bf16), N=n)
    assert instructions(ptx) == [f"m64n{n}k16.f32.bf16.bf16"] * 4


@pytest.mark.share(2)
@pytest.mark.parametrize("k, swizzle, code", [(64, 128, 1), (32, 64, 2), (16, 32, 3)])
def test_narrow_tiles_get_narrow_swizzles(k: int, swizzle: int, code: int) -> None:
    module, _ = compiled(product, types(bf16, bf16), K=k)
    fields = [int(text, 16) for text in re.findall(r"wgmma_descriptor\(\w+, (0x\w+)ull\)", module.source)]
    assert len(fields) == 2
    for field in fields:
        assert field >> 62 == code
        assert (field >> 32 & 0x3FFF) << 4 == 8 * swizzle  # eight rows
    assert f"{swizzle}-byte swizzle" in module.ir


def test_steps_along_k_are_constants() -> None:
    module, _ = compiled(product, types(bf16, bf16), M=128, K=128)
    calls = re.findall(r"wgmma_m64n64k16_f32_bf16_bf16\((.*), (?:true|false)\);", body(module))
    # 64 rows of 128 bytes are 512 units of 16 bytes; the second panel of A begins after 128 rows, that of B after 64
    assert calls[:2] == ["acc, px_a, px_b", "acc + 32, px_a + 512, px_b"]
    assert calls[2:4] == ["acc, px_a + 2, px_b + 2", "acc + 32, px_a + 514, px_b + 2"]
    assert calls[8] == "acc, px_a + 1024, px_b + 512"
    assert len(calls) == 16


@px.kernel(warps=4)
def from_registers(A, B, C, *, M=64, N=64, K=64):
    b = px.shared((N, K), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(B[0:N, 0:K], b, full)
    full.wait(0)
    px.store(C[0:M, 0:N], px.dot(px.load(A[0:M, 0:K]), b.T))


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype, steps", [(bf16, 4), (f8e4m3, 2), (f32, 8)])
def test_a_from_registers(dtype: DType, steps: int) -> None:
    module, ptx = compiled(from_registers, types(dtype, dtype))
    assert len(instructions(ptx)) == steps
    assert f"unsigned px_a[{4 * steps}];" in body(module)
    assert ptx.count("wgmma.fence") == 1, "behind the operand's registers, and nowhere else"


@px.kernel(warps=8)
def ring(A, B, C, *, M=128, N=64, K=64, STAGES=3):
    a = px.shared((STAGES, M, K), A.dtype)
    b = px.shared((STAGES, N, K), B.dtype)
    full = px.barrier(STAGES)
    use = px.ring(STAGES)
    acc = px.empty((M, N), px.f32)
    for k in range(A.shape[1] // K):
        with full[use.stage].transaction():
            px.tma.load(A[0:M, k * K : k * K + K], a[use.stage], full[use.stage])
            px.tma.load(B[0:N, k * K : k * K + K], b[use.stage], full[use.stage])
        full[use.stage].wait(use.parity)
        px.wgmma(a[use.stage], b[use.stage].T, acc, accumulate=k > 0)
        px.wgmma_commit()
        px.wgmma_wait(0)
        use.advance()
    px.store(C[0:M, 0:N], acc)


def test_accumulators_are_updated_in_place() -> None:
    module, ptx = compiled(ring, types(bf16, bf16))
    text = body(module)
    loop = text[text.index("for (int k") : text.index("px.store(C")]
    assert "px_r" not in loop, "no copy of the accumulator"
    assert "+ px_warp_id / 4 * 8192" in loop, "each warpgroup has 64 of the rows"
    assert loop.count("wgmma_fence_sync_aligned") == 1
    assert len(instructions(ptx)) == 4


@px.func
def in_flight(a, b, n, FORM):
    """An accumulator whose last product is in flight, after control flow that gives it a new value."""
    acc = px.empty((64, 64), px.f32)
    px.wgmma(a, b.T, acc, accumulate=False)
    px.wgmma_commit()
    if FORM == "loop":
        for _ in range(n):
            px.wgmma(a, b.T, acc)
            px.wgmma_commit()
            px.wgmma_wait(1)
    elif FORM == "branch":
        if n > 3:
            px.wgmma(a, b.T, acc)
            px.wgmma_commit()
    elif FORM == "wait":
        px.wgmma_wait(1)
    return acc


@px.kernel(warps=4)
def given_back(A, B, C, n, *, FORM=None):
    a, b = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype)
    px.store(a, px.load(A[0:64, 0:64]))
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    result = in_flight(a, b, n, FORM)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], result)


@pytest.mark.parametrize("form", [None, "loop", "branch", "wait"])
def test_a_wait_holds_an_accumulator_that_a_function_gave_back(form: str | None) -> None:
    """Else the compiler may read its registers before the wait is over."""
    text = body(module_of(given_back, (*types(bf16, bf16), ScalarType(i32)), FORM=form))
    behind = text[text.index("wgmma_wait_group_0") :]
    assert behind.splitlines()[1].strip().startswith("ptx::keep_float<32>(")


def test_blackwell_has_none_and_says_what_to_use() -> None:
    with pytest.raises(px.Error) as caught:
        module_of(product, types(bf16, bf16), arch="sm_100a")
    assert "px.wgmma(" in caught.value.location.text
    assert "px.dot" in caught.value.remedy


@px.kernel(warps=4)
def epilogue(A, B, C, *, M=64, N=128, K=64):
    a = px.shared((M, K), A.dtype)
    b = px.shared((N, K), B.dtype)
    out = px.shared((M, N // 2), C.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A[0:M, 0:K], a, full)
        px.tma.load(B[0:N, 0:K], b, full)
    full.wait(0)
    acc = px.dot(a, b.T)
    for part in px.static_range(0, N, N // 2):
        px.tma.wait(0, read=True)
        px.store(out, acc[:, part : part + N // 2].to(C.dtype))
        px.fence.async_proxy()
        px.tma.store(out, C[0:M, part : part + N // 2])
        px.tma.commit()
    px.tma.wait(0)


def test_the_result_goes_to_shared_memory_by_stmatrix() -> None:
    module, ptx = compiled(epilogue, types(bf16, bf16, bf16))
    assert ptx.count("stmatrix.sync.aligned.m8n8.x4") == 2 * 4  # 64 x 64 per warpgroup: 16 rows x 16 columns each
    assert "convert_layout" not in module.ir
    assert "out: 128-byte swizzle, 0 bank conflicts" in module.ir


def test_f32_results_need_no_stmatrix() -> None:
    _, ptx = compiled(epilogue, types(bf16, bf16, f32))
    assert "stmatrix" not in ptx


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m, n, warps", [(64, 64, 4), (128, 32, 8), (256, 16, 8), (64, 256, 4)])
def test_stmatrix_stores_every_element_where_it_belongs(m: int, n: int, warps: int, transposed: bool) -> None:
    """Lane l holds elements 2 (l % 4) and the next of row l / 4 of a matrix, or of column l / 4 if it is transposed; lane
    8 j + r has the address of row r of matrix j."""
    layout = wgmma_accumulator(m, n, warps)
    chunks = chunk_layout(layout, transposed)
    assert chunks is not None
    rows, columns = (np.broadcast_to(c, layout.alive.shape) for c in layout.coordinates)
    tops, lefts = (np.broadcast_to(c, chunks.alive.shape) for c in chunks.coordinates)
    for warp, slot, j, lane, b in itertools.product(range(warps), range(chunks.num_registers), range(4), range(32), (0, 1)):
        register = 8 * slot + 2 * j + b
        held = int(rows[register, lane, warp]), int(columns[register, lane, warp])
        if transposed:
            at = slot, 8 * j + 2 * (lane % 4) + b, warp
            assert held == (8 * tops[at] + lane // 4, lefts[at])
        else:
            at = slot, 8 * j + lane // 4, warp
            assert held == (tops[at], 8 * lefts[at] + 2 * (lane % 4) + b)


@px.kernel(warps=4)
def cut(A, B, C, *, START=8, SIZE=24):
    b = px.shared((64, 64), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    acc = px.dot(px.load(A[0:64, 0:64]), b.T)
    px.store(C[0:64, 0:SIZE], acc[:, START : START + SIZE])


def test_a_part_that_would_have_to_move_is_refused() -> None:
    with pytest.raises(px.Error) as caught:
        module_of(cut, types(bf16, bf16))
    assert "acc[:, START" in caught.value.location.text and caught.value.remedy


def test_f16_accumulators_stay_packed() -> None:
    """Two to a register from the first instruction to stmatrix: nothing is taken apart on the way."""
    module, ptx = compiled(halves, types(f16, f16, f16))
    assert re.search(r"alignas\(4\) px_f16 \w+\[128\];", module.source)
    assert instructions(ptx) == ["m64n256k16.f16.f16.f16"] * 4
    assert ptx.count("stmatrix") == 16
    assert ".local" not in ptx and "convert_layout" not in module.ir
    after = ptx[ptx.rindex("wgmma.wait_group") :]
    assert not re.search(r"\b(prmt|shr|bfi|bfe)\.", after[after.index("stmatrix") :]), "no repacking"


@pytest.mark.parametrize("dtype, acc", [(bf16, f32), (f16, f16)])
def test_warpgroups_along_n(dtype: DType, acc: DType) -> None:
    module, ptx = compiled(halves, types(dtype, dtype, acc), ALONG="n", M=64, N=128, STAGES=2)
    kind = "f16" if acc == f16 else "f32"
    assert instructions(ptx) == [f"m64n64k16.{kind}.{dtype}.{dtype}"] * 4
    text = body(module)
    a, b = re.findall(r"const unsigned long long px_[ab] = (.*);", text)
    assert "px_warp_id" not in a, "all rows for both"
    assert "px_warp_id / 4 * 8192" in b, "64 columns of 128 bytes each"


def test_both_tiles_along_m_and_n_take_the_same_number_of_instructions() -> None:
    for along, shape in (("m", "m64n128k16"), ("n", "m64n64k16")):
        _, ptx = compiled(halves, types(bf16, bf16, f32), ALONG=along, M=128, N=128, STAGES=2)
        rows = 1 if along == "m" else 2
        assert instructions(ptx) == [f"{shape}.f32.bf16.bf16"] * (4 * rows)


def test_the_steps_of_a_slice_go_on_in_the_next_panel() -> None:
    """From column 48 on: one step of 16 in the first panel, then 64 rows of 128 bytes further, at its start."""
    module, _ = compiled(slices, types(bf16, bf16), K0=48)
    assert re.search(r"px_a = ptx::wgmma_descriptor\(a_addr \+ 96,", body(module))
    steps = [str((64 * 128 - 96 + 32 * step) // 16) for step in range(3)]
    assert f"_x4<{', '.join([*steps, *steps])}>(acc, px_a, px_b, true);" in body(module)


def test_several_warpgroups_share_a_panel_of_columns() -> None:
    """Four groups of 32 columns: two in each panel of 64."""
    module, _ = compiled(slices, types(bf16, bf16), N=128, TB=True, WARPS=16, ALONG="n")
    text = re.search(r"px_b = ptx::wgmma_descriptor\(b_addr \+ (.*), 0x", body(module))
    assert text is not None
    places = [eval(text[1].replace("/", "//"), {"px_warp_id": 4 * group}) for group in range(4)]
    assert places == [0, 64, 8192, 8192 + 64]


@pytest.mark.parametrize(
    "constants, message",
    [
        ({"K0": 8}, "wgmma can't read b from byte 16 of its rows on, no multiple of 32"),
        ({"TB": True, "N0": 32}, "wgmma can't read b from byte 64 of its rows on, across the edge of a panel"),
        ({"TB": True, "N0": 4, "N": 8}, "wgmma can't read b from byte 8 of its rows on, no multiple of 16"),
    ],
)
def test_slices_that_no_descriptor_names(constants: dict[str, object], message: str) -> None:
    with pytest.raises(px.Error, match=message) as caught:
        module_of(slices, types(bf16, bf16), **constants)
    assert "px.wgmma(" in caught.value.location.text


@px.kernel(warps=4)
def two_accumulators(A, B, C, *, FORM):
    """Two products with accumulators of their own, in flight together."""
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    x = px.load(C[0:64, 0:32]) if FORM == "loaded" else px.zeros((64, 32), px.f32)
    y = px.load(C[0:64, 32:64]) * 2.0 if FORM == "loaded" else px.zeros((64, 32), px.f32)
    px.wgmma(a, b[0:32].T, x)
    if FORM != "one group":
        px.wgmma_commit()
    px.wgmma(a, b[32:64].T, y)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(C[0:64, 0:32], x)
    px.store(C[0:64, 32:64], y)


@pytest.mark.share(2)
@pytest.mark.parametrize("form", ["one group", "two groups", "loaded"])
def test_accumulators_are_made_before_products_are_in_flight(form: str) -> None:
    """Else ptxas waits for the first product before it touches the second one's registers, which is an error here."""
    module, ptx = compiled(two_accumulators, types(bf16, bf16), FORM=form)
    text = body(module)
    assert text.index("keep_float<16>(y)") < re.search(r"wgmma_m64n32k16_f32_bf16_bf16_x\d+<[^>]*>\(x", text).start()
    assert ptx.count("wgmma.wait_group") == 1


@px.kernel(warps=4)
def unmade(A, B, C, *, FORM):
    """An accumulator that a loop carries, one in flight that a product goes on with, or one with nothing in it."""
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    if FORM == "carried":
        acc = px.zeros((64, 64), px.f32)
        for _ in range(C.shape[1]):
            px.wgmma(a, b.T, acc)
            px.wgmma_commit()
            px.wgmma_wait(1)
        px.wgmma_wait(0)
    elif FORM == "in flight":
        acc = px.load(C[0:64, 0:64])
        px.wgmma(a, b.T, acc)
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
    else:
        acc = px.dot(a, b.T)
    px.store(C[0:64, 0:64], acc)


@pytest.mark.share(2)
@pytest.mark.parametrize("form, times", [("carried", 1), ("in flight", 3), ("empty", 2)])
def test_an_accumulator_that_no_instruction_makes_is_not_held(form: str, times: int) -> None:
    """Not where its cell is read, between products, or where it is named: where it is loaded, before the first product
    outside a loop, and after the last wait."""
    module, _ = compiled(unmade, types(bf16, bf16), FORM=form)
    assert body(module).count("keep_float<32>(") == times


@px.kernel(warps=4)
def chained(A, B, C, n):
    """An accumulator becomes the left operand of the next product, over the edge of a loop."""
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    p = px.dot(a, b.T).to(A.dtype)
    for _ in range(n):
        p = px.dot(p, b).to(A.dtype)
    px.store(C[0:64, 0:64], px.dot(p, b))


def test_a_carried_operand_stays_packed() -> None:
    """From `cvt` of two floats to the registers of the next product: nothing is taken apart or put together."""
    module, ptx = compiled(chained, (*types(bf16, bf16), ScalarType(i32)))
    assert re.search(r"unsigned p\w*\[16\];", body(module))
    products = ptx[ptx.index("wgmma.mma_async") : ptx.rindex("wgmma.mma_async")]
    assert products.count("cvt.rn.bf16x2.f32") == 32
    assert not re.search(r"\b(prmt|shr|shl|bfi|bfe|and)\.b|mov\.b32 %r\d+, \{", products)


@px.kernel(warps=4)
def softmax_under_a_product(A, B, C, n, *, FORM):
    """Exponentials while a product is at work: all of them are over before the wait for it."""
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    s = px.dot(a, b.T)
    acc = px.zeros((64, 64), px.f32)
    sums = px.zeros((64,), px.f32)
    for _ in range(n):
        px.wgmma(a, b, acc)
        px.wgmma_commit()
        p = px.exp2(s * 0.5)
        q = p.to(A.dtype)
        if FORM == "sums":
            sums = sums * 0.5 + px.sum(p, axis=1)
        px.wgmma_wait(0)
        s = px.dot(q, b)
    px.store(C[0:64, 0:64], acc + sums.reshape(64, 1) + s)


@pytest.mark.share(2)
@pytest.mark.parametrize("form, ctype, registers", [("sums", "float", 2), ("alone", "px_bf16", 32)])
def test_arithmetic_under_products_is_over_before_their_wait(form: str, ctype: str, registers: int) -> None:
    """The assembler would move the wait up; the sums need all exponentials, and without them the narrow tile does."""
    module, ptx = compiled(softmax_under_a_product, (*types(bf16, bf16), ScalarType(i32)), FORM=form)
    text = body(module)
    finish = text.index("ptx::finish(")
    held = re.match(r"ptx::finish\(ptx::fold_bits<(\d+)>\((\w+)\), px_never, px_base\);", text[finish:])
    assert held and int(held[1]) == registers and f"{ctype} {held[2]}[{registers}];" in text
    assert text[finish:].splitlines()[1].strip() == "ptx::wgmma_wait_group_0();"
    assert text.count("ptx::finish(") == 1, "waits behind which nothing was computed hold nothing"
    assert ptx.count("@p st.shared.u32") == 1


@px.kernel(warps=4)
def read_between_waits(A, B, C, n):
    """A tile that is read while the next product is in flight, and is then the place of a new one."""
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    total = px.zeros((64, 64), px.f32)
    first = px.zeros((64, 64), px.f32)
    for _ in range(n):
        px.wgmma(a, b.T, first)
        px.wgmma_commit()
        second = px.empty((64, 64), px.f32)
        px.wgmma(b, a.T, second, accumulate=False)
        px.wgmma_commit()
        px.wgmma_wait(1)
        total = total + first
        px.wgmma_wait(0)
        total = total * second
    px.store(C[0:64, 0:64], total)


def test_a_tile_that_was_read_before_a_wait_goes_on_in_its_registers() -> None:
    """It is read by others too, but by nobody after the wait: no copy."""
    module, _ = compiled(read_between_waits, (*types(bf16, bf16), ScalarType(i32)))
    loop = body(module)[body(module).index("px.wgmma(a, b.T, first)") :]
    assert not re.search(r"(first|second)\w*\[px_r\] =", loop)
    behind = loop[loop.index("wgmma_wait_group_0") :].splitlines()
    assert [line.strip() for line in behind[1:3]] == ["ptx::keep_float<32>(first_1);", "ptx::keep_float<32>(second);"]


@px.kernel(warps=4)
def used_up(A, B, C):
    a, b, full = px.shared((64, 64), A.dtype), px.shared((64, 64), B.dtype), px.barrier()
    with full.transaction():
        px.tma.load(A[0:64, 0:64], a, full)
        px.tma.load(B[0:64, 0:64], b, full)
    full.wait(0)
    first, second = px.empty((64, 64), px.f32), px.empty((64, 64), px.f32)
    px.wgmma(a, b.T, first, accumulate=False)
    px.wgmma_commit()
    px.wgmma(b, a.T, second, accumulate=False)
    px.wgmma_commit()
    px.wgmma_wait(1)
    powers = px.exp2(first)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], powers * second)


def test_a_tile_that_has_been_read_is_not_held_by_a_later_wait() -> None:
    """Its registers are free for what was computed from it."""
    text = body(module_of(used_up, types(bf16, bf16)))
    held = text[text.index("wgmma_wait_group_0") :]
    assert "keep_float<32>(second)" in held and "keep_float<32>(first" not in held
