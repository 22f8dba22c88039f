"""What a worker process of `px.tune` does: builds candidates, tries them, and times them, one request at a time.

A request is a method of `Session` and its arguments. A candidate is plain data: machine code and a grid, or IR for the
simulator, so that kernels need not be importable here; a tuned function travels by its name.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phalanx.cuda.abi import Extras
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.language.reader.capture import kind_of
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.device.power import Meter, NoMeter, Reading, meter_of
from phalanx.runtime.device.timing import MODES, EventTimer, repeats_for, settle
from phalanx.runtime.launch.auto_grid import FittingGrid
from phalanx.runtime.tuning.arguments import ArgumentPlan, MadeArguments, PlannedArguments
from phalanx.runtime.tuning.shipping import Parcel

TOLERANCES = {"f64": 1e-9, "f32": 2**-10, "f16": 2**-8, "bf16": 2**-6, "f8e4m3": 2**-2, "f8e5m2": 2**-1, "f8e8m0": 1.0,
              "f6e2m3": 2**-2, "f6e3m2": 2**-1, "f4e2m1": 1.0}
"""A result may differ by this share of the largest expected element: roundings, and sums in another order."""
KNOWN_RESULTS = 4


@frozen
class MachineCode:
    """A kernel compiled for the GPU; `watched` has bounded waits, None where only that version does not compile."""

    plain: Compiled
    watched: Compiled | None
    grid: tuple[int, int, int] | FittingGrid


@frozen
class Simulated:
    """A kernel's IR, packed, for host arrays."""

    packed: bytes
    grid: tuple[int, int, int]


@frozen
class Called:
    """A function and the keyword arguments of this candidate."""

    call: Parcel


@frozen
class Setup:
    """What all candidates of a worker share: arguments, a reference, a function."""

    plans: tuple[ArgumentPlan, ...]
    make_args: Parcel | None
    reference: Parcel | None
    measure: Parcel | None
    names: tuple[str, ...]
    ordinal: int | None
    mode: str
    tolerance: float | None
    seed: int
    is_kernel: bool
    compares: bool = False
    """Whether something is expected of the candidates, so that each begins with fresh arguments."""


class Failed(Exception):
    """A candidate failed: how (a row's status), and the first line of why."""

    def __init__(self, status: str, note: str) -> None:
        super().__init__(note)
        self.status = status
        self.note = note


def first_line(problem: BaseException) -> str:
    """What a row of the table says of a problem."""
    if isinstance(problem, Error):
        place = problem.location
        where = f" ({os.path.basename(place.file)}:{place.line})" if place.line else ""
        return problem.message.split("\n")[0] + where
    text = (str(problem).strip() or type(problem).__name__).split("\n")[0]
    return text if isinstance(problem, Failed) else f"{type(problem).__name__}: {text}"


def failure_of(problem: BaseException) -> Failed:
    """How a problem in a run is reported."""
    if isinstance(problem, Failed):
        return problem
    stuck = isinstance(problem, Error) and problem.kind in ("watchdog", "deadlock")
    return Failed("hangs" if stuck else "fails", first_line(problem))


@dataclass
class Session:
    """One process's arguments and candidates."""

    setup: Setup | None = None
    arguments: Any = None
    expected: dict[int, np.ndarray] = field(default_factory=dict)
    accepted: dict[int, list[np.ndarray]] = field(default_factory=dict)
    """Results that were close enough: most candidates give one of them again, bit by bit, which is quicker to see."""
    runs: dict[int, Any] = field(default_factory=dict)
    configs: dict[int, dict[str, Any]] = field(default_factory=dict)
    repeats: dict[int, int] = field(default_factory=dict)
    timer: Any = None
    measure: Any = None
    meter: Meter | None = None

    # Building: in workers that never touch a GPU -----------------------------------------------------------

    def build(
        self, packed: bytes, arch: str, watched: bool, check: tuple[tuple[int, int, int], list[Any]] | None
    ) -> tuple[Compiled, Compiled | None]:
        """Compiles a kernel, after a check in the simulator where one is asked for."""
        from phalanx.runtime.compiled import compile_function
        from phalanx.runtime.process_pool import unpack

        function = unpack(packed)
        if check is not None:
            self._check(function, *check)
        try:
            plain = compile_function(function, arch)
        except Error as error:
            raise Failed("does not compile", first_line(error)) from None
        if not watched:
            return plain, None
        try:
            return plain, compile_function(function, arch, Extras(watchdog=True))
        except Error:  # bounded waits need a few registers more
            return plain, None

    def _check(self, function: Any, grid: tuple[int, int, int], args: list[Any]) -> None:
        from phalanx.runtime.checking import DEFAULT_SCHEDULES, check_function
        from phalanx.sanitizer.report import Report

        report = Report(function.name)
        check_function(function, grid, args, report, DEFAULT_SCHEDULES)
        if report.findings:
            found = report.findings[0]
            where = f" ({os.path.basename(found.location.file)}:{found.location.line})" if found.location.line else ""
            raise Failed("is not clean", f"{found.kind}: {found.message}{where}")

    # Measuring ---------------------------------------------------------------------------------------------

    def prepare(self, setup: Setup) -> str:
        """Makes the arguments, what is expected of them, and the clock; gives why power can't be read where it should be."""
        self.setup = setup
        if setup.make_args is not None:
            self.arguments = MadeArguments(setup.make_args.open())
        else:
            self.arguments = PlannedArguments(setup.plans, setup.seed, plain=setup.is_kernel)
        if setup.reference is not None:
            self.expected = self._expectation(setup.reference.open()(*self.arguments.on_host()))
        if setup.measure is not None:
            self.measure = setup.measure.open()
        elif setup.ordinal is not None:
            from phalanx.runtime.device.driver import get_driver

            flush = 2 * get_driver().device(setup.ordinal).l2_bytes if MODES[setup.mode].flushes else 0
            self.timer = EventTimer(setup.ordinal, flush_bytes=flush)
            if MODES[setup.mode].alone_ms:  # long enough for the card's counter
                try:
                    self.meter = meter_of(setup.ordinal)
                except NoMeter as reason:
                    return str(reason)
        return ""

    def _expectation(self, found: Any) -> dict[int, np.ndarray]:
        """A reference's answer by argument (see `returned` for negative ones): {position or name: array}, or one array."""
        assert self.setup is not None
        if isinstance(found, dict):
            names = self.setup.names
            return {names.index(key) if isinstance(key, str) else int(key): _host(value) for key, value in found.items()}
        return {self._last_array(): _host(found)} if self.setup.is_kernel else returned(found)

    def _last_array(self) -> int:
        from phalanx.runtime.device.arrays import describe

        arrays = [n for n, value in enumerate(self.arguments.values) if describe(value) is not None]
        return arrays[-1] if arrays else -1

    def load(self, number: int, candidate: Any, config: dict[str, Any] | Parcel) -> None:
        """Makes a candidate ready to run under its number; a kernel's machine code is loaded on the GPU."""
        self.configs[number] = config if isinstance(config, dict) else config.open()
        assert self.setup is not None
        if isinstance(candidate, MachineCode):
            assert self.setup.ordinal is not None
            self.runs[number] = MachineRun(candidate, self.arguments, self.setup.ordinal)
        elif isinstance(candidate, Simulated):
            self.runs[number] = SimulatedRun(candidate, self.arguments)
        else:
            function = candidate.call.open()
            self.runs[number] = CalledRun(function, self.configs[number], self.arguments, self.setup.ordinal)

    def trial(self, number: int) -> None:
        """Runs a candidate, first with bounded waits, and compares what it computes."""
        for result in self._results(number):
            self._compare(result)

    def refer(self, number: int) -> None:
        """Runs a candidate likewise, and takes what it computes for what is expected of the others."""
        self.expected, self.accepted = {}, {}
        for result in self._results(number):
            if self.expected:
                try:
                    self._compare(result)
                except Failed as failure:
                    raise Failed("differs from run to run", failure.note) from None
            else:
                self.expected = self._outcome(result)
                self.accepted = {position: [found] for position, found in self.expected.items()}

    def _results(self, number: int) -> Iterator[Any]:
        """What a candidate returns, run with bounded waits and then as it is, each time on fresh arguments."""
        run = self.runs[number]
        for watched in (True, False):
            if watched and not run.can_be_watched:
                continue
            assert self.setup is not None
            if self.setup.compares:
                self.arguments.reset()
            result = run.watched() if watched else run.first()
            self._synchronize()
            yield result

    def _outcome(self, result: Any) -> dict[int, np.ndarray]:
        """Every array after a run, and what the run returned: copies, since the next run writes over them."""
        from phalanx.runtime.device.arrays import describe

        values = self.arguments.values
        found = {n: _host(value).copy() for n, value in enumerate(values) if describe(value) is not None}
        found |= {position: part.copy() for position, part in returned(result).items()}
        if not found:
            raise Failed("fails", "it has no array and returns nothing: there is nothing to compare")
        return found

    def _synchronize(self) -> None:
        assert self.setup is not None
        if self.setup.ordinal is not None:
            from phalanx.runtime.device.driver import get_driver

            driver = get_driver()
            with driver.context(self.setup.ordinal):
                driver.synchronize()

    def _compare(self, result: Any) -> None:
        assert self.setup is not None
        parts = returned(result) if min(self.expected, default=0) < 0 else {}
        for position, want in self.expected.items():
            if position == -1 and result is None:
                position = self._last_array()
            what = self._name(position)
            if position < 0 and position not in parts:
                raise Failed("is wrong", f"{what} is missing")
            got = parts[position] if position < 0 else _host(self.arguments.values[position])
            if got.shape != want.shape:
                raise Failed("is wrong", f"{what} has shape {got.shape}, the reference {want.shape}")
            known = self.accepted.setdefault(position, [])
            if any(same_bytes(got, earlier) for earlier in known):
                continue
            error, allowed = distance(got, want), self.setup.tolerance
            if allowed is None:
                allowed = tolerance_of(got)
            if not error <= allowed:
                raise Failed("is wrong", f"{what} is off by {error:.2g} of the largest element, {allowed:.2g} is allowed")
            if len(known) < KNOWN_RESULTS:
                known.append(got.copy())

    def _name(self, position: int) -> str:
        assert self.setup is not None
        if position < 0:
            return f"part {-1 - position} of the result" if min(self.expected) < -1 else "the result"
        return f"argument {self.setup.names[position] if position < len(self.setup.names) else position}"

    def time(self, number: int) -> tuple[float, Reading | None]:
        """Milliseconds of one launch, from one block of them, and what the block drew where that is read."""
        assert self.setup is not None
        run = self.runs[number]
        run.first()  # the arguments may have been made anew since its last run
        if self.measure is not None:
            cost = float(self.measure(run.again, self.configs[number]))
            if not 0 <= cost < math.inf:  # NaN would compare as the best, and as no better than the others
                raise ValueError(f"measure() gives {cost}: a cost is a number of milliseconds")
            return cost, None
        mode = MODES[self.setup.mode]
        if number not in self.repeats:
            self.repeats[number] = repeats_for(run.again, self.timer, mode)
        repeats = self.repeats[number]
        settle(run.again, self.timer, mode, repeats)
        if self.meter is None:
            return float(self.timer(run.again, repeats)), None
        took, reading = self.meter.during(lambda: self.timer(run.again, repeats), repeats)
        return float(took), reading

    def is_lost(self) -> bool:
        """Whether the GPU's context died with the last run."""
        if self.setup is None:
            return False
        try:
            self._synchronize()
        except Exception:
            return True
        return False


class MachineRun:
    """A compiled kernel on the GPU."""

    def __init__(self, candidate: MachineCode, arguments: Any, ordinal: int) -> None:
        self.candidate, self.arguments, self.ordinal = candidate, arguments, ordinal
        self.launcher = candidate.plain.load(ordinal)
        grid = candidate.grid
        self.grid = grid.on_device(self.launcher) if isinstance(grid, FittingGrid) else grid
        self.can_be_watched = candidate.watched is not None

    def _values(self) -> list[Any]:
        return [value for value in self.arguments.values if value is not None]

    def watched(self) -> None:
        """Launches the version with bounded waits, and waits for its end."""
        from phalanx.runtime.launch.watchdog import run_watched

        made = self.candidate.watched
        assert made is not None
        launcher = made.load(self.ordinal)
        run_watched(launcher, made, self.grid, self._values(), self.ordinal)

    def first(self) -> None:
        """Launches on the arguments as they are now."""
        made = self.candidate.plain
        if made.signature.debug:  # it prints or asserts: its record is read after each launch
            from phalanx.runtime.launch.watchdog import run_watched

            run_watched(self.launcher, made, self.grid, self._values(), self.ordinal)
            self.again = self.first  # type: ignore[method-assign]
        else:
            self.launcher.launch(self.grid, self._values())

    def again(self) -> None:
        """Repeats the last launch, as a clock wants it: with nothing looked at."""
        self.launcher.launch_again()


class SimulatedRun:
    """A kernel's IR in the simulator, which reports a deadlock by itself."""

    can_be_watched = False

    def __init__(self, candidate: Simulated, arguments: Any) -> None:
        from phalanx.runtime.process_pool import unpack

        self.function, self.grid, self.arguments = unpack(candidate.packed), candidate.grid, arguments

    def first(self) -> None:
        """Runs the kernel in the simulator, on the arguments as they are now."""
        from phalanx.runtime.device.devices import SIMULATED_SMS
        from phalanx.sim.run import simulate

        if 0 not in self.grid:
            given = [value for value in self.arguments.values if value is not None]
            simulate(self.function, self.grid, given, sms=SIMULATED_SMS)

    again = first


class CalledRun:
    """A function that launches by itself; its kernels' waits are bounded in the first run, by the environment."""

    def __init__(self, function: Any, config: dict[str, Any], arguments: Any, ordinal: int | None) -> None:
        self.function, self.config, self.arguments = function, config, arguments
        self.can_be_watched = ordinal is not None

    def watched(self) -> Any:
        """Calls the function while the waits of its kernels are bounded."""
        from phalanx.runtime.launch.watchdog import bounded_waits

        with bounded_waits():
            return self.again()

    def again(self) -> Any:
        """Calls the function with its arguments."""
        return self.function(*self.arguments.values, **self.config)

    first = again


def returned(result: Any) -> dict[int, np.ndarray]:
    """The arrays that a function returned, by numbers that no argument has: -1, and -2, -3, ... for those of a tuple."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    found = {-1 - number: _host(part) for number, part in enumerate(parts) if part is not None}
    for part in found.values():
        if part.dtype.kind == "O":
            raise Failed("fails", f"it returns {kind_of(result)}, which can't be compared")
    return found


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal bit by bit."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error, of the largest expected element; infinite where one side has a NaN and the other has none."""
    if got.dtype.kind in "biu":
        return 0.0 if np.array_equal(got, want) else float("inf")
    wide: Any = np.float64 if np.float64 in (got.dtype, want.dtype) else np.float32
    a, b = got.astype(wide), want.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        worst = float(np.abs(a - b)[~same].max())
    if np.isnan(worst):
        return float("inf")
    return worst / scale if scale else float("inf")


def tolerance_of(array: np.ndarray) -> float:
    """The error that is allowed for an array, relative to its largest element."""
    from phalanx.runtime.device.arrays import dtype_name

    return TOLERANCES.get(dtype_name(array.dtype), 0.0)


def _host(value: Any) -> np.ndarray:
    from phalanx.runtime.device.arrays import describe
    from phalanx.runtime.device.host_copies import to_host

    return np.asarray(to_host(value) if describe(value) is not None else value)


def serve(connection: Any, session: Any = None) -> None:
    """Answers requests until the other side is gone: ("done", value), or ("failed", status, note, lost)."""
    session = Session() if session is None else session
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[Any, ...] = ("done", getattr(session, name)(*arguments))
        except Exception as problem:
            failure = failure_of(problem)
            lost = name not in ("build", "prepare") and session.is_lost()
            answer = ("failed", failure.status, failure.note, lost)
        try:
            connection.send(answer)
        except (BrokenPipeError, OSError):
            return


def main(session: Any = None) -> None:
    """The worker's program: `python -c CODE FD PATH...`; of a search, unless another session is given."""
    from multiprocessing.connection import Connection

    serve(Connection(int(sys.argv[1])), session)
    os._exit(0)  # a context with a kernel that never ends would keep the interpreter from leaving
