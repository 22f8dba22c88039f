"""`px.export`: a kernel as files that run without Phalanx."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.language.kernel import Kernel
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.c_source import cmake, code, header, source
from phalanx.runtime.exporting.folder import LISTING, ExportFolder
from phalanx.runtime.exporting.function_export import function_export
from phalanx.runtime.exporting.interfaces import require_interfaces, write_interfaces
from phalanx.runtime.exporting.kernel_export import kernel_export
from phalanx.runtime.exporting.manifest import LOADER, cubin_name, manifest
from phalanx.runtime.exporting.parameters import C_WORDS
from phalanx.runtime.launch.dispatch import BoundLaunch, debugging


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
      strides, scalars, and a workspace where it needs one, checks them, encodes TMA descriptors, and launches through the
      driver API; C11, libcuda alone;
    - `NAME_ARCH.cubin` for every target in `arch`, and `NAME.json`, which says all of it;
    - `NAME.py`, a loader that needs the package cuda-bindings alone.

    A function, of the library or any other, is run on the specs for the `sizes` of an example, which decide how its
    products are cut, and for other sizes as far as it goes other ways then; what is written goes all these ways, and gives
    an error code where it was not. Its options come after the specs as in a call. It gets arrays that have no elements:
    it may look at shapes, make views and results, and call kernels and `px.kernels`. The C function takes pointers for its
    results.

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
    if isinstance(bound, BoundLaunch):
        with debugging(bound.kernel):
            made = kernel_export(bound, args, constants, archs, require_name(name or bound.kernel.name))
    elif callable(bound) and not isinstance(bound, Kernel):
        called = require_name(name or str(getattr(bound, "__name__", "")))
        made = function_export(bound, args, constants, archs, called, sizes or {})
    else:
        raise Error(
            "px.export takes a kernel with its grid, or a function",
            location=caller_location(),
            remedy="write px.export(kernel[grid], *arguments, to=folder)",
        )
    folder = Path(to)
    files = write_files(made, folder)
    more = write_interfaces(folder, made, around) if around else []
    names = (*files, *more, LISTING)
    return Exported(folder, made.name, names, tuple(program for each in made.programs for program in each))


def write_files(made: CFunction, folder: Path) -> list[str]:
    """Writes what an export consists of into a folder, and gives the names of the files.

    All are written or, where a file of such a name is somebody else's, none.
    """
    files: dict[str, str | bytes] = {
        f"{made.name}.h": header(made), f"{made.name}.c": source(made), f"{made.name}_code.c": code(made),
        "CMakeLists.txt": cmake(made.name), f"{made.name}.json": manifest(made),
        f"{made.name}.py": LOADER.read_text(encoding="utf-8"),
    }  # fmt: skip
    for number, each in enumerate(made.programs):
        files |= {cubin_name(made, number, program.arch): program.cubin for program in each}
    place = ExportFolder(folder)
    place.claim(files)
    return [place.write(name, content) for name, content in files.items()]


def require_name(name: str) -> str:
    """A name that a C function can have."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in C_WORDS:
        raise Error(f"{name!r} can't be the name of a C function", remedy="give another one: px.export(..., name=...)")
    return name
