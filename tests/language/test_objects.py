"""A new kind of value works in kernels without a word about it in the reader: here kinds that only this file knows."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from phalanx import language
from phalanx.frozen import frozen
from phalanx.ir.values import Value
from phalanx.language.builder import Builder, operand
from phalanx.language.objects import Arguments, KernelObject, Keywords, RegionReader, attribute, method
from phalanx.language.operators import binary
from phalanx.language.values import require_index


@frozen
class Lane(KernelObject):
    """One lane of an engine: a number, or a scalar."""

    place: int | Value
    kind_name = "a lane"

    @attribute
    def number(self, ctx: Builder) -> int | Value:
        return self.place

    def held(self) -> tuple[Value, ...]:
        return (self.place,) if isinstance(self.place, Value) else ()

    def form(self) -> str:
        return "a lane"

    def parts(self) -> tuple[object, ...]:
        return (self.place,)

    def with_parts(self, parts: tuple[object, ...]) -> Lane:
        return replace(self, place=parts[0])


@frozen
class Engine(KernelObject):
    """Something with lanes, which adds."""

    lanes: int
    kind_name = "an engine"
    is_constant = True
    gives_value = True

    @attribute
    def width(self, ctx: Builder) -> int:
        return self.lanes

    @method
    def twice(self, ctx: Builder, x: object) -> object:
        return binary(ctx, "add", x, x)

    def subscript(self, ctx: Builder, index: Arguments) -> Lane:
        return Lane(require_index(ctx, "a lane", index[0]))

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        return binary(ctx, "add", args[0], kwargs.get("plus", self.lanes))

    def unpacked(self) -> tuple[object, ...]:
        return tuple(Lane(place) for place in range(self.lanes))

    def iterations(self) -> tuple[object, ...]:
        return self.unpacked()

    def constant_items(self) -> tuple[object, ...]:
        return self.unpacked()

    def truth(self, ctx: Builder, what: str) -> bool:
        return self.lanes > 2  # Python itself takes every object for true

    def open(self, reader: RegionReader, body: Callable[[], None], bind: Callable[[object], None] | None) -> None:
        if bind is not None:
            bind(operand(self.lanes * 100))
        reader.closed(body)


class Plain(KernelObject):
    """A kind of value that can do nothing."""

    kind_name = "a plain thing"
    is_constant = True


ENGINE, NARROW = Engine(3), Engine(2)
PLAIN = Plain()


def run(kernel, length: int = 8) -> list[int]:
    y = np.zeros(length, np.int32)
    kernel[1](np.arange(1, 1 + length, dtype=np.int32), y)
    assert px.check(kernel[1], np.arange(1, 1 + length, dtype=np.int32), np.zeros(length, np.int32)).ok
    return y.tolist()


def test_attributes_subscripts_and_calls() -> None:
    @px.kernel(warps=1)
    def used(X, Y):
        px.store(Y[0], ENGINE.width)
        px.store(Y[1], ENGINE.twice(X[1]))
        px.store(Y[2], ENGINE[X[0]].number)
        px.store(Y[3], ENGINE(X[3]))
        px.store(Y[4], ENGINE(X[3], plus=10))

    assert run(used) == [3, 4, 1, 7, 14, 0, 0, 0]


def test_loops_unpacking_truth_and_regions() -> None:
    @px.kernel(warps=1)
    def used(X, Y):
        for lane in ENGINE:
            px.store(Y[lane.number], 5)
        first, *others = ENGINE
        px.store(Y[3], len(others) + first.number)
        px.store(Y[4], len(ENGINE) if ENGINE and X[0] > 0 else 0)
        with ENGINE as hundreds:
            px.store(Y[5], hundreds)
        px.store(Y[6], px.maximum(*(ENGINE[4].number, X[5])))
        px.store(Y[7], 1 if NARROW or (ENGINE and NARROW) else 8 if not NARROW else 2)

    assert run(used) == [5, 5, 5, 2, 3, 300, 6, 8]


def test_values_that_differ_in_their_parts_meet_after_a_branch() -> None:
    @px.kernel(warps=1)
    def chosen(X, Y):
        if X[0] > 0:
            lane = ENGINE[X[2] + 1]
        else:
            lane = ENGINE[7]
        px.store(Y[0], lane.number)

    assert run(chosen)[0] == 4


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ("PLAIN.size", "a plain thing has no attribute 'size'"),
        ("ENGINE.size", "an engine has no attribute 'size'"),
        ("PLAIN[0]", "a plain thing can't be indexed"),
        ("PLAIN()", "a plain thing can't be called"),
        ("len(PLAIN)", "len() takes a tuple, not a plain thing"),
        ("PLAIN + 1", "'+' can't be applied to a plain thing"),
        ("(*PLAIN,)", "* can't unpack a plain thing"),
        ("1 if PLAIN else 0", "the condition of a conditional expression is a plain thing"),
    ],
)
def test_what_a_kind_does_not_do_is_an_error_with_its_name(tmp_path: Path, write: str, message: str) -> None:
    names = {"px": px, "ENGINE": ENGINE, "PLAIN": PLAIN}
    file = tmp_path / "wrong_use.py"
    file.write_text(f"@px.kernel(warps=1)\ndef wrong(X, Y):\n    x = {write}\n")
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(px.Error) as caught:
        names["wrong"][1](np.zeros(4, np.int32), np.zeros(4, np.int32))
    assert caught.value.message == message
    assert caught.value.location.line == 3 and caught.value.remedy


def test_a_plain_thing_is_no_region_and_nothing_to_loop_over() -> None:
    @px.kernel(warps=1)
    def opened(X, Y):
        with PLAIN:
            px.store(Y[0], 1)

    @px.kernel(warps=1)
    def looped(X, Y):
        for item in PLAIN:
            px.store(Y[0], item)

    with pytest.raises(px.Error, match="a plain thing is not a region"):
        run(opened)
    with pytest.raises(px.Error, match="can't loop over a plain thing"):
        run(looped)


def test_the_reader_and_the_functions_of_the_language_do_not_import_each_other() -> None:
    """A kind of value lives with its functions; the reader asks it through `KernelObject` alone."""
    root = Path(language.__path__[0])
    for folder, other in (("reader", "phalanx.language.ops"), ("ops", "phalanx.language.reader")):
        for file in sorted((root / folder).rglob("*.py")):
            imported = {
                node.module
                for node in ast.walk(ast.parse(file.read_text()))
                if isinstance(node, ast.ImportFrom) and node.module is not None
            }
            assert not [name for name in imported if name.startswith(other)], file
