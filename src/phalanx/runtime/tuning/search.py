"""`px.tune`: reads every configuration, builds them in parallel, tries each where it can do no harm, times them in turns."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.ir.archs import arch_of
from phalanx.language.kernel import Kernel
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.choosing.estimates import Estimate
from phalanx.runtime.compiled import compiler_identity, program_key
from phalanx.runtime.device.power import Reading, median_reading
from phalanx.runtime.device.timing import MODES, mode_named
from phalanx.runtime.launch.auto_grid import FittingGrid, leaves_grid
from phalanx.runtime.launch.dispatch import debugging, device_of, on_host
from phalanx.runtime.launch.specialise import Spec, constants_key, normalise_grid, read_arguments, specialise
from phalanx.runtime.timeline.cards import rates_for
from phalanx.runtime.tuning.arguments import ArrayPlan, plan_arguments, type_texts
from phalanx.runtime.tuning.given import check_reference, how_many, list_of_configs, mistake, target_of
from phalanx.runtime.tuning.keys import compiler_text, load_rows, search_key, store_rows
from phalanx.runtime.tuning.modelled import time_on_model
from phalanx.runtime.tuning.process import INSIDE, Here, Worker
from phalanx.runtime.tuning.result import Row, Tuned
from phalanx.runtime.tuning.shipping import Parcel, parcel
from phalanx.runtime.tuning.worker import Called, Failed, MachineCode, Setup, Simulated, first_line

BUILD_LIMIT_S = 300.0
START_LIMIT_S = 300.0
"""For a process to start and make its arguments: imports, a CUDA context, random numbers."""
MOST_BUILDERS = 8
NOTED_FAILURES = 8
SPILLS = "its tiles take more registers than a thread has"


def tune(
    kernel: Any, configs: Iterable[dict[str, Any]] | None = None, args: Sequence[Any] = (), *, grid: Any = None,
    make_args: Callable[[], Sequence[Any]] | None = None,
    reference: Callable[..., Any] | dict[str, Any] | None = None,
    tolerance: float | None = None, check: bool | Sequence[Any] = False,
    measure: Callable[[Callable[[], Any], dict[str, Any]], float] | None = None, mode: str = "turns",
    rounds: int | None = None, flops: float | None = None, keep: float = 1.25, timeout: float = 30.0, seed: int = 0,
    isolate: bool = True, force: bool = False, quiet: bool = False, best: int | None = None, on: str | None = None,
) -> Tuned:
    """Searches the fastest of several configurations of a kernel on the GPU, and keeps the answer on disk.

    Anyone may call it, outside kernels; needs a GPU, unless `measure` says what a candidate costs. `kernel` is a kernel
    with `grid=` (a value or a function of the constants), or `kernel[grid]`, or any function called as
    ``function(*args, **config)``; `configs` are dicts of its constants, whose values may be `px.choose`. Without `configs`
    the kernel's own `px.choose` say what to try. `best` is how many are measured: those that are quickest on the model of
    time (of a kernel's own candidates 8, of `configs` all); the others are in the table with the model's time.
    ``on="model"`` measures nothing, and needs no GPU.

    Candidates are compiled in parallel, then run in a process of their own, first with their waits bounded: one that does
    not compile, hangs, crashes or is wrong is noted in the table and the others go on. That process makes its own
    arguments like `args` (arrays, numbers or `px.spec`): floating-point arrays are random (`seed`), integer arrays are
    copied; `make_args`, a function defined at the top of a file, makes them where that will not do. A function that is
    tuned must be defined at the top of a file too; with ``isolate=False`` everything runs in this process, and a hang stays.

    `reference`, a function of the arguments as NumPy arrays, returns what the last array must be afterwards (for a tuned
    function: what it must return), or a dict of arrays by parameter. Or it is a configuration known to be right, one of
    `configs` or another dict of constants: it runs first, and what it leaves in every array (and returns) is what all
    others must. An error above `tolerance` of the largest element (by default a rounding of its dtype) is wrong.
    ``check=True`` first runs `px.check` on each candidate, ``check=(x, y)`` on these, smaller, arguments. The survivors
    are measured in blocks of launches as `mode` says ("turns": 20 ms back to back, in turns; "steady": each alone for
    0.3 s, then timed for 0.35 s; "burst": 6 ms after a rest; "cold": L2 emptied before each launch), `rounds` of them,
    medians; who is `keep` times slower than the best after a round is not measured further. Beside "steady" times the table
    has the energy of a launch, power and clock (`Row.drawn`, read through NVML; `Tuned.unmetered` says why not), and with
    `flops`, the operations of one launch, FLOP per cycle per SM. `timeout` is what one candidate
    may take, in seconds. `measure(run, config)` replaces the clock: it returns milliseconds. ``force=True`` searches again.
    Example::

        configs = [dict(BM=bm, STAGES=s) for bm in (64, 128) for s in (2, 3, 4)]
        tuned = px.tune(copy, configs, (x, y), grid=lambda BM: px.cdiv(4096, BM))
        print(tuned)
        tuned(x, y)
    """
    if os.environ.get(INSIDE):
        raise Error(
            "px.tune is called while its own process loads the script",
            location=caller_location(),
            remedy='put the call under if __name__ == "__main__":',
        )
    target, grid = target_of(kernel, grid)
    best = how_many(target, configs, on, best)
    chosen = list_of_configs(target, configs)
    check_reference(target, reference)
    regime = mode_named(mode, "px.tune")
    if rounds is not None and (not isinstance(rounds, int) or rounds < 1):
        raise mistake(f"rounds={rounds!r}", "measure at least one round")
    if flops is not None and not (isinstance(flops, (int, float)) and 0 < flops < float("inf")):
        raise mistake(f"flops={flops!r}", "pass the operations of one launch: 2 * M * N * K of a product")
    if check and not isinstance(target, Kernel):
        raise mistake("check= needs a kernel: px.check can't look into a function", "call px.check on its kernels")
    if make_args is not None and not args:
        args = tuple(make_args())
    search = TuningSearch(
        target, grid, chosen, tuple(args), make_args, reference, tolerance, check, measure, mode,
        regime.rounds if rounds is None else rounds, keep, timeout, seed, isolate, quiet, flops, best, on,
    )
    return search.run(force)


@dataclass
class Candidate:
    """One configuration on its way."""

    number: int
    config: dict[str, Any]
    status: str = ""
    note: str = ""
    function: Any = None
    grid: tuple[int, int, int] = (1, 1, 1)
    fitting: FittingGrid | None = None  # where the grid is px.auto; `grid` is then the simulator's
    payload: Any = None
    estimate: Estimate | None = None
    """What the model of time says, where it was asked."""
    times: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """Whether nothing was wrong with it so far."""
        return not self.status

    def fail(self, failure: Failed) -> None:
        """Takes it out of the search: how it failed and why."""
        self.status, self.note, self.payload = failure.status, failure.note, None

    @property
    def modelled(self) -> float | None:
        """Milliseconds on the model of time, where it was asked."""
        return None if self.estimate is None else self.estimate.microseconds / 1e3

    @property
    def ms(self) -> float | None:
        """The median of its times, in milliseconds."""
        return statistics.median(self.times) if self.times else None


@dataclass
class TuningSearch:
    """One search, from the configurations to the table."""

    target: Any
    grid: Any
    configs: list[dict[str, Any]]
    args: tuple[Any, ...]
    make_args: Any
    reference: Any
    tolerance: float | None
    check: Any
    measure: Any
    mode: str
    rounds: int
    keep: float
    timeout: float
    seed: int
    isolate: bool
    quiet: bool
    flops: float | None = None
    best: int | None = None
    on: str | None = None
    ordinal: int | None = None
    device: str = ""
    worker: Any = None
    setup: Setup | None = None
    loaded: set[int] = field(default_factory=set)
    prepared: bool = False
    unmetered: str = ""
    known: Candidate | None = None
    """The configuration that the others are compared with: one of the candidates, or one more of its own."""

    @property
    def is_kernel(self) -> bool:
        """Whether a kernel is tuned, not a function that launches some."""
        return isinstance(self.target, Kernel)

    @property
    def name(self) -> str:
        """The name of the kernel or function, for messages and the table."""
        return self.target.name if self.is_kernel else getattr(self.target, "__name__", "function")

    def run(self, force: bool) -> Tuned:
        """The whole search, or what an earlier one of the same kind left on disk."""
        self.choose_device()
        candidates = [Candidate(number, config) for number, config in enumerate(self.configs)]
        with progress_bar(self.quiet) as bar:
            stage = bar(f"{self.name}: reading", len(candidates))
            listings = [self.read(candidate, stage) for candidate in candidates]
            if isinstance(self.reference, dict):
                self.known = self.known_candidate(candidates)
                listings.append(self.read(self.known, lambda: None))
                self.require_known()
            key, unkept = self.key(listings)
            kept = None if force else load_rows(key, self.configs)
            from_cache = kept is not None
            if kept is None:
                if self.on is not None or (self.best is not None and self.best < len(candidates)):
                    self.ask_the_model(candidates, bar)
                if self.on is None:
                    self.search(candidates, bar)
                rows = [self.row(c) for c in candidates]
                if any(row.ok for row in rows):
                    store_rows(key, rows, self.unmetered)
            else:
                rows, self.unmetered = kept
        return Tuned(self.target, self.grid, self.sorted(rows), self.device, from_cache, unkept, self.unmetered)

    def row(self, c: Candidate) -> Row:
        """A line of the table; where nothing is measured, the model's time is the time."""
        if self.on is not None and c.alive:
            c.status = "ok" if c.modelled is not None else "not modelled"
            note = SPILLS if c.estimate is not None and c.estimate.spills else c.note
            return Row(c.config, c.modelled, None, c.status, note, modelled=c.modelled)
        drawn = median_reading(c.readings)
        return Row(c.config, c.ms, None, c.status, c.note, len(c.times), drawn, modelled=c.modelled)

    def ask_the_model(self, candidates: list[Candidate], bar: Any) -> None:
        """Times all on the model. Of those that it can time, all but the best are taken out of the search.

        The configuration that the others are compared with stays.
        """
        stage = bar(f"{self.name}: modelling", len(candidates))
        with debugging(self.target):
            arguments = read_arguments(self.target, self.args)
        for candidate in candidates:
            stage()
            if candidate.alive:
                time_on_model(candidate, arguments, arch_of(self.arch()))
        orders = {c.number: c.estimate.order for c in candidates if c.alive and c.estimate is not None}
        timed = [candidates[number] for number in sorted(orders, key=orders.__getitem__)]
        for place, candidate in enumerate(timed if self.best is not None else (), 1):
            if place > self.best and candidate is not self.known:  # type: ignore[operator]
                candidate.fail(Failed("skipped", f"{place} of {len(timed)} on the model of time"))

    # What runs where ---------------------------------------------------------------------------------------

    def choose_device(self) -> None:
        """The GPU of the arguments; host arrays run in the simulator, which is no clock."""
        from phalanx.runtime.device.arrays import describe
        from phalanx.runtime.device.devices import device
        from phalanx.runtime.device.driver import has_gpu

        real = [value for value in self.args if not isinstance(value, Spec)]
        if self.is_kernel:
            with debugging(self.target):
                arguments = read_arguments(self.target, self.args)
                if len(real) == len(self.args):
                    self.ordinal = device_of(self.target, arguments)
        else:
            if len(real) < len(self.args):
                raise mistake(
                    "a px.spec can't be an argument of a function that is tuned", "pass arrays, or make_args="
                )
            infos = [info for info in map(describe, real) if info is not None]
            self.ordinal = next((info.device for info in infos if info.kind == "cuda"), None)
        if len(real) < len(self.args) or not any(describe(value) is not None for value in real):
            self.ordinal = 0 if has_gpu() else None
        if self.ordinal is None and self.measure is None and self.on is None:
            given = any(describe(value) is not None for value in real)
            here = "the arguments are host arrays" if given else "there is none here"
            raise mistake(
                f"px.tune measures on a GPU, and {here}",
                'pass CUDA arrays or px.spec on a machine with a GPU; or on="model", which ranks without one',
            )
        self.device = device(self.ordinal).name if self.ordinal is not None else "the simulator"
        if self.on is not None:
            self.device = f"the model of the {rates_for(self.arch()).name}"

    def read(self, candidate: Candidate, stage: Callable[[], None]) -> str:
        """What the kernel would compile to for a configuration, as a key: what the search depends on."""
        stage()
        if not self.is_kernel:
            return ""
        kernel = self.target
        try:
            constants = kernel.bind_constants(candidate.config)
            with debugging(kernel):
                arguments = read_arguments(kernel, self.args)
                constants = choice_of(kernel, self.grid, arguments, constants, arch_of(self.arch())).constants
                specialisation = specialise(kernel, arguments, constants)
                if leaves_grid(self.grid):
                    candidate.fitting = specialisation.fitting(self.grid, arguments, numbers=self.ordinal is None)
                    candidate.grid = candidate.fitting.in_simulator()
                else:
                    candidate.grid = normalise_grid(kernel, self.grid, specialisation.constants)
            candidate.function = specialisation
            identity = compiler_text() if self.on is not None else compiler_identity()
            key = program_key(specialisation.reading.function, arch_of(self.arch()), identity)
            return f"{candidate.fitting or candidate.grid} {key}"
        except Error as error:
            candidate.fail(Failed("does not compile", first_line(error)))
            return candidate.note

    def key(self, listings: list[str]) -> tuple[str | None, str]:
        """What the search is kept under: kernels by what they would compile to, functions by all that they name."""
        parts = {
            "the function": None if self.is_kernel else self.target, "the configurations": self.configs,
            "args": type_texts(self.args), "device": self.device, "make_args": self.make_args,
            "reference": self.reference, "tolerance": self.tolerance, "check": bool(self.check), "measure": self.measure,
            "options": [self.mode, self.rounds, self.keep, self.seed, self.best, self.on],
        }  # fmt: skip
        return search_key(parts, listings)

    # The search --------------------------------------------------------------------------------------------

    def known_candidate(self, candidates: list[Candidate]) -> Candidate:
        """Finds the kernel's candidate that has the reference's constants, or makes a new candidate of them."""
        if self.is_kernel:
            wanted = constants_key(self.target.bind_constants(self.reference))
            for candidate in candidates:
                if constants_key(self.target.bind_constants(candidate.config)) == wanted:
                    return candidate
        return Candidate(len(candidates), self.reference)

    def require_known(self) -> None:
        """Without its reference nothing can be compared: what is wrong with it ends the search."""
        if self.known is not None and not self.known.alive:
            raise Error(
                f"the reference configuration {self.known.config} of '{self.name}' {self.known.status}: {self.known.note}",
                location=caller_location(),
                remedy="pass a configuration that runs by itself, or a function that returns what is expected",
            )

    def search(self, candidates: list[Candidate], bar: Any) -> None:
        """Builds, tries and times the candidates; what is wrong with one is noted in it."""
        make = Worker if self.isolate else Here
        self.worker = make()
        self.setup = self.make_setup()
        try:
            more = [] if self.known is None or self.known in candidates else [self.known]
            self.build([*candidates, *more], bar)
            self.require_known()
            alive = [c for c in candidates if c.alive]
            stage = bar(f"{self.name}: trying", len(alive))
            for candidate in alive:
                self.attempt(candidate, "trial")
                stage()
            self.take_turns([c for c in candidates if c.alive], bar)
        finally:
            self.worker.kill()
        for candidate in candidates:
            if candidate.alive:
                candidate.status = "ok"

    def make_setup(self) -> Setup:
        """What the process that measures is told once."""
        def sent(function: Any, what: str) -> Parcel | None:
            return None if function is None else self.send(function, what)

        return Setup(
            plans=tuple(plan_arguments(self.args, self.ordinal)) if self.make_args is None else (),
            make_args=sent(self.make_args, "make_args"),
            reference=sent(self.reference, "reference") if self.known is None else None,
            measure=sent(self.measure, "measure"), names=self.target.parameters if self.is_kernel else (),
            ordinal=self.ordinal, mode=self.mode, tolerance=self.tolerance, seed=self.seed,
            is_kernel=self.is_kernel, compares=self.reference is not None,
        )

    def send(self, value: Any, what: str) -> Any:
        """A function or value for that process; kept as it is where that is this one."""
        return parcel(value, what) if self.isolate else Kept(value)

    def build(self, candidates: list[Candidate], bar: Any) -> None:
        """Machine code for each candidate, several processes at a time."""
        if not self.is_kernel:
            call = self.send(self.target, f"the function '{self.name}'")
            for candidate in candidates:
                candidate.payload = Called(call)
            return
        from phalanx.runtime.process_pool import pack

        jobs = []
        arch = self.arch()
        for candidate in candidates:
            if not candidate.alive:
                continue
            try:
                with debugging(self.target):
                    function = candidate.function.prepared_for(arch_of(arch))
                    jobs.append((candidate, pack(function, runs=self.ordinal is None or bool(self.check))))
            except Error as error:
                candidate.fail(Failed("does not compile", first_line(error)))
        stage = bar(f"{self.name}: compiling", len(jobs))
        checked = self.check_arguments()
        count = max(1, min(MOST_BUILDERS, os.cpu_count() or 1, len(jobs) // 2))  # a process takes half a second to start
        extra = [Worker() for _ in range(count - 1 if self.isolate else count)]
        builders: SimpleQueue[Any] = SimpleQueue()
        for worker in [*extra, self.worker] if self.isolate else extra:
            builders.put(worker)

        def build_one(candidate: Candidate, packed: bytes) -> None:
            worker = builders.get()
            try:
                check = None if checked is None else (candidate.grid, checked)
                plain, watched = worker.ask("build", packed, arch, self.ordinal is not None, check, limit=BUILD_LIMIT_S)
                if self.ordinal is None:
                    candidate.payload = Simulated(packed, candidate.grid)
                else:
                    candidate.payload = MachineCode(plain, watched, candidate.fitting or candidate.grid)
            except Failed as failure:
                candidate.fail(failure)
            finally:
                builders.put(worker)

        try:
            with ThreadPoolExecutor(count) as pool:
                futures = [pool.submit(build_one, *job) for job in jobs]
                try:
                    for future in as_completed(futures):
                        future.result()
                        stage()
                finally:
                    for future in futures:
                        future.cancel()
        finally:
            for worker in extra:
                worker.kill()

    def arch(self) -> str:
        """The target that candidates are compiled for."""
        from phalanx.runtime.device.driver import get_driver

        return "sm_90a" if self.ordinal is None else get_driver().device(self.ordinal).arch

    def check_arguments(self) -> list[Any] | None:
        """Host arrays for the simulator, of the given arguments or of those like them."""
        if self.check is False:
            return None
        from phalanx.runtime.tuning.arguments import PlannedArguments

        given = self.args if self.check is True else tuple(self.check)
        with debugging(self.target):
            arguments = read_arguments(self.target, given)
        if any(isinstance(value, Spec) for value in given):
            plans = [replace(p, device=None) if isinstance(p, ArrayPlan) else p for p in plan_arguments(given, None)]
            arguments = read_arguments(self.target, tuple(PlannedArguments(plans, self.seed, plain=True).values))
        return on_host(arguments)

    def attempt(self, candidate: Candidate, what: str) -> Any:
        """One request about a candidate, in a process that has it; what goes wrong is the candidate's end."""
        try:
            if not self.worker.is_running or not self.prepared:
                self.loaded.clear()
                self.start()
            return self.request(candidate, what)
        except Failed as failure:
            candidate.fail(failure)
            return None

    def request(self, candidate: Candidate, what: str) -> Any:
        """Loads a candidate where it is not loaded yet, and asks for one thing about it."""
        if candidate.number not in self.loaded:
            config = candidate.config if self.is_kernel else self.send(candidate.config, "a configuration")
            self.worker.ask("load", candidate.number, candidate.payload, config, limit=self.timeout)
            self.loaded.add(candidate.number)
        return self.worker.ask(what, candidate.number, limit=self.timeout)

    def start(self) -> None:
        """A process with the arguments and what is expected; that this fails is nobody's candidate's fault."""
        try:
            self.unmetered = self.worker.ask("prepare", self.setup, limit=START_LIMIT_S)
            self.prepared = True
        except Failed as failure:
            raise Error(
                f"px.tune can't make the arguments: {failure.note}",
                location=caller_location(),
                remedy="check make_args=, reference= and the GPU's free memory: the arrays are made a second time",
            ) from None
        if self.known is not None:
            try:
                self.request(self.known, "refer")
            except Failed as failure:
                self.known.fail(failure)
            self.require_known()

    def take_turns(self, alive: list[Candidate], bar: Any) -> None:
        """Rounds of blocks; those that fall behind are not measured further."""
        stage = bar(f"{self.name}: measuring", self.rounds * len(alive))
        rest = 0.0 if self.measure is not None else MODES[self.mode].rest_s
        behind: set[int] = set()
        last = 0
        for turn, index in MODES[self.mode].orders(len(alive), self.rounds):
            if turn != last:
                last = turn
                best = min((c.ms for c in alive if c.alive and c.ms is not None), default=0.0)
                behind = {c.number for c in alive if c.ms is not None and c.ms > self.keep * best}
            candidate = alive[index]
            if candidate.alive and candidate.number not in behind:
                if rest:
                    time.sleep(rest)
                answer = self.attempt(candidate, "time")
                if answer is not None:
                    took, reading = answer
                    candidate.times.append(took)
                    candidate.readings += [] if reading is None else [reading]
            stage()
        for candidate in alive:
            if not candidate.alive:
                candidate.times.clear()

    def rate(self, row: Row) -> float | None:
        """FLOP per cycle per SM, where operations and clock are known."""
        if self.flops is None or row.drawn is None or row.ms is None or self.ordinal is None:
            return None
        from phalanx.runtime.device.devices import device

        return row.drawn.flops_per_cycle(self.flops, row.ms, device(self.ordinal).sms)

    def sorted(self, rows: list[Row]) -> tuple[Row, ...]:
        """Fastest first, then what could not be measured."""
        good = sorted((row for row in rows if row.ok), key=lambda row: (row.note == SPILLS, row.ms or 0.0))
        if not good:
            failures = [f"{row.config}: {row.status}: {row.note}" for row in rows[:NOTED_FAILURES]]
            if len(rows) > NOTED_FAILURES:
                failures.append(f"and {len(rows) - NOTED_FAILURES} more")
            raise Error(
                f"none of the {len(rows)} configurations of '{self.name}' could be measured",
                location=caller_location(),
                details="\n".join(failures),
                remedy="run one of them by itself to see its whole message",
            )
        best = good[0].ms or 1.0
        measured = [replace(row, ratio=best / row.ms if row.ms else None, rate=self.rate(row)) for row in good]
        others = sorted((row for row in rows if not row.ok), key=lambda row: row.modelled or float("inf"))
        return (*measured, *others)


class Kept:
    """A value that stays in this process."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def open(self) -> Any:
        """The value, which never left."""
        return self.value


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, int], Callable[[], None]]]:
    """Gives a function that begins a stage, which gives a function that counts; shown where a person looks."""
    if quiet or not sys.stderr.isatty():
        yield lambda title, total: lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: list[Any] = []

        def begin(title: str, total: int) -> Callable[[], None]:
            for task in tasks:
                bar.remove_task(task)
            tasks[:] = [bar.add_task(title, total=total)]
            return lambda: bar.advance(tasks[0])

        yield begin
