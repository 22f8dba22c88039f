"""Collective copies become what each rank issues: its share of the tile, the whole tile for all, or nothing.

Every rank is enumerated: which mask it names, whether those it names name the same one and come here too. Where only a
run knows a mask, each CTA finds out of it what it issues. The simulator checks what only a run knows, that they name the
same region and the same mask (`cluster.agree`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from phalanx.analysis.ranks import ranks
from phalanx.analysis.trace import TracedAgent, steps, trace
from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op, rewrite
from phalanx.ir.ops.cluster import ClusterAgree, Collective
from phalanx.ir.ops.control import If
from phalanx.ir.ops.tile import Binary, Cast, Compare, Select
from phalanx.ir.ops.tma import TmaLoad
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import GlobalView, SharedView
from phalanx.passes.count_table import spans
from phalanx.passes.rank_code import RankCode

View = TypeVar("View", GlobalView, SharedView)
Masks = dict[int, int]
"""The mask that each rank names, by rank; a rank that does not come here is not in it."""


def lower_collectives(function: Function) -> Function:
    """The kernel with every collective copy as the TMA loads of its ranks.

    Called by `passes.pipeline`, before bytes are counted. Raises `Error` at the copy where ranks disagree about the
    mask, a rank of it does not take part, or the tile can't be divided. Copies whose mask only a run knows are left to
    `lower_run_time_collectives`.
    """
    found: dict[Op, Masks] = {op: {} for op in function.walk() if op.collective is not None}
    if not found:
        return function
    agents: dict[Op, TracedAgent] = {}
    unknown: set[Op] = set()
    for rank in ranks(function):
        for step in steps(trace(function, rank)):
            if step.op not in found:
                continue
            reached = step.completes[0].ranks
            if reached is None:
                unknown.add(step.op)
                continue
            same = agents.setdefault(step.op, step.agent) == step.agent
            _note_mask(step.op, reached, rank, found[step.op], same)
    for op in unknown:
        del found[op]
    for op, masks in found.items():
        if op.collective is not None:
            _check(op.collective, masks)

    def visit(op: Op) -> list[Op] | None:
        copy = op.collective
        if copy is None or op in unknown:
            return None
        return _shares(function, copy, found[op]) if copy.shares else _fetched_once(function, copy, found[op])

    return dataclasses.replace(function, body=rewrite(function.body, visit))


def lower_run_time_collectives(function: Function) -> Function:
    """The kernel with the other collective copies, whose masks only a run knows, as the TMA loads of its ranks.

    Called by `passes.pipeline`, when bytes are counted: whatever the mask is, each CTA receives the tile once.
    """
    if not any(op.collective is not None for op in function.walk()):
        return function

    def visit(op: Op) -> list[Op] | None:
        copy = op.collective
        return None if copy is None else _by_mask(function, copy)

    return dataclasses.replace(function, body=rewrite(function.body, visit))


# ---------------------------------------------------------------------- masks


def _note_mask(op: Op, reached: tuple[int, ...], rank: int, masks: Masks, same: bool) -> None:
    """Notes the mask of a rank; `same`: it is the copy of a role that was looked at first."""
    mask = sum(1 << member for member in reached)
    if masks.setdefault(rank, mask) != mask:
        raise Error(
            f"the mask of {op.call} changes from one {'iteration' if same else 'copy of its role'} to the next",
            location=op.loc,
            remedy="name the same CTAs each time, or use px.tma.load(multicast=mask)",
        )


def _check(op: Collective, masks: Masks) -> None:
    """Whoever is named takes part, with the same mask; a written number of CTAs is theirs."""
    for rank, mask in masks.items():
        if op.count is not None and op.count != mask.bit_count():
            raise Error(
                f"{op.call} is written with count={op.count}, but the mask {mask:#b} of CTA {rank} names {mask.bit_count()}",
                location=op.loc,
                kind="count-mismatch",
                remedy="leave count= out where masks are known when the kernel is compiled, or correct it",
            )
        if not mask >> rank & 1:
            if op.shares:
                raise Error(
                    f"CTA {rank} calls {op.call} with the mask {mask:#b}, which does not name it",
                    location=op.loc,
                    remedy="the CTAs of the mask share the work: call it in those only, or name this one too",
                )
            continue
        for peer in _members(mask):
            if peer not in masks:
                raise Error(
                    f"CTA {rank} shares this copy with CTA {peer}, which never comes here",
                    location=op.loc,
                    remedy=f"all CTAs of the mask {mask:#b} call {op.call} together: move it out of the condition on "
                    "the rank, or name only those that do",
                )
            if masks[peer] != mask:
                raise Error(
                    f"CTA {rank} names the mask {mask:#b}, CTA {peer} of that mask names {masks[peer]:#b}",
                    location=op.loc,
                    remedy="all CTAs of a mask name the same one, e.g. the CTAs of their row of the cluster",
                )


def _members(mask: int) -> list[int]:
    return [rank for rank in range(mask.bit_length()) if mask >> rank & 1]


# ---------------------------------------------------------------------- code


class _Code(RankCode):
    """The instructions of a collective copy, some of which some ranks run alone."""

    def only_in(self, chosen: list[int], everyone: Masks, write: Callable[[_Code], None]) -> None:
        """What `write` adds, run by the chosen ranks."""
        if not chosen:
            return
        if len(chosen) == len(everyone):
            write(self)
            return
        inner = _Code(self.loc)
        write(inner)
        self.ops.append(If(self.among(sum(1 << rank for rank in chosen)), Block(tuple(inner.ops)), Block(), loc=self.loc))

    def agree(self, op: Collective) -> None:
        self.ops.append(ClusterAgree(op.src, op.ctas, op.count, loc=self.loc))

    def bits(self, mask: Value) -> Value:
        """How many of the lowest 16 bits are set, the CTAs that a cluster may have."""
        for shift, kept in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
            low = self.binary("and", mask, Const(kept, I32))
            high = self.binary("and", self.binary("shr", mask, Const(shift, I32)), Const(kept, I32))
            mask = self.binary("add", low, high)
        return mask

    def compare(self, fn: str, a: Value, b: Value) -> Value:
        """The truth of a comparison."""
        result = Value(BOOL)
        self.ops.append(Compare(fn, a, b, result, loc=self.loc))
        return result

    def load(self, op: Collective, src: GlobalView, dst: SharedView, multicast: Value | None) -> None:
        name = op.written
        self.ops.append(TmaLoad(src, dst, op.bar, multicast, op.cache, name, loc=self.loc))


def _fetched_once(function: Function, op: Collective, masks: Masks) -> list[Op]:
    """The lowest rank of each mask fetches for all of it; CTAs outside theirs, or alone in it, for themselves."""
    code = _Code(op.loc)
    alone = [rank for rank, mask in masks.items() if mask == 1 << rank or not mask >> rank & 1]
    first = [rank for rank, mask in masks.items() if rank not in alone and rank == _members(mask)[0]]
    if first:
        code.agree(op)
    code.only_in(first, masks, lambda inner: inner.load(op, op.src, op.dst, op.ctas))
    code.only_in(alone, masks, lambda inner: inner.load(op, op.src, op.dst, None))
    return code.ops


def _by_mask(function: Function, op: Collective) -> list[Op]:
    """What a CTA issues follows from the mask at run time: is it the lowest of it, at which place, or not in it at all."""
    code = _Code(op.loc)
    mask = op.ctas
    if mask.type != I32:
        mask = Value(I32, "mask")
        code.ops.append(Cast(op.ctas, mask, loc=op.loc))
    code.agree(op)
    own = code.binary("shl", Const(1, I32), code.rank())
    if op.shares:
        if op.count is None:
            raise Error(
                f"the mask of {op.call} is known only at run time, and with it into how many shares the tile is divided",
                location=op.loc,
                remedy="write how many CTAs the mask names: px.cluster.load(src, dst, bar, ctas=mask, count=2)",
            )
        before = code.bits(code.binary("and", mask, code.binary("sub", own, Const(1, I32))))
        _load_share(code, op, op.count, before, f"{op.count} CTAs of its mask")
        return code.ops
    outside = code.compare("eq", code.binary("and", mask, own), Const(0, I32))
    lowest = code.binary("and", mask, code.binary("sub", Const(0, I32), mask))
    fetches, receivers = Value(BOOL, "fetches"), Value(I32, "receivers")
    code.ops.append(Binary("or", outside, code.compare("eq", lowest, own), fetches, loc=op.loc))
    inner = _Code(op.loc)
    inner.ops.append(Select(outside, own, mask, receivers, loc=op.loc))
    inner.load(op, op.src, op.dst, receivers)
    code.ops.append(If(fetches, Block(tuple(inner.ops)), Block(), loc=op.loc))
    return code.ops


def _shares(function: Function, op: Collective, masks: Masks) -> list[Op]:
    """Every CTA of a mask fetches one of the equal parts of the slowest axis that has several elements."""
    code = _Code(op.loc)
    by_count: dict[int, list[int]] = {}
    for rank, mask in masks.items():
        by_count.setdefault(mask.bit_count(), []).append(rank)
    if any(count > 1 for count in by_count):
        code.agree(op)
    for count, chosen in by_count.items():
        code.only_in(chosen, masks, partial(_share, function=function, op=op, masks=masks, count=count, chosen=chosen))
    return code.ops


def _share(code: _Code, function: Function, op: Collective, masks: Masks, count: int, chosen: list[int]) -> None:
    if count == 1:
        code.load(op, op.src, op.dst, None)
        return
    position = {rank: (masks[rank] & (1 << rank) - 1).bit_count() for rank in chosen}
    _load_share(code, op, count, code.position(function, position), f"{count} CTAs {spans(chosen)}")


def _load_share(code: _Code, op: Collective, count: int, position: Value, sharers: str) -> None:
    """The load of one of `count` equal parts of the tile, that of the CTA at `position` among the sharers."""
    axis = next((axis for axis, extent in enumerate(op.src.shape) if extent > 1), 0)
    extent = op.src.shape[axis] if op.src.shape else 1
    if extent % count:
        multiple = f"a multiple of {count}, such as {-(-extent // count) * count}"
        raise Error(
            f"{op.call} can't divide axis {axis} of the tile, {extent} long, among the {sharers}",
            location=op.loc,
            remedy=f"make it {multiple}, or let one CTA fetch it for all: px.cluster.copy(src, dst, bar, mask=...)",
        )
    share = extent // count
    start = code.binary("mul", position, Const(share, I32))
    code.load(op, _part(code, op.src, axis, start, share), _part(code, op.dst, axis, start, share), op.ctas)


def _part(code: _Code, view: View, axis: int, start: Value, share: int) -> View:
    """The part of a view that begins at `start` along one of its axes."""
    own = view.kept[axis]
    offset = view.offsets[own]
    if offset.type != start.type:
        wide = Value(offset.type)
        code.ops.append(Cast(start, wide, loc=code.loc))
        start = wide
    new = start if constant_of(offset) == 0 else code.binary("add", offset, start)
    return dataclasses.replace(
        view,
        offsets=tuple(new if n == own else o for n, o in enumerate(view.offsets)),
        extents=tuple(share if n == own else e for n, e in enumerate(view.extents)),
    )
