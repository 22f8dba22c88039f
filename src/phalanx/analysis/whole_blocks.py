"""Masks of a loop over blocks that only its last step needs: ``k + px.arange(n) < stop`` in ``range(start, stop, step)``.

In every step but the last, ``k + step <= stop``, so that the comparison holds for all of at most `step` elements, and what
it chooses is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.analysis.ranks import Evaluator
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Binary, Compare, Select
from phalanx.ir.values import Value, constant_of


def chosen_in_whole_blocks(function: Function, loop: For, makers: Mapping[Value, Op]) -> dict[Value, Value]:
    """What selects by such masks give in all steps in which ``index + step <= stop``, by their results."""
    step = constant_of(loop.step)
    if step is None or step <= 0:
        return {}
    same = Evaluator(function, 0).same
    found: dict[Value, Value] = {}
    for op in loop.body.ops:
        if not isinstance(op, Select):
            continue
        mask = makers.get(op.cond)
        while mask is not None and mask.reshaped is not None:
            mask = makers.get(mask.reshaped)
        if not isinstance(mask, Compare) or mask.fn != "lt" or not same(mask.b, loop.stop):
            continue
        place = makers.get(mask.a)
        if not isinstance(place, Binary) or place.fn != "add":
            continue
        for index, within in ((place.a, place.b), (place.b, place.a)):
            if index is loop.index and _at_most(within, makers) <= step and op.a.type == op.result.type:
                found[op.result] = op.a
    return found


def _at_most(value: Value, makers: Mapping[Value, Op]) -> float:
    """How many numbers from 0 on the elements of a tile are; endless where that is not known."""
    maker = makers.get(value)
    while maker is not None and maker.reshaped is not None:
        maker = makers.get(maker.reshaped)
    return float("inf") if maker is None or maker.numbers is None else maker.numbers
