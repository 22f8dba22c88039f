"""A CUDA driver in C that checks and prints what it is asked for, and the programs that are linked with it.

The cuda.h is the package's own. Every call is printed as a line of JSON.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from phalanx.runtime.exporting.c_parts import c_text

COMPILER = shutil.which("gcc") or shutil.which("cc")
MISSING = "no C compiler on PATH"
HERE = Path(__file__).resolve().parent / "stub"
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-D_GNU_SOURCE"]


def known(codes: dict[str, Any]) -> str:
    """C that tells the stub which machine code there is, by the names of its arrays, and what its kernels take."""
    declared = "".join(f"extern const unsigned char {name}[];\n" for name in codes)
    lines = []
    for number, (name, signature) in enumerate(codes.items()):
        sizes = [slot.nbytes for slot in signature.slots] + [128] * len(signature.tensor_maps)
        lines.append(f"  stub_programs[{number}].code = {name};\n  stub_programs[{number}].parameters = {len(sizes)};\n")
        lines += [f"  stub_programs[{number}].bytes[{n}] = {size};\n" for n, size in enumerate(sizes)]
    return f"{declared}static void stub_know(void) {{\n{''.join(lines)}  stub_count = {len(codes)};\n}}\n\n"


def stub_library(folder: Path) -> Path:
    """The stub as libcuda.so.1, for processes that load a shared library."""
    assert COMPILER is not None
    (folder / "cuda.h").write_text(c_text("cuda.h"))
    made, files = folder / "libcuda.so.1", [HERE / "driver.c", HERE / "modules.c"]
    built = subprocess.run(
        [COMPILER, *FLAGS, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", f"-I{HERE}", f"-I{folder}", *map(str, files),
         "-ldl", "-o", str(made)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return made


def run(folder: Path, name: str, main: str, *, sanitize: bool = True) -> list[dict[str, Any]]:
    """Compiles an exported function with a program that calls it, runs it, and reads the driver's calls."""
    assert COMPILER is not None
    (folder / "main.c").write_text(f'#include "{name}.h"\n#include "stub.h"\n#include <stdio.h>\n\n{main}')
    (folder / "cuda.h").write_text(c_text("cuda.h"))
    program = folder / "program"
    checks = ["-fsanitize=undefined", "-fno-sanitize-recover=all"] if sanitize else []
    files = [folder / "main.c", folder / f"{name}.c", folder / f"{name}_code.c", HERE / "driver.c"]
    built = subprocess.run(
        [COMPILER, *FLAGS, *checks, f"-I{HERE}", f"-I{folder}", *map(str, files), "-lpthread", "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]
