"""Deliberate mistakes: type checkers find one in every line that says so, and in no other."""

import numpy as np

import phalanx as px
from phalanx.types import Array


@px.kernel(warp=4)  # error: warps
def one(X: Array) -> None:
    pass


@px.struct
class Span:
    start: int
    stop: int


@px.kernel
def two(X: Array, Y: Array, *, BM: int = 64) -> None:
    tile = px.load(X[0:BM])
    px.exponential(tile)  # error: no such function
    px.exp()  # error: an argument is missing
    px.exp(tile, 3)  # error: one too many
    px.sum(tile, axes=1)  # error: axis
    tile.astype(px.f16)  # error: to
    tile.wait(0)  # error: a tile is no barrier
    bar = px.barrier(2)
    bar.arriv()  # error: arrive
    bar + 1  # error: no arithmetic
    px.tma.lod(X[0:BM], tile, bar)  # error: load
    px.tma.load(X[0:BM], px.shared((64,), px.f32), 3)  # error: no barrier
    px.zeros((64,), "f32")  # error: no type of elements
    px.shared((64, "n"), px.f16)  # error: no shape
    px.store(Y[0:BM])  # error: nothing to store
    px.float16  # error: f16
    Span(1)  # error: stop is missing
    Span(1, 2).length  # error: no such field
    bar.wait()  # error: which phase


x = np.zeros(64, np.float32)
two[1](x)  # error: Y is missing
two[1](x, x, 3)  # error: one too many
two[1](x, x, BN=3)  # error: no such constant
two[1](x, x, BM="64")  # error: no number
two(x, x)  # error: a grid is missing
px.check(two, x, x)  # error: a grid is missing
