"""Inline PTX as C++ in its place: what stays where it was, what an operand becomes, and what is refused."""

from __future__ import annotations

import pytest

from support.host_build import HostFailure
from support.host_ptx import in_place


def statement(ptx: str, operands: str = "") -> str:
    """What stands for one asm statement, without what all of them have."""
    text = in_place(f'asm volatile("{ptx}" {operands});')
    assert text.startswith("do { px_at = __LINE__; ") and text.endswith(" } while (0);")
    return text.removeprefix("do { px_at = __LINE__; ").removesuffix(" } while (0);")


def test_lines_and_comments_stay() -> None:
    text = """int x = 0;  // asm("trap;") is not PTX here
const char* s = "asm(1)"; /* nor asm("trap;")
here */
asm volatile("mov.u32 %0, "
             "%%cluster_ctarank;"
             : "=r"(x));
int y = x;
"""
    made = in_place(text)
    assert made.count("\n") == text.count("\n")
    assert made.splitlines()[:3] == text.splitlines()[:3]
    assert made.splitlines()[-1] == "int y = x;"
    assert "(x) = (unsigned)px_self->rank;" in made.splitlines()[3]


def test_a_macro_is_translated_where_it_is_defined() -> None:
    made = in_place('#define WAIT(b) asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")\nWAIT(1);\n')
    assert made == "#define WAIT(b) do { px_at = __LINE__; { px_tmem_wait(false); } } while (0)\nWAIT(1);\n"


@pytest.mark.parametrize("ptx, operands, code", [
    ("fence.proxy.async.shared::cta;", ":::", '{ px_note("fence.proxy.async.shared::cta"); }'),
    ("{ .reg .pred p, q; setp.ne.b32 p, %0, 0; @!p trap; }", ':: "r"(f(a, b))',
     "bool px_r_p = {}; bool px_r_q = {}; { px_r_p = (unsigned)(f(a, b)) != (unsigned)0; } if (!px_r_p) { __trap(); }"),
    ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0 + 8];", ':: "r"(bar)',
     "{ px_arrive(((unsigned)(bar) + 8), 1); }"),
    ("mbarrier.init.b64 [%0], %1;", ':: "l"(p), "r"(3)',
     "{ px_barrier_init(px_own(((unsigned)px_address((const void*)(p)))), (3)); }"),
    ("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];", ':: "r"(bar), "n"(G)',
     "{ px_tensor_commit(((unsigned)(bar)), (G), false, (unsigned)0); }"),
    ("tcgen05.cp.cta_group::2.warpx4.32x128b.b8x16.b4x16_p64 [%0], %1;", ':: "r"(t), "l"(d)',
     '{ px_tmem_copy("32x128b", "x4", 4, (t), (d), 2); }'),
    ("tcgen05.ld.sync.aligned.16x32bx2.x%3.pack::16b.b32 {%0}, [%1], %2;", ': "=r"(w) : "r"(t), "n"(16), "n"(N)',
     '{ unsigned px_w[1]; px_tmem_load("16x32bx2", (N), true, px_w, 1, (t), (16)); px_put((w), px_w[0]); }'),
])  # fmt: skip
def test_what_instructions_become(ptx: str, operands: str, code: str) -> None:
    assert statement(ptx, operands) == code


@pytest.mark.parametrize("ptx", [
    "tcgen05.mma.ws.cta_group::1.kind::f16 [%0], %1, %2, %3, p;",
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, p;",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [%0], [%1], %2, %3, p;", "tcgen05.mma.kind::f16 [%0], %1, %2, %3, p;",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%0], %1, %2, %3, p;", "tcgen05.commit.cta_group::1.b64 [%0];",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cta.b64 [%0];", "tcgen05.shift.cta_group::1.down [%0];",
    "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%0, %1}, %2, [%3];", "mov.u32 %0, %%clock;", "@p trap;", "bra DONE;",
    "mbarrier.arrive.shared::cta.b64 state, [%0];", "mbarrier.try_wait.shared::cta.b64 p, [%0], %1;", "",
])  # fmt: skip
def test_what_is_not_known_is_refused(ptx: str) -> None:
    operands = ":: " + ", ".join(f'"r"(x{n})' for n in range(6))
    with pytest.raises(HostFailure, match=r"no host version of (the PTX '|an asm statement)"):
        in_place(f'asm volatile("{{ {ptx} }}" {operands});')
