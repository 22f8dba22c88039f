"""Which CTAs of a cluster load the same: their ranks are enumerated, and places compared as expressions.

A tile is fetched in shares, each CTA one, and sent to all that load the same, if the loops and conditions around the load are
provably alike in them: then all of them come to it equally often. What can't be shown stays each CTA's own.
"""

from __future__ import annotations

from collections.abc import Hashable

from phalanx.analysis.ranks import Evaluator
from phalanx.frozen import frozen
from phalanx.ir.core import Op, content_fields
from phalanx.ir.holders import Holder
from phalanx.ir.ops.cluster import coordinates
from phalanx.ir.ops.control import For, If, ReadVar, While
from phalanx.ir.spaces import GLOBAL
from phalanx.ir.values import Const, Param, Value
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.staging import Path, Staged

SHARE_ROWS = 8
"""Rows that a swizzled tile repeats after: shares begin at multiples of it."""


@frozen
class Shared:
    """The CTAs that a load is the same in: by rank, the mask of those."""

    masks: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many CTAs of each mask fetch a share."""
        return self.masks[0].bit_count()


class Ranks:
    """What values are in the CTAs of a cluster, as expressions that can be compared across ranks."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.function = places.function
        self.ranks = range(self.function.cluster_size)
        self.evaluators = [Evaluator(self.function, rank) for rank in self.ranks]
        self.known: dict[tuple[Value, int], Hashable] = {}

    def sharing(self, item: Staged) -> Shared | str:
        """Which CTAs may fetch a load together, or why none may."""
        places = [tuple(self.term(offset, rank) for offset in item.view.offsets) for rank in self.ranks]
        masks = tuple(sum(1 << other for other in self.ranks if places[other] == place) for place in places)
        if all(mask.bit_count() == 1 for mask in masks):
            return ""  # nothing in common
        if item.path is not Path.COPY:
            return "only the copy engine sends to several CTAs"
        if len({mask.bit_count() for mask in masks}) > 1:
            return "not all CTAs have it in common with as many others"
        unlike = next((op for op in self.places.around[item.load] if not self._alike(op)), None)
        if unlike is not None:
            what = "trip counts" if isinstance(unlike, For | While) else "conditions"
            return f"{what} at {unlike.loc.short} are not provably the same in all CTAs of the cluster"
        count = masks[0].bit_count()
        rows = next((extent for extent in item.shape if extent > 1), 1)
        if rows % (count * SHARE_ROWS):
            return f"{rows} rows can't be shared by {count} CTAs in steps of {SHARE_ROWS}"
        return Shared(masks)

    def _alike(self, op: Op) -> bool:
        """Whether all CTAs of the cluster go the same way at a loop or a branch."""
        if isinstance(op, While):
            return any(inner.draw is not None for inner in op.test) or self._uniform(op.cond)
        return all(self._uniform(value) for value in op.operands()) if isinstance(op, For | If) else True

    def _uniform(self, value: Value) -> bool:
        return len({self.term(value, rank) for rank in self.ranks}) == 1

    def term(self, value: Value, rank: int) -> Hashable:
        """A value in the CTA of a rank: a number, or an expression of what all CTAs of the cluster know alike."""
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Param):
            return value
        key = (value, rank)
        if key not in self.known:
            self.known[key] = ("in progress", value)  # what a cell that feeds itself sees
            self.known[key] = self._term(value, rank)
        return self.known[key]

    def _term(self, value: Value, rank: int) -> Hashable:
        number = self.evaluators[rank].number(value)
        if number is not None:
            return number
        op = self.places.makers[value]
        if op.block_dimension is not None:
            own = coordinates(self.function.cluster, rank)[op.block_dimension]
            return ("block", op.block_dimension, own)
        if isinstance(op, For):
            return ("index", op, self.term(op.start, rank), self.term(op.step, rank))
        if op.draw is not None:
            return ("tile", op)
        if isinstance(op, ReadVar):
            writes = self.places.assigns.get(op.var, [])
            alike = all(self._uniform(write.value) and all(map(self._alike, self.places.around[write])) for write in writes)
            return ("cell", value) if alike else ("cell", value, rank)
        load = op.tile_load
        if not op.effects().is_pure and (load is None or load.view.space is not GLOBAL):
            return ("own", value, rank)
        return (op.mnemonic, value.type, *(self._part(getattr(op, name), rank) for name in content_fields(type(op))))

    def _part(self, item: object, rank: int) -> Hashable:
        if isinstance(item, Value):
            return self.term(item, rank)
        if isinstance(item, Holder):
            return (type(item), *(self._part(value, rank) for value in item.values()))
        if isinstance(item, tuple):
            return tuple(self._part(part, rank) for part in item)
        return item  # type: ignore[return-value]
