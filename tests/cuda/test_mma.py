"""mma.sync in CUDA text: which instructions, with operands by ldmatrix or plain loads; compiled for both targets."""

from __future__ import annotations

import re

import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.ir.types import I32, DType, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, u8
from support.cuda_text import ARCHS, body, module_of
from support.front import array
from support.product_kernels import anywhere, by_rows, dots


@px.kernel(warps=lambda WARPS: WARPS)
def product(A, B, C, *, M=64, N=64, K=64, TA=False, TB=False, WARPS=2):
    a = px.shared((K, M) if TA else (M, K), A.dtype)
    b = px.shared((K, N) if TB else (N, K), B.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(A.tile((0, 0), a.shape), a, full)
        px.tma.load(B.tile((0, 0), b.shape), b, full)
    full.wait(0)
    acc = px.zeros((M, N), C.dtype)
    acc = px.dot(a.T if TA else a, b if TB else b.T, acc)
    px.store(C[0:M, 0:N], acc)


def types(a: DType, b: DType, c: DType = f32):
    return array(2, a), array(2, b), array(2, c)


def compiled(kernel, types_, arch="sm_90a", **constants):
    module = module_of(kernel, types_, arch=arch, **constants)
    image = compile_cuda(module.source, arch)
    resources = image.resources_of(module.entry)
    assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0)
    assert ".local" not in image.ptx
    return module, image.ptx


def instructions(ptx: str) -> list[str]:
    return re.findall(r"mma\.sync\.aligned\.(\S+)", ptx)


@pytest.mark.share(7)
@pytest.mark.parametrize(
    "a, b, c, name, count",
    [
        (bf16, bf16, f32, "m16n8k16.row.col.f32.bf16.bf16.f32", 16),
        (f16, f16, f32, "m16n8k16.row.col.f32.f16.f16.f32", 16),
        (f16, f16, f16, "m16n8k16.row.col.f16.f16.f16.f16", 16),
        (f32, f32, f32, "m16n8k8.row.col.f32.tf32.tf32.f32", 32),
        (f8e4m3, f8e5m2, f32, "m16n8k32.row.col.f32.e4m3.e5m2.f32", 8),
        (f8e4m3, f8e4m3, f16, "m16n8k32.row.col.f16.e4m3.e4m3.f16", 8),
        (i8, u8, i32, "m16n8k32.row.col.s32.s8.u8.s32", 8),
    ],
)
def test_types(a: DType, b: DType, c: DType, name: str, count: int) -> None:
    for arch in ARCHS if a in (f16, i8) else ("sm_90a",):
        _, ptx = compiled(product, types(a, b, c), arch, M=32, N=32)
        assert instructions(ptx) == [name] * count
        assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx


@pytest.mark.parametrize(
    "k, names", [(8, ["m16n8k8"]), (24, ["m16n8k16", "m16n8k8"]), (40, ["m16n8k16", "m16n8k16", "m16n8k8"])]
)
def test_the_rest_of_k_takes_a_shorter_instruction(k: int, names: list[str]) -> None:
    _, ptx = compiled(product, types(bf16, bf16), K=k, M=16, N=8, WARPS=1)
    assert [name.split(".")[0] for name in instructions(ptx)] == names


@pytest.mark.share(4)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_majors_of_16_bit_types_are_flags_of_ldmatrix(ta: bool, tb: bool) -> None:
    module, ptx = compiled(product, types(bf16, bf16), TA=ta, TB=tb)
    loads = re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.(x\d(?:\.trans)?)\.", ptx)
    assert loads.count("x4.trans") == 16 * ta + 8 * tb
    assert loads.count("x4") == 24 - 16 * ta - 8 * tb
    assert "128-byte swizzle, 0 bank conflicts" in module.ir


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype, acc", [(f8e4m3, f32), (f32, f32), (i8, i32)])
def test_other_types_across_k_take_plain_loads(dtype: DType, acc: DType) -> None:
    _, ptx = compiled(product, types(dtype, dtype, acc), TA=True, TB=True, M=32, N=16)
    assert "ldmatrix" not in ptx and instructions(ptx)


@pytest.mark.share(4)
@pytest.mark.parametrize("warps, m, n, per_warp", [(1, 16, 8, 1), (4, 64, 64, 8), (8, 32, 32, 1), (3, 48, 16, 3)])
def test_warps_share_the_tile(warps: int, m: int, n: int, per_warp: int) -> None:
    _, ptx = compiled(product, types(bf16, bf16), M=m, N=n, K=16, WARPS=warps)
    if warps == 4:
        assert not instructions(ptx), "a whole warpgroup takes wgmma"
    else:
        assert len(instructions(ptx)) == per_warp


def test_notes_say_why() -> None:
    module = module_of(product, types(bf16, bf16))
    assert module.ir.count("px.dot runs as mma.sync: wgmma runs on whole warpgroups") == 1


@px.kernel(warps=4)
def chained(A, B, C, *, M=64, N=64, K=64):
    """The first product's result is the second one's operand: it stays in registers."""
    x = px.load(A[0:M, 0:K])
    y = px.load(B[0:K, 0:N])
    s = px.dot(x, y)
    px.store(C[0:M, 0:N], px.dot(px.exp(s).to(A.dtype), y))


def test_operands_from_registers() -> None:
    module, ptx = compiled(chained, types(bf16, bf16), "sm_120a")
    assert len(instructions(ptx)) == 2 * 2 * 4 * 4
    assert "convert_layout" not in module.ir.split("exp", 1)[1].split("mma", 1)[0]
    _, ptx = compiled(chained, types(bf16, bf16))
    assert not instructions(ptx) and ptx.count("wgmma.mma_async") == 2 * 4


WARPGROUPS = {"PRODUCERS": 4, "CONSUMERS": 8, "M": 128, "N": 64, "K": 64}
"""Two that multiply, and release a stage without a barrier among them, where wgmma reads it."""


def test_a_target_without_wgmma_runs_px_dot_by_warps() -> None:
    hopper, ptx = compiled(dots, types(bf16, bf16), **WARPGROUPS)
    assert "wgmma.mma_async" in ptx and not instructions(ptx)
    assert 'form="per_warpgroup"' in hopper.ir and "factor=2" in hopper.ir
    other, ptx = compiled(dots, types(bf16, bf16), "sm_100a", **WARPGROUPS)
    assert instructions(ptx) and "wgmma" not in ptx
    assert "px.dot runs as mma.sync: sm_100a has no wgmma" in other.ir
    # All warps have read the stage before one thread releases it.
    assert "factor" not in other.ir and "per_warpgroup" not in other.ir
    text = body(other)
    release = text[: text.rindex("mbarrier_arrive_shared_cta(empty")]
    assert "bar_sync" in release[release.rindex("ldmatrix") :]


def test_a_px_wgmma_of_the_users_stays_an_error_there() -> None:
    @px.kernel(warps=4)
    def mixed(A, C):
        a = px.shared((64, 64), A.dtype)
        px.store(a, px.load(A[0:64, 0:64]))
        px.fence.async_proxy()
        acc = px.dot(a, a.T)
        px.wgmma(a, a.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.store(C[0:64, 0:64], acc)

    with pytest.raises(px.Error, match="sm_100a has no wgmma"):
        module_of(mixed, (array(2, bf16), array(2, f32)), arch="sm_100a")


@pytest.mark.long  # its text takes NVRTC seconds
def test_a_layout_that_wgmma_can_not_read() -> None:
    module, ptx = compiled(by_rows, types(bf16, bf16))
    assert "px.dot runs as mma.sync: wgmma can't read a: wgmma reads tiles with a swizzle" in module.ir
    assert instructions(ptx) and "wgmma.mma_async" in ptx, "the second product can be read"
    # Nothing touches the accumulator of a wgmma before its wait: it is mma.sync that converts, there and back.
    assert module.ir.count("= convert_layout") == 2
    product = module.ir[module.ir.index("= wgmma ") :]
    assert product.index("= wgmma.wait") < product.index("store")
    assert "convert_layout" not in product


def test_a_view_that_begins_anywhere() -> None:
    module, ptx = compiled(anywhere, (*types(bf16, bf16), I32))
    assert "a row that is not known to be a multiple of 8" in module.ir
    assert "ldmatrix" in ptx and "wgmma" not in ptx
