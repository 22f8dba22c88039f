"""`kernel[grid](...)`: NumPy arguments run in the simulator, CUDA arrays on their GPU; and `px.compile`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phalanx.errors import Error, caller_location, internal_error, wants_traceback
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch, arch_of
from phalanx.ir.core import Function
from phalanx.language.kernel import Kernel
from phalanx.runtime.device.arrays import call_key
from phalanx.runtime.launch.specialise import (
    Argument,
    Spec,
    Specialisation,
    constants_key,
    normalise_grid,
    read_arguments,
    settled_constants,
    specialise,
)
from phalanx.runtime.launch.targets import require_target, split_target

if TYPE_CHECKING:
    from phalanx.runtime.compiled import Compiled


class FastLaunch:
    """A GPU launch of a kernel with given constants: tried before anything is looked at."""

    __slots__ = ("captured", "cluster", "constants", "given", "kinds", "launcher", "none_at", "specialisation")

    def __init__(
        self, specialisation: Specialisation, launcher: Any, none_at: tuple[int, ...], given: dict[str, Any]
    ) -> None:
        self.specialisation = specialisation
        self.launcher = launcher
        self.none_at = none_at
        self.kinds = tuple(map(type, given.values()))
        self.given = constants_key(given) if {float, tuple} & set(self.kinds) else None
        self.cluster = specialisation.reading.function.cluster
        self.captured = specialisation.reading.captured
        self.constants = specialisation.constants


class FastLaunches:
    """Those of a kernel with given constants: the last one, and those of geometries of arguments. For any thread.

    A geometry that comes a second time has a launcher of its own; those that come once take turns with one.
    """

    __slots__ = ("by_geometry", "last")

    def __init__(self) -> None:
        self.last: FastLaunch | None = None
        self.by_geometry: dict[Any, FastLaunch | None] = {}

    def find(self, args: tuple[Any, ...]) -> FastLaunch | None:
        """That of the arguments' geometry, unless it was the last one; None for what is no argument of a kernel."""
        try:
            found = self.by_geometry.get(call_key(args)[0])
        except Error:
            return None
        return None if found is self.last else found

    def add(self, geometry: Any, fast: FastLaunch, *, own: bool) -> None:
        if len(self.by_geometry) >= GEOMETRIES and geometry not in self.by_geometry:
            self.by_geometry = {}
        self.by_geometry[geometry] = fast if own else None
        self.last = fast


_FAST: dict[tuple[Any, ...], FastLaunches] = {}
"""By kernel and constants."""
GEOMETRIES = 128
"""Kept of each: batches of a model in use come in many sizes. One more, and they are forgotten."""


@frozen
class Recorded:
    """A launch on a GPU: `values` are its arguments but for those that are None."""

    specialisation: Specialisation
    launcher: Any
    grid: tuple[int, int, int]
    values: list[Any]


@dataclass
class Record:
    """What one thread launches. `refused`: some of it was no plain launch on a GPU, which a list can't say."""

    thread: int = field(default_factory=threading.get_ident)
    launches: list[Recorded] = field(default_factory=list)
    refused: bool = False


RECORDS: list[Record] = []


@contextmanager
def recording() -> Iterator[Record]:
    """Collects the launches of this thread. While anyone records, every launch goes the whole way."""
    record = Record()
    RECORDS.append(record)
    try:
        yield record
    finally:
        RECORDS.remove(record)


def take_down(launch: Recorded | None) -> None:
    """Adds a launch, or one that no record can hold, to the records of this thread."""
    for record in RECORDS:
        if record.thread == threading.get_ident():
            if launch is None:
                record.refused = True
            else:
                record.launches.append(launch)


class BoundLaunch:
    """A kernel with its grid, ready to be called with arguments."""

    __slots__ = ("grid", "kernel", "last", "plain_grid")

    def __init__(self, kernel: Kernel, grid: Any) -> None:
        self.kernel = kernel
        self.grid = grid
        self.last: Any = None  # the launcher of the last plain launch: no constants given, none captured, no None
        plain = (grid,) if type(grid) is int else grid
        is_plain = type(plain) is tuple and 1 <= len(plain) <= 3 and all(type(n) is int for n in plain)
        self.plain_grid: tuple[int, int, int] | None = (*plain, 1, 1)[:3] if is_plain else None

    def __call__(self, *args: Any, **constants: Any) -> None:
        if RECORDS:
            self.launch(args, constants)
            return
        try:
            if self.last is not None and not constants and self.last(self.plain_grid, args):
                return
            if _FAST:
                key = (self.kernel, *constants.items()) if constants else (self.kernel,)
                try:
                    known = _FAST.get(key)
                except TypeError:
                    known = None  # an unhashable constant: refused below, with a message
                if known is not None:
                    if known.last is not None and self.try_fast(known.last, args, constants):
                        return
                    fast = known.find(args)
                    if fast is not None and self.try_fast(fast, args, constants):
                        known.last = fast
                        return
        except Error:
            with debugging(self.kernel):
                raise
        self.launch(args, constants)

    def try_fast(self, fast: FastLaunch, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        for value, kind in zip(given.values(), fast.kinds):  # 1, 1.0 and True find the same entry
            if type(value) is not kind:
                return False
        if fast.given is not None and constants_key(given) != fast.given:
            return False
        grid = self.plain_grid
        if grid is None:
            grid = normalise_grid(self.kernel, self.grid, fast.constants)
        elif not is_launchable(grid, fast.cluster):
            return False
        if fast.none_at:
            if any(n >= len(args) or args[n] is not None for n in fast.none_at):
                return False
            args = tuple(a for n, a in enumerate(args) if n not in fast.none_at)
        if fast.captured and not fast.specialisation.is_current:
            return False
        return 0 not in grid and fast.launcher.try_launch(grid, args)

    def launch(self, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """The whole way: types, specialisation, simulator or GPU."""
        kernel = self.kernel
        with debugging(kernel):
            named, arch = split_target(kernel, given)
            constants = kernel.bind_constants(named)
            arguments = read_arguments(kernel, args)
            grid = normalise_grid(kernel, self.grid, settled_constants(kernel, arguments, constants))
            ordinal = device_of(kernel, arguments)
            specialisation = specialise(kernel, arguments, constants)
            values = [a.value for a in arguments if a.type is not None]
            if ordinal is None:
                take_down(None)
                run_simulated(specialisation, grid, values, arch)
                return
            if arch is not None:
                require_device_arch(ordinal, arch)
            launcher, compiled = load_launcher(specialisation, ordinal)
            if 0 in grid:
                take_down(None)
                return
            if compiled.signature.debug:
                take_down(None)
                from phalanx.runtime.launch.watchdog import run_watched

                run_watched(launcher, compiled, grid, values, ordinal)
                return
            key = (kernel, *given.items())
            known = _FAST.setdefault(key, FastLaunches())
            geometry = call_key(args)[0]
            again = geometry in known.by_geometry
            if again:
                launcher = launcher.fresh()
            launcher.launch(grid, values)
            take_down(Recorded(specialisation, launcher, grid, values))
            none_at = tuple(n for n, a in enumerate(arguments) if a.type is None)
            if not (given or none_at or specialisation.reading.captured) and self.plain_grid is not None:
                self.last = launcher.try_launch  # this grid was launched, so it is a good one
            known.add(geometry, FastLaunch(specialisation, launcher, none_at, given), own=again)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process binds the grid anew; what was launched here stays here."""
        return BoundLaunch, (self.kernel, self.grid)

    def __repr__(self) -> str:
        return f"<{self.kernel.name}[{self.grid}]>"


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
            error.at(self.kernel.location)
        if wants_traceback():
            return
        if not isinstance(error, Error):
            error = internal_error(error, self.kernel.location)
        error.__suppress_context__ = True
        raise error.with_traceback(None)


def require_data(kernel: Kernel, arguments: list[Argument]) -> list[Argument]:
    """The arguments of a run: none of them only described."""
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
    specialisation: Specialisation, grid: tuple[int, int, int], values: list[Any], arch: Arch | None = None
) -> None:
    """Runs a kernel in the simulator, as it is prepared for a target."""
    from phalanx.runtime.device.arrays import describe as describe_array
    from phalanx.runtime.device.arrays import to_host
    from phalanx.sim.run import simulate

    if 0 in grid:
        return
    host = [to_host(v) if describe_array(v) is not None else v for v in values]
    simulate(function_for(specialisation, arch), grid, host)


def wants_watchdog(kernel: Kernel) -> bool:
    if kernel.watchdog is not None:
        return kernel.watchdog
    return os.environ.get("PHALANX_WATCHDOG", "0") not in ("", "0")


def load_launcher(specialisation: Specialisation, ordinal: int) -> tuple[Any, Compiled]:
    """The kernel on a device, compiled for it."""
    watchdog = wants_watchdog(specialisation.kernel)
    key = (ordinal, watchdog)
    found = specialisation.launchers.get(key)
    if found is None:
        from phalanx.runtime.device.driver import get_driver

        compiled = compiled_for(specialisation, get_driver().device(ordinal).arch, watchdog)
        launcher = compiled.load(ordinal)
        found = specialisation.launchers[key] = (launcher, compiled)
    return found


def compiled_for(specialisation: Specialisation, arch: str, watchdog: bool) -> Compiled:
    """The kernel for a target, compiled once in this process, whoever asks for it first."""
    key = (arch, watchdog)
    if key not in specialisation.programs:
        from phalanx.runtime.compiled import compile_function

        target = arch_of(arch)
        specialisation.programs[key] = compile_function(specialisation.prepared_for(target), target, watchdog=watchdog)
    return specialisation.programs[key]


def compile(
    bound: BoundLaunch, *args: Any, arch: str = "sm_90a", watchdog: bool | None = None, **constants: Any
) -> Compiled:
    """Compiles a kernel without running it; arguments may be `px.spec(shape, dtype)` instead of data.

    Anyone may call it, outside kernels; needs no GPU. Targets: sm_90a, sm_100a, sm_120a. Example::

        made = px.compile(copy[64], px.spec((4096, 4096), px.f32), px.spec((4096, 4096), px.f32), arch="sm_90a")
        print(made.source)
    """
    if not isinstance(bound, BoundLaunch):
        raise Error(
            "px.compile takes a kernel with its grid",
            location=caller_location(),
            remedy="write px.compile(kernel[grid], *arguments)",
        )
    kernel = bound.kernel
    with debugging(kernel):
        bound_constants = kernel.bind_constants(constants)
        arguments = read_arguments(kernel, args)
        normalise_grid(kernel, bound.grid, settled_constants(kernel, arguments, bound_constants))
        specialisation = specialise(kernel, arguments, bound_constants)
        return compiled_for(specialisation, arch, wants_watchdog(kernel) if watchdog is None else watchdog)
