"""An exported function as a shared library, built here: a C compiler is all that it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from phalanx.errors import Error
from phalanx.runtime.exporting.c_parts import c_text

VERSIONED = ("cuCtxPushCurrent", "cuCtxPopCurrent")
"""Functions that the driver's library has under a name with a version."""


def build_library(
    folder: Path, name: str, files: Sequence[str], includes: Sequence[str] = (), libraries: Sequence[str] = ()
) -> str:
    """Compiles files of an exported folder into NAME.so, which asks for libcuda.so.1 when it is loaded.

    It is linked with a library of that name that has the functions and nothing in them, so that no driver is needed here.
    """
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        raise Error(
            f"{name}.so can't be built: there is no C compiler on PATH",
            remedy="install gcc or clang, or build the C files of the folder elsewhere, as docs/export.md says",
        )
    with tempfile.TemporaryDirectory() as place:
        beside = Path(place)
        (beside / "cuda.h").write_text(c_text("cuda.h"), encoding="utf-8")
        names = re.findall(r"^CUresult (\w+)\(", c_text("cuda.h"), re.MULTILINE)
        names += [f"{each}_v2" for each in VERSIONED]
        empty, driver = beside / "empty.c", beside / "libcuda.so.1"
        empty.write_text("".join(f"void {each}(void);\nvoid {each}(void) {{}}\n" for each in names), encoding="utf-8")
        _compile([compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(empty), "-o", str(driver)], name)
        given = [f"-I{path}" for path in (place, str(folder), *includes)]
        sources = [str(folder / file) for file in files]
        _compile(
            [compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", *given, *sources, str(driver), *libraries,
             "-lpthread", "-o", str(folder / f"{name}.so")],
            name,
        )  # fmt: skip
    return f"{name}.so"


def _compile(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(f"{name}.so can't be built: {done.stderr.strip()}", remedy="see what the C compiler says")
