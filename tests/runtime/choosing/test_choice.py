"""`px.choose`: which combination is taken, everywhere the same one, and how it is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.choosing import ranking
from phalanx.runtime.choosing.candidates import combinations
from phalanx.runtime.compiled import disk_cache
from phalanx.runtime.launch.memory import forget
from support.fake_driver import OnGpu, fake_gpu


@px.kernel(warps=4)
def scale(X, Y, alpha, *, BM=px.choose(16, 64), BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * alpha)


def blocks(BM, BN):
    return 128 // BM, 128 // BN


def arrays(rows: int = 128, columns: int = 128) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns), np.zeros((rows, columns), np.float32)


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cache of its own, and kernels that remember nothing."""
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    disk_cache.cache_clear()
    forget()
    yield
    disk_cache.cache_clear()
    forget()


@pytest.fixture
def ranked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each combination that was judged."""
    found: list[int] = []

    def judged(kernel: Any, number: int, *rest: Any, real: Any = ranking.judged) -> Any:
        found.append(number)
        return real(kernel, number, *rest)

    monkeypatch.setattr(ranking, "judged", judged)
    return found


def test_the_launch_the_checks_and_the_compiler_take_the_same_one() -> None:
    x, y = arrays()
    scale[blocks](x, y, 3.0)
    assert (y == 3 * x).all()
    assert px.check(scale[blocks], x, y, 3.0).ok
    made = px.compile(scale[blocks], x, y, 3.0)
    assert "const BM=16, BN=64" in made.ir, "sixteen CTAs load less each than four"
    (note,) = [note for note in made.notes if "px.choose" in note]
    assert note.startswith("test_choice.py:20: BM=16 (px.choose): ") and "the quickest of 2; next BM=64" in note
    assert px.trace(scale[blocks], x, y, 3.0).cycles < px.trace(scale[blocks], x, y, 3.0, BM=64).cycles


def test_it_follows_the_sizes() -> None:
    @px.kernel(warps=4)
    def copy(X, Y, *, BM=px.choose(16, 64)):
        for t in px.persistent(px.cdiv(X.shape[0], BM)):
            px.store(Y[t * BM : t * BM + BM, 0:64], px.load(X[t * BM : t * BM + BM, 0:64]))

    def chosen(rows: int) -> str:
        array = px.spec((rows, 64), px.f32)
        return next(note for note in px.compile(copy[132], array, array).notes if "px.choose" in note)

    assert "BM=16 (px" in chosen(132 * 16) and "BM=64 (px" in chosen(132 * 1024)


def test_what_is_given_is_taken() -> None:
    assert "const BM=64" in px.compile(scale[blocks], *arrays(), 3.0, BM=64).ir
    made = px.compile(scale[blocks], *arrays(), 3.0, BM=px.choose(64, 32), BN=px.choose(128, 64))
    assert "quickest of 4" in made.notes[0], "a launch may leave open what the kernel does not"


def test_the_second_call_ranks_nothing(ranked: list[int]) -> None:
    x, y = arrays()
    scale[blocks](x, y, 3.0)
    assert ranked == [0, 1]
    scale[blocks](x, y, 4.0)
    scale[lambda BM: (128 // BM, 2)](x, y, 4.0)
    assert ranked == [0, 1], "another function, and the same grids"
    scale[8, 2](x, y, 4.0)
    assert ranked == [0, 1, 0, 1]


def test_another_process_finds_it_on_disk(ranked: list[int]) -> None:
    x, y = arrays()
    first = px.compile(scale[blocks], x, y, 3.0).notes[0]
    forget()
    assert px.compile(scale[blocks], x, y, 3.0).notes[0] == first
    assert ranked == [0, 1]
    forget()
    px.compile(scale[blocks], x, y, 3.0, BM=px.choose(64, 16))
    assert ranked == [0, 1, 0, 1], "other candidates"


def test_a_captured_constant_that_changed_is_looked_at_anew(ranked: list[int]) -> None:
    factor = 1

    @px.kernel(warps=1)
    def fill(X, *, BM=px.choose(16, 32)):
        px.store(X[px.block_id(0) * BM : px.block_id(0) * BM + BM], px.full((BM,), factor, px.f32))

    x = np.zeros(32, np.float32)
    fill[lambda BM: 32 // BM](x)
    factor = 2
    fill[lambda BM: 32 // BM](x)
    assert (x == 2).all() and ranked == [0, 1, 0, 1]


@px.kernel(warps=px.choose(1, 4), cluster=px.choose(1, (2, 1)))
def shaped(X, *, BM=32):
    px.store(X[px.block_id(0) * BM : px.block_id(0) * BM + BM], px.full((BM,), 1.0, px.f32))


def test_warps_and_clusters() -> None:
    x = np.zeros(64, np.float32)
    shaped[lambda BM, cluster: 2](x)
    assert (x == 1).all()
    made = px.compile(shaped[2], x)
    assert "warps=1, cluster=1 (px.choose)" in made.notes[0] and "const BM=32, warps=1, cluster=1" in made.ir
    assert px.compile(shaped[2], x, cluster=(2, 1), warps=4).cluster == (2, 1, 1)
    with pytest.raises(px.Error, match="not a multiple of its cluster"):
        shaped[3](x, cluster=2)


def test_combinations_that_do_not_fit_are_left_out() -> None:
    @px.kernel(warps=4)
    def through(X, Y, *, BM=px.choose(1024, 64, 2048)):
        s = px.shared((BM, 64), X.dtype)
        px.store(s, px.load(X[0:BM, 0:64]))
        px.store(Y[0:BM, 0:64], px.load(s))

    note = px.compile(through[1], *arrays(64, 64)).notes[0]
    assert "BM=64 (px.choose)" in note and note.endswith("2 do not compile or fit")


def test_one_that_the_assembler_refuses_is_no_choice() -> None:
    @px.kernel(warps=4)
    def odd(X, *, KIND=px.choose("bad.f32", "abs.f32")):
        x = px.load(X[0:512])
        px.store(X[0:512], px.ptx(KIND + " $0, $1;", [x], px.f32, sim=np.abs))

    note = px.compile(odd[1], px.spec((512,), px.f32)).notes[0]
    assert "KIND='abs.f32'" in note and note.endswith("the quickest of 2; 1 does not compile or fit")


def test_where_the_model_can_not_tell_the_first_is_taken() -> None:
    @px.kernel(warps=1, cooperative=True)
    def together(COUNT, X, *, BM=px.choose(32, 64)):
        px.atomic_add(COUNT[0], 1, order="acq_rel")
        while px.atomic_load(COUNT[0]) < px.num_blocks(0):
            pass
        px.store(X[0:BM], px.full((BM,), 1.0, px.f32))

    x = np.zeros(64, np.float32)
    together[2](np.zeros(1, np.int32), x)
    assert (x[:32] == 1).all() and not x[32:].any()
    note = px.compile(together[300], np.zeros(1, np.int32), x).notes[0]
    assert "BM=32 (px.choose): the first of 2 that compiles and fits; the model of time can't rank them: " in note


def test_tiles_that_registers_hold_go_first() -> None:
    @px.kernel(warps=1)
    def sums(X, Y, *, BM=px.choose(256, 16)):
        total = px.zeros((BM, 64), px.f32)
        for m in range(0, X.shape[0], BM):
            total = total + px.load(X[m : m + BM, 0:64])
        px.store(Y[0:BM, 0:64], total)

    note = px.compile(sums[1], *arrays(512, 64)).notes[0]
    assert "BM=16 (px.choose)" in note and "with tiles that spill" in note


def test_on_a_gpu_other_sizes_are_looked_at_anew_and_known_ones_are_not(ranked: list[int]) -> None:
    large, small = OnGpu(1 << 14, 128), OnGpu(128, 128)
    with fake_gpu() as library:
        for _ in range(3):
            for x in (large, small):
                scale[lambda BM, x=x: (x.shape[0] // BM, 2)](x, x, 2.0)
        grids = [tuple(launch.grid) for launch in library.launches]
    assert grids[:2] == grids[2:4] == grids[4:]
    assert ranked == [0, 1, 0, 1]


def test_every_combination_can_be_checked() -> None:
    @px.kernel(warps=2)
    def racy(X, *, STRIDE=px.choose(32, 16)):
        with px.warps(0, 1):
            px.store(X[0:32], px.zeros((32,), px.f32))
        with px.warps(1, 1):
            px.store(X[STRIDE : STRIDE + 32], px.zeros((32,), px.f32))

    x = np.zeros(64, np.float32)
    assert px.check(racy[1], x).ok
    report = px.check(racy[1], x, choices="all")
    (finding,) = report.findings
    assert finding.kind == "race" and finding.message.endswith("(with STRIDE=16)")
    report = px.check(racy[1], x, STRIDE=px.choose(32, "wide"), choices="all")
    assert report.ok and report.notes[0].startswith("STRIDE='wide': not checked: ")
    assert px.check(racy[1], x, STRIDE=32, choices="all").ok


def test_the_order_of_combinations() -> None:
    constants = scale.bind_constants({"BN": px.choose(8, 4)})
    assert [(one["BM"], one["BN"]) for one in combinations(scale, constants)] == [(16, 8), (16, 4), (64, 8), (64, 4)]


def test_stages_that_the_compiler_finds_beside_it() -> None:
    @px.kernel(warps=4)
    def staged(X, Y, *, BM=px.choose(64, 128), STAGES=px.auto):
        s = px.shared((STAGES, BM, 64), X.dtype)
        px.store(s[0], px.load(X[0:BM, 0:64]))
        px.store(Y[0:BM, 0:64], px.load(s[0]))

    x, y = arrays(64, 64)
    made = px.compile(staged[lambda STAGES: STAGES // STAGES], x, y)
    assert "px.choose" in made.notes[0] and any("px.auto" in note for note in made.notes)


def test_exports_need_numbers() -> None:
    x = px.spec(("m", 128), px.f32)
    with pytest.raises(px.Error, match=r"px\.choose"):
        px.export(scale[1], x, x, 2.0, to="nowhere")
