"""Launches with delays: the text, what the kernel is told, orders in the simulator, and the fewest delays."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.abi import MOST_SITES, Extras
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import generate
from phalanx.cuda.nvrtc import has_packages
from phalanx.ir.archs import arch_of
from phalanx.runtime.launch import watchdog
from phalanx.runtime.launch.launch_list import LISTS
from phalanx.runtime.launch.watchdog import RECORD_WORDS, SEED_WORD, Delays, delays, shaken
from phalanx.runtime.shaking import ShakenLaunch, delay_sites, fewest
from phalanx.runtime.tuning.worker import Failed
from phalanx.tools.shake import Session, Trials, shaken_text
from phalanx.tools.user_files import declared
from support.fake_driver import OnGpu, fake_gpu
from support.host_cuda import launch as run_text
from support.host_cuda import prepared, type_of

FILE = '''
import numpy as np
import phalanx as px


@px.kernel(warps=2)
def handed_over(X, Y, *, WAIT=True):
    tile, full, empty = px.shared((32,), px.f32), px.barrier(), px.barrier()
    with px.warps(0, 1):
        for step in range(2):
            empty.wait(step & 1 ^ 1)
            with full.transaction():
                px.tma.load(X[step * 32 : step * 32 + 32], tile, full)
    with px.warps(1, 1):
        for step in range(2):
            full.wait(step & 1)
            px.store(Y[step * 32 : step * 32 + 32], px.load(tile))
            empty.arrive()


@px.example
def small():
    return handed_over[1], (np.arange(64, dtype=np.float32), np.zeros(64, np.float32))
'''
PLACES = [
    (11, ".wait", "warp 0"), (12, ".arrive_and_expect_tx", "warp 0"),
    (12, ".arrive_and_expect_tx", "warp 0"), (13, "px.tma.load", "warp 0"),
    (16, ".wait", "warp 1"), (18, ".arrive", "warp 1"), (18, ".arrive", "warp 1"),
]  # fmt: skip
"""Before waits, arrivals and copies; behind arrivals as well."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "shake_this.py"
    path.write_text(FILE)
    return str(path)


def test_delays_stand_where_agents_tell_each_other_something(file: str) -> None:
    (launch,) = declared(file)
    sites = delay_sites(launch.bound, launch.args, launch.constants, "sm_90a")
    assert [(s.line, s.instruction, s.role) for s in sites if s.instruction != "px.sync"] == PLACES
    assert str(next(s for s in sites if s.line == 13)) == "shake_this.py:13: px.tma.load, warp 0"


def test_a_build_that_is_not_shaken_has_none(file: str) -> None:
    (launch,) = declared(file)
    plain = px.compile(launch.bound, *launch.args)
    with shaken(Delays(3)):
        delayed = px.compile(launch.bound, *launch.args)
    assert delays() is None and not LISTS
    assert "px_delay" in delayed.source and delayed.signature.debug
    assert "px_delay" not in plain.source and not plain.signature.debug
    assert px.compile(launch.bound, *launch.args) is plain


def test_the_text_with_delays_computes_the_same(file: str) -> None:
    (launch,) = declared(file)
    args, target = [x.copy() for x in launch.args], arch_of("sm_90a")
    function = prepared(launch.bound.kernel, tuple(map(type_of, args)), target)
    module = generate(lower(function, target, extras=Extras(watchdog=True, shaken=True)))
    assert module.source.count("px_delay(px_debug") == len(PLACES) + 3
    run_text(module, 1, args, seed=1)
    assert np.array_equal(args[1], args[0])


def test_places_without_a_bit_have_no_delay(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.cuda.text.delays.MOST_SITES", 4)
    (launch,) = declared(file)
    target = arch_of("sm_90a")
    function = prepared(launch.bound.kernel, tuple(map(type_of, launch.args)), target)
    module = generate(lower(function, target, extras=Extras(watchdog=True, shaken=True)))
    numbers = [number for number, site in enumerate(module.sites) if site.kind == "delay"]
    assert numbers and max(numbers) < 4


def test_the_kernel_is_told_seed_and_sites() -> None:
    words = struct.unpack(f"<{len(Delays(5, (0, 64, 70)).words()) // 8}Q", Delays(5, (0, 64, 70)).words())
    assert words[0] == 5 and words[RECORD_WORDS - SEED_WORD :][:2] == (1, 1 | 1 << 6)
    every = Delays(-1).words()
    assert struct.unpack("<Q", every[:8])[0] == 2**64 - 1
    assert every[8 * (RECORD_WORDS - SEED_WORD) :] == b"\xff" * (MOST_SITES // 8)


@pytest.mark.skipif(not has_packages(), reason="the driver gets machine code that NVRTC makes")
def test_a_launch_with_jitter_goes_to_the_gpu_with_its_seed(file: str) -> None:
    (launch,) = declared(file)
    with fake_gpu():
        launch.bound.run(OnGpu(64), OnGpu(64), jitter=77)
        (buffer,) = watchdog._BUFFERS.values()
        assert struct.unpack_from("<Q", buffer.memory, 8 * SEED_WORD)[0] == 77
        launch.bound.run(OnGpu(64), OnGpu(64))
        assert delays() is None


def test_a_seed_is_an_order_in_the_simulator() -> None:
    @px.kernel(warps=2)
    def first_come(ORDER):
        with px.warps(0, 1):
            px.atomic_cas(ORDER[0], 0, 1)
        with px.warps(1, 1):
            px.atomic_cas(ORDER[0], 0, 2)

    seen: dict[int, int] = {}
    for seed in range(16):
        for _ in range(2):
            order = np.zeros(1, np.int32)
            first_come[1].run(order, jitter=seed)
            assert seen.setdefault(seed, int(order[0])) == order[0], "replayed"
    assert set(seen.values()) == {1, 2}


@pytest.mark.parametrize("seed", range(20))
def test_the_fewest_delays_are_found(seed: int) -> None:
    rng = random.Random(seed)
    sites = tuple(range(rng.randint(1, 60)))
    needed = set(rng.sample(sites, min(len(sites), rng.randint(1, 3))))
    asked: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> str:
        asked.append(part)
        return "wrong" if needed <= set(part) else ""

    assert set(fewest(sites, fails)) == needed
    assert len(asked) <= 4 * len(sites) + 10


class Broken:
    """A worker whose kernel is wrong with odd seeds where two of its delays come together; a third one hangs it."""

    is_running = False

    def __init__(self) -> None:
        self.started = 0

    def ask(self, name: str, *arguments: Any, limit: float) -> Any:
        if name == "prepare":
            self.is_running, self.started = True, self.started + 1
            return None
        seed, sites = arguments
        wrong = seed % 2 == 1 and (sites is None or {1, 4} <= set(sites))
        return "'Y' is off by 1 of its largest element" if wrong else ""


def test_what_a_person_reads(file: str) -> None:
    (launch,) = declared(file)
    sites = delay_sites(launch.bound, launch.args, launch.constants, "sm_90a")
    known = [site for site in sites if site.instruction != "px.sync"]
    first, second = known[1], known[4]
    worker = Broken()

    def trials(seed: int, part: tuple[int, ...] | None = None) -> str:
        numbers = None if part is None else tuple({first.number: 1, second.number: 4}.get(site, 0) for site in part)
        return Trials(file, 0, worker)(seed, numbers)

    assert shaken_text(launch, sites, trials, range(2, 9)) == (
        f"""\
handed_over: wrong with seed 3: 'Y' is off by 1 of its largest element; 2 of {len(sites)} delays are enough:
  shake_this.py:12: .arrive_and_expect_tx, warp 0
  shake_this.py:16: .wait, warp 1
  again, with all delays: handed_over[grid].run(..., jitter=3)""",
        True,
    )
    assert worker.started == 1
    right = shaken_text(launch, sites, trials, range(2, 3))
    assert right == (f"handed_over: right with 1 seeds, delays at {len(sites)} places", False)


def test_a_launch_that_fails_by_itself_is_no_finding(file: str) -> None:
    """A hang or a crash may be a delay's doing; an error of the launch is not."""

    class Failing(Broken):
        def __init__(self, status: str) -> None:
            super().__init__()
            self.status = status

        def ask(self, name: str, *arguments: Any, limit: float) -> Any:
            if name == "trial":
                raise Failed(self.status, "CUDA_ERROR_NO_DRIVER")
            return super().ask(name, *arguments, limit=limit)

    assert Trials(file, 0, Failing("crashes"))(0) == "it crashes: CUDA_ERROR_NO_DRIVER"
    with pytest.raises(Failed):
        Trials(file, 0, Failing("fails"))(0)


def test_a_session_knows_what_is_right(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.runtime.shaking.on_device", lambda value: value.copy())  # the simulator stands for the GPU
    session = Session()
    session.prepare(file, 0)
    assert isinstance(session.launch, ShakenLaunch)
    assert [session.trial(seed, None) for seed in range(3)] == ["", "", ""]
    session.launch.expected[1][5] += 8
    assert session.trial(0, None) == "'Y' is off by 0.13 of its largest element"
