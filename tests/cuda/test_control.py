"""Control flow as C++: exits, loops, roles, printing, assertions."""

from __future__ import annotations

import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.plan import Plan
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.control_text import for_header
from phalanx.ir.archs import arch_of, entry_registers
from phalanx.ir.core import Block, Function
from phalanx.ir.ops.control import For
from phalanx.ir.types import I32, ScalarType, i64, u32
from phalanx.ir.values import Const, Label, Param, Value
from support.cuda_text import body, compiles, module_of
from support.front import array


def lines(text: str) -> list[str]:
    """The statements of a kernel, without comments and indentation."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]


@px.kernel
def exits(X, n, step):
    total = 0
    for i in range(n):
        for j in range(0, n, step):
            if j == 5:
                continue
            if j > i:
                break
            if total > 100:
                return
            total += j
        total += i
    k = n
    while k > 0:
        k -= 2
        if k == 7:
            break
    px.print("total", total, k)


def test_structured_exits() -> None:
    types = (array(1), I32, I32)
    text = lines(body(module_of(exits, types)))
    assert "goto leave_exits;" in text
    assert text[-2:] == ["leave_exits:;", "}"]
    assert text.count("break;") == 2
    assert text.count("continue;") == 1
    assert "while (k > 0) {" in text
    assert any(line.startswith('printf("block (%d, %d, %d), all warps: total %d %d\\n",') for line in text)
    compiles(exits, types)


def header(start: Value, stop: Value, step: Value, dtype: ScalarType = I32) -> tuple[str, list[str]]:
    """A loop's header, and what is written before it."""
    op = For(Value(dtype, "i"), start, stop, step, Block(), Label("l"))
    function = Function("k", (N, STEP), (), 1, (1, 1, 1), True, (), (), Block((op,)))
    w = Writer(Plan(function, arch_of("sm_90a")))
    text = for_header(w, op)
    return text, [line.strip() for line in w.body()]


N, STEP = Param(I32, "n", 0), Param(I32, "step", 1)
U32, I64 = ScalarType(u32), ScalarType(i64)


@pytest.mark.parametrize(
    ("step", "dtype", "expected"),
    [
        (1, I32, "for (int i = 0; i < n; ++i)"),
        (64, I32, "for (int i = 0; i < n; i += 64)"),
        (-1, I32, "for (int i = 0; i > n; --i)"),
        (-3, I32, "for (int i = 0; i > n; i -= 3)"),
        (2, I64, "for (long long i = 0; i < n; i += 2LL)"),
        (-1, U32, "for (unsigned i = 0; i > n; --i)"),
    ],
)
def test_loops_with_a_constant_step(step: int, dtype: ScalarType, expected: str) -> None:
    assert header(Const(0), N, Const(step), dtype) == (expected, [])


def test_a_run_time_step_is_counted() -> None:
    text, before = header(Const(0), N, STEP)
    assert before == ["unsigned long long i_trips = ptx::px_trips(0, n, step);"]
    assert text == "for (int i = 0; i_trips != 0; --i_trips, i = ptx::wrap_add(i, step))"


def test_an_unsigned_index_that_would_pass_zero_is_counted() -> None:
    text, before = header(N, Const(0), Const(-2, U32), U32)
    assert before == ["unsigned long long i_trips = ptx::px_trips(n, 0, -2LL);"]
    assert text.startswith("for (unsigned i = n; i_trips != 0;")


@px.kernel(warps=12)
def three_roles(X):
    with px.warps(0, 4, regs=40):
        px.sync()
    with px.warps(4, 8, regs=232):
        px.sync()


def test_roles_have_their_own_barriers_and_registers() -> None:
    text = lines(body(module_of(three_roles, (array(1),))))
    assert "if (px_warp_id < 4) {  // warps 0 to 3" in text
    assert "} else if (px_warp_id >= 4) {  // warps 4 to 11" in text
    assert "ptx::setmaxnreg_dec<40>();" in text
    assert "ptx::setmaxnreg_inc<232>();" in text
    assert "ptx::bar_sync<1, 128>();" in text
    assert "ptx::bar_sync<2, 256>();" in text
    assert compiles(three_roles, (array(1),)).registers == entry_registers(12) == 168


@px.kernel(warps=lambda WARPS: WARPS, ctas_per_sm=lambda CTAS: CTAS)
def one_role_gives_back(X, *, WARPS, CTAS=1):
    with px.warps(0, 4, regs=32):
        px.store(X[0:32], px.zeros((32,), px.f32))


@pytest.mark.share(7)
@pytest.mark.parametrize("warps, ctas", [(4, 1), (9, 1), (12, 1), (13, 1), (21, 1), (8, 2), (9, 2), (5, 3)])
def test_registers_at_the_start_are_those_of_the_assembler(warps: int, ctas: int) -> None:
    made = compiles(one_role_gives_back, (array(1),), WARPS=warps, CTAS=ctas)
    assert made.registers == entry_registers(warps, ctas)


@px.kernel(warps=4)
def joined(X):
    with px.warps(1, 1):
        px.sync()
    px.sync()


def test_one_warp_needs_no_barrier_and_roles_join() -> None:
    text = lines(body(module_of(joined, (array(1),))))
    role = text.index("if (px_warp_id == 1) {  // warp 1")
    assert text[role + 1 : role + 4] == ["__syncwarp();", "}", "__syncthreads();  // the roles join"]


@px.kernel
def talkative(X, n):
    px.print("100% \"sure\"\n", n > 2, n * 1.5)
    px.device_assert(n > 0, "n must be positive")
    px.print(px.load(X[0:8]))
    px.device_assert(px.load(X[0:8]) > 0.0, "X must be positive")


def test_printing_and_assertions() -> None:
    types = (array(1, px.bf16), I32)
    module = module_of(talkative, types)
    text = body(module)
    assert r'printf("block (%d, %d, %d), all warps: 100%% \"sure\"\n %s %g\n",' in text
    assert 'printf("block (%d, %d, %d), all warps:" " tile[%d] = "' in text
    assert module.signature.debug
    assert [(site.kind, site.name, site.location.text.strip()) for site in module.sites] == [
        ("assert", "n must be positive", 'px.device_assert(n > 0, "n must be positive")'),
        ("assert", "X must be positive", 'px.device_assert(px.load(X[0:8]) > 0.0, "X must be positive")'),
    ]
    compiles(talkative, types)


@px.kernel
def careful(X, *, N=8):
    px.device_assert(px.load(X[0:128, 0:N]) > 0.0, "X must be positive")


def test_assertions_on_many_elements_share_their_report() -> None:
    """It is called: a compiler that has its text, with a loop, for every element takes a minute for 64 of them."""
    found = []
    for n in (1, 64):
        module = module_of(careful, (array(2),), N=n)
        found.append(compile_cuda(module.source, "sm_90a").ptx.count("nanosleep"))
    assert found[0] == found[1] > 0


@px.kernel
def trusting(X, n):
    px.assume(n >= 0 and n % 8 == 0)
    px.assume(px.load(X[0:8]) > 0.0)
    px.store(X[n : n + 8], 1.0)


def test_assumptions_are_checked_where_the_kernel_is_watched() -> None:
    types = (array(1), I32)
    text = body(module_of(trusting, types))
    assert text.count("__builtin_assume(") == 1 and "px_stop" not in text
    watched = module_of(trusting, types, watchdog=True)
    assert "__builtin_assume(" not in watched.source and body(watched).count("px_stop(") >= 2
    assert [(site.kind, site.name) for site in watched.sites] == [("assert", "what px.assume says is false")] * 2
    compiles(trusting, types)
    compiles(trusting, types, watchdog=True)


@px.kernel
def carried(X, Y, n):
    acc = px.zeros((32, 32), px.f32)
    for i in range(n):
        x = px.load(X[i * 32 : i * 32 + 32, 0:32])
        acc = acc + x
    px.store(Y[0:32, 0:32], acc)


def test_a_tile_carried_by_a_loop_stays_in_registers() -> None:
    types = (array(2), array(2), I32)
    assert "acc" in body(module_of(carried, types))
    assert compiles(carried, types).stack_bytes == 0


@px.kernel
def run_time_steps(X, n):
    for i in range(0, 10, n):
        px.store(X[i], 1.0)
    for i in range(0, 10, X.shape[0]):
        px.store(X[i], 2.0)
    for i in range(px.block_id(0), 10, px.num_blocks(0)):
        px.store(X[i], 3.0)


def test_steps_of_zero_end_and_counts_have_names_of_their_own() -> None:
    """Only what is known to be 1 or more is compared with the end; an extent may be 0."""
    types = (array(1), I32)
    text = body(module_of(run_time_steps, types))
    assert text.count("_trips = ") + text.count("_trips_1 = ") == 2
    assert text.count("i += blocks_x") == 1
    compiles(run_time_steps, types)


@px.kernel(warps=1, cluster=2)
def dealt(X, n, *, HOW):
    tiles = px.persistent(n) if HOW == "dealt" else range(px.cluster.id(), n, px.cluster.count())
    for t in tiles:
        px.store(X[t], 1.0)


def test_tiles_that_are_dealt_are_the_loop_that_one_would_write() -> None:
    texts = [lines(body(module_of(dealt, (array(1), I32), HOW=how))) for how in ("dealt", "by hand")]
    assert texts[0] == texts[1]
    assert "for (int t = cluster; t < n; t += clusters) {" in texts[0]
    assert "const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z / 2;" in texts[0]
