"""A stage of a pipe is given back to everybody who fills it: which CTAs those are follows from the copies' masks.

A release that names no CTAs (`Arrival.gives_back`) goes to the own CTA, and to each whose copies complete on this CTA's
barrier of that array. Every rank is enumerated, so 2-D multicasts are right without a mask.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from phalanx.analysis.ranks import ranks
from phalanx.analysis.trace import steps, trace
from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray
from phalanx.location import Location
from phalanx.passes.rank_code import RankCode

Masks = tuple[int, ...]
"""The CTAs that a rank's release goes to, by rank."""


def lower_releases(function: Function) -> Function:
    """The kernel in which every release of a pipe's stage has its mask. For `passes.pipeline`, before counting."""
    wanted = {array: op.loc for op in function.walk() for array in _given_back(op)}
    if not wanted or function.cluster_size == 1:
        return function
    masks = _masks(function, wanted)
    values: dict[Masks, Value] = {}
    before: list[Op] = []

    def visit(op: Op) -> list[Op] | None:
        for array in _given_back(op):
            by_rank = masks[array]
            if any(mask != 1 << rank for rank, mask in enumerate(by_rank)):
                if by_rank not in values:
                    code = RankCode(op.loc)
                    values[by_rank] = code.chosen(dict(enumerate(by_rank)), "release_ctas", masks=True)
                    before.extend(code.ops)
                return [op.in_ctas(values[by_rank])]
        return None

    body = rewrite(function.body, visit)
    return dataclasses.replace(function, body=Block((*before, *body.ops)))


def _given_back(op: Op) -> Iterator[BarrierArray]:
    """The array whose stage the instruction gives back, where it does not say to which CTAs."""
    for arrival in op.effects().arrivals:
        if arrival.gives_back is not None and arrival.mask is None:
            yield arrival.gives_back


def _masks(function: Function, wanted: dict[BarrierArray, Location]) -> dict[BarrierArray, Masks]:
    found = {array: [1 << rank for rank in ranks(function)] for array in wanted}
    for rank in ranks(function):
        for step in steps(trace(function, rank)):
            for signal in step.completes:
                if signal.barrier not in found:
                    continue
                if signal.ranks is None:
                    raise Error(
                        f"can't work out who fills the stages of {signal.barrier.title}: the mask of this copy is known "
                        "only at run time",
                        location=step.op.loc,
                        remedy="say it: px.pipe(stages, ctas=mask), with the CTAs whose copies land in this CTA's stages",
                    )
                for receiver in signal.ranks:
                    found[signal.barrier][receiver] |= 1 << rank
    return {array: tuple(row) for array, row in found.items()}
