"""`kernel[grid](...)`: NumPy arguments run in the simulator, CUDA arrays on their GPU; and `px.compile`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from phalanx.cuda.abi import PLAIN, Extras
from phalanx.cuda.prepare import require_target
from phalanx.errors import Error, caller_location, internal_error, wants_traceback
from phalanx.ir.archs import Arch, arch_of
from phalanx.ir.core import Function
from phalanx.language.kernel import Kernel, launch_traced
from phalanx.runtime.choosing.candidates import has_choice
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.device.arrays import ArrayInfo, call_key
from phalanx.runtime.device.host_copies import put_back, to_host
from phalanx.runtime.device.outlines import is_outlined, launch_taker, tell_launch
from phalanx.runtime.device.torch_tensors import WithoutMemory, count_versions, refuse_lost_gradients
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.launch_list import LISTS, is_recorded, record_launch, refuse_recording
from phalanx.runtime.launch.memory import memory_of
from phalanx.runtime.launch.options import require_pipelined, split_target, wants_line_info
from phalanx.runtime.launch.overlaps import Watched, has_empty, watched_by
from phalanx.runtime.launch.routes import Route, Types, constants_as_given, hides, types_of
from phalanx.runtime.launch.specialise import (
    Argument,
    Spec,
    Specialisation,
    constants_key,
    normalise_grid,
    read_arguments,
    resolved_constants,
    specialise,
)
from phalanx.runtime.launch.stamping import run_stamped, wanted_stamps
from phalanx.runtime.launch.strictness import refuse_overlap
from phalanx.runtime.launch.watchdog import Delays, delays, run_watched, shaken

if TYPE_CHECKING:
    from phalanx.runtime.compiled import Compiled
    from phalanx.runtime.launch.launcher import Launcher


class KernelReplay:
    """One launch of a kernel on a GPU, and what must still hold for another one to be like it.

    `given` are the constants that were passed, as an exact key where equal ones may mean different things; `none_at` says
    where the arguments were None. `fitting_grid` is what `px.auto` was as the grid; None where a grid was given. `watched`:
    arguments that may not share memory.
    """

    __slots__ = (
        "captured", "cluster", "constants", "fitting_grid", "given", "kinds", "launcher", "none_at", "specialisation",
        "watched",
    )

    def __init__(
        self, specialisation: Specialisation, launcher: Launcher, none_at: tuple[int, ...], kinds: tuple[type, ...],
        given: Any, fitting_grid: tuple[int, int, int] | None = None, watched: Watched | None = None,
    ) -> None:
        self.specialisation = specialisation
        self.launcher = launcher
        self.none_at = none_at
        self.kinds = kinds
        self.given = given
        self.fitting_grid = fitting_grid
        self.watched = watched
        self.cluster = specialisation.reading.function.cluster
        self.captured = specialisation.reading.captured
        self.constants = specialisation.constants


class BoundLaunch:
    """A kernel with its grid, ready to be called with arguments."""

    __slots__ = ("grid", "kernel", "last", "memory", "plain_grid")

    def __init__(self, kernel: Kernel, grid: Any) -> None:
        self.kernel = kernel
        self.grid = grid
        self.memory = memory_of(kernel)
        self.last: Any = None  # repeats the last plain launch: no constants given, none captured, no None
        self.plain_grid: tuple[int, int, int] | None = None
        if type(grid) is int:
            self.plain_grid = (grid, 1, 1)
        elif type(grid) is tuple and 1 <= len(grid) <= 3 and all(type(n) is int for n in grid):
            self.plain_grid = (*grid, 1, 1)[:3]

    def __call__(self, *args: Any, **constants: Any) -> None:
        if self.kernel.groups:
            args = tuple(self.kernel.spread(args))
        if LISTS:
            self.launch(args, constants)
            return
        try:
            if self.last is not None and not constants and self.last(args):
                return
            if self.repeat(args, constants):
                return
        except Error:
            with debugging(self.kernel):
                raise
        self.launch(args, constants)

    def run(self, *args: Any, jitter: int | None = None, **constants: Any) -> None:
        """Launches like a call; with a seed as `jitter`, with random delays that follow from it.

        Anyone may call it, outside kernels. On a GPU, agents are late before waits, arrivals and copies, and waits are
        bounded; in the simulator, events come in an order of that seed. A right kernel is right with any seed. Example:
        ``copy[64].run(x, y, jitter=7)``.
        """
        if jitter is None:
            self(*args, **constants)
            return
        with shaken(Delays(jitter)):
            self(*args, **constants)

    def repeat(self, args: tuple[Any, ...], constants: dict[str, Any]) -> bool:
        """Launches as before, if there was a launch with these constants and this geometry; else does nothing."""
        memory = self.memory
        given = tuple(constants.items())
        try:
            latest = memory.latest.get(given)
        except TypeError:
            return False  # an unhashable constant: refused by the whole way, with a message
        if latest is None:
            return False
        if self.try_replay(latest, args, constants):
            return True
        try:
            other = memory.kept.get((call_key(args)[0], given))
        except (Error, RuntimeError, TypeError):
            return False  # no argument of a kernel, or no address, or sizes that are symbols: seen to by the whole way
        if other is None or other is latest or not self.try_replay(other, args, constants):
            return False
        memory.latest[given] = other
        return True

    def try_replay(self, replay: KernelReplay, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Launches if all that the replay depends on is as it was."""
        for value, kind in zip(given.values(), replay.kinds):  # 1, 1.0 and True find the same entry
            if type(value) is not kind:
                return False
        if replay.given is not None and constants_key(given) != replay.given:
            return False
        grid = self.plain_grid
        if grid is None and leaves_grid(self.grid):
            grid = replay.fitting_grid
            if grid is None:
                return False
        elif grid is None:
            grid = normalise_grid(self.kernel, self.grid, replay.constants)
        elif not is_launchable(grid, replay.cluster):
            return False
        if replay.captured and not replay.specialisation.is_current:
            return False
        if 0 in grid:
            return False
        if replay.watched is not None and (len(args) <= replay.watched.last or replay.watched.overlap(args)):
            return False
        if not replay.none_at:
            return replay.launcher.try_launch(grid, args)
        for n in replay.none_at:
            if n >= len(args) or args[n] is not None:
                return False
        return replay.launcher.try_launch(grid, [a for n, a in enumerate(args) if n not in replay.none_at])

    def launch(self, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """The whole way: types, specialisation, simulator or GPU."""
        if is_outlined():
            return
        taker = launch_taker()
        if taker is not None:
            taker(self, args, given)
            return
        tell_launch(self, args, given)
        kernel = self.kernel
        with debugging(kernel):
            refuse_lost_gradients(kernel.name, kernel.parameters, args)
            types = types_of(args)
            if types is not None and self.launch_known(types, args, given):
                return
            named, arch, pipelined = split_target(kernel, given)
            constants = kernel.bind_constants(named)
            try:
                arguments = read_arguments(kernel, args, None if types is None else types.infos)
            except WithoutMemory:
                launch_traced(kernel, self.grid, args, given)
                return
            by_fit = leaves_grid(self.grid)
            ordinal = device_of(kernel, arguments)
            chooses = has_choice(constants)
            if chooses:
                wanted = arch or arch_on(ordinal)
                constants = choice_of(kernel, self.grid, arguments, constants, wanted, compiler_for(ordinal)).constants
            grid = (0, 0, 0)
            if not by_fit:
                grid = normalise_grid(kernel, self.grid, resolved_constants(kernel, arguments, constants))
            specialisation = specialise(kernel, arguments, constants)
            watched = watched_by(specialisation, arguments) if pipelined else None
            overlap = watched is not None and watched.overlap(args)
            if overlap:
                refuse_overlap(specialisation.reading.function)
            if not pipelined or overlap or has_empty(arguments):
                specialisation, watched = specialisation.plain, None
            present = [a for a in arguments if a.type is not None]
            values, infos = [a.value for a in present], [a.info for a in present]
            fitting = specialisation.fitting(self.grid, arguments, numbers=ordinal is None) if by_fit else None
            if ordinal is None:
                grid = grid if fitting is None else fitting.in_simulator()
                refuse_recording()
                run_simulated(specialisation, grid, present, arch)
                count_versions(values, specialisation.written)
                return
            if arch is not None:
                require_device_arch(ordinal, arch)
            launcher, compiled = load_launcher(specialisation, ordinal)
            grid = grid if fitting is None else fitting.on_device(launcher)
            if 0 in grid:
                refuse_recording()
                return
            if compiled.signature.debug:
                refuse_recording()
                run = run_watched if wanted_stamps() is None else run_stamped
                run(launcher, compiled, grid, values, ordinal)
                return
            if overlap:  # another call may have the same geometry, and no overlap
                refuse_recording()
                launcher.launch(grid, values, infos=infos)
                return
            none_at = tuple(n for n, a in enumerate(arguments) if a.type is None)
            route = Route(specialisation, launcher, none_at)
            if watched is None and not by_fit and not chooses and types is not None and types.device is not None:
                self.memory.routes[types.key, constants_as_given(given), types.device] = route
            if watched is None and is_recorded():
                launcher.launch_anew(grid, values, infos, matched=False)
                record_launch(launcher, route.captured, grid, values, infos)
                return
            refuse_recording()  # a repeated call looks at nothing but pointers, which may overlap then
            self.launch_and_keep(route, grid, args, given, [a.info for a in arguments], watched)

    def launch_known(self, types: Types, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Launches a kernel that was launched before with arguments of these types, of any sizes; else does nothing."""
        grid = self.plain_grid
        if grid is None or types.device is None or wants_watchdog(self.kernel) or wanted_stamps() is not None:
            return False
        try:
            route = self.memory.routes.get((types.key, constants_as_given(given), types.device))
        except TypeError:
            return False  # an unhashable constant: refused by the whole way, with a message
        if route is None or not is_launchable(grid, route.cluster) or (route.captured and not route.is_current):
            return False
        if not (LISTS and is_recorded()):
            self.launch_and_keep(route, grid, args, given, types.infos)
            return True
        values, infos = route.present(args), route.present(types.infos)
        route.launcher.launch_anew(grid, values, infos, matched=False)
        record_launch(route.launcher, route.captured, grid, values, infos)
        return True

    def launch_and_keep(
        self, route: Route, grid: tuple[int, int, int], args: tuple[Any, ...], given: dict[str, Any],
        infos: list[ArrayInfo | None], watched: Watched | None = None,
    ) -> None:
        """Launches and keeps the launch as the latest one, and under its geometry from the second time on."""
        memory, specialisation, launcher = self.memory, route.specialisation, route.launcher
        items = tuple(given.items())
        key = (call_key(args, infos)[0], items)
        again = key in memory.kept
        if again:  # a geometry that comes a second time has a launcher of its own
            launcher = launcher.fresh()
        launcher.launch_anew(grid, route.present(args), route.present(infos))
        kinds = tuple(map(type, given.values()))
        by_fit = leaves_grid(self.grid)
        replay = KernelReplay(
            specialisation, launcher, route.none_at, kinds, constants_key(given) if any(map(hides, kinds)) else None,
            grid if by_fit else None, watched,
        )
        plain = not (given or route.none_at or specialisation.reading.captured or watched is not None)
        if plain and (by_fit or self.plain_grid is not None):
            self.last = partial(launcher.try_launch, grid)  # this grid was launched, so it is a good one
        memory.keep(key, replay if again else None)
        memory.latest[items] = replay

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process binds the grid anew; what was launched here stays here."""
        return BoundLaunch, (self.kernel, self.grid)

    def __repr__(self) -> str:
        return f"<{self.kernel.name}[{self.grid}]>"


def _launch_within_a_trace(bound: BoundLaunch, *args: Any, **constants: Any) -> None:
    """What torch.compile reads in the place of `BoundLaunch.__call__`."""
    launch_traced(bound.kernel, bound.grid, args, constants)


BoundLaunch.__call__._torchdynamo_inline = _launch_within_a_trace  # type: ignore[attr-defined]


def is_launchable(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> bool:
    """Whether a grid needs no further look; the message for one that does comes from `normalise_grid`."""
    x, y, z = grid
    if not (0 < x <= 0x7FFFFFFF and 0 < y <= 65535 and 0 < z <= 65535):
        return False
    return cluster == (1, 1, 1) or not (x % cluster[0] or y % cluster[1] or z % cluster[2])


class debugging:
    """Gives every error a place, and cuts the compiler's own frames out of its traceback unless PHALANX_DEBUG=1."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, Error):
            place = self.kernel.location
            error.at(place)
            if (error.location.file, error.location.line) == (place.file, place.line):
                error.call = caller_location()
        if wants_traceback():
            return
        if not isinstance(error, Error):
            error = internal_error(error, self.kernel.location)
        error.__suppress_context__ = True
        raise error.with_traceback(None)


def require_data(kernel: Kernel, arguments: list[Argument]) -> list[Argument]:
    """Returns the arguments as they are; raises an error if one is a `px.spec`, which has no data to run on."""
    for name, argument in zip(kernel.parameters, arguments, strict=True):
        if isinstance(argument.value, Spec):
            raise Error(
                f"argument '{name}' is a px.spec: there is nothing to run on",
                location=kernel.location,
                remedy="pass an array; px.spec is for px.compile",
            )
    return arguments


def device_of(kernel: Kernel, arguments: list[Argument]) -> int | None:
    """The CUDA device of the arguments, None for host arrays. They must agree."""
    seen: dict[tuple[str, int], str] = {}
    for name, argument in zip(kernel.parameters, require_data(kernel, arguments), strict=True):
        if argument.info is not None:
            seen.setdefault((argument.info.kind, argument.info.device), name)
    if len(seen) > 1:
        places = [
            f"'{name}' is {'a host array' if kind == 'host' else f'on CUDA device {number}'}"
            for (kind, number), name in seen.items()
        ]
        raise Error(
            f"the arguments of kernel '{kernel.name}' are in different places: {' and '.join(places)}",
            location=kernel.location,
            remedy="pass only NumPy arrays (simulator) or only arrays of one CUDA device",
        )
    if not seen:
        return None
    ((kind, number),) = seen
    return None if kind == "host" else number


def function_for(specialisation: Specialisation, arch: Arch | None) -> Function:
    """The kernel as the simulator runs it: for the target that the user named, which must have all of it, or the default."""
    if arch is None:
        return specialisation.prepared
    function = specialisation.prepared_for(arch)
    require_target(function, arch)
    return function


def arch_on(ordinal: int | None) -> Arch | None:
    """The target of a CUDA device; None for host arrays."""
    if ordinal is None:
        return None
    from phalanx.runtime.device.driver import get_driver

    return arch_of(get_driver().device(ordinal).arch)


def compiler_for(ordinal: int | None) -> Callable[[Specialisation], object] | None:
    """What compiles kernels for a CUDA device, before one of several is taken; None for host arrays."""
    return None if ordinal is None else lambda candidate: load_launcher(candidate, ordinal)


def require_device_arch(ordinal: int, arch: Arch) -> None:
    """A launch on CUDA arrays runs on their GPU: another target can't be asked for."""
    from phalanx.runtime.device.driver import get_driver

    found = get_driver().device(ordinal).arch
    if found != arch.name:
        raise Error(
            f"arch='{arch}' for a launch on CUDA device {ordinal}, which is {found}",
            remedy="leave arch= out, or pass NumPy arrays: they run in the simulator, as on any target",
        )


def run_simulated(
    specialisation: Specialisation, grid: tuple[int, int, int], arguments: list[Argument], arch: Arch | None = None
) -> None:
    """Runs a kernel in the simulator, as it is prepared for a target."""
    from phalanx.runtime.device.devices import SIMULATED_SMS
    from phalanx.sim.run import simulate
    from phalanx.sim.scheduler import Schedule

    if 0 not in grid:
        values = on_host(arguments)
        wanted = delays()
        schedule = None if wanted is None else Schedule("random", seed=wanted.seed)
        simulate(function_for(specialisation, arch), grid, values, schedule=schedule, sms=SIMULATED_SMS)
        for argument, value in zip(arguments, values, strict=True):
            put_back(argument.value, value)


def on_host(arguments: list[Argument]) -> list[Any]:
    """The arguments for the simulator: CUDA arrays are copied to the host; NumPy arrays and numbers stay."""
    return [a.value if a.info is None else to_host(a.value, a.info) for a in arguments if a.type is not None]


def wants_watchdog(kernel: Kernel) -> bool:
    """Whether the kernel's waits are bounded: if it is shaken, else as its decorator says, else as the environment does."""
    if delays() is not None:
        return True
    if kernel.watchdog is not None:
        return kernel.watchdog
    return "PHALANX_WATCHDOG" in os.environ and os.environ["PHALANX_WATCHDOG"] not in ("", "0")


def wanted_extras(kernel: Kernel, watchdog: bool | None = None, line_info: bool | None = None) -> Extras:
    """What a build has beside the kernel: as given; what is None, as kernel, surroundings and environment say."""
    stamps = wanted_stamps()
    if stamps is not None:
        return Extras(stamps=stamps.sample, line_info=wants_line_info(line_info))
    bounded = wants_watchdog(kernel) if watchdog is None else watchdog
    return Extras(watchdog=bounded, shaken=delays() is not None, line_info=wants_line_info(line_info))


def load_launcher(specialisation: Specialisation, ordinal: int) -> tuple[Any, Compiled]:
    """The kernel on a device, compiled for it."""
    extras = wanted_extras(specialisation.kernel)
    key = (ordinal, extras)
    found = specialisation.launchers.get(key)
    if found is None:
        from phalanx.runtime.device.driver import get_driver

        compiled = compiled_for(specialisation, get_driver().device(ordinal).arch, extras)
        launcher = compiled.load(ordinal)
        launcher.written = specialisation.written
        found = specialisation.launchers[key] = (launcher, compiled)
    return found


def compiled_for(specialisation: Specialisation, arch: str, extras: Extras = PLAIN) -> Compiled:
    """The kernel for a target, compiled once in this process, whoever asks for it first."""
    key = (arch, extras)
    if key not in specialisation.programs:
        from phalanx.runtime.compiled import LossOfPerformance, compile_function

        target = arch_of(arch)
        try:
            made = compile_function(specialisation.prepared_for(target), target, extras)
        except LossOfPerformance:
            if not specialisation.calm_down(target):
                raise
            made = compile_function(specialisation.prepared_for(target), target, extras)
        specialisation.programs[key] = made
    return specialisation.programs[key]


def compile(
    bound: BoundLaunch, *args: Any, arch: str = "sm_90a", watchdog: bool | None = None, pipelined: bool = True,
    line_info: bool | None = None, **constants: Any,
) -> Compiled:
    """Compiles a kernel without running it; arguments may be `px.spec(shape, dtype)` instead of data.

    Anyone may call it, outside kernels; needs no GPU. Targets: sm_90a; sm_100a, sm_103a, sm_107a, sm_110a and their `f`
    forms; sm_120a, sm_121a. `pipelined=False` leaves loops over `px.pipelined` as they are written. With
    `line_info=True` the text has `#line`, and profilers show the lines of the kernel; None leaves it to the environment
    variable `PHALANX_LINE_INFO`. Example::

        made = px.compile(copy[64], px.spec((4096, 4096), px.f32), px.spec((4096, 4096), px.f32), arch="sm_90a")
        print(made.source)
    """
    if not isinstance(bound, BoundLaunch):
        raise Error(
            "px.compile takes a kernel with its grid",
            location=caller_location(),
            remedy="write px.compile(kernel[grid], *arguments)",
        )
    tell_launch(bound, args, constants)
    kernel = bound.kernel
    with debugging(kernel):
        arguments = read_arguments(kernel, args)
        if line_info is not None and not isinstance(line_info, bool):
            raise Error(f"line_info={line_info!r}", location=caller_location(), remedy="it is True, False or None")
        extras = wanted_extras(kernel, watchdog, line_info)
        ahead = require_pipelined(pipelined)
        choice = choice_of(
            kernel, bound.grid, arguments, kernel.bind_constants(constants), arch_of(arch),
            lambda candidate: compiled_for(candidate if ahead else candidate.plain, arch, extras),
        )
        if not leaves_grid(bound.grid):
            normalise_grid(kernel, bound.grid, resolved_constants(kernel, arguments, choice.constants))
        specialisation = specialise(kernel, arguments, choice.constants)
        specialisation = specialisation if ahead else specialisation.plain
        if leaves_grid(bound.grid):
            specialisation.fitting(bound.grid, arguments, numbers=False)
        made = compiled_for(specialisation, arch, extras)
        return made if choice.note is None else replace(made, notes=(str(choice.note), *made.notes))
