"""All probes, one after the other, and what follows from them: the numbers of a card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.machines.rates import Rates
from phalanx.runtime.device.devices import Device
from phalanx.tools.calibrate import barriers, copies, products, threads
from phalanx.tools.calibrate.probe import Probe
from phalanx.tools.calibrate.solving import Found, solve

PROBES = (*threads.PROBES, *barriers.PROBES, *copies.PROBES, *products.PROBES)
"""In the order in which their numbers are looked for."""
TILE_BYTES = copies.READ_ROWS * 64 * 4
STEADY = 1.03
"""How much the clock of an idle card may change while it is measured."""


class Watch(Protocol):
    """Who takes times: a GPU, or in tests a model of one."""

    here: Device

    def microseconds(self, probe: Probe) -> float:
        """What a step of a probe takes."""


@frozen
class Measured:
    """The numbers of a card, and how each was found; `clock_idle` is the clock of a card with little to do."""

    rates: Rates
    clock_idle: float
    found: tuple[Found, ...]
    microseconds: dict[str, float]

    @property
    def problems(self) -> list[Found]:
        """Numbers that no probe has decided."""
        return [each for each in self.found if each.problem]


def measure(watch: Watch, usual: Rates, source: str, tell: Callable[[str], None] = lambda name: None) -> Measured:
    """Measures a card. Numbers that no probe decides are those of `usual`; `tell` hears each probe's number before it runs.

    For `phalanx calibrate`. Example: ``measure(Card(px.device()), rates_of("h200"), "measured").rates.hbm_rate``.
    """
    here = watch.here
    tell("clock")
    first = idle_clock(watch)
    took: dict[str, float] = {}
    failed: list[Found] = []
    for probe in PROBES:
        tell(probe.finds)
        try:
            took[probe.finds] = watch.microseconds(probe)
        except Error as problem:
            failed.append(Found(probe, getattr(usual, probe.finds), problem.message))
    tell("l2_bytes")
    held, last = l2_bytes(watch), idle_clock(watch)
    at_work = watch.microseconds(products.AT_WORK)
    if not 1 / STEADY < last / first < STEADY:
        raise Error(
            f"the clock of the {here.name} went from {first:.0f} to {last:.0f} MHz while it was measured",
            remedy="measure a card that nobody else uses, and that is neither too hot nor held down",
        )
    idle = (first + last) / 2
    clock = idle * min(1.0, took.get("tensor_rate", at_work) / at_work)
    start = replace(
        usual, name=short_name(here.name), device=here.name, arch=here.arch, source=source, sms=here.sms, clock=clock,
        l2_bytes=held,
    )  # fmt: skip
    tell("")
    rates, found = solve_times(took, start, idle)
    return Measured(rates, idle, (*found, *failed), {**took, "clock": at_work})


def solve_times(took: dict[str, float], start: Rates, idle: float) -> tuple[Rates, list[Found]]:
    """The numbers of a card whose probes took so many microseconds a step, at an idle clock; `start` has the other one."""
    probes = [probe for probe in PROBES if probe.finds in took]
    cycles = {probe.finds: took[probe.finds] * (start.clock if probe.by_time else idle) for probe in probes}
    return solve(probes, cycles, start)


def idle_clock(watch: Watch) -> float:
    """Cycles in a microsecond while a single warp works."""
    short, long = map(watch.microseconds, threads.CLOCK)
    return threads.FMA_CYCLES * (threads.LONG - threads.SHORT) / (long - short)


def short_name(name: str) -> str:
    """ "H200" of "NVIDIA H200"."""
    return name.removeprefix("NVIDIA ")


def l2_bytes(watch: Watch) -> float:
    """How many bytes L2 keeps for all SMs: where reading them again takes the middle of what few and many of them take."""
    sizes = [own * TILE_BYTES * watch.here.sms for own in copies.HELD]
    times = [watch.microseconds(copies.reread(own)) for own in copies.HELD]
    middle = (min(times) + max(times)) / 2
    for (size, time), (larger, longer) in pairwise(zip(sizes, times, strict=True)):
        if time <= middle < longer:
            return float(round(size + (larger - size) * (middle - time) / (longer - time)))
    return float(watch.here.l2_bytes)
