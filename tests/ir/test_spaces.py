"""Memory spaces are objects: a toy memory, defined here alone, is read, listed, verified, simulated and checked."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import phalanx as px
from phalanx.analysis.offsets import Offsets
from phalanx.analysis.peers import accesses_peer
from phalanx.analysis.regions import may_overlap, region_name
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import generate
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import arch_of
from phalanx.ir.core import values_in
from phalanx.ir.effects import Access, Effects, Mode, Span
from phalanx.ir.memory import unit_of_region
from phalanx.ir.ops.memory import Load
from phalanx.ir.printer import text
from phalanx.ir.spaces import GLOBAL, SHARED, TENSOR, Space
from phalanx.ir.types import I32, DType, TileType, f32
from phalanx.ir.values import Const, Value
from phalanx.ir.verifier import verify
from phalanx.ir.views import BarrierArray, Buffer, BufferView, SharedBuffer, View, in_global, in_shared
from phalanx.language.builder import Builder
from phalanx.language.builtin import BUILTINS, builtin
from phalanx.language.values import ViewValue
from phalanx.passes.scopes import choose_scopes
from phalanx.sim.run import simulate
from support import front
from support.hand_ir import arrive, at, const, kernel, store, wait, whole

SOURCES = Path(px.__file__).resolve().parent
TOY = Space("toy", Span.CTA, addressable_from=Span.CLUSTER, capacity=4096)
OWN = Space("private", Span.CTA)


@frozen(eq=False, repr=False)
class ToyBuffer(Buffer):
    """A buffer in toy memory."""

    space: ClassVar[Space] = TOY


@frozen(eq=False, repr=False)
class OwnBuffer(Buffer):
    """A buffer in memory that no other CTA reaches."""

    space: ClassVar[Space] = OWN


@builtin("toy")
def toy(ctx: Builder, shape: Any, dtype: DType) -> ViewValue:
    """A buffer in toy memory, for kernels of this file."""
    buffer = ToyBuffer(ctx.name_hint or "toy", shape, dtype, ctx.loc)
    ctx.buffers.append(buffer)
    return ViewValue(box(buffer))


@builtin("own")
def own(ctx: Builder, shape: Any, dtype: DType) -> ViewValue:
    """A buffer in memory that no other CTA reaches."""
    buffer = OwnBuffer(ctx.name_hint or "own", shape, dtype, ctx.loc)
    ctx.buffers.append(buffer)
    return ViewValue(box(buffer))


BUILTINS.remove(toy)
BUILTINS.remove(own)


def box(buffer: Buffer, start: int | Value = 0, size: int | None = None, cta: Value | None = None) -> BufferView:
    """`buffer[start : start + size]`, in CTA `cta`."""
    rest = buffer.shape[1:]
    extents = (buffer.shape[0] if size is None else size, *rest)
    return BufferView(buffer, (const(start), *[Const(0)] * len(rest)), extents, tuple(range(len(extents))), cta)


# --- kernels --------------------------------------------------------------------------------------------------------


@px.kernel(warps=2)
def through_toy(X, Y):
    held = toy((4, 32), px.f32)
    for i in range(4):
        px.store(held[i], px.load(X[i, 0:32]))
    px.sync()
    px.store(Y[0:32, 0:4], px.load(held.T))


@px.kernel(warps=1, cluster=2)
def from_the_peer(X, Y):
    held, done = toy((32,), px.f32), px.barrier()
    rank = px.cluster.rank()
    px.store(held, px.load(X[rank, 0:32]))
    px.cluster.sync()
    px.store(Y[rank, 0:32], px.load(held.at(1 - rank)))
    done.arrive(ctas=0b11)
    done.wait(0)
    px.cluster.sync()


@px.kernel(warps=2)
def raced(X, Y, *, BUG):
    held, ready = toy((32,), px.f32), px.barrier()
    with px.warps(0, 1):
        if BUG:
            ready.arrive()
        px.store(held, px.load(X[0:32]))
        if not BUG:
            ready.arrive()
    with px.warps(1, 1):
        ready.wait(0)
        px.store(Y[0:32], px.load(held))


@px.kernel(warps=1)
def unwritten(X, Y):
    held = toy((32,), px.f32)
    px.store(Y[0:32], px.load(held))


@px.kernel(warps=1, cluster=2)
def reaches_a_peers_own(X, Y):
    held = own((32,), px.f32)
    px.store(held.at(1), px.load(X[0:32]))


@px.kernel(warps=1)
def outside(X, Y, i):
    held = toy((4, 32), px.f32)
    px.store(held[i], px.load(X[0:32]))


# --- the space and its views ----------------------------------------------------------------------------------------


def test_the_spaces_of_the_language_say_what_they_are() -> None:
    assert (GLOBAL.shared_by, GLOBAL.masked, GLOBAL.is_common, GLOBAL.readable_ahead) == (Span.GPU, True, True, True)
    assert (SHARED.shared_by, SHARED.masked, SHARED.is_common, SHARED.has_peers) == (Span.CTA, False, False, True)
    assert (TENSOR.shared_by, TENSOR.is_each_ctas, TENSOR.has_peers) == (Span.CTA, True, False)
    assert SharedBuffer("s", (4,), f32).space is SHARED and BarrierArray("b", 1).space is SHARED


def test_a_view_of_a_third_space_is_neither_global_nor_shared() -> None:
    view = box(ToyBuffer("held", (4, 8), f32))
    assert view.space is TOY and not in_global(view) and not in_shared(view)
    assert in_shared(whole(SharedBuffer("s", (4,), f32)))


def test_its_offsets_and_its_cta_are_operands() -> None:
    start, rank = Value(I32, "start"), Value(I32, "rank")
    view = box(ToyBuffer("held", (4, 8), f32), start, 2, rank)
    assert values_in(view)[0] is start and values_in(view)[-1] is rank
    assert view.map(lambda item: Const(1) if item is start else item).offsets[0].value == 1


def test_a_view_that_names_no_space_is_an_error() -> None:
    class Nowhere(View):
        pass

    with pytest.raises(NotImplementedError, match="Nowhere does not say in which space it is"):
        in_shared(Nowhere())


def test_two_spaces_never_overlap_and_one_does_by_its_boxes() -> None:
    held, other, s = ToyBuffer("held", (8, 8), f32), ToyBuffer("other", (8, 8), f32), SharedBuffer("s", (8, 8), f32)
    offsets = Offsets.of(kernel(buffers=(held, other, s)))
    assert not may_overlap(box(held), whole(s), offsets) and not may_overlap(box(held), BarrierArray("b", 1), offsets)
    assert not may_overlap(box(held), box(other), offsets)
    assert may_overlap(box(held), box(held, 4, 2), offsets)
    assert not may_overlap(box(held, 0, 4), box(held, 4, 2), offsets)
    assert region_name(box(held)) == "held" and unit_of_region(box(held)) is held


def test_a_peer_is_a_peer_in_every_space() -> None:
    held = ToyBuffer("held", (8, 8), f32)
    assert accesses_peer(Effects(accesses=(Access(Mode.READ, box(held, cta=Const(1))),)))
    assert not accesses_peer(Effects(accesses=(Access(Mode.READ, box(held)),)))


# --- listings and checks of the function ----------------------------------------------------------------------------


def test_it_is_listed_by_its_name() -> None:
    listing = text(front.prepared(through_toy, (front.array(2), front.array(2))))
    assert "  toy held: f32[4, 32], 512 bytes\n" in listing
    assert "store held[%i, :], " in listing and "load held.T, fill=0.0" in listing


def test_boxes_of_it_are_checked() -> None:
    held = ToyBuffer("held", (4, 8), f32)
    with pytest.raises(Error) as error:
        verify(kernel(store(box(held, 3, 2)), buffers=(held,)))
    assert error.value.message == "slice 3:5 is past the end of axis 0 of toy buffer 'held' (size 4)"
    assert error.value.remedy == "toy memory has no edge masks: stay inside the buffer"
    with pytest.raises(Error, match="internal: toy buffer 'held' is not declared"):
        verify(kernel(store(box(held))))
    with pytest.raises(Error, match=r"\.at\(2\) names a CTA outside the cluster of 2 CTAs"):
        verify(kernel(store(box(held, cta=Const(2))), buffers=(held,), cluster=2))


def test_a_cta_has_as_much_of_it_as_the_space_says() -> None:
    buffers = (ToyBuffer("a", (512,), f32, at(1)), ToyBuffer("b", (512,), f32, at(2)), ToyBuffer("c", (1,), f32, at(3)))
    verify(kernel(buffers=buffers[:2]))
    with pytest.raises(Error) as error:
        verify(kernel(buffers=buffers))
    assert error.value.message == "kernel needs 4,100 bytes of toy memory with 'c'; a CTA has 4,096"
    assert error.value.location.line == 3
    verify(kernel(buffers=(*buffers[:2], ToyBuffer("d", (1,), f32, reuse=buffers[0]))))


def test_memory_is_reused_within_a_space() -> None:
    s = SharedBuffer("s", (4,), f32)
    with pytest.raises(Error, match="internal: toy buffer 'held' reuses shared memory"):
        verify(kernel(buffers=(s, ToyBuffer("held", (4,), f32, reuse=s))))


def test_shared_memory_alone_is_counted_as_shared() -> None:
    function = front.prepared(raced, (front.array(1), front.array(1)), BUG=False)
    assert [buffer.name for buffer in function.buffers] == ["held"] and function.shared_buffers == ()


# --- scopes ---------------------------------------------------------------------------------------------------------


def scopes_of(*, peer: bool) -> list[Span]:
    """The scopes of the arrive and the wait that follow a store into toy memory, this CTA's or a peer's."""
    held, done = ToyBuffer("held", (8,), f32), BarrierArray("done", 1)
    view = box(held, cta=Const(1) if peer else None)
    function = kernel(store(view), arrive(done, ctas=0b11), wait(done), buffers=(held,), barriers=(done,), cluster=2)
    return [op.scope for op in choose_scopes(function).walk() if hasattr(op, "scope")]


def test_a_store_into_a_peers_memory_of_any_space_is_released_and_acquired() -> None:
    assert scopes_of(peer=True) == [Span.CLUSTER] * 2
    assert scopes_of(peer=False) == [Span.CTA] * 2


def test_a_load_of_a_peers_memory_counts_too() -> None:
    held, done = ToyBuffer("held", (8,), f32), BarrierArray("done", 1)
    load = Load(box(held, cta=Const(1)), Const(0.0), Value(TileType((8,), f32), "x"))
    function = kernel(
        store(box(held)), arrive(done, ctas=0b11), wait(done), load, buffers=(held,), barriers=(done,), cluster=2
    )
    assert {op.scope for op in choose_scopes(function).walk() if hasattr(op, "scope")} == {Span.CLUSTER}


# --- the simulator and the checks -----------------------------------------------------------------------------------


def test_it_is_simulated() -> None:
    x, y = np.arange(128, dtype=np.float32).reshape(4, 32), np.zeros((32, 4), np.float32)
    through_toy[1](x, y)
    assert np.array_equal(y, x.T)


def test_a_peers_is_read() -> None:
    x, y = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((2, 32), np.float32)
    from_the_peer[2](x, y)
    assert np.array_equal(y, x[::-1])
    assert not px.check(from_the_peer[2], x, y).findings


def test_memory_that_no_other_cta_reaches_has_no_at() -> None:
    with pytest.raises(Error) as error:
        front.prepared(reaches_a_peers_own, (front.array(1), front.array(1)))
    assert error.value.message == ".at(cta) is for shared memory, this is a view of private memory"
    assert error.value.remedy == (
        "a CTA reaches its own private memory alone: hand on through shared memory what others read"
    )


def test_a_span_covers_the_narrower_ones() -> None:
    assert [Span.CLUSTER.covers(span) for span in Span] == [True, True, True, False, False]
    assert [span.value for span in Span] == ["agent", "cta", "cluster", "gpu", "sys"]


def test_leaving_it_is_an_error() -> None:
    x = np.zeros(32, np.float32)
    outside[1](x, x.copy(), 3)
    with pytest.raises(Error, match="index 4 is outside axis 0 of held, whose size is 4"):
        outside[1](x, x.copy(), 4)


def test_races_in_it_are_found() -> None:
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    assert not px.check(raced[1], x, y, BUG=False).findings
    (finding,) = px.check(raced[1], x, y, BUG=True).findings
    assert finding.kind == "race" and "held" in finding.message


def test_what_nothing_has_written_is_found() -> None:
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    (finding,) = px.check(unwritten[1], x, y).findings
    assert finding.kind == "uninitialised-read" and "reads held, which nothing has written" in finding.message


def test_a_space_of_nobody_is_an_internal_error() -> None:
    odd = Space("odd", Span.CLUSTER)

    class OddBuffer(Buffer):
        space: ClassVar[Space] = odd

    held = OddBuffer("held", (4,), f32)
    with pytest.raises(Error, match="internal: the simulator does not know whose odd memory is"):
        simulate(kernel(store(box(held)), buffers=(held,)), 1, [])


# --- CUDA text ------------------------------------------------------------------------------------------------------


def test_cuda_says_at_the_users_line_that_it_has_no_text_for_it() -> None:
    function = front.prepared(unwritten, (front.array(1), front.array(1)))
    with pytest.raises(Error) as error:
        generate(lower(function, arch_of("sm_90a")))
    assert error.value.message == "internal: load of toy memory has no CUDA text"
    assert error.value.location.text.strip() == "px.store(Y[0:32], px.load(held))"


# --- the rule -------------------------------------------------------------------------------------------------------

VIEWS = {"GlobalView", "SharedView", "BufferView"}


def asks_for_the_class(tree: ast.AST) -> list[int]:
    """Lines on which the class of a view is asked for."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            asked = node.args[1]
        elif isinstance(node, ast.MatchClass):
            asked = node.cls
        else:
            continue
        if VIEWS & {name.id for name in ast.walk(asked) if isinstance(name, ast.Name)}:
            found.append(node.lineno)
    return found


def test_the_question_is_found_in_every_form() -> None:
    asked = "isinstance(v, GlobalView)\nisinstance(v, (Value, SharedView))\nmatch v:\n  case BufferView():\n    pass\n"
    code = asked + "SharedView(b)\n"
    assert asks_for_the_class(ast.parse(code)) == [1, 2, 4]


def test_nobody_outside_the_ir_decides_by_the_class_of_a_view() -> None:
    files = [path for path in SOURCES.rglob("*.py") if "ir" not in path.relative_to(SOURCES).parts[:1]]
    named = {path: text for path in files if any(view in (text := path.read_text()) for view in VIEWS)}
    assert len(named) > 20, "the files are found"
    asked = {str(path.relative_to(SOURCES)): asks_for_the_class(ast.parse(text)) for path, text in named.items()}
    assert {path: lines for path, lines in asked.items() if lines} == {}


def compares_with_a_space(tree: ast.AST) -> list[int]:
    """Lines on which something is compared with a space that the file imports."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "phalanx.ir.spaces")
    spaces = {name.asname or name.name for node in imports for name in node.names}
    return [
        node.lineno for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and spaces & {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    ]


def test_a_comparison_is_found_in_every_form() -> None:
    code = "from phalanx.ir.spaces import GLOBAL, SHARED, TENSOR as T\n"
    code += "view.space is GLOBAL\nSHARED == view.space\nview.space in (GLOBAL, x)\nview.space not in x\nf(GLOBAL)\n"
    assert compares_with_a_space(ast.parse(code + "a is b is not T\n")) == [2, 3, 4, 7]
    assert compares_with_a_space(ast.parse("scheme is GLOBAL")) == []


def test_nobody_outside_the_ir_compares_a_space_with_one_it_knows() -> None:
    files = [path for path in SOURCES.rglob("*.py") if "ir" not in path.relative_to(SOURCES).parts[:1]]
    importing = {path: text for path in files if "phalanx.ir.spaces" in (text := path.read_text())}
    assert importing, "the files are found"
    asked = {str(path.relative_to(SOURCES)): compares_with_a_space(ast.parse(text)) for path, text in importing.items()}
    assert {path: lines for path, lines in asked.items() if lines} == {}, "ask the space for a property"
