"""References of `px.tune`: results that candidates are compared with, and how they are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.device.arrays import numpy_dtype
from phalanx.runtime.launch.specialise import spec
from phalanx.runtime.tuning import worker
from phalanx.runtime.tuning.process import Worker
from phalanx.runtime.tuning.worker import distance, same_bytes
from runtime.tuning_kernels import SQUARE, X, blocks, double, kinds, statuses
from support import tuning_fakes as fakes

pytestmark = pytest.mark.usefixtures("tuning_cache")


def test_a_reference_by_name() -> None:
    configs = [dict(BM=32), dict(BM=32, FACTOR=3)]
    tuned = px.tune(
        double, configs, (X, X.copy()), grid=blocks, measure=fakes.one, reference=fakes.doubled_by_name, isolate=False
    )
    assert [row.status for row in tuned.table] == ["ok", "is wrong"]


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("known", [dict(BM=64), dict(BM=64, COUNT=1), dict(BM=128)], ids=["listed", "in full", "another"])
def test_a_reference_configuration(known: dict[str, int]) -> None:
    """Of a kernel: one of the list, one of it with its defaults written out, or one that is not measured."""
    configs = [dict(BM=64), dict(BM=32), dict(BM=32, FACTOR=3)]
    tuned = px.tune(double, configs, (X, X.copy()), grid=blocks, measure=fakes.by_width, reference=known)
    assert [(row.config, row.status) for row in tuned.table] == [
        (dict(BM=32), "ok"), (dict(BM=64), "ok"), (dict(BM=32, FACTOR=3), "is wrong"),
    ]  # fmt: skip
    assert tuned.table[2].note == "argument Y is off by 0.5 of the largest element, 0.00098 is allowed"


@pytest.mark.long
def test_every_array_of_a_reference_configuration_counts() -> None:
    @px.kernel(warps=1)
    def two(X, Y, Z, *, FIRST=2, SECOND=3):
        px.store(Y[0:64], px.load(X[0:64]) * FIRST)
        px.store(Z[0:64], px.load(X[0:64]) * SECOND)

    args = (X, X.copy(), X.copy())
    configs = [dict(FIRST=2), dict(FIRST=4), dict(SECOND=6)]
    tuned = px.tune(two[1], configs, args, measure=fakes.one, reference=configs[0], isolate=False)
    assert [(row.status, row.note.partition(" is off")[0]) for row in tuned.table] == [
        ("ok", ""), ("is wrong", "argument Y"), ("is wrong", "argument Z"),
    ]  # fmt: skip


@pytest.mark.long
def test_a_kernel_is_compiled_once_for_a_reference_of_the_list(tuning_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_host", lambda value: np.zeros(4, np.float32))  # this GPU's memory holds nothing
    args = (spec((256,), px.f32), spec((256,), px.f32))
    options: Any = dict(grid=blocks, isolate=False, rounds=1, keep=9)
    asked: list[str] = []
    ask = Worker.ask

    def noted(self: Worker, name: str, *arguments: Any, limit: float) -> Any:
        asked.append(name)
        return ask(self, name, *arguments, limit=limit)

    monkeypatch.setattr(Worker, "ask", noted)
    px.tune(double, [dict(BM=32), dict(BM=64)], args, reference=dict(BM=64), **options)
    assert asked == ["build", "build"]
    assert [launch.grid[0] for launch in tuning_gpu.launches[:2]] == [4, 4], "the reference first"


@pytest.mark.long
def test_a_reference_configuration_of_a_function() -> None:
    """Another process takes over after one that dies, and makes what is expected again."""
    configs = kinds("dies", "good", "wrong")
    tuned = px.tune(
        fakes.candidate, configs, (SQUARE, SQUARE), measure=fakes.one, reference=dict(kind="better"), timeout=20
    )
    assert statuses(tuned) == {"good": "ok", "dies": "crashes", "wrong": "is wrong"}
    tuned = px.tune(
        fakes.in_place, [dict(lazy=False), dict(lazy=True)], (SQUARE, SQUARE.copy()), measure=fakes.one,
        reference=dict(lazy=False), isolate=False,
    )
    assert [row.status for row in tuned.table] == ["ok", "is wrong"]


def test_each_part_of_a_result_is_compared() -> None:
    configs = kinds("both", "second wrong", "one")
    tuned = px.tune(fakes.pair, configs, (SQUARE, SQUARE), measure=fakes.one, reference=configs[0], isolate=False)
    notes = {row.config["kind"]: (row.status, row.note.partition(" is off")[0]) for row in tuned.table}
    assert notes == {
        "both": ("ok", ""), "second wrong": ("is wrong", "part 1 of the result"),
        "one": ("is wrong", "part 1 of the result is missing"),
    }  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("raises", "{'kind': 'raises'} of 'candidate' fails: ValueError: no such thing"),
        ("dies", "{'kind': 'dies'} of 'candidate' crashes: its process ended with status 7"),
    ],
)
def test_a_reference_that_does_not_run(kind: str, message: str) -> None:
    with pytest.raises(px.Error) as error:
        px.tune(fakes.candidate, kinds("good"), (SQUARE, SQUARE), measure=fakes.one, reference=dict(kind=kind))
    assert error.value.message == f"the reference configuration {message}"
    assert error.value.location.file == __file__ and "a function" in (error.value.remedy or "")


def test_a_reference_with_nothing_to_compare() -> None:
    with pytest.raises(px.Error, match="fails: it returns an object, which can't be compared"):
        px.tune(
            fakes.pair, kinds("both"), (SQUARE, SQUARE), measure=fakes.one, reference=dict(kind="object"), isolate=False
        )
    with pytest.raises(px.Error, match="fails: it has no array and returns nothing"):
        px.tune(fakes.counted, [dict(kind=1)], (1.0,), measure=fakes.one, reference=dict(kind=2), isolate=False)


@pytest.mark.long
def test_a_reference_whose_runs_differ(tuning_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes back the same from this GPU: a configuration with a race is no reference."""
    runs = iter(range(100))
    monkeypatch.setattr(worker, "_host", lambda value: np.full(4, next(runs), np.float32))
    args = (spec((256,), px.f32), spec((256,), px.f32))
    with pytest.raises(px.Error, match=r"{'BM': 64} of 'double' differs from run to run: argument X is off"):
        px.tune(double, [dict(BM=32)], args, grid=blocks, isolate=False, reference=dict(BM=64))


@pytest.mark.parametrize(
    ("got", "want", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [np.nan, 2.0], np.inf),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([1.0], [0.0], np.inf),
    ],
)
def test_distance(got: list[float], want: list[float], expected: float) -> None:
    assert distance(np.array(got), np.array(want)) == expected


def test_narrow_types_are_compared_in_f32() -> None:
    got, want = np.array([1.0, 2.0]).astype(numpy_dtype("bf16")), np.array([1.0, 2.25], np.float32)
    assert distance(got, want) == pytest.approx(0.25 / 2.25)


def test_a_result_seen_before_is_told_by_its_bytes() -> None:
    a = np.array([[0.0, np.nan], [1.0, 2.0]], np.float32)
    assert same_bytes(a, a.copy()) and same_bytes(a.T, a.T.copy())
    assert not same_bytes(a, -a) and not same_bytes(a, a.ravel()) and not same_bytes(a, a.astype(np.float64))


def test_integers_are_right_or_wrong() -> None:
    assert distance(np.array([1, 2]), np.array([1, 2])) == 0
    assert distance(np.array([1, 2]), np.array([1, 3])) == np.inf


# Processes ------------------------------------------------------------------------------------------------
