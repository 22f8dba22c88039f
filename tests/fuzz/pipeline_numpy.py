"""The plain text of a kernel as NumPy runs it: a small `px` of its own, which shares nothing with the simulator.

A CTA runs after the other, a statement after the other: what a loop means without the word.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzz.pipeline_parts import NUMPY

DTYPES = {name: SimpleNamespace(name=name, numpy=np.dtype(dtype)) for name, dtype in NUMPY.items()}


class Tile(np.ndarray):
    """A register tile."""

    def to(self, dtype: Any) -> Tile:
        return self.astype(dtype.numpy)


def tile(x: Any) -> Tile:
    return np.asarray(x).view(Tile)


class View:
    """A region of an array: for each axis the places that it names, some of them outside."""

    def __init__(self, array: np.ndarray, index: Any) -> None:
        self.array = array
        index = index if isinstance(index, tuple) else (index,)
        self.places = [np.atleast_1d(np.arange(i.start, i.stop) if isinstance(i, slice) else np.asarray(i)) for i in index]
        self.shape = [len(places) for places, i in zip(self.places, index, strict=True) if not np.isscalar(i)]
        inside = [(places >= 0) & (places < size) for places, size in zip(self.places, array.shape, strict=True)]
        self.inside = np.logical_and.reduce(np.meshgrid(*inside, indexing="ij"))
        self.mesh = tuple(places[self.inside] for places in np.meshgrid(*self.places, indexing="ij"))

    def load(self, fill: Any = 0) -> Tile:
        out = np.full(self.inside.shape, fill, self.array.dtype)
        out[self.inside] = self.array[self.mesh]
        return tile(out.reshape(self.shape))

    def store(self, value: Any, *, add: bool = False) -> None:
        given = np.broadcast_to(np.asarray(value), self.shape).reshape(self.inside.shape)[self.inside]
        given = given.astype(self.array.dtype)
        self.array[self.mesh] = self.array[self.mesh] + given if add else given


class Array:
    """An array argument: elements are numbers, regions are views."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape = array, array.shape

    def __getitem__(self, index: Any) -> Any:
        every = index if isinstance(index, tuple) else (index,)
        if all(np.isscalar(i) for i in every):
            view = View(self.array, index)
            return Element(view)
        return View(self.array, index)


class Element(int):
    """An element of an array of integers (or of small floats that are whole): a number that can be stored to."""

    view: View

    def __new__(cls, view: View) -> Element:
        made = super().__new__(cls, int(view.load().reshape(())))
        made.view = view
        return made


def _dot(a: Any, b: Any, acc: Any = None) -> Tile:
    whole = np.issubdtype(a.dtype, np.integer)
    product = a.astype(np.float64) @ b.astype(np.float64)
    out = product if acc is None else product + acc
    return tile(out.astype(np.int32 if whole else np.float32))


def language(block: tuple[int, int], grid: tuple[int, int], cluster: tuple[int, int]) -> SimpleNamespace:
    """What `px` is to one CTA."""
    ranks = tuple(b % c for b, c in zip(block, cluster, strict=True))
    across = tuple(g // c for g, c in zip(grid, cluster, strict=True))
    cluster_id = block[0] // cluster[0] + across[0] * (block[1] // cluster[1])

    def rank(axis: int | None = None) -> int:
        return ranks[0] + cluster[0] * ranks[1] if axis is None else ranks[axis]

    def store(where: Any, value: Any) -> None:
        (where.view if isinstance(where, Element) else where).store(value)

    return SimpleNamespace(
        **DTYPES, block_id=lambda axis: block[axis], cluster=SimpleNamespace(rank=rank),
        persistent=lambda n, **groups: _dealt(cluster_id, n, across[0] * across[1], **groups), cdiv=lambda a, b: -(-a // b),
        load=lambda view, fill=0: view.load(fill), store=store, dot=_dot,
        atomic_add=lambda view, value: view.store(value, add=True),
        zeros=lambda shape, dtype: tile(np.zeros(shape, dtype.numpy)),
        full=lambda shape, value, dtype: tile(np.full(shape, value, dtype.numpy)),
        arange=lambda n: tile(np.arange(n, dtype=np.int32)),
        maximum=_same(np.maximum), minimum=_same(np.minimum), exp=np.exp,
        where=lambda c, a, b: tile(np.where(c, a, b).astype(getattr(a, "dtype", None) or getattr(b, "dtype", np.int32))),
        sum=lambda x, axis: tile(x.sum(axis, dtype=x.dtype)), max=lambda x, axis: tile(x.max(axis)),
        argmax=lambda x, axis: tile(x.argmax(axis).astype(np.int32)), kernel=lambda **options: lambda f: f,
    )  # fmt: skip


def _dealt(first: int, n: int, step: int, groups: Array | None = None, tile: int = 0) -> list[Any]:
    """The tiles of a cluster: numbers, or with `groups` where each begins and what is said of it."""
    if groups is None:
        return list(range(first, n, step))
    every = [
        (row, SimpleNamespace(index=index, column=column, rows=np.arange(row, min(row + tile, end))))
        for index, (begin, end) in enumerate(itertools.pairwise(groups.array.tolist()))
        for column in range(n) for row in range(begin, end, tile)
    ]  # fmt: skip
    return every[first::step]


def _same(function: Any) -> Any:
    """A function of two, with the type of the tile among them; of numbers, a number."""

    def run(a: Any, b: Any) -> Any:
        if np.isscalar(a) and np.isscalar(b):
            return int(function(a, b))
        dtype = a.dtype if isinstance(a, np.ndarray) else b.dtype
        return tile(function(a, b).astype(dtype))

    return run


def run(text: str, grid: tuple[int, int], cluster: tuple[int, int], arguments: list[Any]) -> None:
    """Runs the kernel `program` of a plain text on the arguments, in place."""
    given = [Array(x) if isinstance(x, np.ndarray) else x for x in arguments]
    code = compile(text.replace("import phalanx as px", ""), "program", "exec")
    for y, x in itertools.product(range(grid[1]), range(grid[0])):
        names: dict[str, Any] = {"px": language((x, y), grid, cluster)}
        exec(code, names)
        names["program"](*given)
