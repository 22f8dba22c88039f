"""CUDA C++ text to a cubin with NVRTC: needs neither a GPU nor a toolkit, only the PyPI packages.

`cuda.bindings` is imported on the first compile (about 0.1 s); a small kernel then takes 0.03 to 0.1 s. What
keeps it quick: no headers, and `--minimal`, which leaves out NVRTC's built-in texture, surface and
device-runtime declarations (`printf`, atomics, vector types and math functions stay).
"""

from __future__ import annotations

import functools
import platform
import re
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.frozen import frozen

if TYPE_CHECKING:
    from phalanx.cuda.assembly.in_flight import Violation

# ptxas says "Potential Performance Loss" with messages of this family, then compiles something slower than what was
# written: setmaxnreg below what the code needs (7507) or ignored (7508); wgmma serialised by a call (7510), for lack of
# registers (7512), by an early use of the accumulator (7514), a wait injected (7517), divergent control flow (7519) ...
LOST_PERFORMANCE = "C75"

BASE_OPTIONS = (
    "--std=c++17",
    "--minimal",
    "--ptxas-options=-v",
    "--no-cache",  # of the driver's own: a hit there has no log, so neither resources nor warnings
    "--diag-suppress=177,550",  # unused variables: generated text names a value whether it is used or not
)


@frozen
class Resources:
    """What ptxas reports of one kernel. `shared_bytes` is the static part only."""

    function: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    barriers: int


@frozen
class Image:
    """A compiled text: machine code, the PTX it came from, the compiler's log, what each kernel uses."""

    cubin: bytes
    ptx: str
    log: str
    resources: tuple[Resources, ...]

    def resources_of(self, function: str) -> Resources:
        """The resources of one kernel of the image, by its (extern "C") name."""
        for resources in self.resources:
            if resources.function == function:
                return resources
        raise KeyError(f"no kernel named {function!r} in this image")


class CompileFailure(Exception):
    """NVRTC or ptxas refused the text, or compiled it with a performance loss that must not pass unseen.

    `log` is the whole log, with the PTX line added under each ptxas error. `warnings` holds the texts of the
    performance losses ("C7514 ..."); it is empty when the text did not compile at all. `ptx` is what it was compiled
    to, as far as that went; `image` is what came out with a performance loss.
    """

    def __init__(
        self, log: str, warnings: tuple[str, ...] = (), ptx: str = "", image: Image | None = None
    ) -> None:
        super().__init__("\n".join(warnings) if warnings else log)
        self.log = log
        self.warnings = warnings
        self.ptx = ptx
        self.image = image


class TouchedInFlight(Exception):
    """The text compiles to PTX that touches registers of work in flight: what comes out would be left to chance."""

    def __init__(self, violations: list[Violation], ptx: str) -> None:
        super().__init__("\n".join(map(str, violations)))
        self.violations = violations
        self.ptx = ptx

    def told(self, most: int) -> list[Violation]:
        """At most `most` violations: the first of each problem, then the others."""
        first = {violation.problem: violation for violation in reversed(self.violations)}
        kept = list(reversed(first.values()))
        return [*kept, *(violation for violation in self.violations if violation not in kept)][:most]


SYSTEMS = (("linux", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64"))
"""The systems for which NVIDIA publishes NVRTC, by `sys.platform` and `platform.machine()`: pyproject.toml asks for it
there alone. On all others kernels are read, simulated and checked."""


def has_packages() -> bool:
    """Whether NVIDIA publishes NVRTC for the system that this is."""
    return (sys.platform, platform.machine()) in SYSTEMS


class CompilerMissing(Exception):
    """NVRTC can't be loaded here; the text says why."""


@functools.cache
def _nvrtc() -> Any:
    """The binding module, or CompilerMissing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except Exception as cause:  # ImportError, or what the binding raises when the library is not found
        if not has_packages():
            system = f"{sys.platform} {platform.machine()}"
            raise CompilerMissing(f"NVIDIA publishes none for {system}") from cause
        raise CompilerMissing(f"NVRTC can't be loaded: {cause}") from cause
    return nvrtc


@functools.cache
def nvrtc_version() -> str:
    """NVRTC's version, such as "13.4", as the library says; loads it."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def nvrtc_capabilities() -> tuple[int, ...]:
    """The compute capabilities that this NVRTC compiles for, such as 90 and 100, as the library says; loads it."""
    nvrtc = _nvrtc()
    status, *found = nvrtc.nvrtcGetSupportedArchs()
    return tuple(found[-1]) if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else ()


def nvrtc_identity() -> str:
    """The version of the NVRTC that compiles here, as part of every cache key; `CompilerMissing` if there is none.

    `cuda.bindings` takes the library of a wheel before any other on the machine, unless one is loaded already. So where
    a single wheel has it, the wheel's version and the library's size say which it is, and nothing is loaded: that would
    take longer than finding a kernel in the cache. In all other cases the library is loaded and asked.
    """
    folders = package_folders()
    wheel = wheel_in(folders)
    if wheel is None or _is_another_loaded(libraries_in(folders)[0]):
        return nvrtc_version()
    return wheel


@functools.cache
def wheel_in(folders: tuple[str, ...]) -> str | None:
    """Version and size of NVRTC's library, if the packages in these folders hold exactly one."""
    libraries = libraries_in(folders)
    names = [path.name for folder in folders for path in Path(folder).glob("nvidia_cuda_nvrtc*.dist-info")]
    if len(libraries) != 1 or len(names) != 1:
        return None
    version = _WHEEL.fullmatch(names[0])
    return f"{version[1]}, {libraries[0].stat().st_size} bytes" if version else None


@functools.cache
def libraries_in(folders: tuple[str, ...]) -> tuple[Path, ...]:
    """NVRTC's libraries that the packages in these folders hold."""
    return tuple(path for folder in folders for path in Path(folder).glob("nvidia/*/lib/libnvrtc.so.*"))


_WHEEL = re.compile(r"nvidia_cuda_nvrtc(?:_cu\d+)?-([\d.]+)\.dist-info")


def package_folders() -> tuple[str, ...]:
    """Where packages are installed, as `cuda.pathfinder` looks for them: what else is on `sys.path` does not count."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return tuple(dict.fromkeys((*site.getsitepackages(), *user)))


def _is_another_loaded(library: Path) -> bool:
    """Whether this process has an NVRTC, through us or through another library, that is not this file as it lies there."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # nobody knows: it will be asked
    loaded = {line[line.index("/") :] for line in maps.splitlines() if "/libnvrtc.so" in line}
    return any(Path(path).resolve() != library.resolve() for path in loaded)  # "PATH (deleted)" if it was replaced


def compile_cuda(source: str, arch: str, *, name: str = "kernel.cu", options: tuple[str, ...] = ()) -> Image:
    """Compile CUDA C++ text for one architecture; raises `CompileFailure`, `TouchedInFlight` or `CompilerMissing`.

    Runs anywhere, thread-safe. `arch` is a real architecture ("sm_90a", "sm_100a"); `name` appears in
    diagnostics; `options` are added to `BASE_OPTIONS`. No include path is set: the text stands on its own.

        image = compile_cuda('extern "C" __global__ void k(int* p) { *p = 1; }', "sm_90a")
        image.resources_of("k").registers
    """
    from phalanx.cuda.assembly.in_flight import violations  # not where kernels come from the cache

    nvrtc = _nvrtc()
    flags = [text.encode() for text in (f"--gpu-architecture={arch}", *BASE_OPTIONS, *options)]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileFailure(f"nvrtcCreateProgram: {status.name}")
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileFailure(_with_ptx_lines(log, ptx) or status.name, ptx=ptx)
        cubin = _blob(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    touched = violations(ptx)
    if touched:
        raise TouchedInFlight(touched, ptx)
    image = Image(cubin, ptx, log, parse_resources(log))
    losses = performance_losses(log)
    if losses:
        raise CompileFailure(log, losses, ptx, image)
    return image


def _blob(size_of: Any, read: Any, program: Any) -> bytes:
    status, size = size_of(program)
    if status.value != 0 or size == 0:
        return b""
    data = bytes(size)  # the binding writes into this buffer
    read(program, data)
    return data


def _text(size_of: Any, read: Any, program: Any) -> str:
    return _blob(size_of, read, program).rstrip(b"\0").decode(errors="replace").strip()


_PTX_LINE = re.compile(r"ptx input, line (\d+);")


def _with_ptx_lines(log: str, ptx: str) -> str:
    """The log with the PTX line that each ptxas message names, since nobody else keeps that PTX."""
    lines = ptx.splitlines()
    result = []
    for text in log.splitlines():
        result.append(text)
        match = _PTX_LINE.search(text)
        if match and int(match[1]) <= len(lines):
            result.append(f"    ptx {match[1]}: {lines[int(match[1]) - 1].strip()}")
    return "\n".join(result)


def performance_losses(log: str) -> tuple[str, ...]:
    """The ptxas messages of a log that mean lost performance, each "C7514 text", without repetition."""
    found = (f"{code} {text.strip()}" for code, text in re.findall(r"\((C\d{4})\)\s*(.*)", log))
    return tuple(dict.fromkeys(text for text in found if text.startswith(LOST_PERFORMANCE)))


_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse_resources(log: str) -> tuple[Resources, ...]:
    """What `ptxas -v` says of each kernel, in the order of the log.

    Per kernel the log has "Compiling entry function", "Function properties for k", the frame line, "Used N
    registers". A device function that was not inlined has properties but no "Used" line.
    """
    kernels: list[Resources] = []
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if match := _PROPERTIES.search(line):
            name = match[1]
        elif match := _FRAME.search(line):
            frame = (int(match[1]), int(match[2]), int(match[3]))
        elif match := _USED.search(line):
            kernels.append(
                Resources(
                    function=name,
                    registers=int(match[1]),
                    spill_store_bytes=frame[1],
                    spill_load_bytes=frame[2],
                    stack_bytes=frame[0],
                    shared_bytes=_first_number(_SHARED, line),
                    barriers=_first_number(_BARRIERS, line),
                )
            )
    return tuple(kernels)


def _first_number(pattern: re.Pattern[str], line: str) -> int:
    match = pattern.search(line)
    return int(match[1]) if match else 0
