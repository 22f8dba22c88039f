"""Programs of products in flight as NumPy runs them: each product is over at once, each role runs after the other.

A tile is a value, and a product makes a new one of its variable: that is all that the language says, so nothing here knows
of groups, waits or registers.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzz.flight_draft import NUMPY
from fuzz.flight_programs import Case
from fuzz.pipeline_numpy import Array, View, language

_PRODUCT = re.compile(r"^(\s*)px\.wgmma\((.*), (\w+)((?:, (?:accumulate|along)=[^,()]*)*)\)$", re.M)
_COPIES = re.compile(r"with px\.warps\([^()]*copies=(\d+)[^()]*\) as c:")
STAGES = 16
"""Of each ring, more than any program has steps: a stage is never used again."""


class Tile(np.ndarray):
    """A register tile."""

    def to(self, dtype: Any) -> Tile:
        return np.asarray(self).astype(dtype.numpy).view(Tile)

    def permute(self, *axes: int) -> Tile:
        return self.transpose(axes)


class Dtype(SimpleNamespace):
    """A type, of elements."""


def _tile(x: Any) -> Tile:
    return np.asarray(x).view(Tile)


class Scalar(int):
    """A number of a kernel, which converts as a tile does."""

    def to(self, dtype: Any) -> Any:
        return dtype.numpy.type(self)

    def __mod__(self, other: int) -> Scalar:
        return Scalar(int(self) % other)

    def __add__(self, other: Any) -> Any:
        return Scalar(int(self) + other) if isinstance(other, int) else int(self) + other


class Pipe:
    """A ring in which no stage comes again; each role has a place of its own."""

    def __init__(self) -> None:
        self.full = [None] * STAGES
        self.at = 0

    @contextlib.contextmanager
    def produce(self) -> Iterator[int]:
        yield self.at
        self.at += 1

    def wait(self) -> int:
        self.at += 1
        return self.at - 1

    def release(self) -> None:
        pass


class Language:
    """What `px` is to a program."""

    def __init__(self) -> None:
        self._basics = language((0, 0), (1, 1), (1, 1))
        self._pipes: list[Pipe] = []
        self.tma = SimpleNamespace(load=self._copy)
        for name, dtype in NUMPY.items():
            setattr(self, name, Dtype(name=name, numpy=np.dtype(dtype)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._basics, name)

    def kernel(self, **options: Any) -> Any:
        return lambda function: function

    def shared(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.zeros((STAGES, *shape[1:]) if len(shape) == 3 else shape, dtype.numpy)

    def barrier(self) -> Any:
        return SimpleNamespace(transaction=contextlib.nullcontext, wait=lambda parity: None)

    def pipe(self, stages: int) -> Pipe:
        self._pipes.append(Pipe())
        return self._pipes[-1]

    @contextlib.contextmanager
    def warps(self, first: int, count: int, regs: int = 0) -> Iterator[None]:
        self._begin_role()
        yield

    def copies(self, count: int) -> Iterator[int]:
        for copy in range(count):
            self._begin_role()
            yield copy

    def _begin_role(self) -> None:
        for pipe in self._pipes:
            pipe.at = 0

    def _copy(self, source: View, to: np.ndarray, bar: Any) -> None:
        to[...] = source.load()

    def load(self, view: Any) -> Tile:
        return _tile(view.load() if isinstance(view, View) else view.copy())

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Tile:
        return _tile(np.zeros(shape, dtype.numpy))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Tile:
        return _tile(np.full(shape, 99, dtype.numpy))

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any) -> Tile:
        return _tile(np.full(shape, value, dtype.numpy))

    def arange(self, n: int) -> Tile:
        return _tile(np.arange(n, dtype=np.int32))

    def where(self, condition: Any, a: Any, b: Any) -> Tile:
        return _tile(np.where(condition, a, b))

    def maximum(self, a: Any, b: Any) -> Any:
        return _limited(np.maximum, a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return _limited(np.minimum, a, b)

    def exp2(self, x: Any) -> Tile:
        return _tile(np.exp2(x))

    def bitcast(self, x: np.ndarray, dtype: Any) -> Tile:
        return _tile(np.ascontiguousarray(x).view(dtype.numpy))

    def ptx(self, text: str, inputs: tuple[Any, ...], dtype: Any, sim: Any) -> Tile:
        return _tile(sim(*inputs).astype(dtype.numpy))

    def unroll(self, items: Any, count: int = 1) -> Any:
        return items

    pipelined = unroll

    def wgmma_commit(self) -> None:
        pass

    def wgmma_wait(self, groups: int) -> None:
        pass

    def wgmma(self, a: Any, b: Any, acc: Tile, accumulate: Any = True, along: str = "m") -> Tile:
        product = np.asarray(a).astype(np.float64) @ np.asarray(b).astype(np.float64)
        return _tile((product + np.asarray(acc).astype(np.float64) * bool(accumulate)).astype(acc.dtype))

    def dot(self, a: Any, b: Any, acc: Tile, along: str = "m") -> Tile:
        return self.wgmma(a, b, acc)


def _limited(function: Any, a: Any, b: Any) -> Any:
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return Scalar(function(a, b))
    return _tile(function(a, b).astype(a.dtype))


def _numbers(items: Any) -> Iterator[Scalar]:
    yield from map(Scalar, items)


def run(case: Case) -> dict[str, np.ndarray]:
    """The outputs of a program."""
    text = _PRODUCT.sub(r"\1\3 = px.wgmma(\2, \3\4)", case.text)
    text = _COPIES.sub(r"for c in px.copies(\1):", text).replace("import phalanx as px", "")
    text = text.replace("px.static_range(", "range(")
    px = Language()
    names: dict[str, Any] = {"px": px, "range": lambda *bounds: _numbers(range(*bounds))}
    exec(compile(text, f"flight {case.seed}", "exec"), names)
    arguments = case.copies()
    with np.errstate(all="ignore"):
        names["program"](*(Array(x) if isinstance(x, np.ndarray) else x for x in arguments))
    return case.results(arguments)


