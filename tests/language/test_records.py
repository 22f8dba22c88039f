"""Frozen dataclasses as constants of kernels, and structs as run-time parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.frozen import frozen
from phalanx.language.reader.capture import exact
from phalanx.runtime.launch.memory import memory_of


@frozen
class Cut:
    rows: int = 4
    scale: float = 2.0

    @property
    def twice(self) -> int:
        return 2 * self.rows


@dataclasses.dataclass(frozen=True)
class Outer:
    cut: Cut
    name: str | None = None


@px.struct
class Ends:
    first: Any
    last: Any

    def span(self):
        return self.last - self.first


CUT = Cut()
CAPTURED = Cut(rows=3)


def run(kernel: Any, *args: Any, **constants: Any) -> float:
    out = np.zeros(1, np.float32)
    kernel[1](out, *args, **constants)
    return float(out[0])


@px.kernel(warps=lambda cut: cut.rows)
def scaled(OUT, n, *, cut=CUT):
    px.store(OUT[0], n * cut.scale + cut.twice)


@px.kernel
def spanned(OUT, ends: Ends, n):
    if ends.last is None:
        px.store(OUT[0], n)
    else:
        px.store(OUT[0], ends.span() + n)


def test_fields_and_properties_of_a_dataclass_are_constants() -> None:
    assert run(scaled, 5) == 18.0
    assert run(scaled, 5, cut=Cut(1, 3.0)) == 17.0


def test_a_dataclass_in_a_dataclass() -> None:
    @px.kernel
    def nested(OUT, *, outer):
        px.store(OUT[0], outer.cut.rows + (0 if outer.name is None else 10))

    assert run(nested, outer=Outer(Cut(2))) == 2.0
    assert run(nested, outer=Outer(Cut(2), "x")) == 12.0


def test_a_captured_dataclass_is_compared_at_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    @px.kernel
    def captured(OUT):
        px.store(OUT[0], CAPTURED.rows)

    assert run(captured) == 3.0
    monkeypatch.setitem(globals(), "CAPTURED", Cut(rows=7))
    assert run(captured) == 7.0


def test_dataclasses_with_equal_fields_are_one_constant() -> None:
    kernel = px.kernel(scaled.fn, warps=lambda cut: cut.rows)
    for scale in (2.0, 2.0, 3.0):
        run(kernel, 1, cut=Cut(2, scale))
    assert len(memory_of(kernel).specialisations) == 2


@pytest.mark.parametrize("pair", [(1, 1.0), (1, True), (0.0, -0.0)])
def test_what_python_takes_for_equal_are_different_constants(pair: tuple[Any, Any]) -> None:
    one, other = (Cut(1, value) for value in pair)
    assert one == other
    assert exact(one) != exact(other)


def test_the_fields_of_a_struct_are_run_time_arguments() -> None:
    assert spanned.parameters == ("OUT", "first", "last", "n")
    assert run(spanned, Ends(3, 10), 1) == 8.0
    assert run(spanned, Ends(3, None), 1) == 1.0
    assert run(spanned, 3, 10, 1) == 8.0, "one by one, as in what a launch is recorded as"
    out = np.zeros(1, np.float32)
    assert len(px.compile(spanned[1], out, Ends(3, 10), 1).signature.given) == 4
    assert not px.check(spanned[1], out, Ends(3, 10), 1).findings


def test_a_struct_of_arrays() -> None:
    @px.struct
    class Pair:
        a: Any
        b: Any

    @px.kernel
    def added(OUT, pair: Pair, a):
        px.store(OUT[0], pair.a[0] + pair.b[0] + a)

    assert added.parameters == ("OUT", "pair_a", "b", "a"), "names that are taken get the parameter's in front"
    assert run(added, Pair(np.full(1, 2, np.float32), np.full(1, 3, np.float32)), 4.0) == 9.0


def test_other_annotations_mean_nothing() -> None:
    @px.kernel
    def annotated(OUT, n: int, *, BM: int = 2):
        px.store(OUT[0], n + BM)

    assert annotated.parameters == ("OUT", "n")
    assert run(annotated, 3) == 5.0
