"""Calling conventions of other packages around an exported function, in a shared library with the machine code inside."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.errors import Error, extra_of_ours, pip_install
from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.folder import ExportFolder
from phalanx.runtime.exporting.hub import write_hub
from phalanx.runtime.exporting.jax_ffi import jax_module, jax_source
from phalanx.runtime.exporting.shared_library import build_library
from phalanx.runtime.exporting.tvm_ffi import tvm_ffi_source

TVM_FFI, JAX, HUB = "tvm-ffi", "jax", "hub"
INTERFACES = (TVM_FFI, JAX, HUB)


def require_interfaces(asked: Sequence[str]) -> tuple[str, ...]:
    """The interfaces that a user asks for; the hub's folders hold a library for tvm-ffi."""
    given = (asked,) if isinstance(asked, str) else tuple(asked)
    wrong = [each for each in given if each not in INTERFACES]
    if wrong:
        raise Error(f"px.export has no interface {wrong[0]!r}", remedy=f"it has {', '.join(map(repr, INTERFACES))}")
    return tuple(each for each in INTERFACES if each in given or (each == TVM_FFI and HUB in given))


def write_interfaces(folder: Path, made: CFunction, asked: tuple[str, ...], defines: Sequence[str] = ()) -> list[str]:
    """Writes the C around the function, builds NAME.so of all of it, and gives the names of the files."""
    name, place = made.name, ExportFolder(folder)
    written: list[str] = []
    sources, includes, libraries = [f"{name}.c", f"{name}_code.c"], [], list(defines)
    if TVM_FFI in asked:
        info = _module("tvm_ffi.libinfo", TVM_FFI, "apache-tvm-ffi")
        written.append(place.write(f"{name}_tvm_ffi.c", tvm_ffi_source(made)))
        includes += [str(info.find_include_path()), str(info.find_dlpack_include_path())]
        libraries.append(str(info.find_libtvm_ffi()))
    if JAX in asked:
        ffi = _module("jax.ffi", JAX, "jax")
        written.append(place.write(f"{name}_jax.c", jax_source(made)))
        written.append(place.write(f"{name}_jax.py", jax_module(made)))
        includes.append(str(ffi.include_dir()))
    sources += [file for file in written if file.endswith(".c")]
    place.claim([f"{name}.so"])
    written.append(place.record(build_library(folder, name, sources, includes, libraries)))
    if HUB in asked:
        written += write_hub(place, made)
    return written


def _module(name: str, extra: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Error(
            f"px.export for {extra} needs the package {package}, whose headers it is built with",
            remedy=pip_install(extra_of_ours(extra)),
        ) from None
