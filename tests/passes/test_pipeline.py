"""The shared passes on kernels as users write them: what is inserted where, and errors as users see them."""

from __future__ import annotations

import re

import pytest

import phalanx as px
from phalanx.cuda.prepare import prepare_for
from phalanx.ir.core import Function
from phalanx.ir.printer import text
from phalanx.ir.types import ArrayType, ScalarType, f32, i32
from phalanx.language.kernel import Kernel
from phalanx.language.reader.reading import read_kernel

ARRAY = ArrayType(1, f32)
MATRIX = ArrayType(2, f32)
INT = ScalarType(i32)


def prepared(kernel: Kernel, *types, **constants) -> Function:
    return prepare_for(read_kernel(kernel, types, kernel.bind_constants(constants)).function)


def listing(kernel: Kernel, *types, **constants) -> list[str]:
    """The instructions without source lines, arithmetic and indentation; values without a name are `%_`."""
    lines = text(prepared(kernel, *types, **constants)).splitlines()
    code = [line.split("  // ")[0].strip() for line in lines[lines.index("{") + 1 : lines.index("}")]]
    code = [re.sub(r"%\d+", "%_", line) for line in code]
    return [line.split("  (")[0] for line in code if not line.startswith(("%", "$")) or "load" in line]


def refused(kernel: Kernel, *types, **constants) -> px.Error:
    with pytest.raises(px.Error) as caught:
        prepared(kernel, *types, **constants)
    assert caught.value.remedy
    assert caught.value.location.text.strip()
    return caught.value


def marked(error: px.Error) -> str:
    """The source under the caret."""
    loc = error.location
    return loc.text[loc.column : loc.end_column if loc.end_line == loc.line else None].rstrip()


def test_a_ring_between_two_roles():
    @px.kernel(warps=5, cluster=2)
    def ring(X, Y, n):
        s = px.shared((2, 64), px.f32)
        full = px.barrier(2)
        empty = px.barrier(2)
        r = px.ring(2)
        with px.warps(4, 1):
            for k in range(n):
                empty[r.stage].wait(r.parity ^ 1)
                with full[r.stage].transaction():
                    px.tma.load(X[k * 64 : k * 64 + 64], s[r.stage], full[r.stage], multicast=3)
                r.advance()
        with px.warps(0, 4):
            for k in range(n):
                full[r.stage].wait(r.parity)
                px.store(Y[k * 64 : k * 64 + 64], px.load(s[r.stage]) * 2.0)
                empty[r.stage].arrive(ctas=3)
                r.advance()

    assert listing(ring, ARRAY, ARRAY, INT) == [
        "mbarrier.init full, counts=(1, 1)",
        "mbarrier.init empty, counts=(2, 2)",
        "fence.barrier_init",
        "cluster.sync relaxed",
        "roles, no join {",
        "role warp 4 {",
        "for %k: i32 in range(0, %n, 1) {",
        "mbarrier.wait empty[%stage], parity=%_",
        "sync",
        "mbarrier.arrive_expect_tx full[%stage], nbytes=512",
        "tma.load X[%_:+64], s[%stage, :], full[%stage], multicast=0b11 {completes 256 bytes}",
        "}",
        "}",
        "role warps 0-3 {",
        "for %k.1: i32 in range(0, %n, 1) {",
        "mbarrier.wait full[%stage.1], parity=%parity.1",
        "%_: f32[64] = load s[%stage.1, :], fill=0.0",
        "store Y[%_:+64], %_",
        "sync",
        "mbarrier.arrive empty[%stage.1], count=1, ctas=0b11, spread",
        "}",
        "}",
        "}",
        "cluster.sync",
    ]


def test_each_store_of_a_tile_loop_goes_elsewhere():
    @px.kernel
    def scale(X, Y, n):
        for t in range(px.block_id(0), n, px.num_blocks(0)):
            px.store(Y[t * 64 : t * 64 + 64], px.load(X[t * 64 : t * 64 + 64]) * 2.0)

    assert "sync" not in listing(scale, ARRAY, ARRAY, INT)


def test_shared_memory_used_again_by_the_next_iteration():
    @px.kernel
    def turn(X, Y, n):
        s = px.shared((64, 64), px.f32)
        for k in range(n):
            px.store(s, px.load(X[k * 64 : k * 64 + 64, 0:64]))
            px.store(Y[k * 64 : k * 64 + 64, 0:64], px.load(s.T))

    code = [line for line in listing(turn, MATRIX, MATRIX, INT) if line == "sync" or " s" in line]
    assert [line.partition(" = ")[2] or line for line in code] == ["sync", "store s, %_", "sync", "load s.T, fill=0.0"]


def test_a_tile_stored_by_the_engine():
    @px.kernel
    def back(X, n):
        s = px.shared((64,), px.f32)
        for k in range(n):
            px.store(s, px.zeros((64,), px.f32))
            px.fence.async_proxy()
            px.tma.store(s, X[k * 64 : k * 64 + 64])
            px.tma.commit()
            px.tma.wait(0, read=True)

    assert [line for line in listing(back, ARRAY, INT) if not line.startswith(("for", "}", "%"))] == [
        "sync",
        "store s, %_",
        "fence.async_proxy space=\"cta\"",
        "sync",
        "tma.store s, X[%_:+64]",
        "tma.commit",
        "tma.wait n=0, read",
    ]


def test_return_in_a_role():
    @px.kernel(warps=2)
    def last(X, n):
        with px.warps(0, 1):
            if n > 3:
                return
            px.store(X[0:64], px.zeros((64,), px.f32))
        with px.warps(1, 1):
            px.store(X[64:128], px.zeros((64,), px.f32))

    assert "roles, no join {" in listing(last, ARRAY, INT)

    @px.kernel(warps=2)
    def early(X, n):
        with px.warps(0, 1):
            if n > 3:
                return
        px.store(X[0:64], px.zeros((64,), px.f32))

    error = refused(early, ARRAY, INT)
    assert error.message == "return inside a role (warp 0), but more code follows the role"
    assert marked(error) == "return"


def test_overlapping_roles_in_full():
    @px.kernel(warps=8)
    def overlapping(X):
        with px.warps(0, 4):
            px.store(X[0:64], px.zeros((64,), px.f32))
        with px.warps(2, 4):
            px.store(X[64:128], px.zeros((64,), px.f32))

    error = refused(overlapping, ARRAY)
    message, place, _, source, caret, remedy = str(error).splitlines()
    assert message == (
        "warps 2-3 would run two roles at the same time: px.warps(2, 4) overlaps its neighbour px.warps(0, 4)"
    )
    assert place.strip().startswith("--> tests/passes/test_pipeline.py:")
    assert source.endswith("|         with px.warps(2, 4):")
    assert caret.strip().startswith("|") and "^" in caret
    assert remedy.startswith("  = help: neighbouring roles run concurrently and need disjoint warps")


def test_a_cluster_barrier_in_a_loop_of_a_role():
    @px.kernel(warps=2, cluster=2)
    def looping(X, n):
        with px.warps(0, 2):
            for _ in range(n):
                px.cluster.sync()

    error = refused(looping, ARRAY, INT)
    assert error.message == (
        "px.cluster.sync inside a role, under a run-time loop: how often it runs is not known at compile time"
    )
    assert marked(error) == "px.cluster.sync()"


def test_register_budget():
    @px.kernel(warps=12)
    def greedy(X):
        with px.warps(0, 4, regs=40):
            px.store(X[0:64], px.zeros((64,), px.f32))
        with px.warps(4, 8, regs=240):
            px.store(X[64:128], px.zeros((64,), px.f32))

    error = refused(greedy, ARRAY)
    assert error.message == "the roles ask for 2080 registers per lane, the CTA's 12 warps start with 2016 (12 x 168)"
    assert error.details == "warps 0-3: 4 x 40\nwarps 4-11: 8 x 240"


def test_preparing_leaves_the_function_as_it_was():
    @px.kernel(warps=2)
    def simple(X):
        s = px.shared((64,), px.f32)
        px.store(s, px.zeros((64,), px.f32))
        px.store(X[0:64], px.load(s))

    function = read_kernel(simple, (ARRAY,), {}).function
    before = text(function)
    assert text(prepare_for(function)) == text(prepare_for(function))
    assert text(function) == before
