"""How the rows of a matrix are dealt to clusters, or groups of CTAs: rows that begin at one place of a vector stay together.

Rows PERIOD apart are a class: they begin at the same place of a vector. Who takes rows of another class has to move weights
and biases. So a cluster has rows of one class, or of one after another.

Side by side, all clusters go through the matrix together: what one reads and writes is near what others do at that time, as
memory likes it. As many clusters have each class; those that are over, fewer than PERIOD, help out: each takes one row in
every turn of a class for some of its turns, then of the next. Else each has a part of all rows, class by class.
"""

from __future__ import annotations

from typing import Any

import phalanx as px


@px.struct
class Deal:
    """Rows of one class that a cluster has: those of `turns` turns.

    Turn t has row `first` + t * `step` + PERIOD * what others have taken before: a row in each of `some` turns from turn
    `early` on, and of `more` from `late` on; None where they take none.
    """

    turns: Any
    first: Any
    step: Any
    early: Any
    some: Any
    late: Any
    more: Any
    PERIOD: int

    def row(self, turn):
        """The row of a turn."""
        row = self.first + turn * self.step
        if self.early is not None:
            taken = px.minimum(px.maximum(turn - self.early, 0), self.some)
            row = row + (taken + px.minimum(px.maximum(turn - self.late, 0), self.more)) * self.PERIOD
        return row


@px.func
def side_by_side(rows, PERIOD, clusters):
    """How many clusters have each class, in how many turns; how many rows of each are left to others, and how many of all
    those are one's own of these."""
    each = px.cdiv(rows, PERIOD)
    alike = clusters // PERIOD
    turns = px.cdiv(each * PERIOD, clusters)
    left = px.maximum(each - alike * turns, 0)
    return alike, turns, left, px.maximum(px.cdiv(left * PERIOD, px.maximum(clusters - alike * PERIOD, 1)), 1)


@px.func
def stretches(which, turns, left, own):
    """When others take rows of a class: from which turn on, in how many, and again.

    What is left of all classes is dealt one class after another. So one of them may end within a class, in its last turns,
    and the next one begin with what is left of it, in its first.
    """
    into = which * left % own
    late = px.minimum(own - into, left)
    begin = into * turns // own
    two = late < left
    early = px.where(two, 0, px.minimum(begin, turns - left))
    some = px.where(two, left - late, left)
    return early, some, px.minimum(px.maximum(begin, some), turns - late), px.where(two, late, 0)


@px.func
def classes_of(rows, PERIOD, number, clusters, SIDES):
    """The first class of a cluster of this number, and the one behind its last."""
    if PERIOD == 1:
        first = 0
        last = 1
    elif SIDES:
        alike, _, left, own = side_by_side(rows, PERIOD, clusters)
        first = number % PERIOD
        last = number % PERIOD + 1
        begin = (number - alike * PERIOD) * own
        if begin >= 0:
            end = px.minimum(begin + own, left * PERIOD)
            some = px.maximum(left, 1)
            first = begin // some
            last = px.where(end > begin, px.cdiv(end, some), first)
    else:
        begin, end = part_of(rows, PERIOD, number, clusters)
        each = px.cdiv(rows, PERIOD)
        first = begin // each
        last = px.minimum(px.cdiv(end, each), PERIOD)
    return first, last


@px.func
def part_of(rows, PERIOD, number, clusters):
    """The first and last number of a cluster's rows, counted class by class: it has as many as another one, or one more."""
    every = px.cdiv(rows, PERIOD) * PERIOD
    own = every // clusters
    more = every % clusters
    begin = number * own + px.minimum(number, more)
    return begin, begin + own + px.where(number < more, 1, 0)


@px.func
def deal(which, rows, PERIOD, number, clusters, SIDES):
    """The rows of a class that the cluster of this number has."""
    none: Any = None
    if PERIOD == 1 and SIDES:
        dealt = Deal(px.cdiv(px.maximum(rows - number, 0), clusters), number, clusters, none, none, none, none, 1)
    elif SIDES:
        alike, turns, left, own = side_by_side(rows, PERIOD, clusters)
        early, some, late, more = stretches(which, turns, left, own)
        begin = (number - alike * PERIOD) * own
        helps = begin >= 0
        first = px.maximum(begin - which * left, 0)
        turns = px.where(helps, px.minimum(begin + own - which * left, left) - first, turns)
        plus = alike + px.where((more > 0) & (first == 0), late * alike + some, early * alike)
        plus = which + px.where(helps, plus, number // PERIOD) * PERIOD
        times = px.where(helps, alike + 1, alike) * PERIOD
        some = px.where(helps, 0, some)
        more = px.where(helps, 0, more)
        dealt = Deal(turns, plus, times, early, some, late, more, PERIOD)
        dealt.turns = px.where(dealt.row(turns - 1) >= rows, turns - 1, turns)  # a class may have a row fewer than others
    else:
        each = px.cdiv(rows, PERIOD)
        begin, end = part_of(rows, PERIOD, number, clusters)
        first = px.maximum(begin - which * each, 0)
        last = px.minimum(px.minimum(end - which * each, each), px.cdiv(rows - which, PERIOD))
        dealt = Deal(px.maximum(last - first, 0), which + first * PERIOD, PERIOD, none, none, none, none, PERIOD)
    return dealt
