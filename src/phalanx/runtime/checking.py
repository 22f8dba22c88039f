"""`px.check`: the kernel in the simulator, under several schedules, with every rule of `docs/checks.md` watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from phalanx.errors import Error, caller_location
from phalanx.ir.archs import ARCHS, Arch
from phalanx.ir.beside import Beside
from phalanx.ir.core import Function
from phalanx.runtime.choosing.candidates import chosen_part, combinations, has_choice, named
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.device.devices import SIMULATED_SMS
from phalanx.runtime.device.outlines import tell_launch
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, debugging, function_for, on_host, require_data
from phalanx.runtime.launch.options import named_arch, require_pipelined
from phalanx.runtime.launch.overlaps import as_launched
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, resolved_constants, specialise
from phalanx.sanitizer.bounds import Bounds
from phalanx.sanitizer.doubts import Doubt
from phalanx.sanitizer.findings import KINDS, Finding, ends_search, merged
from phalanx.sanitizer.held_runs import Held, HeldRuns
from phalanx.sanitizer.report import Report
from phalanx.sanitizer.runs import copies_of, describe, finding_of, held_back, run_again, run_checked, schedules_of
from phalanx.sim.scheduler import Schedule

if TYPE_CHECKING:
    from concurrent.futures import Executor

DEFAULT_SCHEDULES = 3
FEW = 4
"""Schedules that are not worth the start of processes."""
WORTH_PROCESSES = 4.0
"""Seconds of work from which on several processes are worth their start."""
_REFUSALS = Beside[dict[Arch, Error | None]]("refusals")


def check(
    bound: BoundLaunch, *args: Any, schedules: int = DEFAULT_SCHEDULES, seed: int = 0, strict: bool = False,
    executor: Executor | None = None, arch: str | None = None, pipelined: bool = True, choices: str = "best",
    bounds: str | None = None,
    **constants: Any,
) -> Report:
    """Runs the kernel in the simulator and reports what is wrong with its choreography.

    Anyone may call it, outside kernels; needs no GPU. The arguments are copied: nothing of the caller's changes.
    `schedules` is how many orders of events are tried: asynchronous work as late as possible, as early as possible,
    then random ones from `seed` on; the first that goes off the rails ends the search. `strict=True` also asks for a
    proxy fence between a generic read and an asynchronous write. `executor`, a `concurrent.futures.Executor`, runs
    all but the first schedule; without one, processes of this machine help where there is much to run. `arch` is the
    target whose version of the kernel is checked (default: the first of sm_90a, sm_100a, sm_120a that has all of its
    instructions); an instruction that it lacks is an error. `pipelined=False` checks loops over `px.pipelined` as they are
    written. Of constants that are `px.choose` those are checked that a launch takes; with `choices="all"` all combinations,
    where notes name those that do not compile or fit. `bounds="report"` also finds, in the first run, regions that reach
    outside a global array, which is legal: elements outside load as fill and are not stored. Example::

        report = px.check(copy[64], x, y, BM=128)
        assert report.ok, report
    """
    require_bound("px.check", bound)
    require_number("schedules", schedules, 1, "try at least one schedule")
    require_number("seed", seed, 0, "seeds are numbers from 0 on")
    if not isinstance(strict, bool):
        raise Error(f"strict={strict!r}", location=caller_location(), remedy="it is True or False")
    require_bounds(bounds)
    require_executor(executor)
    if choices not in ("best", "all"):
        raise Error(f"choices={choices!r}", location=caller_location(), remedy='it is "best" or "all"')
    tell_launch(bound, args, constants)
    return (check_choices if choices == "all" else check_launch)(
        bound, args, constants, schedules, seed=seed, strict=strict, executor=executor, arch=arch, pipelined=pipelined,
        bounds=bounds,
    )


def require_bounds(bounds: Any) -> None:
    """What `bounds=` may be: regions outside global arrays are masked in silence, or told."""
    if bounds not in (None, "report"):
        raise Error(
            f"bounds={bounds!r}", location=caller_location(),
            remedy='write bounds="report" to be told of regions outside global arrays, or leave it out',
        )


def require_bound(what: str, bound: Any) -> BoundLaunch:
    """A kernel with its grid, which the tool `what` asks for."""
    if not isinstance(bound, BoundLaunch):
        raise Error(
            f"{what} takes a kernel with its grid", location=caller_location(),
            remedy=f"write {what}(kernel[grid], *arguments)",
        )
    return bound


def require_number(name: str, value: Any, least: int, remedy: str) -> int:
    """A whole number that is not below `least`, passed under that name."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Error(f"{name}={value!r}", location=caller_location(), remedy=remedy)
    return value


def require_executor(executor: Any) -> Executor | None:
    """An executor of `concurrent.futures`, or something like it, or None."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise Error(
            f"executor={executor!r}", location=caller_location(),
            remedy="give a concurrent.futures.Executor, e.g. ProcessPoolExecutor(), or leave it out",
        )
    return executor


def check_launch(
    bound: BoundLaunch, args: tuple[Any, ...], constants: dict[str, Any], schedules: int, *, seed: int = 0,
    strict: bool = False, executor: Executor | None = None, progress: Callable[[int], None] = lambda done: None,
    arch: str | None = None, pipelined: bool = True, bounds: str | None = None,
) -> Report:
    """`check` for tools that show how far it is: `progress` is told how many schedules are done."""
    kernel = bound.kernel
    report = Report(kernel.name)
    with debugging(kernel):
        target = named_arch(arch)
        arguments = require_data(kernel, read_arguments(kernel, args))
        values = choice_of(kernel, bound.grid, arguments, kernel.bind_constants(constants), target).constants
        try:
            resolved = resolved_constants(kernel, arguments, values)
        except Error as error:
            report.findings = [finding_of(error)]
            return report
        by_fit = leaves_grid(bound.grid)
        grid = (0, 0, 0) if by_fit else normalise_grid(kernel, bound.grid, resolved)
        try:
            specialisation = specialise(kernel, arguments, values)
            specialisation = as_launched(specialisation, arguments, args, require_pipelined(pipelined))
            function = function_for(specialisation, target)
        except Error as error:
            report.findings = [finding_of(error)]
            return report
        if by_fit:
            grid = specialisation.fitting(bound.grid, arguments, numbers=True).in_simulator()
        report.notes += memory_notes(function)
        against = refusal(function, target or specialisation.default_arch) if not report.notes else None
        if against is not None and against.kind in KINDS:
            report.findings = [finding_of(against)]
            return report
        if against is not None:
            report.notes.append(f"{against.location.short}: px.compile refuses this: {against.message}")
        report.notes += [str(note) for note in specialisation.reading.function.notes if note.may_surprise]
        host = on_host(arguments)
        if 0 in grid:
            report.notes.append(f"the grid {grid} has no CTA: nothing was run; px.cdiv(n, BLOCK) rounds up, n // BLOCK down")
            return report
        outside = Bounds() if bounds else None
        check_function(
            function, grid, host, report, schedules, seed=seed, strict=strict, executor=executor, progress=progress,
            outside=outside,
        )
        if outside is not None:
            report.findings += outside.findings(report.schedules[0], seed)
    return report


def check_choices(bound: BoundLaunch, args: tuple[Any, ...], given: dict[str, Any], schedules: int, **how: Any) -> Report:
    """`check_launch` for every combination of constants that are `px.choose`, in one report that names them."""
    kernel = bound.kernel
    constants = kernel.bind_constants(given)
    if not has_choice(constants):
        return check_launch(bound, args, given, schedules, **how)
    report = Report(kernel.name)
    for candidate in combinations(kernel, constants):
        name = named(chosen_part(constants, candidate))
        try:
            part = check_launch(bound, args, candidate, schedules, **how)
        except Error as error:
            report.notes.append(f"{name}: not checked: {error.message}")
            continue
        found = [replace(finding, message=f"{finding.message} (with {name})") for finding in part.findings]
        report.findings = merged(report.findings, found)
        report.notes += [f"{name}: {note}" for note in part.notes]
        report.schedules = max(report.schedules, part.schedules, key=len)
        report.order = report.order or part.order
    if not report.schedules and not report.findings:
        raise Error(
            f"none of the combinations of px.choose of kernel '{kernel.name}' can be checked", location=kernel.location,
            details="\n".join(report.notes), remedy="check one of them by itself to see its whole message",
        )
    return report


def check_function(
    function: Function, grid: Sequence[int], host: list[Any], report: Report, schedules: int, *, seed: int = 0,
    strict: bool = False, executor: Executor | None = None, progress: Callable[[int], None] = lambda done: None,
    outside: Bounds | None = None,
) -> None:
    """One schedule after the other, until one goes off the rails; `progress` is told how many are done.

    What a run leaves in doubt is held back in runs of its own, before the other schedules; what those leave so, after.
    """
    first, *rest = schedules_of(schedules, seed)
    began = perf_counter()
    report.schedules = (describe(first),)
    doubts: dict[Any, Doubt] = {}
    report.findings = run_checked(
        function, grid, copies_of(host), first, strict=strict, seed=seed, doubts=doubts, notes=report.notes,
        sms=SIMULATED_SMS, bounds=outside,
    )
    report.order = first if report.findings else None
    took = perf_counter() - began
    progress(1)
    asked = HeldRuns((first, *rest))
    asked.add((), doubts.values())
    runs: list[tuple[Schedule, Held]] = [(schedule, ()) for schedule in rest]
    with ExitStack() as stack:
        while not ends_search(report.findings):
            runs = [*((held_back(held, seed), held) for held in asked.take()), *runs]
            if not runs:
                return
            if executor is None and len(runs) > FEW and took * len(runs) > WORTH_PROCESSES:
                from phalanx.runtime.process_pool import processes, travels

                executor = stack.enter_context(processes()) if travels(function) else None
            results: Iterator[tuple[list[Finding], dict[Any, Doubt]]]
            if executor is None:
                results = (
                    run_again(function, grid, copies_of(host), schedule, strict=strict, seed=seed, sms=SIMULATED_SMS)
                    for schedule, _ in runs
                )
            else:
                from phalanx.runtime.process_pool import check_part, in_order, pack

                packed = pack(function)
                jobs = [(packed, grid, host, schedule, strict, seed) for schedule, _ in runs]
                results = in_order(executor, check_part, jobs)
            for (schedule, held), (findings, more) in zip(runs, results):
                report.schedules += (describe(schedule),)
                why = "; ".join(dict.fromkeys(doubt.why for doubt in held if doubt.why))
                if why:
                    findings = [replace(finding, message=f"{finding.message}; {why}") for finding in findings]
                report.order = report.order or (schedule if findings else None)
                report.findings = merged(report.findings, findings)
                asked.add(held, more.values())
                progress(len(report.schedules))
                if ends_search(findings):
                    return
            runs = []


def memory_notes(function: Function) -> list[str]:
    """What no GPU has room for runs in the simulator; `px.compile` refuses it, so the report says so."""
    least = sum(buffer.nbytes for buffer in function.shared_buffers if buffer.reuse is None)
    most = max(arch.shared_limit for arch in ARCHS.values())
    if least <= most:
        return []
    needed = f"needs at least {least:,} bytes of shared memory, a CTA has {most:,} at most"
    return [f"{function.loc.short}: {function.name} {needed}"]


def refusal(function: Function, arch: Arch) -> Error | None:
    """What `px.compile` says against a kernel, prepared for a target, that the simulator runs; None where it takes it.

    The kernel is planned and written down, in its text too, but compiled for nobody. The answer is kept with the kernel.
    """
    from phalanx.cuda.lower.lower import lower
    from phalanx.cuda.module import generate

    known = _REFUSALS.get(function) or _REFUSALS.keep(function, {})
    if arch not in known:
        known[arch] = None
        try:
            generate(lower(function, arch))
        except Error as error:
            known[arch] = error
    return known[arch]
