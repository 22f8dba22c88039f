"""What tests of the counting rule ask of a kernel that is written by hand."""

from __future__ import annotations

import pytest

from passes.handmade import Handmade
from phalanx.errors import Error
from phalanx.passes.counts import infer_counts


def counts(made: Handmade, barrier) -> tuple[tuple[int, ...], ...]:
    return infer_counts(made.function())[barrier]


def failure(made: Handmade) -> Error:
    with pytest.raises(Error) as caught:
        infer_counts(made.function())
    return caught.value


def multicast_gemm(shape: tuple[int, int], consumers: int) -> Handmade:
    """A tile's rows are shared along y, its columns along x, so a slot is free when both groups have released
    it.
    """
    m, n = shape
    made = Handmade(cluster=(m, n, 1), warps=4 * (consumers + 1))
    full, empty, steps = made.barrier("full", 4), made.barrier("empty", 4), made.argument()
    x, y = made.rank(0), made.rank(1)
    row = made.binary("shl", (1 << m) - 1, made.binary("mul", y, m))
    column = made.binary("shl", sum(1 << (m * j) for j in range(n)), x)
    both = made.binary("or", row, column)
    with made.role("producer", 0, 1):
        stage = made.cell(0)
        with made.loop(steps):
            made.wait(empty, made.read(stage))
            made.arm(full, made.read(stage), 4096)
            made.load(full, made.read(stage), 2048 // m, row)
            made.load(full, made.read(stage), 2048 // n, column)
            made.advance(stage, 4)
    for consumer in range(consumers):
        with made.role("consumer", 4 * (consumer + 1), 4):
            stage = made.cell(0)
            with made.loop(steps):
                made.wait(full, made.read(stage))
                made.arrive(empty, made.read(stage), ctas=both)
                made.advance(stage, 4)
    return made
