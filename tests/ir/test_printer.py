"""Listings: the whole text of a function, names, instructions the printer has never seen."""

from __future__ import annotations

import sys
from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir import core
from phalanx.ir.core import Note, Op
from phalanx.ir.ops.cluster import ClusterSync
from phalanx.ir.ops.control import (
    Assign,
    BlockId,
    Break,
    For,
    If,
    Leave,
    Print,
    ReadVar,
    Roles,
    Scope,
    Sync,
    While,
)
from phalanx.ir.ops.mbarrier import Arrive, BarrierInit, FenceBarrierInit, Transaction
from phalanx.ir.ops.memory import Load
from phalanx.ir.ops.tile import Binary, Compare, ConvertLayout, Reduce
from phalanx.ir.ops.tma import TmaWait
from phalanx.ir.printer import text
from phalanx.ir.types import BOOL, I32, I64, f32
from phalanx.ir.values import Const, Label, Param, Value, Var
from phalanx.ir.views import BarrierArray, SharedBuffer, SharedView
from phalanx.markers import attribute, defined, operand
from support.hand_ir import (
    array,
    at,
    bar,
    block,
    box,
    const,
    expect,
    fetch,
    kernel,
    load,
    part,
    role,
    store,
    tile,
    wait,
    whole,
)


def body(function: core.Function) -> list[str]:
    """The instruction lines, without source comments and indentation of the body."""
    lines = text(function).splitlines()
    lines = lines[lines.index("{") + 1 : lines.index("}")]
    return [line.split("  // ")[0].rstrip()[2:] for line in lines]


def test_a_whole_listing():
    X = array("X", 2)
    n = Param(I32, "n", 1)
    smem = SharedBuffer("smem", (2, 64, 64), f32)
    full = BarrierArray("full", 2)
    done = BarrierArray("done", 1, count=4, checked=False)
    k, cond = Value(I32, "k"), Value(BOOL, "")
    loop = Label("loop")
    x = load(part(smem, k))
    producer = role(
        4,
        1,
        For(
            k, const(0), n, const(1),
            block(expect(full, 16384, k), fetch(box(X, (k, 0), (64, 64)), part(smem, k), full, 0b11, k)),
            loop,
        ),
        regs=40,
    )
    consumer = role(0, 4, wait(full, 0, 1), x, Reduce("sum", x.result, 1, False, tile((64,), f32, "x")))
    function = kernel(
        BarrierInit(full, counts=((1, 1), (1, 1))),
        BarrierInit(done, counts=((4,), (8,))),
        FenceBarrierInit(),
        ClusterSync("barriers are initialised before a peer reaches them"),
        Compare("lt", n, const(3), cond),
        Roles((producer, consumer), joins=False),
        params=(X, n), buffers=(smem,), barriers=(full, done), warps=5, cluster=2,
    )
    assert text(function, notes=[Note("one thing", at(7))]) == """\
kernel kernel(X: global f32[?, ?], %n: i32)
  warps 5, cluster 2x1x1
  shared smem: f32[2, 64, 64], 32768 bytes
  barrier full[2]: counted
  barrier done[1]: count 4, checked=False
{
  mbarrier.init full, counts=(1, 1)                                                   // kernel.py:1
  mbarrier.init done, counts=4 | 8                                                    // kernel.py:2
  fence.barrier_init                                                                  // kernel.py:3
  cluster.sync  (compiler: barriers are initialised before a peer reaches them)       // kernel.py:4
  %0: bool = lt %n, 3                                                                 // kernel.py:5
  roles, no join {                                                                    // kernel.py:6
    role warp 4 regs=40 {                                                             // kernel.py:7
      for %k: i32 in range(0, %n, 1) {                                                // kernel.py:8
        mbarrier.arrive_expect_tx full[%k], nbytes=16384                              // kernel.py:9
        tma.load X[%k:+64, 0:64], smem[%k, :, :], full[%k], multicast=0b11 {completes 16384 bytes}  // kernel.py:10
      }
    }
    role warps 0-3 {                                                                  // kernel.py:11
      mbarrier.wait full[1], parity=0                                                 // kernel.py:12
      %x: f32[64, 64] = load smem[%k, :, :], fill=0.0                                 // kernel.py:13
      %x.1: f32[64] = reduce.sum %x, axis=1, keepdims=false                           // kernel.py:14
    }
  }
}
// note: kernel.py:7: one thing
"""


def test_source_lines_appear_where_they_change_with_the_chain_of_calls():
    inner = at(3)
    called = core.dataclasses.replace(inner, caller=at(9))
    ops = [Sync(loc=inner), Sync(loc=inner), Sync(loc=called), Sync()]
    function = core.dataclasses.replace(kernel(), body=block(*ops))
    comments = [line.partition("  // ")[2] for line in text(function).splitlines() if "sync" in line]
    assert comments == ["kernel.py:3", "", "kernel.py:3 < kernel.py:9", ""]


def test_control_flow_and_cells():
    i, j = Var(I32, "i"), Value(I32, "i")
    cond = Value(BOOL, "more")
    kernel_scope, loop = Label("kernel"), Label("loop")
    function = kernel(
        Scope(kernel_scope, block(
            Assign(i, const(0)),
            While(
                block(ReadVar(i, j), Compare("lt", j, const(8), cond)), cond,
                block(
                    Assign(i, const(1)),
                    If(cond, block(Break(loop)), block(Leave(kernel_scope))),
                    If(cond, block(Sync()), block()),
                ),
                loop,
            ),
        )),
    )
    assert body(function) == [
        "scope @kernel {",
        "  $i: i32 = 0",
        "  while @loop {",
        "    %i: i32 = $i",
        "    %more: bool = lt %i, 8",
        "    end unless %more",
        "    $i = 1",
        "    if %more {",
        "      break @loop",
        "    } else {",
        "      leave @kernel",
        "    }",
        "    if %more {",
        "      sync",
        "    }",
        "  }",
        "}",
    ]


def test_views_of_every_shape():
    X = array("X", 3)
    smem = SharedBuffer("smem", (4, 8, 16), f32)
    rows, r = tile((8,), I32.dtype, "rows"), Value(I32, "r")

    def shown(view) -> str:
        lines = body(kernel(Load(view, Const(0.0), tile(view.shape)), params=(X,), buffers=(smem,)))
        return lines[-1].split(" = load ")[1].removesuffix(", fill=0.0")

    view = box(X, (r, 0, 4), (1, 8, 16))
    assert shown(view) == "X[%r:+1, 0:8, 4:20]"
    assert shown(core.dataclasses.replace(view, kept=(1, 2))) == "X[%r, 0:8, 4:20]"
    assert shown(core.dataclasses.replace(box(X, (0, 0, 0), (1, 8, 16)), offsets=(r, rows, Const(0)))) == (
        "X[%r:+1, %rows, 0:16]"
    )
    assert shown(whole(smem)) == "smem"
    assert shown(whole(smem, r)) == "smem.at(%r)"
    assert shown(part(smem, 2)) == "smem[2, :, :]"
    assert shown(SharedView(smem, (Const(1), Const(2), r), (1, 4, 16), (2, 1))) == (
        "smem[1, 2:6, %r:+16].T"
    )
    cube = SharedView(smem, (Const(0),) * 3, (4, 8, 16), (0, 2, 1))
    assert shown(cube) == "smem.permute(0, 2, 1)"


def test_what_the_compiler_wrote_says_why():
    x = tile((64,), f32, "x")
    lines = body(kernel(load(box(array("X"), (0,), (64,))), Sync("because"), ConvertLayout(x, "shuffles", tile((64,)))))
    assert lines[1] == "sync  (compiler: because)"
    assert lines[2].endswith("convert_layout %x.1  (compiler: shuffles)")


def test_attributes_appear_where_they_are_not_the_usual():
    full = BarrierArray("full", 1)
    assert body(kernel(TmaWait(0), TmaWait(1, read=True))) == ["tma.wait n=0", "tma.wait n=1, read"]
    assert body(kernel(Arrive(bar(full), const(1), const(3)), barriers=(full,))) == [
        "mbarrier.arrive full, count=1, ctas=0b11"
    ]
    assert body(kernel(Print(('a "b"\n', const(1), Const(2, I64))))) == ['print "a \\"b\\"\\n", 1, 2:i64']
    assert body(kernel(Transaction(bar(full), block(Sync())), barriers=(full,))) == [
        "mbarrier.transaction full {", "  sync", "}",
    ]


def test_equal_names_get_numbers_and_the_text_is_stable():
    ops = [BlockId(0, Value(I32, "m")), BlockId(1, Value(I32, "m")), BlockId(2, Value(I32))]
    buffers = (SharedBuffer("s", (4,), f32), SharedBuffer("s", (4,), f32))
    buffers = (*buffers, SharedBuffer("t", (4,), f32, reuse=buffers[1]))
    function = kernel(ops, store(whole(buffers[1])), buffers=buffers)
    assert [line.split(":")[0] for line in body(function)[:3]] == ["%m", "%m.1", "%0"]
    assert body(function)[-1] == "store s.1, %zeros"
    assert "  shared t: f32[4], 16 bytes, reuses s.1\n" in text(function)
    assert text(function) == text(function)


def test_layouts_are_numbered_and_listed():
    a, b, c = (tile((64,), f32, name) for name in "abc")
    function = kernel(Binary("add", a, a, b), Binary("mul", b, b, c))
    listing = text(function, layouts={b: "layout of b", c: "layout of c", a: "unused"})
    assert "  layout #0: 'layout of b'\n  layout #1: 'layout of c'\n{\n" in listing
    assert "%b: f32[64] #0 = add %a, %a" in listing
    assert "unused" not in listing


def test_a_new_instruction_needs_nothing_here(monkeypatch):
    monkeypatch.setattr(core, "INSTRUCTIONS", list(core.INSTRUCTIONS))

    @frozen(eq=False)
    class Swizzle(Op):
        mnemonic: ClassVar[str] = "swizzle"
        x: Value = operand()
        width: int = attribute()
        fast: bool = attribute(default=False)
        result: Value | None = defined(default=None)

    Swizzle.__module__ = sys.modules[__name__].__name__
    x = tile((8,), f32, "x")
    lines = body(kernel(Swizzle(x, 3), Swizzle(x, 4, True, tile((8,), f32, "y"))))
    assert lines == ["swizzle %x, width=3", "%y: f32[8] = swizzle %x, width=4, fast"]
