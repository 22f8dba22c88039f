"""How times are taken, for `px.tune` and the benchmarks: blocks of launches, contenders that take turns, medians.

A single launch says little: clocks rise and fall with the card's power. So every contender runs a block of launches in each
round, and what counts is the median over rounds, or of the ratios to another contender of the same round. Four regimes,
which are never mixed up:

- "burst": a block of 6 ms after a rest, at the boost clock;
- "turns": blocks of 20 ms back to back, in another order each round. All share a warm, power-limited card, so whoever draws
  more power is paid for by who comes next;
- "steady": each contender alone for 0.3 s, until the power limit has settled, then timed for 0.35 s; the order is reversed
  every round. Nobody pays for another's power;
- "cold": L2 is emptied before each launch.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.runtime.device.power import Meter, Reading

Measured = TypeVar("Measured")
Run = Callable[[], Any]
Timer = Callable[[Run, int], float]
"""(run, repeats) -> milliseconds per run."""

MOST_REPEATS = 20000
MOST_FLUSHED = 100
"""The most launches of a block where each is preceded by a flush of L2."""
PROBES = 3
"""Launches that a first estimate is made from."""


@frozen
class Mode:
    """How long a block is, what comes before it (a rest, or the contender's own launches untimed), and how many rounds."""

    name: str
    block_ms: float
    rest_s: float
    rounds: int
    flushes: bool = False
    alone_ms: float = 0.0

    @property
    def orders(self) -> Callable[[int, int], Iterator[tuple[int, int]]]:
        """Who comes when: there and back where each is alone for long, else in an order of its own each round."""
        return there_and_back if self.alone_ms else turns


MODES = {
    mode.name: mode
    for mode in (
        Mode("turns", 20.0, 0.0, 15),
        Mode("steady", 350.0, 0.0, 5, alone_ms=300.0),
        Mode("burst", 6.0, 0.25, 5),
        Mode("cold", 20.0, 0.0, 7, flushes=True),
    )
}


def mode_named(name: str, who: str) -> Mode:
    """The regime of that name; an error of `who` where there is none."""
    found = MODES.get(name) if isinstance(name, str) else None
    if found is not None:
        return found
    remedy = f"the modes are {', '.join(MODES)}"
    if name == "sustained":
        remedy = (
            'what was called "sustained" is mode="turns": blocks that alternate, where a contender pays for its neighbour\'s'
            ' power; mode="steady" runs each alone'
        )
    raise Error(f"{who} has no mode {name!r}", location=caller_location(), remedy=remedy)


def repeats_for(run: Run, timer: Timer, mode: Mode) -> int:
    """How many launches make a block: one launch to warm up, a few to estimate."""
    run()
    most = MOST_FLUSHED if mode.flushes else MOST_REPEATS
    return min(most, max(1, round(mode.block_ms / max(1e-3, timer(run, PROBES)))))


def turns(count: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, contender): all of them in each round, in an order of its own.

    On a card at its power limit, who comes after a thirsty kernel is slower: a fixed order would favour somebody.
    """
    order, rng = list(range(count)), random.Random(count)
    for turn in range(rounds):
        rng.shuffle(order)
        yield from ((turn, contender) for contender in order)


def there_and_back(count: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, contender): all of them in each round, every other round in the opposite order."""
    for turn in range(rounds):
        order = range(count) if turn % 2 == 0 else reversed(range(count))
        yield from ((turn, contender) for contender in order)


def in_turns(
    names: Sequence[str], rounds: int, measure: Callable[[str], Measured],
    orders: Callable[[int, int], Iterator[tuple[int, int]]] = turns,
) -> dict[str, list[Measured]]:
    """What `measure` gives for each contender and round, in the order of `orders`."""
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for _, index in orders(len(names), rounds):
        found[names[index]].append(measure(names[index]))
    return found


def take_turns(
    contenders: Mapping[str, Run], timer: Timer, mode: Mode, *, rounds: int | None = None,
    rest: Callable[[float], None] = time.sleep, progress: Callable[[], None] = lambda: None,
    meter: Meter | None = None, observe: Callable[[str, Reading], None] = lambda name, reading: None,
) -> dict[str, list[float]]:
    """Milliseconds per contender and round. With a meter, `observe` hears what each block drew, per launch."""
    repeats = {name: repeats_for(run, timer, mode) for name, run in contenders.items()}

    def block(name: str) -> float:
        if mode.rest_s:
            rest(mode.rest_s)
        settle(contenders[name], timer, mode, repeats[name])
        if meter is None:
            took = timer(contenders[name], repeats[name])
        else:
            took, reading = meter.during(lambda: timer(contenders[name], repeats[name]), repeats[name])
            observe(name, reading)
        progress()
        return took

    return in_turns(list(contenders), mode.rounds if rounds is None else rounds, block, mode.orders)


def settle(run: Run, timer: Timer, mode: Mode, repeats: int) -> None:
    """Lets a contender run alone, untimed, for as long as the mode says; `repeats` of it make a block."""
    if mode.alone_ms:
        timer(run, max(1, round(repeats * mode.alone_ms / mode.block_ms)))


def median_ratio(reference: Sequence[float], times: Sequence[float]) -> float:
    """How many times faster than the reference: the median of the ratios of each round."""
    return statistics.median(theirs / ours for theirs, ours in zip(reference, times, strict=True))


def geometric_mean(values: Sequence[float]) -> float:
    """NaN for no values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


class EventTimer:
    """Times by the driver's events on one stream of a device; no framework is needed.

    With `flush_bytes` that much memory is overwritten before each launch, so that nothing of the arguments is left in L2;
    then the launches are timed one by one, and the median is given. A launch that is shorter than Python needs to make it
    (a few microseconds) is not timed well without the flush: the GPU waits for the host.
    """

    def __init__(self, ordinal: int, *, stream: int = 0, flush_bytes: int = 0, driver: Any = None) -> None:
        from phalanx.runtime.device.driver import get_driver

        self.driver = get_driver() if driver is None else driver
        self.ordinal, self.stream, self.flush_bytes = ordinal, stream, flush_bytes
        self.events: list[int] = []
        with self.driver.context(ordinal):
            self.scratch = self.driver.allocate(flush_bytes) if flush_bytes else 0

    def _events(self, count: int) -> list[int]:
        while len(self.events) < count:
            self.events.append(self.driver.event())
        return self.events

    def __call__(self, run: Run, repeats: int) -> float:
        driver, stream = self.driver, self.stream
        with driver.context(self.ordinal):
            if not self.flush_bytes:
                start, stop = self._events(2)[:2]
                driver.record(start, stream)
                for _ in range(repeats):
                    run()
                driver.record(stop, stream)
                return driver.elapsed_ms(start, stop) / repeats
            events = self._events(2 * repeats)
            for number in range(repeats):
                driver.fill_later(self.scratch, number & 0xFF, self.flush_bytes, stream)
                driver.record(events[2 * number], stream)
                run()
                driver.record(events[2 * number + 1], stream)
            return statistics.median(
                driver.elapsed_ms(events[2 * number], events[2 * number + 1]) for number in range(repeats)
            )
