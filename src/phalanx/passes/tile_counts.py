"""How many tiles a kernel deals to the clusters of its grid, for given arguments."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.analysis.ranks import Evaluator
from phalanx.ir.core import Function
from phalanx.ir.values import Value


def deals_tiles(function: Function) -> bool:
    """Whether the kernel has a loop over `px.persistent`, so that any number of clusters does its work."""
    return any(op.dealt_tiles is not None for op in function.walk())


def tile_count(function: Function, known: Mapping[Value, int]) -> int | None:
    """The most tiles that one of its loops deals, where `known` says what some values are; None if only a run knows.

    The runtime calls it before a launch, with the extents of the arguments.
    Example: ``tile_count(function, {extent.result: 4096})``.
    """
    evaluator = Evaluator(function, 0)
    for value, number in known.items():
        evaluator.set(value, number)
    most = 0
    for op in function.walk():
        if op.dealt_tiles is None:
            continue
        count = evaluator.number(op.dealt_tiles)
        if count is None:
            return None
        most = max(most, int(count))
    return most
