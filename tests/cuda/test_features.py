"""The table of targets is what NVRTC says: one form of each feature, compiled for every target."""

from __future__ import annotations

import pytest

from phalanx.cuda.nvrtc import CompileFailure, compile_cuda, nvrtc_version
from phalanx.ir.archs import ARCHS, Feature, archs_with

KERNEL = """
struct alignas(128) Map {{ unsigned long long q[16]; }};
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(const __grid_constant__ Map map, unsigned* out, unsigned x) {{
    __shared__ alignas(16) unsigned long long s[8];
    unsigned b = (unsigned)__cvta_generic_to_shared(s);
    asm volatile("{{.reg .b32 x, b, r<9>; .reg .b64 m, d, g; .reg .b16 h, c; .reg .b8 e; .reg .pred p; .reg .f32 f;\\n"
        "mov.b32 x, %0; mov.b32 b, %1; mov.b64 m, %2; mov.b64 g, %3; mov.b64 d, %3; mov.b16 c, 3; mov.b32 f, x;\\n"
        "mov.b32 r0, x; mov.b32 r1, x; mov.b32 r2, x; mov.b32 r3, x; mov.b32 r4, x; mov.b32 r5, x; mov.b32 r6, x;\\n"
        "mov.b32 r7, x; mov.b32 r8, x; setp.ne.b32 p, x, 0;\\n"
        "{form}\\n"
        "}}" :: "r"(x), "r"(b), "l"((unsigned long long)&map), "l"((unsigned long long)out) : "memory");
    out[threadIdx.x] = s[0];
}}
"""
ROWS = "[m, {x, x, x, x, x}]"
EIGHT = "{r0, r1, r2, r3, r4, r5, r6, r7}"
PRODUCT = "{r0, r1, r2, r3}, {r4, r5, r6, r7}, {r7, r8}, {r0, r1, r2, r3}"
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
TRY_CANCEL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
FORMS = {
    Feature.WGMMA: "wgmma.fence.sync.aligned;",
    Feature.TCGEN05: "tcgen05.mma.cta_group::1.kind::f16 [x], d, d, x, p;",
    Feature.TCGEN05_I8: "tcgen05.mma.cta_group::1.kind::i8 [x], d, d, x, p;",
    Feature.BLOCK_SCALE: "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [x], d, d, x, [x], [x], p;",
    Feature.SCALE_INPUT_D: "tcgen05.mma.cta_group::1.kind::f16 [x], d, d, x, p, 15;",
    Feature.TCGEN05_SHIFT: "tcgen05.shift.cta_group::1.down [x];",
    Feature.LD_RED: f"tcgen05.ld.red.sync.aligned.32x32b.x8.min.f32 {EIGHT}, r8, [x];",
    Feature.PAIR_COPIES: f"{LOAD}.mbarrier::complete_tx::bytes.cta_group::2 [b], [m, {{x, x}}], [b];",
    Feature.GATHER4: "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
    f"[b], {ROWS}, [b];",
    Feature.GATHER4_CLUSTER: f"{LOAD}::gather4.mbarrier::complete_tx::bytes.multicast::cluster [b], {ROWS}, [b], c; "
    f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group {ROWS}, [b];",
    Feature.CLC: f"{TRY_CANCEL}.b128 [b], [b+16];",
    Feature.CLC_MULTICAST: f"{TRY_CANCEL}.multicast::cluster::all.b128 [b], [b+16];",
    Feature.MMA_NARROW: f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32 {PRODUCT};",
    Feature.MMA_BLOCK_SCALE: "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
    f".f32.e4m3.e4m3.f32.ue8m0 {PRODUCT}, x, {{0, 0}}, x, {{0, 0}};",
    Feature.NARROW_CASTS: "cvt.rn.satfinite.e2m1x2.f32 e, f, f; cvt.rn.satfinite.e3m2x2.f32 h, f, f; "
    "cvt.rn.satfinite.e2m3x2.f32 h, f, f; cvt.rp.satfinite.ue8m0x2.f32 h, f, f;",
    Feature.NARROW_MATRICES: "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {r0}, [b]; "
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {r0}, [b]; "
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [b];",
    Feature.REDUX_F32: "redux.sync.max.f32 f, f, 0xffffffff;",
    Feature.WIDE_ACCESSES: f"ld.global.v8.b32 {EIGHT}, [g]; st.global.v8.b32 [g], {EIGHT};",
    Feature.F32X2: "fma.rn.f32x2 d, d, d, d;",
}  # fmt: skip


def test_every_feature_has_a_form_and_a_target() -> None:
    assert set(FORMS) == set(Feature)
    assert all(archs_with((feature,)) for feature in Feature)


OLD = pytest.mark.skipif(
    tuple(map(int, nvrtc_version().split("."))) < (13, 4), reason="the table is what NVRTC 13.4 accepts: this one is older"
)


def compiles(form: str, arch: str) -> bool:
    try:
        compile_cuda(KERNEL.format(form=form), arch)
    except CompileFailure as problem:
        assert "not supported" in str(problem) or "requires" in str(problem), problem
        return False
    return True


@pytest.mark.share(2)
@OLD
@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_a_target_has_it_and_another_does_not(feature: Feature) -> None:
    having = [arch.name for arch in archs_with((feature,))]
    lacking = [name for name in ARCHS if name not in having]
    assert compiles(FORMS[feature], having[0]) and not compiles(FORMS[feature], lacking[0])


@OLD
@pytest.mark.long
@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_the_table_is_the_compilers(feature: Feature) -> None:
    have_it = {name for name in ARCHS if compiles(FORMS[feature], name)}
    assert have_it == {arch.name for arch in archs_with((feature,))}


@pytest.mark.share(2)
@OLD
@pytest.mark.parametrize("name", ARCHS)
def test_the_compiler_knows_every_target(name: str) -> None:
    assert f".target {name}" in compile_cuda('extern "C" __global__ void k(int* p) { *p = 1; }', name).ptx
