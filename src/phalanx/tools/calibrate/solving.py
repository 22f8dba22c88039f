"""From the times of probes to the numbers of the model: each number is the one at which the model takes as long as the card.

A probe's time depends on several numbers, above all on its own. So they are found one after the other, some rounds over,
until none changes: the probes of latencies know by then what a loop's step costs, those of rates know the latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import phalanx as px
from phalanx.frozen import frozen
from phalanx.machines.rates import Rates
from phalanx.runtime.timeline.tracing import trace_on
from phalanx.tools.calibrate.probe import Probe

ROUNDS = 4
SETTLED = 0.002
"""A round that changes no number by more than this part is the last."""
NEAR = 0.001
"""How near the model's time is to the card's, as a part of it."""
MOST_TRIES = 12
FARTHEST = 20.0
"""A number is looked for between what it was, divided and multiplied by this."""


class ModelArrays:
    """Arrays of the model: shapes and types, and tables of indices."""

    real = False

    def __init__(self, sms: int) -> None:
        self.sms = sms

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros, of which nobody needs the elements."""
        return px.spec(shape, dtype)

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of numbers, of which nobody needs the elements."""
        return px.spec(shape, dtype)

    def indices(self, values: Any) -> Any:
        """A table, which decides what the kernel reads."""
        return np.asarray(values, np.int32)


def modelled(probe: Probe, rates: Rates) -> float:
    """Cycles of a step of a probe, as the model has it."""
    arrays = probe.arrays(ModelArrays(rates.sms), max(probe.model))
    few, many = probe.model

    def cycles(steps: int) -> float:
        given = (*arrays, probe.given(steps))
        return trace_on(rates, probe.bound(rates.sms, steps), given, dict(probe.constants)).cycles

    return cycles(many) if probe.by_launch else (cycles(many) - cycles(few)) / (many - few)


def changed(rates: Rates, name: str, value: float) -> Rates:
    """The numbers with another value for one of them."""
    changes: dict[str, Any] = {name: value}
    return replace(rates, **changes)


@frozen
class Found:
    """A number that a probe has decided, or why it has not."""

    probe: Probe
    value: float
    problem: str = ""


def solve(probes: Sequence[Probe], took: Mapping[str, float], start: Rates) -> tuple[Rates, list[Found]]:
    """The numbers at which the model takes as many cycles for each probe as were measured; `took` is by their fields."""
    rates = start
    found: dict[str, Found] = {}
    for _ in range(ROUNDS):
        before = rates
        for probe in probes:
            result = settle(probe, took[probe.finds], rates, getattr(start, probe.finds))
            found[probe.finds] = result
            rates = changed(rates, probe.finds, result.value)
        if all(abs(getattr(rates, name) / getattr(before, name) - 1) < SETTLED for name in found):
            break
    return rates, list(found.values())


def settle(probe: Probe, cycles: float, rates: Rates, usual: float) -> Found:
    """The value of a probe's number at which the model takes so many cycles; the usual one where there is none."""

    def off(value: float) -> float:
        return modelled(probe, changed(rates, probe.finds, value)) / cycles - 1

    least, most = usual / FARTHEST, usual * FARTHEST
    now = getattr(rates, probe.finds)
    here = off(now)
    if abs(here) < NEAR:
        return Found(probe, now)
    ends = bracket(off, now, here, least, most)
    if ends is None:
        return Found(probe, usual, "the model takes longer than the card" if here > 0 else "the card takes longer")
    return Found(probe, root(off, *ends))


Point = tuple[float, float]
STRIDES = (1.25, 1.6, 2.5, 6.0, FARTHEST)
"""How far a number is looked for, up and down, until the model passes what was measured."""


def bracket(
    off: Callable[[float], float], now: float, here: float, least: float, most: float
) -> tuple[Point, Point] | None:
    """Two values between which the model passes what was measured, from `now` on; either direction may be the one."""
    ends = {True: (now, here), False: (now, here)}
    for stride in STRIDES:
        for up in (True, False):
            place = min(most, now * stride) if up else max(least, now / stride)
            if place == ends[up][0]:
                continue
            before, ends[up] = ends[up], (place, off(place))
            if (ends[up][1] > 0) != (here > 0):
                return before, ends[up]
    return None


def root(off: Callable[[float], float], first: Point, second: Point) -> float:
    """Where a function that is above zero at one of two points, and below at the other, is about zero.

    A straight line between them says where to look next; where it comes out at the same end twice, that end counts half.
    """
    (a, at_a), (b, at_b) = first, second
    kept = ""
    for _ in range(MOST_TRIES):
        c = (a * at_b - b * at_a) / (at_b - at_a)
        at_c = off(c)
        if abs(at_c) < NEAR:
            return c
        if (at_c > 0) == (at_a > 0):
            a, at_a = c, at_c
            at_b = at_b / 2 if kept == "b" else at_b
            kept = "b"
        else:
            b, at_b = c, at_c
            at_a = at_a / 2 if kept == "a" else at_a
            kept = "a"
    return c
