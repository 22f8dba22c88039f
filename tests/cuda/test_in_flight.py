"""PTX that touches registers of work in flight is found, by hand-written texts; each has a twin that is clean."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.assembly.in_flight import violations
from phalanx.cuda.assembly.reader import blocks, functions
from phalanx.cuda.nvrtc import TouchedInFlight, compile_cuda
from phalanx.ir.archs import arch_of
from phalanx.ir.types import ArrayType, f32
from phalanx.runtime.compiled import build
from support.front import prepared

SUM = "{%f1, %f2, %f3, %f4}"
OTHER_SUM = "{%f5, %f6, %f7, %f8}"
LEFT = "{%r1, %r2, %r3, %r4}"
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
WRITES_OPERAND, WRITES_RESULT, READS_RESULT = (
    "writes an operand register in flight", "writes a result register in flight", "reads a result register in flight"
)
UNFENCED = "its registers may have been written after the last wgmma.fence"


def product(left: str = LEFT, acc: str = SUM) -> str:
    return (
        "{ .reg .pred p; setp.ne.b32 p, 1, 0; "
        f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {acc}, {left}, %rd1, p, 1, 1, 0; }}"
    )


def wait(groups: int) -> str:
    return f"wgmma.wait_group.sync.aligned {groups};"


def text(*lines: str) -> str:
    """A kernel of these lines."""
    return "\n".join((
        ".version 9.0", ".target sm_90a", ".address_size 64", ".visible .entry k(", "\t.param .u64 k_param_0", ")",
        ".maxntid 128", "{", "\t.reg .pred %p<9>;", "\t.reg .b32 %r<99>;", "\t.reg .f32 %f<99>;", "\t.reg .b64 %rd<9>;",
        "\t.loc 1 3 5", *lines, "\tret;", "}",
    ))  # fmt: skip


def found(*lines: str) -> list[tuple[str, str]]:
    """What is wrong with a kernel: the instructions, without what they do to which registers of which product."""
    return [(violation.instruction, violation.problem) for violation in violations(text(*lines))]


ISSUED = (FENCE, product(), COMMIT)


def test_an_operand_is_not_written_before_the_wait() -> None:
    write = "mov.b32 %r2, 7;"
    assert found(*ISSUED, write, wait(0)) == [("mov.b32 %r2, 7", WRITES_OPERAND)]
    assert found(*ISSUED, wait(0), write) == []
    assert found(FENCE, product(), write, COMMIT, wait(0)) == [("mov.b32 %r2, 7", WRITES_OPERAND)]
    assert found(*ISSUED, "mov.b32 %r5, %r2;", "st.shared.b32 [%r6], %r2;", wait(0)) == [], "reading it does no harm"


def test_a_result_is_neither_read_nor_written_before_the_wait() -> None:
    assert found(*ISSUED, "add.f32 %f9, %f2, %f2;", wait(0)) == [("add.f32 %f9, %f2, %f2", READS_RESULT)]
    assert found(*ISSUED, "mov.b32 %f3, 0f00000000;", wait(0)) == [("mov.b32 %f3, 0f00000000", WRITES_RESULT)]
    assert found(*ISSUED, "st.global.v2.f32 [%rd2], {%f1, %f2};", wait(0)) == [
        ("st.global.v2.f32 [%rd2], {%f1, %f2}", READS_RESULT)
    ]
    assert found(*ISSUED, wait(0), "st.global.v2.f32 [%rd2], {%f1, %f2};", "mov.b32 %f3, %f1;") == []


@pytest.mark.parametrize(
    ("instruction", "problems"),
    [
        ("mov.b64 {%r1, %r9}, %rd3", [WRITES_OPERAND]),
        ("ld.shared.v4.b32 {%r7, %r8, %r9, %r4}, [%r5+16]", [WRITES_OPERAND]),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r9}, [%r5]", [WRITES_OPERAND]),
        ("shfl.sync.bfly.b32 %r4|%p1, %r5, 1, 31, -1", [WRITES_OPERAND]),
        ("atom.global.add.u32 %r1, [%rd2], %r9", [WRITES_OPERAND]),
        ("mov.b64 %rd3, {%r1, %r2}", []),
        ("st.shared.v4.b32 [%r5], {%r1, %r2, %r3, %r4}", []),
        ("red.global.add.f32 [%rd2], %f1", [READS_RESULT]),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], %r2, [%r3]", []),
        ("bar.sync %r1, %r2", []),
        ("setp.lt.f32 %p1|%p2, %f1, %f9", [READS_RESULT]),
        ("fma.rn.f32 %f2, %f2, %f9, %f10", [WRITES_RESULT, READS_RESULT]),
        ("@%p1 mov.b32 %r1, 0", [WRITES_OPERAND]),
        ("@!%p1 st.shared.f32 [%r9], %f4", [READS_RESULT]),
        ("call.uni (%r9), g, (%r1)", [WRITES_OPERAND]),
        ("mov.b32\t%r1,\n\t\t%r9", [WRITES_OPERAND]),
        ("mov.b32 %r11, %r21", []),
    ],
)
def test_what_is_written_and_what_is_read(instruction: str, problems: list[str]) -> None:
    assert [problem for _, problem in found(*ISSUED, f"{instruction};", wait(0))] == problems
    assert found(*ISSUED, wait(0), f"{instruction};") == []


def test_a_wait_leaves_as_many_groups_as_it_says() -> None:
    second = (product("{%r5, %r6, %r7, %r8}", OTHER_SUM), COMMIT)
    assert found(*ISSUED, *second, wait(1), "mov.b32 %r1, 0;", wait(0)) == []
    assert found(*ISSUED, *second, wait(1), "mov.b32 %r5, 0;", wait(0)) == [("mov.b32 %r5, 0", WRITES_OPERAND)]
    assert found(*ISSUED, *second, wait(2), "mov.b32 %r1, 0;", wait(0)) == [("mov.b32 %r1, 0", WRITES_OPERAND)]
    assert found(*ISSUED, COMMIT, wait(1), "mov.b32 %r1, 0;") == [], "a group may be empty"
    assert found(FENCE, product(), wait(0), "mov.b32 %r1, 0;") == [("mov.b32 %r1, 0", WRITES_OPERAND)], "not committed"


def test_a_write_in_a_loop_meets_the_product_of_the_turn_before() -> None:
    late = ("$L1:", "mov.b32 %r1, %r20;", wait(0), *ISSUED, "@%p1 bra $L1;", wait(0))
    assert found(*late) == [("mov.b32 %r1, %r20", WRITES_OPERAND)]
    assert found("$L1:", wait(0), "mov.b32 %r1, %r20;", *ISSUED, "@%p1 bra $L1;", wait(0)) == []


def test_two_turns_may_be_in_flight() -> None:
    """Registers of two turns by turns: each is written when the product of the turn before the last is over."""
    other = "{%r5, %r6, %r7, %r8}"
    turns = [
        "$L1:", "mov.b32 %r1, %r20;", FENCE, product(), COMMIT, wait(1),
        "mov.b32 %r5, %r20;", FENCE, product(other), COMMIT, wait(1), "@%p1 bra $L1;", wait(0),
    ]  # fmt: skip
    assert found(*turns) == []
    turns[5] = wait(2)
    assert found(*turns) == [("mov.b32 %r5, %r20", WRITES_OPERAND)]
    turns[5:] = [wait(1), "@%p1 bra $L1;", wait(0)]
    assert found(*turns) == [("mov.b32 %r1, %r20", WRITES_OPERAND)], "one turn alone is in flight, the next writes it"


def test_an_arm_of_a_branch_that_does_not_wait() -> None:
    arms = ["@%p1 bra $L1;", wait(0), "bra $L2;", "$L1:", wait(1), "$L2:", "mov.b32 %r4, 0;"]
    assert found(*ISSUED, *arms) == [("mov.b32 %r4, 0", WRITES_OPERAND)]
    arms[4] = wait(0)
    assert found(*ISSUED, *arms) == []


def test_products_in_both_arms() -> None:
    """Accumulators of two arms are one only where the compiler has given them the same registers."""
    arms = [
        FENCE, "@%p1 bra $L1;", product(), COMMIT, "mov.b32 %f5, %f1;", "bra $L2;", "$L1:", product(acc=OTHER_SUM), COMMIT,
        "$L2:", wait(0), "add.f32 %f10, %f5, %f5;",
    ]  # fmt: skip
    assert found(*arms) == [("mov.b32 %f5, %f1", READS_RESULT)]
    assert found(*(line for line in arms if not line.startswith("mov"))) == []


def test_accumulators_that_move_from_turn_to_turn() -> None:
    moved = ["$L1:", FENCE, product(acc=OTHER_SUM), COMMIT, "mov.b32 %f5, %f9;", "@%p1 bra $L1;", wait(0)]
    assert found(*moved)[0] == ("mov.b32 %f5, %f9", WRITES_RESULT)
    moved[4] = "mov.b32 %f15, %f9;"
    assert found(*moved) == []


def test_products_that_share_registers() -> None:
    shifted = product("{%r5, %r6, %r7, %r8}", "{%f2, %f3, %f4, %f5}")
    problems = [problem for _, problem in found(*ISSUED, shifted, COMMIT, wait(0))]
    assert problems == [WRITES_RESULT]
    assert found(*ISSUED, product("{%r5, %r6, %r7, %r8}"), COMMIT, wait(0)) == [], "the same registers are kept in order"
    assert found(*ISSUED, product(acc=OTHER_SUM), COMMIT, wait(0)) == [], "both read the operand"
    reads_sum = product("{%f1, %r6, %r7, %r8}", OTHER_SUM)
    assert [problem for _, problem in found(*ISSUED, reads_sum, COMMIT, wait(0))] == [READS_RESULT]
    assert [problem for _, problem in found(FENCE, product("{%f1, %r6, %r7, %r8}"), COMMIT)] == [
        "multiplies registers that it writes"
    ]


def test_a_table_of_targets_goes_to_each() -> None:
    table = ["$L_table: .branchtargets $L1, $L2;", "brx.idx %r30, $L_table;"]
    arms = ["$L1:", wait(0), "bra $L3;", "$L2:", "mov.b32 %r1, 0;", wait(0), "$L3:"]
    assert found(*ISSUED, *table, *arms) == [("mov.b32 %r1, 0", WRITES_OPERAND)]
    arms[4], arms[5] = arms[5], arms[4]
    assert found(*ISSUED, *table, *arms) == []


def test_what_nothing_reaches_does_no_harm() -> None:
    assert found(*ISSUED, "bra $L1;", "mov.b32 %r1, 0;", "$L1:", wait(0)) == []
    assert found(*ISSUED, "@%p1 ret;", "mov.b32 %r1, 0;") == [("mov.b32 %r1, 0", WRITES_OPERAND)]


def test_guarded_instructions_may_do_nothing() -> None:
    assert found(*ISSUED, f"@%p1 {wait(0)}", "mov.b32 %r1, 0;") == [("mov.b32 %r1, 0", WRITES_OPERAND)]
    assert found(FENCE, product(), f"@%p1 {COMMIT}", wait(0), "mov.b32 %r1, 0;") == [("mov.b32 %r1, 0", WRITES_OPERAND)]
    assert found("mov.b32 %r1, 0;", f"@%p1 {FENCE}", product(), COMMIT, wait(0))[0][1] == UNFENCED


def test_labels_and_registers_of_inner_braces() -> None:
    """A wait for a barrier is a loop with a label of its own each time, and declares predicates; so may others."""
    spin = "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%r9], %r10; @p bra DONE; bra AGAIN; DONE: }"
    assert found(*ISSUED, spin, spin, wait(0), "mov.b32 %r1, 0;") == []
    assert found(*ISSUED, spin, "mov.b32 %r1, 0;", spin, wait(0)) == [("mov.b32 %r1, 0", WRITES_OPERAND)]
    hidden = "{ .reg .b32 %r1, x<3>; mov.b32 %r1, 5; mov.b32 x1, %r1; { mov.b32 %r1, 6; } }"
    assert found(*ISSUED, hidden, wait(0)) == [], "another register of that name"
    assert found(*ISSUED, hidden.replace("%r1, x<3>", "y, x<3>"), wait(0)) != []
    inner = "{{ .reg .b32 a<4>; mov.b32 a2, 0; {} {} {} mov.b32 a2, 1; }}"
    named = product("{a0, a1, a2, a3}")
    assert found(inner.format(FENCE, named, COMMIT), wait(0)) == [("mov.b32 a2@1, 1", WRITES_OPERAND)]
    assert found(inner.format(FENCE, named, f"{COMMIT} {wait(0)}")) == []


def test_registers_written_behind_the_fence() -> None:
    assert [p for _, p in found(FENCE, "mov.b32 %r1, 0;", product(), COMMIT, wait(0))] == [UNFENCED]
    assert [p for _, p in found(product(), COMMIT, wait(0))] == [UNFENCED], "the first product needs one, too"
    assert found("mov.b32 %r1, 0;", FENCE, product(), COMMIT, wait(0)) == []
    assert found(*ISSUED, product(), COMMIT, wait(0)) == [], "its accumulator was written by a product"
    turns = ["$L1:", "@%p2 bra $L2;", FENCE, "$L2:", product(), COMMIT, wait(0), "mov.b32 %f1, 0;", "@%p1 bra $L1;"]
    assert [p for _, p in found(*turns)] == [UNFENCED]
    turns[1:4] = [FENCE]
    assert found(*turns) == []


def test_loads_of_tensor_memory() -> None:
    load, loaded = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];", "tcgen05.wait::ld.sync.aligned;"
    use = "add.s32 %r9, %r2, 1;"
    assert found(load, use, loaded) == [("add.s32 %r9, %r2, 1", READS_RESULT)]
    assert found(load, loaded, use) == []
    assert found(load, "mov.b32 %r1, 0;", loaded) == [("mov.b32 %r1, 0", WRITES_RESULT)]
    assert found(load, "mov.b32 %r3, 0;", loaded) == [], "the address was read"
    assert found("$L1:", load, "@%p1 bra $L1;", loaded)[0][1] == WRITES_RESULT
    assert found(load, "@%p1 bra $L1;", loaded, "$L1:", use) == [("add.s32 %r9, %r2, 1", READS_RESULT)]
    assert found("$L1:", load, loaded, use, "@%p1 bra $L1;") == []
    reduced = "tcgen05.ld.red.sync.aligned.32x32b.x2.f32.max {%r1, %r2}, %r4, [%r3];"
    assert found(reduced, "add.s32 %r9, %r4, 1;", loaded) == [("add.s32 %r9, %r4, 1", READS_RESULT)]
    store = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r3], {%r1, %r2};"
    assert found(load, store, loaded) == [(store[:-1], READS_RESULT)]
    assert found(store, "mov.b32 %r1, 0;", "tcgen05.wait::st.sync.aligned;") == [], "it has read its registers"


def test_functions_are_looked_at_one_by_one() -> None:
    called = ".func (.param .b32 r) g(\n.param .b32 x\n)\n{\n.reg .b32 %r<3>;\nmov.b32 %r1, 0;\nret;\n}\n"
    declared = ".extern .func h(\n.param .b64 x\n)\n;\n"
    clean = text(*ISSUED, wait(0))
    head, tail = clean.split(".visible", 1)
    assert violations(f"{head}{declared}{called}.visible{tail}") == []
    bad = text(*ISSUED, "mov.b32 %r1, 0;")
    [violation] = violations(f"{head}{declared}{called}.visible{bad.split('.visible', 1)[1]}")
    assert violation.function == "k"
    assert str(violation) == (
        "mov.b32 %r1, 0: writes an operand register in flight of wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
        "{%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4},  ..."
    )


def test_comments_are_none_of_it() -> None:
    assert found(*ISSUED, "// mov.b32 %r1, 0;", "/* mov.b32 %r1, 0; { */", wait(0)) == []


def test_what_can_t_be_read_is_told() -> None:
    for lines, why in (
        (("bra $L7;",), "branches to \\$L7, which is no label"),
        (("brx.idx %r1, $L7;",), "branches by \\$L7, which is no list"),
        (("wgmma.wait_group.sync.aligned N;",), "waits for no number of groups"),
        (("mov.b32 %r1",), "no statement: mov"),
    ):
        with pytest.raises(ValueError, match=why):
            violations(text(*ISSUED, *lines).replace("\tret;", ""))
    with pytest.raises(ValueError, match="never closed"):
        violations(text(*ISSUED)[:-1])


def test_only_what_is_asked_for_is_kept() -> None:
    [function] = functions(text(*ISSUED, "add.s32 %r30, %r31, %r32;", "@%p1 bra $L1;", wait(0), "$L1:"))
    kept = [instruction.text for block in blocks(function, {"%r31"}, ("wgmma.w",)) for instruction in block.instructions]
    assert kept == ["add.s32 %r30, %r31, %r32", "wgmma.wait_group.sync.aligned 0"]


HAND = """
extern "C" __global__ void k(unsigned* out, unsigned long long b) {
  unsigned a[4];
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; ++i) a[i] = out[threadIdx.x + i];
  asm volatile("wgmma.fence.sync.aligned;\\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;\\n"
    "wgmma.commit_group.sync.aligned;\\n"
    "BETWEEN"
    "wgmma.wait_group.sync.aligned 0;\\n"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3]) : "l"(b));
  for (int i = 0; i < 4; ++i) out[threadIdx.x + i] = __float_as_uint(d[i]) + a[i];
}
"""


def test_every_text_that_is_compiled_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The assembler notices this one itself, and lets products wait, which is an error of its own."""
    monkeypatch.setattr("phalanx.cuda.nvrtc.performance_losses", lambda log: ())
    compile_cuda(HAND.replace("BETWEEN", ""), "sm_90a")
    with pytest.raises(TouchedInFlight, match="writes an operand register in flight of wgmma") as touched:
        compile_cuda(HAND.replace("BETWEEN", "mov.b32 %4, 0;"), "sm_90a")
    assert touched.value.violations[0].function == "k"


def test_a_kernel_is_refused_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @px.kernel(warps=1)
    def double(X):
        px.store(X[0:32], px.load(X[0:32]) * 2.0)

    planted = violations(text(*ISSUED, *(f"mov.b32 %r{n}, 0;" for n in (1, 2)), wait(0)))
    monkeypatch.setattr("phalanx.cuda.assembly.in_flight.violations", lambda ptx: planted)
    function = prepared(double, (ArrayType(1, f32),))
    with pytest.raises(px.Error) as error:
        build(function, arch_of("sm_90a"))
    flight = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4},  ..."
    first, *place, one, two, remedy = str(error.value).splitlines()
    assert first == "internal: 2 instructions of kernel 'double' would touch registers in flight"
    assert place[2].endswith("    def double(X):") and place[3].endswith("^" * len("def double(X):"))
    assert one == f"  mov.b32 %r1, 0: writes an operand register in flight of {flight}"
    assert two == f"  mov.b32 %r2, 0: writes an operand register in flight of {flight}"
    assert remedy == (
        "  = help: look at it with px.check: if that finds nothing, this is a bug of the compiler; please report it with "
        "the kernel"
    )


def test_each_problem_is_told_before_more_of_the_same() -> None:
    writes = [f"mov.b32 %r{n}, 0;" for n in (1, 2, 3)]
    planted = violations(text(*ISSUED, *writes, "add.f32 %f9, %f2, %f2;", wait(0)))
    told = [violation.problem for violation in TouchedInFlight(planted, "").told(3)]
    assert told == [WRITES_OPERAND, READS_RESULT, WRITES_OPERAND]
