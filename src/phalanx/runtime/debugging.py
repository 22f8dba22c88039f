"""`px.debug`: a simulated launch that one stops, steps through, looks into and goes back in."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.ir.archs import Arch
from phalanx.ir.core import Function
from phalanx.ir.views import Buffer
from phalanx.runtime.checking import DEFAULT_SCHEDULES, check_function, require_bound, require_number
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.device.devices import SIMULATED_SMS
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, debugging, function_for, on_host, require_data
from phalanx.runtime.launch.options import named_arch, require_pipelined
from phalanx.runtime.launch.overlaps import as_launched
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, resolved_constants, specialise
from phalanx.sanitizer.checker import Checker
from phalanx.sanitizer.finding_text import plain_text
from phalanx.sanitizer.findings import KINDS, Finding, Findings
from phalanx.sanitizer.report import Report
from phalanx.sanitizer.runs import copies_of, describe, finding_of
from phalanx.sim.debug.run import Run, Start
from phalanx.sim.debug.session import Session
from phalanx.sim.run import with_counters
from phalanx.sim.scheduler import Schedule

SCHEDULES = ("late", "early", "random", "found")


def debug(
    bound: BoundLaunch, *args: Any, schedule: str = "late", seed: int = 0, strict: bool = False, arch: str | None = None,
    pipelined: bool = True, write: Callable[[str], object] | None = None, **constants: Any,
) -> Session:
    """Begins a simulated launch that goes on step by step, with the checks of `px.check` listening.

    Anyone may call it, outside kernels; needs no GPU. The arguments are copied: nothing of the caller's changes. The
    session stops at lines, at `px.breakpoint`, at phases of barriers and at findings; it shows tiles, memory, barriers and
    who waits for whom; it goes back by replaying the same order of events. ``session.do("help")`` lists the commands,
    ``session.interact()`` asks for them. `schedule` is the order of events: "late", "early" or "random" with `seed`, as a
    finding names it, or "found", the first one in which `px.check` finds something. `arch`, `strict` and `pipelined` are
    those of `px.check`; `write` takes what is said in the place of `print`. Example::

        session = px.debug(copy[1], x, y)
        session.do("break 12", "continue", "print acc", "waits", "back")
    """
    require_bound("px.debug", bound)
    require_number("seed", seed, 0, "seeds are numbers from 0 on")
    if schedule not in SCHEDULES:
        raise Error(
            f"schedule={schedule!r}", location=caller_location(),
            remedy='it is "late", "early", "random" with seed=, or "found"',
        )
    kernel = bound.kernel
    with debugging(kernel):
        target = named_arch(arch)
        arguments = require_data(kernel, read_arguments(kernel, args))
        values = choice_of(kernel, bound.grid, arguments, kernel.bind_constants(constants), target).constants
        resolved = resolved_constants(kernel, arguments, values)
        specialisation = specialise(kernel, arguments, values).with_stops
        specialisation = as_launched(specialisation, arguments, args, require_pipelined(pipelined))
        function = function_for(specialisation, target)
        if leaves_grid(bound.grid):
            grid = specialisation.fitting(bound.grid, arguments, numbers=True).in_simulator()
        else:
            grid = normalise_grid(kernel, bound.grid, resolved)
        if 0 in grid:
            raise Error(f"a grid of {grid} has no CTA", location=kernel.location, remedy="there is nothing to step through")
        host = on_host(arguments)
        order = found_order(function, grid, host, seed, strict) if schedule == "found" else Schedule(schedule, seed)
        run = Run(function, grid, partial(begin, function, host, order, strict), order, SIMULATED_SMS)
        layouts = Layouts(function, target or specialisation.default_arch)
        return Session(run, dict(resolved), layouts.text, write)


def found_order(function: Function, grid: Sequence[int], host: list[Any], seed: int, strict: bool) -> Schedule:
    """The first order of events in which the checks find something; the usual one where they find nothing."""
    report = Report(function.name)
    with redirect_stdout(io.StringIO()):  # what the kernel prints, the session will say
        check_function(function, grid, host, report, DEFAULT_SCHEDULES, seed=seed, strict=strict)
    return report.order or Schedule("late", seed)


def begin(function: Function, given: list[Any], schedule: Schedule, strict: bool) -> Start:
    """What every replay begins with: the arguments as they were, and a checker that knows nothing yet."""
    args = with_counters(function, copies_of(given))
    found = Findings(describe(schedule), schedule.seed)
    checker = Checker(function, tuple(args), found, strict=strict)
    checker.doubts.schedule = schedule
    listener = Listener(checker, found)
    return Start(args, checker, listener.count, listener.texts, listener.finish, listener.failed)


class Listener:
    """The findings of a run as they come. Some are certain only at its end, and are called suspicions until then."""

    def __init__(self, checker: Checker, found: Findings) -> None:
        self.checker = checker
        self.found = found
        self.order: list[tuple[Finding, bool]] = []
        self.ended: list[str] | None = None

    def count(self) -> int:
        """The number of findings so far."""
        found = self.found
        if self.ended is None and len(found.items) + len(found.tentative) > len(self.order):
            known = {id(finding) for finding, _ in self.order}
            new = [(finding, True) for finding in found.items.values()]
            new += [(finding, False) for _, finding in found.tentative]
            self.order += [item for item in new if id(item[0]) not in known]
        return len(self.order)

    def texts(self) -> list[str]:
        """All findings, in the order in which they were seen."""
        self.count()
        return [plain_text(finding) if certain else f"suspected {plain_text(finding)}" for finding, certain in self.order]

    def failed(self, error: Error) -> None:
        """The run ended with an error: a finding, where it is one of the kinds that checks have."""
        if error.kind in KINDS and error.kind != "deadlock":  # of which the checker knows
            describe = partial(finding_of, error, getattr(self.checker, "current", None))
            self.found.add(error.kind, error.location, error.other, describe=describe)

    def finish(self) -> list[str]:
        """What is certain, once the run is over."""
        if self.ended is None:
            self.count()
            before = {id(finding) for finding in self.found.items.values()}
            findings = self.checker.finish()
            self.ended = [plain_text(finding) for finding in findings]
            known = {(finding.kind, finding.location) for finding, _ in self.order}
            self.order += [
                (finding, True) for finding in findings
                if id(finding) not in before and (finding.kind, finding.location) not in known
            ]
        return self.ended


class Layouts:
    """How buffers lie in memory on a target, which is found out when somebody asks."""

    def __init__(self, function: Function, arch: Arch) -> None:
        self.function = function
        self.arch = arch
        self.places: dict[str, str] | None = None
        """What there is to say of each buffer, by its name."""
        self.refusal = ""

    def text(self, buffer: Buffer) -> str:
        """The layout of a shared buffer, and the byte at which it begins; "" for memory whose place its size says."""
        if self.places is None:
            self.places = self.found()
        return self.refusal or self.places.get(buffer.name, "")

    def found(self) -> dict[str, str]:
        """Asks the compiler, without compiling."""
        from phalanx.runtime.compiled import planned

        try:
            placed = planned(self.function, self.arch).buffers
        except Error as error:
            self.refusal = f"no layout: px.compile refuses this kernel: {error.message}"
            return {}
        return {buffer.name: f"at byte {place.offset:,}, {place.layout!r}" for buffer, place in placed.items()}

