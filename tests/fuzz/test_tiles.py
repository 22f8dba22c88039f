"""Random tile kernels: a small share of the seeds, and what the generator and the comparison promise."""

from __future__ import annotations

import ctypes
import dataclasses
import pickle
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from fuzz import tile_gpu, tiles
from fuzz.agreement import disagreement
from fuzz.gpu_process import GpuFailure, GpuHang, GpuProcess, SlowCompilation
from fuzz.outcomes import Options
from fuzz.shrinking import shrunk
from fuzz.tile_arrays import ArrayPlan
from fuzz.tile_programs import Case, draw
from fuzz.tile_runs import load_kernel, simulated
from fuzz.tile_values import NUMPY, Facts, bytes_of
from phalanx.language.builtin import Builtin
from phalanx.runtime import compiled
from support.fake_driver import FakeLibrary, fake_gpu
from support.host_build import COMPILER, MISSING

on_host = pytest.mark.skipif(COMPILER is None, reason=MISSING)
SHARE = range(2)
"""Seeds of `make test`."""


def stories(seeds: range, options: Options) -> str:
    return "\n\n".join(outcome.problem for outcome in tiles.judge(seeds, options) if outcome.problem is not None)


@on_host
def test_simulator_and_host_agree() -> None:
    assert stories(SHARE, Options()) == ""


@on_host
@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_simulator_and_host_agree_on_more(first: int) -> None:
    assert stories(range(first, first + 50), Options()) == ""


@on_host
@pytest.mark.long
@pytest.mark.parametrize("first", range(500, 600, 25))
def test_nothing_undefined_is_done(first: int) -> None:
    assert stories(range(first, first + 25), Options(sanitize=True)) == ""


@pytest.mark.gpu
def test_simulator_and_gpu_agree() -> None:
    assert stories(range(200), Options(gpu=True, host=False)) == ""


def test_a_seed_gives_one_case() -> None:
    assert draw(11) == draw(11) != draw(12)
    for one, two in zip(draw(11).memories(), draw(11).memories(), strict=True):
        assert one.tobytes() == two.tobytes()


ELSEWHERE = {
    "cdiv": "scalars: random programs of the language", "print": "leaves nothing in memory", "empty": "is not read",
    "launch_dependents": "between launches", "wait_prior": "between launches", "pipe": "choreographies",
    "ring": "choreographies", "wgmma": "choreographies", "wgmma_commit": "choreographies", "wgmma_wait": "choreographies",
    "breakpoint": "changes nothing: cuda/test_breakpoint.py compares texts with it and without",
    "counters": "which CTA comes last differs: sanitizer/test_handshakes.py has what all orders have in common",
    "atomic_load": "what others have published by then differs: kernels/test_grid_rows.py waits for all of it",
    "tmem": "products of Blackwell have tests of their own",
    "persistent": "deals tiles to CTAs in any order: sim/test_persistent.py asks what all orders have in common",
    "pipelined": "loops that pipeline themselves have a kind of their own",
    "ptx": "computes what a NumPy function beside it says: sim/test_ptx.py and cuda/test_ptx.py have such pairs",
}  # fmt: skip
"""Functions of kernels that random tile kernels leave to other tests."""


def test_the_language_is_known() -> None:
    """Some hundred kernels have every element type, every function, and each kind of control flow between them."""
    text = "\n".join(draw(seed).text for seed in range(400))
    missing = [dtype for dtype in NUMPY if f"px.{dtype}" not in text]
    functions = [name for name, item in vars(px).items() if isinstance(item, Builtin) and name not in ELSEWHERE]
    missing += [name for name in functions if not re.search(rf"px\.{name}\b", text)]
    phrases = [".T", ".reshape(", ".permute(", ".tile(", "None", "fill=", "once=True", "reuse=", "keepdims=True",
               "approx=True", "for ", "while ", "break", "continue", "return\n", "else:", "@px.func", "@px.struct",
               ".swap()", "pick(", ".arrive()", ".wait(0)", " // ", " % ", " << ", " >> ", "~"]  # fmt: skip
    missing += [phrase for phrase in phrases if phrase not in text]
    assert missing == [], "let the files fuzz/tile_*.py write them, or say here where they are tested"


PLAN = ArrayPlan("O1", "f32", (3,), (1,), 0, 4, "grid1", True)
NAN, OTHER_NAN = np.float32(np.nan), np.array([0xFFC00001], np.uint32).view(np.float32)[0]


@pytest.mark.parametrize(("facts", "got", "want", "agree"), [
    (Facts(), 1.5, 1.5, True),
    (Facts(), 1.5, np.nextafter(np.float32(1.5), np.float32(2)), False),
    (Facts(), NAN, OTHER_NAN, True),
    (Facts(), NAN, 1.0, False),
    (Facts(), 0.0, -0.0, False),
    (Facts(zeros=False), 0.0, -0.0, True),
    (Facts(tolerance=1e-3), 1000.9, 1000.0, True),
    (Facts(tolerance=1e-3), 1002.0, 1000.0, False),
    (Facts(tolerance=1e-3), np.inf, 1000.0, False),
    (Facts(tolerance=1e-3), np.inf, np.inf, True),
    (Facts(tolerance=1e-3), NAN, np.inf, False),
])  # fmt: skip
def test_what_counts_as_agreement(facts: Facts, got: float, want: float, agree: bool) -> None:
    plan = dataclasses.replace(PLAN, facts=facts)
    memories = [np.array([0, 0, x, 0], np.float32) for x in (got, want)]
    assert (disagreement((plan,), [memories[0]], [memories[1]]) is None) == agree


def test_memory_beside_an_array_is_compared() -> None:
    changed = np.array([0, 0, 0, 1], np.float32)
    assert "[3] 1.0 instead of 0.0" in str(disagreement((PLAN,), [changed], [np.zeros(4, np.float32)]))


def test_a_difference_becomes_a_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that leaves one output as it was: the story has the text, the arrays and the elements."""
    monkeypatch.setattr(tiles, "on_host", lambda cases, modules, sanitize: [case.memories() for case in cases])
    (outcome,) = tiles.judge([1], Options())
    assert outcome.verdict == "host differs"
    case = draw(1)
    assert case.text in str(outcome.problem) and case.describe() in str(outcome.problem)
    assert re.search(r"\d+ of \d+ elements in memory differ: \[\d+\] \S+ instead of", str(outcome.problem))


def test_what_fails_is_made_shorter(tmp_path: Path) -> None:
    """The statements that the last store needs stay, the others go."""
    case = draw(7)
    wanted = [line for line in case.text.splitlines() if line.strip().startswith("px.store(O")][-1]

    def fails(shorter: Case) -> bool:
        try:
            simulated(shorter, load_kernel(shorter, tmp_path))
        except Exception:
            return False
        return wanted in shorter.text

    text = shrunk(case, fails).text
    assert wanted in text and len(text.splitlines()) < len(case.text.splitlines()) - 3


CHILD = """
import sys, time
sys.path[:0] = PATH
from fuzz.gpu_process import child

def answered(case, compiled):
    if case.seed == 2:
        sys.exit(7)
    if case.seed == 4:
        time.sleep(60)
    compiled()
    if case.seed == 5:
        time.sleep(60)
    return case.memories(), False

child(answered)
"""


def process_of(compiling: float = 60.0, patience: float = 60.0) -> GpuProcess:
    return GpuProcess([sys.executable, "-c", CHILD.replace("PATH", repr(sys.path))], compiling, patience)


def test_a_lost_process_is_replaced() -> None:
    process = process_of()
    for seed, lost in ((1, False), (2, True), (3, False)):
        process.begin(draw(seed))
        if lost:
            with pytest.raises(GpuFailure, match="ended with 7"):
                process.finish()
        else:
            assert len(process.finish()) == len(draw(seed).arrays)
    process.stop()


@pytest.mark.parametrize("seed, late", [(4, SlowCompilation), (5, GpuHang)])
def test_a_slow_compiler_is_no_kernel_that_hangs(seed: int, late: type[Exception]) -> None:
    process = process_of(compiling=60.0 if seed == 5 else 0.2, patience=0.2)
    process.begin(draw(seed))
    with pytest.raises(late):
        process.finish()
    process.stop()


class Memory(FakeLibrary):
    """A GPU whose memory is the host's, and whose kernels do nothing; it reads one parameter of each launch."""

    def __init__(self, number: int, nbytes: int) -> None:
        super().__init__()
        self.wanted = number, nbytes
        self.parameters: list[bytes] = []

    def _cuLaunchKernelEx(self, *arguments: Any) -> None:
        super()._cuLaunchKernelEx(*arguments)
        self.parameters.append(self.launches[-1].parameter(*self.wanted))

    def _cuMemAlloc_v2(self, out: int, nbytes: int) -> None:
        self._keep.append(memory := ctypes.create_string_buffer(nbytes + 256))
        self._write_pointer(out, ctypes.addressof(memory) + -ctypes.addressof(memory) % 256)

    def _cuMemcpyHtoD_v2(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    _cuMemcpyDtoH_v2 = _cuMemcpyHtoD_v2


def test_arrays_lie_on_the_gpu_as_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes, at the same distance from a boundary, with the same strides; and all of it is read back.

    The launch compiles nothing: that would take the time for which nobody waits any more.
    """
    case, compiling = draw(3), compiled.compile_function
    name, number = next((name, value) for name, value in case.arguments if isinstance(value, int))
    plan, place = case.arrays[number], [name for name, _ in case.arguments].index(name)
    made = []
    with fake_gpu(Memory(place, 8 + 8 * len(plan.strides))) as library, monkeypatch.context() as patched:
        patched.setattr(compiled, "compile_function", lambda *args, **how: made.append(args) or compiling(*args, **how))
        got = tile_gpu.on_gpu(case, tmp_path, lambda: made.append("told"))
    assert len(made) == 2 and made[1] == "told"
    for one, two in zip(got, case.memories(), strict=True):
        assert one.tobytes() == two.tobytes()
    (launch,) = library.launches
    assert launch.grid == (*case.grid, 1, 1)[:3]
    pointer, *strides = struct.unpack(f"<Q{len(plan.strides)}q", *library.parameters)
    assert (pointer - plan.offset * bytes_of(plan.dtype)) % 256 == 0
    assert tuple(strides) == plan.strides


def test_cases_travel_between_processes() -> None:
    case = draw(5)
    assert pickle.loads(pickle.dumps(case)) == case
