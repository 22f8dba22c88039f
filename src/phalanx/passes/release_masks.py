"""A stage of a pipe is given back to everybody who fills it: which CTAs those are follows from the copies' masks.

A release that names no CTAs (`Arrival.gives_back`) goes to each CTA whose copies complete on this CTA's barrier of that
array, or whose engines arrive on it; and to the own one, where it waits for stages itself. Every rank is enumerated, so
2-D multicasts are right without a mask.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.analysis.ranks import ranks
from phalanx.analysis.trace import Signal, Step, steps, trace
from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray
from phalanx.passes.rank_code import RankCode
from phalanx.passes.registry import in_ctas, registered

Masks = tuple[int, ...]
"""The CTAs that a rank's release goes to, by rank."""


def lower_releases(function: Function) -> Function:
    """The kernel in which every release of a pipe's stage has its mask. For `passes.pipeline`, before counting."""
    wanted: dict[BarrierArray, set[BarrierArray]] = {}
    for op in function.walk():
        for array, release in _given_back(op):
            wanted.setdefault(array, set()).add(release)
    if not wanted or function.cluster_size == 1:
        return function
    masks = _masks(function, wanted)
    values: dict[Masks, Value] = {}
    before: list[Op] = []

    def visit(op: Op) -> list[Op] | None:
        for array, _ in _given_back(op):
            by_rank = masks[array]
            if any(mask != 1 << rank for rank, mask in enumerate(by_rank)):
                if by_rank not in values:
                    code = RankCode(op.loc)
                    values[by_rank] = code.chosen(dict(enumerate(by_rank)), "release_ctas", masks=True)
                    before.extend(code.ops)
                return [registered(in_ctas, op)(op, values[by_rank])]
        return None

    body = rewrite(function.body, visit)
    return dataclasses.replace(function, body=Block((*before, *body.ops)))


def _given_back(op: Op) -> Iterator[tuple[BarrierArray, BarrierArray]]:
    """The array whose stage the instruction gives back, where it does not say to which CTAs, and on which it does."""
    for arrival in op.effects().arrivals:
        if arrival.gives_back is not None and arrival.mask is None:
            yield arrival.gives_back, arrival.barrier.barrier


def _masks(function: Function, wanted: dict[BarrierArray, set[BarrierArray]]) -> dict[BarrierArray, Masks]:
    found = {array: [0 for _ in ranks(function)] for array in wanted}
    for rank in ranks(function):
        traced = trace(function, rank)
        waited = {wait.barrier for step in steps(traced) for wait in step.waits}
        for array, releases in wanted.items():
            if releases & waited:
                found[array][rank] |= 1 << rank
        for step in steps(traced):
            for signal in (*step.completes, *_by_engines(step)):
                if signal.barrier not in found:
                    continue
                if signal.ranks is None:
                    raise Error(
                        f"can't work out who fills the stages of {signal.barrier.title}: the mask of this copy is known "
                        "only at run time",
                        location=step.op.loc,
                        remedy="say it: px.pipe(stages, ctas=mask, count=n), with the CTAs whose copies land in this CTA's "
                        "stages, and how many releases give one back",
                    )
                for receiver in signal.ranks:
                    found[signal.barrier][receiver] |= 1 << rank
    return {array: tuple(mask or 1 << rank for rank, mask in enumerate(row)) for array, row in found.items()}


def _by_engines(step: Step) -> Iterator[Signal]:
    """The arrivals that an engine makes, when it has filled a stage."""
    for arrival, signal in zip(step.op.effects().arrivals, step.arrivals, strict=True):
        if arrival.after is not None:
            yield signal
