"""`phalanx calibrate`: a card whose numbers are known is measured, and they are found; whose numbers traces then use."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import phalanx as px
from phalanx.machines.rates import Rates, corrected, measured_rates, rates_of, read_rates, text_of
from phalanx.runtime.compiled import disk_cache
from phalanx.runtime.device.devices import Device, described
from phalanx.runtime.timeline import cards
from phalanx.tools.calibrate import card, measure, products, threads
from phalanx.tools.calibrate.probe import Probe
from phalanx.tools.calibrate.solving import modelled, solve
from phalanx.tools.cli import app
from support.fake_driver import fake_gpu

H200 = rates_of("h200")
IDLE, BUSY = 1980.0, 1800.0
HOPPER = Device("NVIDIA H999", "sm_90a", 120, 50 << 20, 232448, 0)


class ModelledCard:
    """A card that is a model: it takes what the model says for its numbers, at its clocks."""

    here = HOPPER

    def __init__(self, true: Rates) -> None:
        self.true = replace(true, sms=self.here.sms, clock=BUSY)

    def microseconds(self, probe: Probe) -> float:
        if probe in threads.CLOCK:
            return (7 + threads.FMA_CYCLES * dict(probe.constants)["LENGTH"]) / IDLE
        if probe is products.AT_WORK:
            (alone,) = [each for each in products.PROBES if each.finds == "tensor_rate"]
            return modelled(alone, self.true) / BUSY
        if probe.finds == "l2_bytes":
            return 2.0 if probe.arrays(Sizes(), 1)[0] > self.true.l2_bytes else 1.0
        return modelled(probe, self.true) / (BUSY if probe.by_time else IDLE)


class Sizes:
    """Arrays of which only the size is asked for."""

    sms, real = HOPPER.sms, True

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> int:
        return int(np.prod(shape)) * dtype.itemsize


def disturbed(names: list[str], seed: int) -> Rates:
    """Numbers of a card that is like an H200, and not one."""
    drawn = random.Random(seed)
    return replace(H200, **{name: getattr(H200, name) * drawn.uniform(0.6, 1.6) for name in names})


def few(*names: str) -> list[Probe]:
    return [probe for probe in measure.PROBES if probe.finds in names]


FEW = ("sync", "load_latency", "step", "wait", "copy_latency", "tensor_rate")


def test_numbers_are_found_from_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "PROBES", tuple(few(*FEW)))
    true = disturbed([*FEW, "l2_bytes"], 3)
    heard: list[str] = []
    made = measure.measure(ModelledCard(true), H200, "a test", heard.append)
    for name in FEW:
        assert getattr(made.rates, name) == pytest.approx(getattr(true, name), rel=0.005), name
    assert made.rates.l2_bytes == pytest.approx(true.l2_bytes, rel=0.1)
    assert made.clock_idle == pytest.approx(IDLE) and made.rates.clock == pytest.approx(BUSY)
    assert not made.problems and heard == ["clock", *FEW, "l2_bytes", ""]
    assert (made.rates.name, made.rates.device, made.rates.sms) == ("H999", "NVIDIA H999", 120)
    assert (made.rates.fork, made.rates.source) == (H200.fork, "a test")


def test_what_ships_is_what_two_runs_on_an_h200_gave() -> None:
    ships = measured_rates("h200")
    runs = [run["numbers"] for run in recorded()["runs"]]
    for name in runs[0]:
        first, second = (run[name] for run in runs)
        assert abs(first / second - 1) < (0.04 if name == "l2_rate" else 0.03), name
        assert abs(getattr(ships, name) / first - 1) < 0.03 > abs(getattr(ships, name) / second - 1), name


def recorded() -> Any:
    return json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "calibrate.json").read_text())


@pytest.mark.long
def test_numbers_follow_from_what_was_measured() -> None:
    ships = measured_rates("h200")
    for run in recorded()["runs"]:
        start = replace(ships, clock=run["numbers"]["clock"], l2_bytes=run["numbers"]["l2_bytes"])
        rates, _ = measure.solve_times(run["microseconds"], start, run["clock_idle_mhz"])
        for name, number in run["numbers"].items():
            assert getattr(rates, name) == pytest.approx(number, rel=0.01), name


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_all_numbers_are_found_from_times(seed: int) -> None:
    names = [probe.finds for probe in measure.PROBES]
    # What HBM brings goes the way of L2; a copy to a peer arms its barrier there, and can't be told if that takes longer.
    true = replace(disturbed(names, seed), l2_sm_rate=150.0, hbm_sm_rate=80.0, remote_arrive_latency=90.0)
    made = measure.measure(ModelledCard(true), H200, "a test")
    off = {name: getattr(made.rates, name) / getattr(true, name) - 1 for name in names}
    assert max(map(abs, off.values())) < 0.02, off


def test_what_no_number_explains() -> None:
    (probe,) = few("sync")
    rates, (found,) = solve([probe], {"sync": 1.0}, H200)  # less than the loop around it takes
    assert found.problem == "the model takes longer than the card" and rates.sync == H200.sync
    _, (found,) = solve([probe], {"sync": 1e6}, H200)
    assert found.problem == "the card takes longer"


def test_a_clock_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "PROBES", ())
    clocks = iter([IDLE, 1500.0])
    monkeypatch.setattr(measure, "idle_clock", lambda watch: next(clocks))
    with pytest.raises(px.Error) as caught:
        measure.measure(ModelledCard(H200), H200, "a test")
    assert caught.value.message == "the clock of the NVIDIA H999 went from 1980 to 1500 MHz while it was measured"


# --- the GPU -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fake GPU, whose clock counts a millisecond for each CTA that a launch has."""
    monkeypatch.setattr(card, "WARM_S", 0.0)
    monkeypatch.setattr(card.time, "sleep", lambda seconds: None)
    with fake_gpu() as library:
        yield library


def test_times_are_taken_behind_a_long_launch(gpu: Any) -> None:
    made = card.Card(px.device())
    (probe,) = few("cta_start")
    before = len(gpu.launches)
    assert made.microseconds(probe) == 132_000.0
    grids = [launch.grid[0] for launch in gpu.launches[before:]]
    assert grids[:2] == [132, 132 * 25] and grids[2:6] == [1, 132, 132, 132]  # warm, then behind `chain`
    assert gpu.names().count("cuMemFree_v2") == 1


def test_what_is_to_come_from_hbm_finds_l2_empty(gpu: Any) -> None:
    made = card.Card(px.device())
    (probe,) = few("load_latency_hbm")
    before = gpu.names().count("cuMemsetD8Async")
    assert made.microseconds(probe) == 0.0
    assert gpu.names().count("cuMemsetD8Async") - before == 2 * card.ROUNDS * card.LEAST_LAUNCHES


AT_WORK, PASSED = "with the tensor cores at work", "a wait that is passed at once"
ONE_SM = "128 x 256 x 64 in bf16 on one SM"


def asked(*options: str) -> tuple[str, int]:
    result = CliRunner().invoke(app, ["calibrate", *options])
    return result.output, result.exit_code


def test_there_has_to_be_a_gpu() -> None:
    assert asked() == (
        "phalanx calibrate measures a GPU, and there is none here\n"
        "  = help: run it on the machine whose card is to be modelled; PHALANX_CARD names the file that it writes\n",
        2,
    )


@pytest.mark.usefixtures("gpu")
def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    probes = few("sync", "wait", "tensor_rate")
    monkeypatch.setattr(measure, "PROBES", tuple(probes))
    ships = measured_rates("h200")
    times = ModelledCard(replace(ships, sync=60.0)).microseconds
    monkeypatch.setattr(card.Card, "microseconds", lambda self, probe: times(probe))
    monkeypatch.setattr(card.time, "perf_counter", lambda: 0.0)
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    text, code = asked("--compare")
    path = tmp_path / "cards" / "fake_gpu.json"
    made, took = read_rates(path), modelled(probes[-1], ships)
    assert code == 0 and [line.split(maxsplit=5) for line in text.splitlines()] == [
        ["number", "measured", "ships", "ratio", "us", "a step  step"],
        ["clock", "1800", f"{ships.clock}", f"{1800 / ships.clock:.3f}", f"{took / 1800:.4g}", AT_WORK],
        ["l2_bytes", f"{made.l2_bytes}", f"{ships.l2_bytes}", f"{made.l2_bytes / ships.l2_bytes:.3f}", "what", "L2 keeps"],
        ["sync", "60", f"{ships.sync}", f"{60 / ships.sync:.3f}", f"{(60 + ships.step) / 1980:.4g}", "a barrier of 4 warps"],
        ["wait", f"{ships.wait}", f"{ships.wait}", "1.000", f"{(ships.wait + ships.step) / 1980:.4g}", PASSED],
        ["tensor_rate", f"{ships.tensor_rate}", f"{ships.tensor_rate}", "1.000", f"{took / 1980:.4g}", ONE_SM],
        ["clock,", "idle", "1980", "with", "little", "to do"],
        ["Fake", "GPU:", "3", "numbers", "in", "0 s"],
        [str(path)],
    ]
    assert read_rates(path).sync == 60 and "phalanx calibrate" in read_rates(path).source
    assert asked("--to", str(tmp_path / "x.json"))[1] == 0 and read_rates(tmp_path / "x.json").sms == 132


# --- whose numbers are used --------------------------------------------------------------------------------------------


@px.kernel(warps=1)
def doubled(X, Y, *, BN=1024):
    n = px.block_id(0) * BN
    px.store(Y[n : n + BN], px.load(X[n : n + BN]) * 2)


def cycles() -> float:
    return px.trace(doubled[1024], *[px.spec((1 << 20,), px.f32)] * 2).microseconds


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Device]:
    """The card of this machine, which a test changes; its files are in a folder of the test's."""
    found = [described("sm_90a")]
    monkeypatch.setattr(cards, "device", lambda: found[0])
    monkeypatch.setattr(cards, "_said", set())
    monkeypatch.setattr(cards, "_cards", {})
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PHALANX_CARD", raising=False)
    return found


SLOW = replace(H200, name="H999", device="NVIDIA H999", hbm_rate=H200.hbm_rate / 2)


def test_a_card_s_file_changes_traces(here: list[Device], capsys: pytest.CaptureFixture[str]) -> None:
    usual = cycles()
    here[0] = HOPPER
    assert cycles() == usual and cycles() == usual
    told = "the model of time has no numbers of this NVIDIA H999 and uses those of the H200"
    assert capsys.readouterr().err == f"phalanx: {told}; `phalanx calibrate` measures this card\n"
    cards.write_card(text_of(SLOW), HOPPER)
    assert 1.5 < cycles() / usual < 2 and capsys.readouterr().err == ""
    here[0] = described("sm_90a")
    assert cycles() == usual


@px.kernel(warps=8)
def summed(WIDE, NARROW, Y, *, PACKED=px.choose(0, 1), BN=8192):
    """Sums of what is read as it is, or as half as many bytes from which it is computed."""
    n = px.block_id(0) * BN
    if PACKED:
        x = px.load(NARROW[n : n + BN]).to(px.f32)
        for _ in px.static_range(2):
            x = px.exp2(x) * x
        x = px.fma(x, x, 1.0)
    else:
        x = px.load(WIDE[n : n + BN])
    px.store(Y[px.block_id(0)], px.sum(x))


def test_a_card_s_file_changes_choices(here: list[Device], tmp_path: Path) -> None:
    ctas = 4 * 132
    args = [px.spec((ctas * 8192,), px.f32), px.spec((ctas * 8192,), px.bf16), px.spec((ctas,), px.f32)]

    def chosen() -> str:
        made = px.compile(summed[ctas], *args, arch="sm_90a")
        return next(note for note in made.notes if "px.choose" in note)

    disk_cache.cache_clear()
    assert "PACKED=0 (px.choose)" in chosen() and "of the H200" in chosen()
    here[0] = HOPPER
    cards.write_card(text_of(SLOW), HOPPER)
    assert "PACKED=1 (px.choose)" in chosen() and "of the H999" in chosen(), "with half the bandwidth bytes cost more"
    here[0] = described("sm_90a")
    assert "PACKED=0 (px.choose)" in chosen()
    disk_cache.cache_clear()


def test_a_known_card_needs_no_file(here: list[Device], capsys: pytest.CaptureFixture[str]) -> None:
    here[0] = replace(HOPPER, name="NVIDIA H200")
    assert cards.rates_for("sm_90a") is H200 and cards.rates_for("sm_100a").name == "B200"
    assert capsys.readouterr().err == ""


def test_a_file_that_is_named(here: list[Device], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = cycles()
    path = tmp_path / "slow.json"
    cards.write_card(text_of(SLOW), HOPPER, path)
    monkeypatch.setenv("PHALANX_CARD", str(path))
    assert cycles() > 1.5 * usual
    cards.write_card(text_of(SLOW).replace('"sms": 132', '"sms": "many"'), HOPPER, path)
    with pytest.raises(px.Error) as caught:
        cards.card_for("sm_90a")
    assert caught.value.message == f"PHALANX_CARD names {path}, which is no card's file: sms is 'many'"
    cards.write_card("[]", HOPPER, path)
    with pytest.raises(px.Error, match="it has not the numbers of a card"):
        cards.card_for("sm_90a")


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "h200.json"
    path.write_text(text_of(measured_rates("h200")))
    assert read_rates(path) == measured_rates("h200")


def test_corrections_are_the_same_for_every_card_of_a_kind() -> None:
    card = measured_rates("h200")
    other = corrected(replace(card, tensor_rate=2 * card.tensor_rate))
    assert corrected(card) == H200 and other == replace(H200, tensor_rate=2 * H200.tensor_rate)
    assert 0.8 < H200.tensor_rate / card.tensor_rate < 1 and rates_of("b200") == measured_rates("b200")
