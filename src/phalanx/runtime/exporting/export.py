"""`px.export`: a kernel as files that run without Phalanx."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.language.kernel import Kernel, call_with_constants
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.exporting.c_source import Launch, cmake, code, header, source
from phalanx.runtime.exporting.function_export import function_export, write_function
from phalanx.runtime.exporting.function_source import FunctionExport
from phalanx.runtime.exporting.interface import interface_of
from phalanx.runtime.exporting.interfaces import require_interfaces, write_interfaces
from phalanx.runtime.exporting.manifest import LOADER, manifest
from phalanx.runtime.exporting.parameters import C_WORDS, named_sizes, parameters_of
from phalanx.runtime.exporting.plans import require_plain
from phalanx.runtime.exporting.sizes import Size, written
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, compiled_for, debugging
from phalanx.runtime.launch.specialise import Argument, read_arguments, resolved_constants, specialise


@frozen
class Exported:
    """What `px.export` wrote: `folder`, the `files` in it, the `name` of the C function, and what was `compiled`."""

    folder: Path
    name: str
    files: tuple[str, ...]
    compiled: tuple[Compiled, ...]

    def __str__(self) -> str:
        return f"{self.name} in {self.folder}: {', '.join(self.files)}"


def export(
    bound: Any, *args: Any, to: str | Path, arch: str | Sequence[str] = "sm_90a", name: str | None = None,
    sizes: dict[str, int] | None = None, interfaces: str | Sequence[str] = (), **constants: Any,
) -> Exported:
    """Writes a kernel, or a function that launches kernels, into a folder, ready for C or Python without Phalanx.

    Anyone may call it, outside kernels; needs no GPU. Arguments as for `px.compile`: arrays or `px.spec`, whose sizes may be
    names, ``px.spec(("m", 4096), px.bf16)``: these the C function takes. The grid is numbers, `px.auto`, or a function of
    constants and names, ``kernel[lambda m, BM: px.cdiv(m, BM)]``. The folder gets, for NAME (the kernel's unless given):

    - `NAME.h`, `NAME.c`, `NAME_code.c`, `CMakeLists.txt`: a function that takes a stream, sizes, device pointers with their
      strides and scalars, checks them, encodes TMA descriptors, and launches through the driver API; C11, libcuda alone;
    - `NAME_ARCH.cubin` for every target in `arch`, and `NAME.json`, which says all of it;
    - `NAME.py`, a loader that needs the package cuda-bindings alone.

    A function, of the library or any other, is run on the specs for the `sizes` of an example, which decide how its
    products are cut, and for other sizes as far as it goes other ways then; what is written goes all these ways, and gives
    an error code where it was not. Its options come after the specs as in a call. It gets arrays that have no elements:
    it may look at shapes, make views and results, and call kernels and `px.kernels`. The C function takes pointers for its
    results, and a workspace where it needs one.

    `interfaces` writes more around it, and a shared library `NAME.so` with all of it and the machine code inside: "tvm-ffi"
    its calling convention, "jax" a handler for `jax.ffi` with a file that registers it, "hub" folders of the kernels hub.

    Examples::

        px.export(px.kernels.softmax, px.spec(("rows", 4096), px.bf16), to="out", sizes={"rows": 8192}, scale=0.5)
        px.export(scale[lambda m: px.cdiv(m, 64)], px.spec(("m", 4096), px.f32), 2.0, to="out", arch=["sm_90a", "sm_100a"])
    """
    archs = (arch,) if isinstance(arch, str) else tuple(arch)
    if not archs:
        raise Error("px.export has no target", remedy='give one or more: px.export(..., arch="sm_90a")')
    around = require_interfaces(interfaces)
    files: dict[str, str | bytes]
    made: Launch | FunctionExport
    if isinstance(bound, BoundLaunch):
        with debugging(bound.kernel):
            made = launch = _launch(bound, args, archs, require_name(name or bound.kernel.name), constants)
        files = {
            f"{launch.name}.h": header(launch), f"{launch.name}.c": source(launch), f"{launch.name}_code.c": code(launch),
            "CMakeLists.txt": cmake(launch.name), f"{launch.name}.json": manifest(launch),
            f"{launch.name}.py": LOADER.read_text(),
            **{f"{launch.name}_{each.arch}.cubin": each.cubin for each in launch.programs},
        }  # fmt: skip
        called, compiled = launch.name, launch.programs
    elif callable(bound) and not isinstance(bound, Kernel):
        called = require_name(name or str(getattr(bound, "__name__", "")))
        made = function = function_export(bound, args, constants, archs, called, sizes or {})
        files = write_function(function, LOADER.read_text())
        compiled = tuple(program for each in function.programs for program in each)
    else:
        raise Error(
            "px.export takes a kernel with its grid, or a function",
            location=caller_location(),
            remedy="write px.export(kernel[grid], *arguments, to=folder)",
        )
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    more = write_interfaces(folder, interface_of(made), around) if around else []
    return Exported(folder, called, (*files, *more), compiled)


def require_name(name: str) -> str:
    """A name that a C function can have."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in C_WORDS:
        raise Error(f"{name!r} can't be the name of a C function", remedy="give another one: px.export(..., name=...)")
    return name


def _launch(
    bound: BoundLaunch, args: tuple[Any, ...], archs: tuple[str, ...], name: str, given: dict[str, Any]
) -> Launch:
    kernel = bound.kernel
    constants = kernel.bind_constants(given)
    arguments = read_arguments(kernel, args)
    specialisation = specialise(kernel, arguments, constants)
    programs = tuple(compiled_for(specialisation, each, watchdog=False) for each in archs)
    for made in programs:
        require_plain(kernel, made, programs[0])
    grid = _grid(bound, arguments, resolved_constants(kernel, arguments, constants))
    if grid is None:
        fitting = specialisation.fitting(bound.grid, arguments, numbers=False)
        if fitting.one_each:
            raise Error(
                f"kernel '{kernel.name}' has a cluster for every tile, whose number px.auto leaves open",
                location=kernel.location,
                remedy=f"give the grid as a function of the sizes: {kernel.name}[lambda m: ...]",
            )
    parameters = parameters_of(kernel, arguments, programs[0].signature, specialisation.watched)
    targets = ", ".join(archs)
    return Launch(name, parameters, grid, programs, f"{kernel.name} of {kernel.location.short}, for {targets}")


def _grid(bound: BoundLaunch, arguments: list[Argument], constants: dict[str, Any]) -> tuple[Size, Size, Size] | None:
    """The grid as expressions over the named sizes; None for px.auto."""
    kernel, grid = bound.kernel, bound.grid
    if leaves_grid(grid):
        return None
    if callable(grid):
        grid = call_with_constants(kernel, "the grid", grid, {**constants, **named_sizes(arguments)})
    axes = grid if isinstance(grid, tuple) else (grid,)
    try:
        x, y, z = (*(written(size) for size in axes), written(1), written(1))[:3]
    except TypeError:
        raise Error(
            f"the grid of kernel '{kernel.name}' is {grid!r}",
            location=kernel.location,
            remedy="a grid is an int, a tuple of up to three, or a function of constants and named sizes; it counts CTAs",
        ) from None
    return x, y, z
