"""Compilers of the host harness: which one, with which flags, and where what they make is kept.

`PHALANX_TEST_CXX` names the compiler, else it is the first of g++, clang++ and c++ that is there; with none every test that
needs one is skipped. `PHALANX_TEST_RUNNER` is what programs are started with, such as "qemu-x86_64 -L /usr/x86_64-linux-gnu"
for a compiler of another architecture: kernels then run as programs of their own and not inside of Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

MACHINE = Path(__file__).parents[1] / "host"
OWN_PLACES = "-fstack-reuse=none"
"""Each variable of a text has a place in memory of its own, as it has registers of its own in PTX: a product in flight reads
an operand when it is waited for, behind the block that declares it. clang knows no such flag, and does so at -O0."""
PLAIN = ("-fwrapv",)
SANITIZED = (
    "-g1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer",
    "-fno-sanitize-address-use-after-scope",  # by products in flight, as on the device
)
UNSET = "-ftrivial-auto-var-init=pattern"
"""Variables begin as bytes that are neither 0 nor 1: the sanitizers then report a bool that is read and was never set,
whatever lay in its memory before. Compilers older than g++ 12 and clang 8 do not know the flag."""
ALWAYS = ("-std=c++17", "-w", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE")
"""CUDA's compiler reads memory as other types than it was written as; the text relies on it."""


HEADER = "machine.h"
LINKING = ("-shared",)
"""Flags that say nothing of how a text is read."""
MOST_KEPT = 1 << 30
"""Bytes of compiled kernels that are kept."""
IN_USE = 1800
"""Seconds."""
_builds = itertools.count()


class HostFailure(AssertionError):
    """The kernel could not run here, or its threads wait for each other forever."""


class NoCompiler(HostFailure):
    """There is none: a test that comes here without a mark is skipped from there on (`conftest.py`)."""


def found(name: str | None = None) -> str | None:
    """The compiler's path."""
    chosen = name or os.environ.get("PHALANX_TEST_CXX")
    names = (chosen,) if chosen else ("g++", "clang++", "c++")
    return next(filter(None, map(shutil.which, names)), None)


COMPILER = found()
RUNNER = shlex.split(os.environ.get("PHALANX_TEST_RUNNER", ""))
MISSING = "no C++ compiler on this machine"


@functools.cache
def folder() -> Path:
    """Where compiled kernels are kept between runs: one folder per user, or a new one if that is someone else's."""
    place = Path(tempfile.gettempdir()) / f"phalanx-host-tests-{os.getuid()}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        about = place.lstat()
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and os.access(place, os.W_OK | os.X_OK):
            return place
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="phalanx-host-tests-"))


def make_room(place: Path, most: int = MOST_KEPT) -> None:
    """Removes what was used longest ago, beyond `most` bytes; nothing of the last minutes, which others may be using."""
    kept = []
    for entry in os.scandir(place):
        with contextlib.suppress(OSError):  # gone meanwhile
            about = entry.stat(follow_symlinks=False)
            kept.append((about.st_mtime, about.st_size, entry.path))
    total = sum(size for _, size, _ in kept)
    for used, size, path in sorted(kept):
        if total <= most or used > time.time() - IN_USE:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def made(source: str | Path, suffix: str, flags: tuple[str, ...], compiler: str | None, *objects: Path) -> Path:
    """The file that a text is compiled to. The same text is compiled once, by whoever comes first."""
    chosen = found(compiler) if compiler else COMPILER
    if chosen is None:
        raise NoCompiler(MISSING)
    text = source.read_text() if isinstance(source, Path) else source
    about = os.stat(chosen)
    command = [chosen, *ALWAYS, *flags, f"-I{MACHINE}"]
    parts = [*command, str(about.st_mtime_ns), str(about.st_size), *map(str, objects), _header(), text]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    result = folder() / f"{key}{suffix}"
    if next(_builds) % 64 == 0:
        make_room(folder())
    with contextlib.suppress(OSError):
        os.utime(result)
        return result
    ours = folder() / f"{key}.{os.getpid()}"
    (cpp := ours.with_suffix(f"{ours.suffix}.cpp")).write_text(text)
    output = ours.with_suffix(f"{ours.suffix}{suffix}")
    command += ["-o", str(output), str(cpp), *map(str, objects)]
    for way in ([*command, *_read_ahead(text, flags, compiler)], command):  # some may not take what they have read
        run = subprocess.run(way, capture_output=True, text=True, check=False)
        if not run.returncode:
            break
    cpp.unlink()
    if run.returncode:
        raise HostFailure(run.stderr[:4000])
    output.rename(result)  # at once: another process may build the same text
    return result


def _read_ahead(text: str, flags: tuple[str, ...], compiler: str | None) -> tuple[str, ...]:
    """How the compiler finds `machine.h` as it has read it before: reading takes three quarters of the time of a small
    kernel. What was read with some flags serves texts with the same ones alone."""
    if not text.startswith(f'#include "{HEADER}"'):
        return ()
    reading = ("-x", "c++-header", *(flag for flag in flags if flag not in LINKING))
    read = made(MACHINE / HEADER, ".h.gch", reading, compiler)
    return ("-include", str(read.with_suffix("")))  # compilers look for this name and ".gch" first


@functools.cache
def _header() -> str:
    return "\n".join(path.read_text() for path in sorted(MACHINE.glob("*.h")))


def _machine_parts(flags: tuple[str, ...], compiler: str | None) -> list[Path]:
    """The files of the machine that `machine.cpp` is linked with."""
    names = ("tensor_memory", "tensor_core")
    return [made(MACHINE / f"{name}.cpp", ".o", ("-O1", "-c", *flags), compiler) for name in names]


@functools.cache
def machine() -> ctypes.CDLL:
    """The machine that kernels in libraries run on: one for all of them."""
    parts = _machine_parts(("-fPIC", *PLAIN), None)
    library = made(MACHINE / "machine.cpp", ".so", ("-O1", "-shared", "-fPIC", *PLAIN), None, *parts)
    loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    loaded.px_told.restype = ctypes.c_char_p
    loaded.px_counted.restype = ctypes.c_longlong
    return loaded


def counted(instruction: str) -> int:
    """How often the last launch inside this process ran an instruction, such as "tcgen05.mma": once per thread that issues
    it, once per warp where a whole warp does."""
    return int(machine().px_counted(instruction.encode()))


@functools.cache
def library(source: str) -> ctypes.CDLL:
    """The text as a loaded library."""
    machine()
    return ctypes.CDLL(str(made(source, ".so", ("-O0", "-shared", "-fPIC", *PLAIN, *known(OWN_PLACES)), None)))


@functools.cache
def known(flag: str, compiler: str | None = None) -> tuple[str, ...]:
    """The flag, where the compiler knows it."""
    try:
        made("int main() {}", ".o", ("-c", "-Werror", flag), compiler)
    except HostFailure:
        return ()
    return (flag,)


def program(source: str, sanitize: bool, compiler: str | None = None) -> Path:
    """The text with the machine as a program."""
    flags = (*SANITIZED, *known(UNSET, compiler)) if sanitize else PLAIN
    flags_of_machine = ("-DPX_PROGRAM", *flags)
    running = made(MACHINE / "machine.cpp", ".o", ("-O1", "-c", *flags_of_machine), compiler)
    own = known(OWN_PLACES, compiler)
    return made(source, ".program", ("-O0", *flags, *own), compiler, running, *_machine_parts(flags_of_machine, compiler))


@functools.cache
def why_not_sanitized() -> str | None:
    """Why programs can't run under the sanitizers here, or None where they can."""
    if COMPILER is None:
        return MISSING
    if RUNNER:
        return f"the address sanitizer does not run under {RUNNER[0]}"
    try:
        program = made("int main() {}", ".program", ("-O0", *SANITIZED), None)
        tried = subprocess.run([program], capture_output=True, check=False)
    except HostFailure:
        return f"{COMPILER} comes without its sanitizers"
    return "programs with sanitizers do not run here" if tried.returncode else None
