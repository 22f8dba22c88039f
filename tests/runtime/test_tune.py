"""`px.tune` without a GPU: clocks made of Python, kernels in the simulator, and processes that are really killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda import nvrtc
from phalanx.runtime import compiled
from phalanx.runtime.cache import DiskCache
from phalanx.runtime.device.timing import MODES
from phalanx.runtime.launch.specialise import spec
from phalanx.runtime.tuning import process, search
from phalanx.runtime.tuning.arguments import PlannedArguments, plan_arguments
from phalanx.runtime.tuning.process import Worker
from phalanx.runtime.tuning.worker import Failed, first_line
from runtime.tuning_kernels import SQUARE, X, blocks, double, early, find, kinds, statuses
from support import tuning_fakes as fakes

pytestmark = pytest.mark.usefixtures("tuning_cache")

# What a search survives -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_cost_that_is_no_number_is_not_the_best() -> None:
    configs = [dict(BM=64), dict(BM=32), dict(BM=16)]
    tuned = px.tune(double, configs, (X, X.copy()), grid=blocks, measure=fakes.nan_for_the_first)
    assert tuned.best == dict(BM=32)
    assert [row.config["BM"] for row in tuned.table] == [32, 16, 64]
    assert "measure() gives nan" in tuned.table[-1].note


def test_kernels_that_do_not_compile_hang_or_are_wrong() -> None:
    good = [dict(BM=64), dict(BM=32)]
    bad = [dict(BM=1 << 16), dict(BM=24, COUNT="x"), dict(BM=32, COUNT=2), dict(BM=32, FACTOR=3)]
    tuned = px.tune(double, good + bad, (X, X.copy()), grid=blocks, measure=fakes.by_width, reference=fakes.doubled)
    assert tuned.best == dict(BM=32)
    rows = tuned.table
    assert [row.config for row in rows] == [dict(BM=32), dict(BM=64), *bad], "fastest first, then the rest"
    assert [row.status for row in rows[2:]] == ["does not compile", "does not compile", "hangs", "is wrong"]
    assert [(row.ms, row.ratio) for row in rows[:2]] == [(1.0, 1.0), (2.0, 0.5)]
    too_large, no_number, stuck, wrong = (row.note for row in rows[2:])
    assert "bytes of shared memory; a CTA on sm_90a has 232,448 (tuning_kernels.py:" in too_large
    assert "must be an integer, not 'x'" in no_number
    assert "no agent can go on" in stuck
    assert wrong == "argument Y is off by 0.5 of the largest element, 0.00098 is allowed"


@pytest.mark.long
def test_functions_that_hang_die_raise_or_are_wrong(tmp_path: Path) -> None:
    mark = tmp_path / "process"
    configs = [*kinds("good", "better"), *kinds("hangs", mark=str(mark)), *kinds("dies", "raises", "wrong", "fails late")]
    tuned = px.tune(
        fakes.candidate, configs, (SQUARE, SQUARE), measure=fakes.by_kind, reference=fakes.doubled, timeout=3
    )
    assert tuned.best == dict(kind="better")
    assert statuses(tuned) == {
        "better": "ok", "good": "ok", "hangs": "hangs", "dies": "crashes", "raises": "fails", "wrong": "is wrong",
        "fails late": "fails",
    }
    notes = {row.config["kind"]: row.note for row in tuned.table}
    assert notes["hangs"] == "no end after 3 s: its process was killed"
    assert notes["dies"] == "its process ended with status 7"
    assert notes["raises"] == "ValueError: no such thing"
    assert notes["fails late"] == "the clock stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


@pytest.mark.long
def test_a_hang_while_it_is_timed_leaves_the_others() -> None:
    tuned = px.tune(
        fakes.candidate, kinds("good", "better"), (SQUARE, SQUARE), measure=fakes.hangs_when_timed, timeout=3
    )
    assert statuses(tuned) == {"good": "ok", "better": "hangs"}
    assert tuned.table[0].rounds == MODES["turns"].rounds, "in a process that was started anew"
    assert tuned.table[1].ms is None


@pytest.mark.long
def test_a_grid_of_what_px_auto_stands_for() -> None:
    @px.kernel(warps=1)
    def staged(X, Y, *, BM=32, STAGES=px.auto):
        s = px.shared((STAGES, BM), X.dtype)
        for stage in px.static_range(STAGES):
            i = (px.block_id(0) * STAGES + stage) * BM
            px.store(s[stage], px.load(X[i : i + BM]))
            px.store(Y[i : i + BM], px.load(s[stage]) * 2)

    tuned = px.tune(
        staged, [dict(BM=32, STAGES=px.auto(most=4)), dict(BM=64, STAGES=2)], (X, X.copy()),
        grid=lambda BM, STAGES: px.cdiv(256, BM * STAGES), measure=fakes.by_width, reference=fakes.doubled, rounds=1,
    )
    assert [row.status for row in tuned.table] == ["ok", "ok"], tuned


@pytest.mark.long
def test_what_another_candidate_left_is_no_result() -> None:
    tuned = px.tune(
        fakes.in_place, [dict(lazy=False), dict(lazy=True)], (SQUARE, SQUARE.copy()), measure=fakes.one,
        reference=fakes.doubled,
    )
    assert [row.status for row in tuned.table] == ["ok", "is wrong"]


def test_a_check_in_the_simulator_comes_first() -> None:
    configs = [dict(WAITS=True), dict(WAITS=False)]
    small = np.zeros(64, np.float32)
    tuned = px.tune(early[1], configs, (X, X.copy()), measure=fakes.one, check=(small, small.copy()))
    assert [row.status for row in tuned.table] == ["ok", "is not clean"]
    assert tuned.table[1].note.startswith("race: ")


def test_those_that_fall_behind_are_not_measured_to_the_end() -> None:
    configs = kinds("good", "better", "slow")
    tuned = px.tune(fakes.candidate, configs, (SQUARE, SQUARE), measure=fakes.by_kind, keep=3.0, rounds=4, isolate=False)
    assert {row.config["kind"]: row.rounds for row in tuned.table} == {"better": 4, "good": 4, "slow": 1}


@pytest.mark.long
def test_nothing_to_choose_from() -> None:
    with pytest.raises(px.Error, match="none of the 2 configurations of 'candidate' could be measured") as error:
        px.tune(fakes.candidate, kinds("raises", "dies"), (SQUARE, SQUARE), measure=fakes.one)
    assert "{'kind': 'raises'}: fails: ValueError: no such thing" in str(error.value)
    assert error.value.location.file == __file__


# What is given back ---------------------------------------------------------------------------------------


def test_the_result_is_the_kernel_with_its_best_constants() -> None:
    configs = [dict(BM=64), dict(BM=32)]
    tuned = px.tune(double, configs, (X, X.copy()), grid=blocks, measure=fakes.by_width, isolate=False)
    x = np.arange(256, dtype=np.float32)
    for launch in (tuned, tuned[8]):
        y = np.zeros_like(x)
        launch(x, y)
        assert np.array_equal(y, 2 * x)
        launch(x, y, FACTOR=5)
        assert np.array_equal(y, 5 * x)
    shown = str(tuned)
    assert "double on the simulator" in shown and "1.0000" in shown and "0.500" in shown and "ok" in shown
    assert repr(tuned) == "<Tuned double: {'BM': 32}, 2 of 2 measured>"
    changed = tuned.best
    changed["BM"] = 7
    assert tuned.best == dict(BM=32), "the answer is the caller's own copy"


def test_a_tuned_function_is_called_with_its_best_configuration() -> None:
    tuned = px.tune(fakes.candidate, kinds("good", "better"), (SQUARE, SQUARE), measure=fakes.by_kind, isolate=False)
    assert np.array_equal(tuned(SQUARE, SQUARE), 2 * SQUARE)
    assert np.array_equal(tuned(SQUARE, SQUARE, kind="wrong"), 3 * SQUARE)


# The cache ------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The workers that were started."""
    found: list[Worker] = []
    start = Worker.start

    def counted(self: Worker) -> None:
        found.append(self)
        start(self)

    monkeypatch.setattr(Worker, "start", counted)
    return found


def test_a_search_is_made_once(started: list[Worker]) -> None:
    first = find()
    assert not first.from_cache and len(started) == 1
    again = find()
    assert again.from_cache and len(started) == 1
    assert again.table == first.table
    assert not find(force=True).from_cache and len(started) == 2
    assert find().from_cache


@pytest.mark.parametrize(
    "change",
    [
        dict(args=(np.ones((4, 8), np.float32), np.ones((4, 8), np.float32))),
        dict(args=(SQUARE.astype(np.float64), SQUARE.astype(np.float64))),
        dict(args=(SQUARE.T, SQUARE)),
        dict(configs=kinds("good")),
        dict(rounds=2),
        dict(measure=fakes.hangs_when_timed, timeout=0.5),
        dict(reference=fakes.doubled),
        dict(reference=dict(kind="good")),
    ],
    ids=["shape", "dtype", "strides", "configs", "rounds", "clock", "reference", "reference configuration"],
)
def test_another_search_has_another_key(change: dict[str, Any], asked: list[str | None]) -> None:
    find()
    find(**change)
    assert asked[0] is not None and asked[1] is not None and asked[0] != asked[1]


def test_a_changed_kernel_has_another_key(asked: list[str | None]) -> None:
    for factor in (2, 3):

        @px.kernel(warps=1)
        def scale(X, *, BM, factor=factor):
            px.store(X[0:BM], px.load(X[0:BM]) * factor)

        for grid in (1, 2):
            px.tune(scale[grid], [dict(BM=32)], (X.copy(),), measure=fakes.one)
    assert len(set(asked)) == 4 and None not in asked


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The keys that searches ask for; none is made."""
    found: list[str | None] = []
    monkeypatch.setattr(search, "load_rows", lambda key, configs: (found.append(key), ([], ""))[1])
    monkeypatch.setattr(search.TuningSearch, "sorted", lambda self, rows: ())
    return found


def test_what_a_function_names_is_in_the_key(asked: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    find()
    find()
    monkeypatch.setitem(fakes.COSTS, "good", 3.0)  # of the clock
    find()
    monkeypatch.setattr(fakes, "WRONG", 4)  # of the function
    find()
    assert None not in asked and asked[0] == asked[1] and len(set(asked)) == 3


@pytest.mark.parametrize("captured", ["helper", "factor"])
def test_what_a_kernel_captures_is_in_the_key(asked: list[str | None], captured: str) -> None:
    """Whether the kernel is tuned, or a function that launches it."""
    for value in (2, 3):
        factor = value if captured == "factor" else 1
        if value == 2 or captured == "factor":

            @px.func
            def helper(x):
                return x * factor  # noqa: B023  (read before the next round)
        else:

            @px.func
            def helper(x):
                return x * 3

        @px.kernel(warps=1)
        def scale(X, *, BM):
            px.store(X[0:BM], helper(px.load(X[0:BM])))

        def launch(x: Any, *, BM: int) -> None:
            scale[1](x, BM=BM)

        px.tune(scale[1], [dict(BM=32)], (X.copy(),), measure=fakes.one)
        px.tune(launch, [dict(BM=32)], (X.copy(),), measure=fakes.one, isolate=False)
    assert len(set(asked)) == 4 and None not in asked


@pytest.mark.parametrize("what", ["compiler_fingerprint", "nvrtc_identity"])
def test_another_compiler_has_another_key(asked: list[str | None], monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """For kernels and for functions."""
    for version in ("1", "2"):
        monkeypatch.setattr(compiled if what == "compiler_fingerprint" else nvrtc, what, lambda version=version: version)
        find()
        px.tune(double, [dict(BM=32)], (X, X.copy()), grid=blocks, measure=fakes.one)
    assert len(set(asked)) == 4 and None not in asked


def test_a_function_may_do_without_a_compiler(asked: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise nvrtc.CompilerMissing("no such library")

    find()
    monkeypatch.setattr(nvrtc, "nvrtc_identity", missing)
    find()
    assert None not in asked and asked[0] != asked[1]


def test_what_has_no_text_is_not_kept(tuning_cache: DiskCache) -> None:
    lock = threading.Lock()

    def local(x: Any, y: Any, *, kind: str) -> Any:
        with lock:
            return x * 2

    tuned = px.tune(local, kinds("good"), (SQUARE, SQUARE), measure=fakes.by_kind, isolate=False)
    assert tuning_cache.size_bytes() == 0
    assert tuned.unkept == "the function: lock is a lock"
    assert "not kept on disk: the function: lock is a lock" in " ".join(str(tuned).split())
    assert not find().unkept


@pytest.mark.long
def test_a_damaged_entry_is_a_miss(tuning_cache: DiskCache, started: list[Worker]) -> None:
    find()
    (key,) = (path.name.partition(".")[0] for path in Path(tuning_cache.root or "").iterdir())
    tuning_cache.store(key, {}, {"rows": b"[[1.0]]"})
    assert not find().from_cache and len(started) == 2


# Arguments ------------------------------------------------------------------------------------------------


def test_arrays_are_made_again_like_the_given_ones() -> None:
    base = np.arange(120, dtype=np.float32)
    strided, index = base[1:].reshape(7, 17)[:, ::2], np.array([3, 1, 2], np.int64)
    plans = plan_arguments((strided, index, 2.5, None, strided, spec((2, 3), px.bf16)), None)
    made = PlannedArguments(plans, 0, plain=True)
    a, b, c, d, e, f = made.values
    assert (a.shape, a.strides, a.ctypes.data % 16) == (strided.shape, strided.strides, strided.ctypes.data % 16)
    assert not np.array_equal(a, strided), "floating-point arrays are random"
    assert np.array_equal(b, index), "indices are copied"
    assert (c, d) == (2.5, None)
    assert e is a, "an array that is given twice is made once"
    assert f.shape == (2, 3) and f.dtype.name == "bfloat16"
    first, host = a.copy(), made.on_host()
    assert np.array_equal(host[0], first) and host[0] is not a
    a[:] = 0
    b[:] = 0
    made.reset()
    assert np.array_equal(a, first) and np.array_equal(b, index)
    again = PlannedArguments(plans, 0, plain=True).values[0]
    other = PlannedArguments(plans, 1, plain=True).values[0]
    assert np.array_equal(again, first) and not np.array_equal(other, first), "the seed decides"


def test_long_arrays_repeat_their_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.runtime.tuning.arguments.RANDOM_BLOCK", 7)
    (x,) = PlannedArguments(plan_arguments((np.zeros((4, 5), np.float32),), None), 0, plain=True).values
    assert np.array_equal(x.ravel()[:7], x.ravel()[7:14]) and len(np.unique(x)) == 7


def test_a_function_makes_the_arguments() -> None:
    tuned = px.tune(
        fakes.candidate, kinds("good", "wrong"), make_args=fakes.two_arrays, measure=fakes.one,
        reference=fakes.is_threes, isolate=False,
    )
    assert statuses(tuned) == {"good": "ok", "wrong": "is wrong"}


def test_arguments_that_can_not_be_made() -> None:
    with pytest.raises(px.Error, match=r"px\.tune can't make the arguments: RuntimeError: the disk is gone") as error:
        px.tune(fakes.candidate, kinds("good"), (SQUARE, SQUARE), make_args=fakes.no_arrays, measure=fakes.one)
    assert "make_args=" in (error.value.remedy or "")


SCRIPT = '''
import numpy as np
import phalanx as px

def twice(x, *, kind):
    return x * 2

def clock(run, config):
    run()
    return float(config["kind"])

def main():
    print(px.tune(twice, [dict(kind=3), dict(kind=2)], (np.ones(4),), measure=clock, rounds=1).best)

{call}
'''


def run_script(folder: Path, call: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT.format(call=call))
    home = str(Path(px.__file__).resolve().parent.parent)
    environment = {**os.environ, "PHALANX_CACHE_DIR": str(folder / "kept"), "PYTHONPATH": home}
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.long
def test_functions_of_a_script(tmp_path: Path) -> None:
    done = run_script(tmp_path, 'if __name__ == "__main__":\n    main()')
    assert done.stdout == "{'kind': 2}\n", done.stderr


@pytest.mark.long
def test_a_script_that_searches_when_it_is_imported(tmp_path: Path) -> None:
    done = run_script(tmp_path, "main()")
    assert done.returncode and "px.tune is called while its own process loads the script" in done.stderr


def test_in_this_process() -> None:
    calls: list[str] = []

    def local(x: Any, y: Any, *, kind: str) -> Any:
        calls.append(kind)
        if kind == "raises":
            raise ValueError("no")
        return x * 2

    tuned = px.tune(
        local, kinds("good", "better", "raises"), (SQUARE, SQUARE), measure=fakes.by_kind, isolate=False,
        reference=lambda x, y: x * 2,
    )
    assert statuses(tuned) == {"good": "ok", "better": "ok", "raises": "fails"}
    assert {"good", "better", "raises"} == set(calls)


@pytest.mark.long
def test_a_worker_answers_again_after_it_was_killed() -> None:
    mine = Worker()
    try:
        with pytest.raises(Failed, match="AttributeError"):
            mine.ask("no_such_request", limit=60)
        assert mine.is_running, "a failure is not the end"
        assert mine.process is not None
        mine.process.kill()
        with pytest.raises(process.WorkerLost) as lost:
            mine.ask("is_lost", limit=60)
        assert lost.value.status == "crashes" and not mine.is_running
        with pytest.raises(Failed):
            mine.ask("no_such_request", limit=60)
    finally:
        mine.kill()
    assert not mine.is_running


def test_first_lines() -> None:
    assert first_line(ValueError("a\nb")) == "ValueError: a"
    assert first_line(KeyError()) == "KeyError: KeyError"
    assert first_line(px.Error("too large", remedy="less")) == "too large"
