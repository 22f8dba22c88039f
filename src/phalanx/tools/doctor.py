"""`phalanx doctor`: what works on this machine, what does not, and what to install."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated

import typer

from phalanx.errors import DISTRIBUTION, extra_of_ours, pip_install
from phalanx.tools.output import CLEAN, FOUND, say

WORKS, ABSENT, BROKEN = "works", "absent", "broken"
"""What a line says: it works; it is not there and need not be; it should work and does not."""
OLDEST_PYTHON = (3, 11)
NEEDED_TO_COMPILE = ("nvidia-cuda-nvrtc>=13.0,<14", "cuda-bindings>=13.0,<14")
UNUSUAL = ("dev", "docs")
"""Extras for people who work on Phalanx itself."""


@dataclass(frozen=True)
class Line:
    """One thing that was looked at."""

    state: str
    what: str
    found: str
    remedy: str = ""

    def text(self, width: int) -> str:
        """The line as people read it; the remedy stands below."""
        first = f"{self.state:<6}  {self.what:<{width}}  {self.found}"
        return f"{first}\n{'':<6}  {'':<{width}}  -> {self.remedy}" if self.remedy else first


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as a JSON list.")] = False,
) -> None:
    """Says what works on this machine, what does not, and what to install.

    Packages and their versions, NVRTC and the targets that it knows, the driver, the GPU and its capability, a C++
    compiler, the cache; and a small kernel is simulated, checked, compiled and, where there is a GPU, launched. Exits
    with 0 where nothing is broken (a machine without a GPU is not), else with 1.
    """
    lines = examine()
    if as_json:
        say(json.dumps([asdict(line) for line in lines], indent=1))
    else:
        say(report(lines))
    raise typer.Exit(FOUND if any(line.state == BROKEN for line in lines) else CLEAN)


def report(lines: list[Line]) -> str:
    """All lines, and a last one that says what this machine is good for."""
    import phalanx as px

    width = max(len(line.what) for line in lines)
    body = "\n".join(line.text(width) for line in lines)
    return f"phalanx {px.__version__}\n\n{body}\n\n{verdict(lines)}"


def verdict(lines: list[Line]) -> str:
    """What kernels can do here."""
    state = {line.what: line.state for line in lines}
    able = [verb for what, verbs in ABILITIES.items() if state.get(what) == WORKS for verb in verbs]
    unable = [verb for what, verbs in ABILITIES.items() if state.get(what) != WORKS for verb in verbs]
    text = f"Kernels can be {joined(able)} here" if able else "Kernels can't be used here"
    return text + (f", not {joined(unable, 'or')}." if able and unable else ".")


ABILITIES = {"simulator": ("simulated", "checked"), "compiler": ("compiled",), "launch": ("run on a GPU",)}
"""The lines that decide what a machine is good for, and the words for it."""


def joined(words: list[str], last: str = "and") -> str:
    """A list in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def examine() -> list[Line]:
    """Looks at everything, in the order in which one thing needs another."""
    lines = [python(), *packages(), nvrtc(), *gpu(), cxx(), cache(), model()]
    return [*lines, *trials(lines)]


def python() -> Line:
    """Checks the Python interpreter."""
    found = f"{platform.python_version()}, {sys.platform} {platform.machine()}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Line(BROKEN, "Python", found, f"Phalanx needs Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer")
    return Line(WORKS, "Python", found)


# --- packages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Requirement:
    """A package that Phalanx needs, always or for one of its extras."""

    name: str
    spec: str
    extra: str = ""


def requirements() -> list[Requirement]:
    """What the installed package declares for this system; nothing where it runs from a folder."""
    from phalanx.cuda.nvrtc import has_packages

    try:
        texts = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for text in texts:
        name, spec, marker = REQUIREMENT.match(text).groups()  # type: ignore[union-attr]
        extra = EXTRA.search(marker or "")
        if extra or not marker or has_packages():  # a marker without an extra is that of NVIDIA's packages
            found.append(Requirement(name, spec.strip(), extra[1] if extra else ""))
    return found


REQUIREMENT = re.compile(r"([\w.-]+)\s*([^;]*?)\s*(?:;(.*))?$")
EXTRA = re.compile(r"extra == [\"']([\w-]+)[\"']")


def packages() -> list[Line]:
    """What Phalanx needs, and its extras."""
    wanted = requirements()
    lines = [package(item) for item in wanted if not item.extra]
    if not wanted:
        lines = [Line(ABSENT, "packages", "phalanx runs from a folder and is not installed", "pip install .")]
    return lines + [package(item) for item in wanted if item.extra and item.extra not in UNUSUAL]


def package(item: Requirement) -> Line:
    """Checks one package."""
    install = pip_install(extra_of_ours(item.extra) if item.extra else f"{item.name}{item.spec}")
    try:
        version = metadata.version(item.name)
    except metadata.PackageNotFoundError:
        state = ABSENT if item.extra else BROKEN
        return Line(state, item.name, "not installed", install)
    if not satisfies(version, item.spec):
        return Line(BROKEN, item.name, f"{version}, and {item.spec} is needed", install)
    return Line(WORKS, item.name, version)


def satisfies(version: str, spec: str) -> bool:
    """Whether a version lies within bounds such as ">=2.0,<3"."""
    have = numbers(version)
    for part in filter(None, (part.strip() for part in spec.split(","))):
        sign, bound = re.match(r"([<>=!~]+)\s*(.+)", part).groups()  # type: ignore[union-attr]
        want = numbers(bound)
        size = max(len(have), len(want))
        a, b = (item + (0,) * (size - len(item)) for item in (have, want))
        if not {">=": a >= b, "<": a < b, "<=": a <= b, ">": a > b, "==": a == b, "!=": a != b}.get(sign, True):
            return False
    return True


def numbers(version: str) -> tuple[int, ...]:
    """The release of a version, without what comes after it."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


# --- the compiler, the driver, the machine ------------------------------------------------------------------------------


def nvrtc() -> Line:
    """NVRTC, and which of our targets it knows."""
    from phalanx.cuda.nvrtc import CompilerMissing, has_packages, nvrtc_capabilities, nvrtc_version
    from phalanx.ir.archs import ARCHS

    try:
        version = nvrtc_version()
    except CompilerMissing as problem:
        if not has_packages():
            return Line(ABSENT, "NVRTC", str(problem), "kernels are simulated and checked here; compile on Linux or Windows")
        return Line(BROKEN, "NVRTC", str(problem), pip_install(*NEEDED_TO_COMPILE))
    known = nvrtc_capabilities()
    ours = [name for name, arch in ARCHS.items() if 10 * arch.capability[0] + arch.capability[1] in known]
    lacking = [name for name in ARCHS if name not in ours]
    if "sm_90a" not in ours:
        return Line(BROKEN, "NVRTC", f"{version}, which does not know sm_90a", pip_install(NEEDED_TO_COMPILE[0]))
    first = ".".join(map(str, max((ARCHS[name].nvrtc for name in lacking), default=())))
    rest = f"; not for {', '.join(lacking)}, which {first} knows" if lacking else ""
    return Line(WORKS, "NVRTC", f"{version}, for {', '.join(ours)}{rest}")


def gpu() -> list[Line]:
    """Checks the driver, and each GPU."""
    from phalanx.ir.archs import ARCHS
    from phalanx.runtime.device import driver as cuda

    try:
        driver = cuda.get_driver()
        version, count = driver.version(), driver.device_count()
    except cuda.DriverError as problem:
        return [Line(ABSENT, "driver", problem.text, "kernels run in the simulator; for a GPU, install NVIDIA's driver")]
    lines = [Line(WORKS, "driver", f"for CUDA {version[0]}.{version[1]}")]
    if version[0] < 13:
        remedy = "a driver for CUDA 13 (580 or newer) loads what NVRTC 13 compiles"
        lines = [Line(BROKEN, "driver", f"for CUDA {version[0]}.{version[1]}", remedy)]
    for number in range(count):
        info = driver.device(number)
        found = f"{info.name}, {info.sm_count} SMs, capability {info.capability[0]}.{info.capability[1]}"
        if info.capability[0] < 9:
            remedy = "kernels need Hopper (9.0) or newer; they run in the simulator"
            lines.append(Line(ABSENT, f"GPU {number}", found, remedy))
        elif info.arch not in ARCHS:
            remedy = f"there is no target {info.arch}; {', '.join(ARCHS)} are known"
            lines.append(Line(ABSENT, f"GPU {number}", found, remedy))
        else:
            lines.append(Line(WORKS, f"GPU {number}", f"{found}, target {info.arch}"))
    if not count:
        lines.append(Line(ABSENT, "GPU", "the driver sees none", "kernels run in the simulator"))
    return lines


def cxx() -> Line:
    """A C++ compiler: for exported C, and for tests that run CUDA text on the CPU."""
    for name in ("g++", "clang++", "c++"):
        if path := shutil.which(name):
            return Line(WORKS, "C++ compiler", path)
    return Line(ABSENT, "C++ compiler", "none found", "needed to build what px.export writes, and by some tests of ours")


def cache() -> Line:
    """The folder of compiled kernels: found, private, writable."""
    from phalanx.runtime.compiled import disk_cache

    kept = disk_cache()
    if kept.root is None:
        return Line(ABSENT, "cache", f"off: {kept.disabled_reason}", "kernels are compiled anew in every process")
    try:
        with tempfile.NamedTemporaryFile(dir=kept.root, suffix=".partial"):
            pass
    except OSError as problem:
        remedy = "kernels are compiled anew in every process; PHALANX_CACHE_DIR names another folder"
        return Line(BROKEN, "cache", f"{kept.root} can't be written: {os.strerror(problem.errno or 0)}", remedy)
    return Line(WORKS, "cache", f"{kept.root}, {kept.size_bytes() >> 10} KiB")


def model() -> Line:
    """Whose numbers the model of time uses, for `px.trace` and choices."""
    from phalanx.errors import Error
    from phalanx.machines.rates import CARDS
    from phalanx.runtime.device.devices import device
    from phalanx.runtime.timeline.cards import REMEDY, card_for

    try:
        arch = device().arch
        card = card_for(arch if arch in CARDS else "sm_90a")
    except Error as problem:
        return Line(BROKEN, "model", problem.message, problem.remedy or "")
    if card.problem:
        return Line(ABSENT, "model", card.problem, REMEDY)
    return Line(WORKS, "model", card.path or f"the numbers that ship for the {card.rates.name}")


# --- trials ------------------------------------------------------------------------------------------------------------


def trials(lines: list[Line]) -> list[Line]:
    """A small kernel, simulated, compiled and launched; what can't be tried is absent."""
    import phalanx as px
    from phalanx.tools import trial

    state = {line.what: line.state for line in lines}
    tried = [attempt("simulator", "a small kernel was run and checked", trial.simulate)]
    target = px.device().arch if state.get("GPU 0") == WORKS else "sm_90a"
    if state["NVRTC"] == WORKS:
        tried.append(attempt("compiler", f"it was compiled for {target}", lambda: trial.compile_for(target)))
    else:
        tried.append(Line(ABSENT, "compiler", "not tried: NVRTC does not work"))
    if state["NVRTC"] == state["driver"] == state.get("GPU 0", ABSENT) == WORKS:
        tried.append(attempt("launch", "it ran on GPU 0", trial.launch))
    else:
        tried.append(Line(ABSENT, "launch", "not tried: no GPU that runs kernels"))
    return tried


def attempt(what: str, success: str, run: Callable[[], None]) -> Line:
    """Runs a trial; its failure is a line, not an error."""
    try:
        run()
    except Exception as problem:  # whatever it is: the doctor's business is to say so
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        return Line(BROKEN, what, first, "the lines above may say why; if none does, please report it with this text")
    return Line(WORKS, what, success)
