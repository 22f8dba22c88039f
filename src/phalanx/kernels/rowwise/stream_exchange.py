"""What the warps that compute tell a warp of its own, and what that brings from the cluster meanwhile.

The cluster's answer takes a microsecond or two. The warps that compute do not wait for it: they look at the next row's first
chunks, and find it in shared memory afterwards.
"""

from __future__ import annotations

from typing import Any

import phalanx as px

SLOTS = 2
"""Rows of which something was told, and the answer not yet used, at most: one, and another whose warps are not all there."""


@px.struct
class Exchange:
    """A role's view of it: VALUES numbers of each of GROUP rows from every warp, and as many for all of them.

    `place` is where the role is: the row that it tells of next, or answers; `heard` that whose answer it takes next.
    """

    told: Any
    answers: Any
    said: Any
    known: Any
    place: Any
    heard: Any
    VALUES: int
    GROUP: int

    def tell(self, values):
        """What every warp knows of rows, (WARPS, 1) each, VALUES for each row."""
        slot = self.place.stage
        for number in px.static_range(self.VALUES * self.GROUP):
            px.store(self.told[slot, number], values[number].reshape(self.told.shape[2]))
        self.said[slot].arrive()
        self.place.advance()

    def hear(self):
        """What the cluster knows of the rows that were told of first: a tuple of VALUES numbers for each."""
        slot = self.heard.stage
        self.known[slot].wait(self.heard.parity)
        found: tuple[Any, ...] = ()
        for turn in px.static_range(self.GROUP):
            mine: tuple[Any, ...] = ()
            for number in px.static_range(self.VALUES):
                mine = (*mine, px.load(self.answers[slot, turn * self.VALUES + number]))
            found = (*found, mine)
        self.heard.advance()
        return found

    def answer(self, fold):
        """One answer of the role that asks the cluster. `fold` makes of VALUES tiles as many numbers."""
        slot = self.place.stage
        self.said[slot].wait(self.place.parity)
        mine: tuple[Any, ...] = ()
        for turn in px.static_range(self.GROUP):
            values: tuple[Any, ...] = ()
            for number in px.static_range(self.VALUES):
                values = (*values, px.load(self.told[slot, turn * self.VALUES + number]))
            mine = (*mine, *fold(*values))
        if px.cluster.size() > 1:
            everyones = px.cluster.gather(mine)
            mine = ()
            for turn in px.static_range(self.GROUP):
                mine = (*mine, *fold(*everyones[turn * self.VALUES : turn * self.VALUES + self.VALUES]))
        for number in px.static_range(self.VALUES * self.GROUP):
            px.store(self.answers[slot, number], mine[number])
        self.known[slot].arrive()
        self.place.advance()

    def answer_all(self, rows, fold):
        """The role that asks the cluster, row after row as `rows`, a `Stream`, has them."""
        first, last = rows.classes()
        for which in range(first, last):
            begin, end, step = rows.rows_of(which)
            for _ in range(begin, end, step * rows.GROUP):
                self.answer(fold)


@px.func
def exchange_memory(VALUES, GROUP, WARPS):
    """The shared memory and barriers of it, for `exchange` in each role."""
    told, answers = px.shared((SLOTS, VALUES * GROUP, WARPS), px.f32), px.shared((SLOTS, VALUES * GROUP), px.f32)
    return told, answers, px.barrier(SLOTS), px.barrier(SLOTS)


@px.func
def exchange(memory, VALUES, GROUP):
    """The `Exchange` of a role, with its own places."""
    told, answers, said, known = memory
    return Exchange(told, answers, said, known, px.ring(SLOTS), px.ring(SLOTS), VALUES, GROUP)
