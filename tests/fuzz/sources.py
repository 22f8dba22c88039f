"""Mutated sources of valid kernels: reading, a launch, a check and the CUDA text end in success, findings or a plain error.

The ground are the kernels of `tests/errors/healthy_kernels.py`, the examples, the GEMM ladder and the library, each with a
small launch. A case is the file of one of them with a few changes to a kernel, or to a function or struct that stands
beside it. What Python itself refuses is no case of ours.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import phalanx as px
from fuzz.outcomes import Options, Outcome
from fuzz.source_mutations import mutated
from mutation.cases import CASES
from phalanx.ir.archs import arch_of
from phalanx.language import builtin
from phalanx.location import NOWHERE, Location
from phalanx.runtime.launch.memory import forget

BATCH = 10
STEPS = "60000"
"""The budget of a cluster: enough for every kernel of the ground, and soon used up."""
SECONDS = 60
"""Of the processor, in which any case is over."""
TEXT_SHARE = 0.3
HOME = str(Path(px.__file__).parent)
HEALTHY = Path(__file__).parents[1] / "errors" / "healthy_kernels.py"


@dataclass(frozen=True)
class Ground:
    """A valid kernel: its file, its name there, and a small launch of it."""

    file: str
    kernel: str
    grid: Any
    args: tuple[Any, ...]
    constants: dict[str, Any]


def healthy(name: str, grid: Any) -> Callable[[], Ground]:
    def make() -> Ground:
        x = np.linspace(-1, 1, 32 * 32, dtype=np.float32).reshape(32, 32)
        return Ground(str(HEALTHY), name, grid, (x, np.zeros_like(x), 4, 0.5), {})

    return make


def launched(name: str) -> Callable[[], Ground]:
    def make() -> Ground:
        case = CASES[name]()
        bound = case.bound
        file = inspect.getsourcefile(bound.kernel.fn)
        assert file is not None
        return Ground(file, bound.kernel.name, bound.grid, tuple(case.args), dict(case.constants))

    return make


GROUNDS: dict[str, Callable[[], Ground]] = {
    "ring": healthy("ring", 2),
    "tiles": healthy("tiles", 1),
    **{name: launched(name) for name in CASES},
}
WEIGHTS = [len(CASES) // 4 if name in ("ring", "tiles") else 1 for name in GROUNDS]


@cache
def ground(name: str) -> Ground:
    return GROUNDS[name]()


@cache
def text_of(file: str) -> str:
    return Path(file).read_text()


class TooLong(BaseException):
    """The time of a case is over. Not an `Exception`: nobody is to take it for a mistake in a kernel."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `TooLong` where the processor has been busy for longer."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """Draws the case of each seed and says how it went."""
    with tempfile.TemporaryDirectory(prefix="phalanx-sources-") as folder:
        for seed in seeds:
            yield judge_one(seed, Path(folder))


def case_of(seed: int) -> tuple[Ground, str]:
    """The ground of a seed and the mutated text of its file, the same everywhere."""
    rng = random.Random(seed)
    chosen = ground(rng.choices(list(GROUNDS), WEIGHTS)[0])
    return chosen, mutated(text_of(chosen.file), chosen.kernel, rng)


def judge_one(seed: int, folder: Path) -> Outcome:
    of, text = case_of(seed)
    file = folder / f"fuzzed_{seed}.py"
    file.write_text(text)
    before = os.environ.get("PHALANX_STEPS")
    os.environ["PHALANX_STEPS"] = STEPS
    try:
        with limited(SECONDS), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict, problem = verdict_on(seed, of, file)
    except TooLong as end:
        if traceback.extract_tb(end.__traceback__)[-2].filename == str(file):  # a loop that Python itself runs at the import
            return Outcome(seed, "no Python")
        verdict, problem = "hang", f"no end after {SECONDS} s of the processor\n{traceback.format_exc()}"
    finally:
        sys.modules.pop(file.stem, None)
        file.unlink()
        forget()
        if before is None:
            del os.environ["PHALANX_STEPS"]
        else:
            os.environ["PHALANX_STEPS"] = before
    return Outcome(seed, verdict, None if problem is None else f"{problem}\n\n{of.kernel} of {of.file}:\n{text}")


def verdict_on(seed: int, of: Ground, file: Path) -> tuple[str, str | None]:
    """What became of a mutated file, and what is wrong with that, if anything is."""
    try:
        kernel = getattr(load(file), of.kernel)
        bound = kernel[of.grid]
    except px.Error as error:
        return "refused", objection(error, file, "its import")
    except Exception as problem:  # Python's own, unless it came from inside
        return "no Python", bare(problem, "its import") if is_ours(problem) else None
    worst = "success"
    stages = [("a launch", launch), ("px.check", checked)]
    if random.Random(seed ^ 0x5EED).random() < TEXT_SHARE:
        stages.append(("its text", written))
    for what, run in stages:
        try:
            found = run(bound, of)
        except px.Error as error:
            worst = "refused" if worst == "success" else worst
            problem = objection(error, file, what)
        except Exception as problem_:
            problem = bare(problem_, what)
        else:
            worst = found or worst
            problem = None
        if problem is not None:
            return "wrong", problem
    return worst, None


def launch(bound: Any, of: Ground) -> str | None:
    bound(*copies(of.args), **of.constants)
    return None


def checked(bound: Any, of: Ground) -> str | None:
    report = px.check(bound, *copies(of.args), schedules=2, **of.constants)
    str(report)
    report.to_json()
    return None if report.ok else "findings"


def written(bound: Any, of: Ground) -> str | None:
    """As far as the text: what NVRTC makes of it takes longer than all the rest."""
    from phalanx.cuda.lower.lower import lower
    from phalanx.cuda.module import generate
    from phalanx.runtime.launch.dispatch import debugging
    from phalanx.runtime.launch.specialise import read_arguments, resolved_constants, specialise

    kernel = bound.kernel
    arguments, constants = read_arguments(kernel, of.args), kernel.bind_constants(of.constants)
    with debugging(kernel):
        resolved_constants(kernel, arguments, constants)
        generate(lower(specialise(kernel, arguments, constants).prepared, arch_of("sm_90a")))
    return None


def copies(args: tuple[Any, ...]) -> list[Any]:
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def is_ours(problem: BaseException) -> bool:
    """Whether an exception was raised inside the package."""
    frames = traceback.extract_tb(problem.__traceback__)
    asked_for = frames and frames[-1].filename in (px.__file__, builtin.__file__)  # px.nothing; Python's range and print
    return bool(frames) and frames[-1].filename.startswith(HOME) and not asked_for


def bare(problem: BaseException, what: str) -> str:
    shown = "".join(traceback.format_exception(problem)[-12:])
    return f"{what}: {type(problem).__name__}: {str(problem)[:200]}\n{shown}"


def chain(place: Location | None) -> Iterator[Location]:
    """A place and the calls that led to it: a function of another file may be given what it can't take."""
    while place is not None:
        yield place
        place = place.caller


def objection(error: px.Error, file: Path, what: str) -> str | None:
    """What is wrong with an error, if anything is: it names a place in the file and what would help."""
    text = str(error)
    reasons = []
    if "internal" in error.message or "mistake in Phalanx" in text:
        reasons.append("an internal error")
    if error.location is NOWHERE:
        reasons.append("no place")
    elif not any(place.file == str(file) or place.file.startswith(HOME) for place in chain(error.location)):
        reasons.append("a place elsewhere")
    if not error.remedy and error.kind != "assert":
        reasons.append("no remedy")
    if " object at 0x" in text:
        reasons.append("an address")
    cause = "" if error.__cause__ is None else "\n" + "".join(traceback.format_exception(error.__cause__)[-12:])
    return f"{what}: {', '.join(reasons)}: {error.message[:300]}\n{text}{cause}" if reasons else None
