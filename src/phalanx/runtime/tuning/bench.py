"""`px.bench`: how long a launch takes on a GPU, beside others that take turns with it, in a named regime."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.device.power import NoMeter, Reading, median_reading, meter_of
from phalanx.runtime.device.streams import current_stream
from phalanx.runtime.device.timing import EventTimer, Mode, median_ratio, mode_named, take_turns
from phalanx.runtime.tuning.result import printed

ALONE = "this"
"""The name of what is measured, where nothing else is."""


@frozen
class Timing:
    """How long a launch of one contender took.

    `times` has the milliseconds of a launch in each round, `ratio` how many times faster than it the measured function was:
    the median over rounds, 1.0 for that function itself. `drawn` has energy, power and clock, in the mode "steady", where
    the card tells them.
    """

    name: str
    times: tuple[float, ...]
    ratio: float
    drawn: Reading | None = None

    @property
    def ms(self) -> float:
        """The median over the rounds, in milliseconds."""
        return statistics.median(self.times)


@frozen(eq=False)
class Bench:
    """What `px.bench` found: a `Timing` of the measured function, then one of each of the others; `print` shows a table.

    `nbytes` and `flops` are those of a launch, as they were given.
    """

    timings: tuple[Timing, ...]
    mode: Mode
    nbytes: float | None
    flops: float | None

    @property
    def ms(self) -> float:
        """Milliseconds of a launch of the measured function: the median over the rounds."""
        return self.timings[0].ms

    @property
    def times(self) -> tuple[float, ...]:
        """Milliseconds of a launch in each round."""
        return self.timings[0].times

    @property
    def gbs(self) -> float | None:
        """Bytes over time, in GB/s; None unless `nbytes` was given."""
        return None if self.nbytes is None else self.nbytes / self.ms / 1e6

    @property
    def tflops(self) -> float | None:
        """Operations over time, in TFLOP/s; None unless `flops` was given."""
        return None if self.flops is None else self.flops / self.ms / 1e9

    @property
    def joules(self) -> float | None:
        """Energy of a launch; None in other modes than "steady", and where the card does not tell it."""
        return None if self.timings[0].drawn is None else self.timings[0].drawn.joules

    @property
    def ratios(self) -> dict[str, float]:
        """By the name of each other contender, how many times faster the measured function is."""
        return {timing.name: timing.ratio for timing in self.timings[1:]}

    def __rich__(self) -> Any:
        from rich.table import Table

        shown = Table(title=f"mode {self.mode.name}, {len(self.times)} rounds", title_justify="left")
        columns = _columns(self)
        shown.add_column("")
        for title in columns:
            shown.add_column(title, justify="right")
        for timing in self.timings:
            shown.add_row(timing.name, *(cell(timing) for cell in columns.values()))
        return shown

    def __str__(self) -> str:
        return printed(self.__rich__())


def _columns(bench: Bench) -> dict[str, Callable[[Timing], str]]:
    """The columns of the table: those of which something is known."""
    nbytes, flops = bench.nbytes, bench.flops
    columns: dict[str, Callable[[Timing], str]] = {"ms": lambda timing: f"{timing.ms:.4f}"}
    if nbytes is not None:
        columns["GB/s"] = lambda timing: f"{nbytes / timing.ms / 1e6:,.0f}"
    if flops is not None:
        columns["TFLOP/s"] = lambda timing: f"{flops / timing.ms / 1e9:,.1f}"
    if len(bench.timings) > 1:
        columns["time over the first"] = lambda timing: f"{timing.ratio:.3f}"
    if any(timing.drawn is not None for timing in bench.timings):
        columns["J"] = lambda timing: _figure(timing, "joules", ".4g")
        columns["W"] = lambda timing: _figure(timing, "watts", ".0f")
        columns["MHz"] = lambda timing: _figure(timing, "megahertz", ".0f")
    return columns


def _figure(timing: Timing, name: str, form: str) -> str:
    found = getattr(timing.drawn, name, None)
    return "" if found is None else format(found, form)


def bench(
    f: Callable[..., Any], *args: Any, mode: str = "burst", rounds: int | None = None,
    against: Mapping[str, Callable[[], Any]] | None = None, nbytes: float | None = None, flops: float | None = None,
    **constants: Any,
) -> Bench:
    """Measures how long a launch takes on the GPU: of ``kernel[grid]``, a function of the library, or any other.

    Anyone may call it, outside kernels; needs a GPU. It calls ``f(*args, **constants)`` many times on the stream that the
    arrays belong to, and takes the driver's time between events around blocks of launches. `mode` is "burst" (blocks of
    6 ms after a rest, at the boost clock), "turns" (blocks of 20 ms back to back), "steady" (each contender alone for
    0.3 s, then timed for 0.35 s, with energy, power and clock) or "cold" (L2 emptied before each launch); `rounds` says how
    many blocks, of which the median counts. `against` are other functions, without arguments, by their names: all take
    turns in each round, and their ratios are of the same rounds. With the bytes and operations of a launch (`nbytes`,
    `flops`) the result has rates, too. Example:

        found = px.bench(copy[64], x, y, nbytes=2 * x.nbytes, against={"larger tiles": lambda: copy[32](x, y, BM=128)})
        print(found.ms, found.gbs, found.ratios["larger tiles"])
        print(found)
    """
    regime = mode_named(mode, "px.bench")
    names = _names(f, against)
    timer, meter = _clock(args, constants, regime)
    contenders: dict[str, Callable[[], Any]] = {names[0]: partial(f, *args, **constants), **(against or {})}
    drawn: dict[str, list[Reading]] = {name: [] for name in names}
    times = take_turns(
        contenders, timer, regime, rounds=rounds, meter=meter, observe=lambda name, reading: drawn[name].append(reading)
    )
    ours = times[names[0]]
    timings = tuple(
        Timing(name, tuple(times[name]), median_ratio(times[name], ours), median_reading(drawn[name])) for name in names
    )
    return Bench(timings, regime, nbytes, flops)


def _names(f: Callable[..., Any], against: Mapping[str, Callable[[], Any]] | None) -> list[str]:
    """What the contenders are called in the table, the measured function first."""
    kernel = getattr(f, "kernel", None)
    name = str(getattr(kernel or f, "name", None) or getattr(f, "__name__", ALONE))
    others = list(against or ())
    if name in others:
        raise Error(
            f"px.bench: the measured function and one of against= are both called {name!r}",
            location=caller_location(),
            remedy="give the other one another name",
        )
    return [name, *others]


def _clock(args: tuple[Any, ...], constants: Mapping[str, Any], mode: Mode) -> tuple[EventTimer, Any]:
    """Events on the device and the stream of the first CUDA array among the arguments, and a meter where it is of use."""
    from phalanx.runtime.device.driver import get_driver, has_gpu

    if not has_gpu():
        raise Error(
            "px.bench measures on a GPU, and there is none",
            location=caller_location(),
            remedy="run it on a machine with a GPU; the simulator's own time says nothing about a kernel's",
        )
    ordinal, stream = 0, 0
    first = next((x for x in (*args, *constants.values()) if describe(x) is not None), None)
    if first is not None:
        info = describe(first)
        assert info is not None
        if info.kind == "host":
            raise Error(
                "px.bench measures on a GPU, and the arguments are host arrays",
                location=caller_location(),
                remedy="pass CUDA arrays (torch, CuPy): host arrays run in the simulator",
            )
        ordinal, stream = info.device, current_stream(first)
    flush = 2 * get_driver().device(ordinal).l2_bytes if mode.flushes else 0
    timer = EventTimer(ordinal, stream=stream, flush_bytes=flush)
    if not mode.alone_ms:
        return timer, None
    try:
        return timer, meter_of(ordinal)
    except NoMeter:
        return timer, None
