"""The GEMM benchmark without a GPU: shapes files, contenders and clocks made of Python, results, tables and plots."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import phalanx as px
from benchmarks.common import machine as results
from benchmarks.products import contenders, gemm, peers, plot
from benchmarks.products.contenders import Library, Missing, Rung, ours
from benchmarks.products.gemm import GemmBench, Options, energy_table, table
from benchmarks.products.peers.settings import fastest
from benchmarks.products.shapes import LARGE, Shape, read_shapes
from phalanx.runtime.device.power import NoMeter, Reading
from phalanx.runtime.device.timing import MODES
from phalanx.tools import bench as tools
from phalanx.tools.cli import app

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "gemm.json"


def command(*arguments: str) -> Any:
    """`phalanx bench` with these arguments."""
    return CliRunner().invoke(app, ["bench", *arguments])


# Shapes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "# sizes\n64 128 256\n\n4096 x 4096 x 14336  # wide\n"),
        ("b.txt", "64,128,256\n4096x4096x14336"),
        ("c.csv", "M,N,K\n64,128,256\n4096, 4096, 14336\n"),
        ("d.csv", '"m","n","k","note"\n64,128,256,\n\n4096,4096,14336,wide\n'),
        ("e.json", "[[64, 128, 256], [4096, 4096, 14336]]"),
        ("f.json", '{"shapes": [{"M": 64, "N": 128, "K": 256}, {"m": 4096, "n": 4096, "k": 14336}]}'),
    ],
)
def test_files_of_shapes(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert read_shapes(tmp_path / name) == (Shape(64, 128, 256), Shape(4096, 4096, 14336))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "64 128 256 v6 v7:STAGES=3,GROUP=4\n64 64 64"),
        ("b.csv", "M,N,K,contenders\n64,128,256,v6 v7:STAGES=3\n64,64,64,\n"),
        ("c.json", '[[64, 128, 256, "v6", "v7:STAGES=3"], {"m": 64, "n": 64, "k": 64}]'),
        ("d.json", '[{"m": 64, "n": 128, "k": 256, "contenders": ["v6", "v7:STAGES=3"]}, [64, 64, 64]]'),
    ],
)
def test_shapes_that_name_their_contenders(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    first, second = read_shapes(tmp_path / name)
    assert first.contenders is not None and first.runs("v6") and first.runs("v6:STAGES=2") and not first.runs("v5")
    assert second.contenders is None and second.runs("v5")


@pytest.mark.parametrize(
    ("name", "text", "message", "line"),
    [
        ("a.txt", "64 128 256\n64 128\n", "a shape has 2 sizes", 2),
        ("b.txt", "64 128 0\n", "a shape is 64 x 128 x 0", 1),
        ("c.txt", "64 many 128\n", "a shape is no number", 1),
        ("d.csv", "M,N,K\n64,128,256\n64,128,\n", "a shape is no number", 3),
        ("e.json", "[[64, 128]]", "a shape has 2 sizes", 1),
        ("f.json", "[64, 128, 256]", "a shape is 64", 1),
        ("g.json", "[[64, 128, 256]", "a shape file is no JSON", 1),
        ("h.json", '{"sizes": []}', "a shape file has no list of shapes", 1),
        ("i.json", '[{"m": 1, "n": 2, "k": 3, "contenders": 7}]', "a shape names the contenders 7", 1),
    ],
)
def test_broken_shapes_are_shown_with_their_line(name: str, text: str, message: str, line: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(px.Error) as error:
        read_shapes(tmp_path / name)
    assert error.value.message.startswith(message)
    assert (Path(error.value.location.file).name, error.value.location.line) == (name, line)
    assert error.value.remedy


def test_empty_and_missing_files_of_shapes(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(px.Error, match="has no shapes"):
        read_shapes(tmp_path / "empty.txt")
    with pytest.raises(px.Error, match="can't be read"):
        read_shapes(tmp_path / "missing.txt")


def test_the_files_that_ship() -> None:
    assert read_shapes(ROOT / "benchmarks" / "shapes" / "large.txt") == LARGE
    assert len(read_shapes(ROOT / "benchmarks" / "shapes" / "small_m.txt")) == 3


# A device and contenders made of Python -------------------------------------------------------------------


class FakeDevice:
    """NumPy arrays, and a clock that is told what a run takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cold = 0
        self.sms = 132
        self.last = ""
        self.draws: dict[str, Reading] = {}

    def meter(self) -> Any:
        if not self.draws:
            raise NoMeter("no NVML here")
        return self

    def during(self, work: Any, launches: int) -> tuple[Any, Reading]:
        return work(), self.draws[self.last]

    def operands(self, m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(seed)
        a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32)
        return a, b, np.full((m, n), np.nan, np.float32)

    def product(self, a: Any, b: Any) -> Any:
        return a @ b.T

    def difference(self, c: Any, want: Any) -> float:
        return float(np.abs(c - want).max() / np.abs(want).max())

    def blank(self, c: Any) -> None:
        c.fill(np.nan)

    def synchronize(self) -> None: ...

    def release(self) -> None: ...

    def milliseconds(self, run: Any, repeats: int) -> float:
        before = self.now
        for _ in range(repeats):
            run()
        return (self.now - before) / repeats

    def cold_milliseconds(self, run: Any, repeats: int) -> float:
        self.cold += 1
        return self.milliseconds(run, repeats)


class Fake:
    """Takes `ms` a run; right, unless it is said to be wrong."""

    def __init__(self, fake: FakeDevice, name: str, ms: float, *, wrong_from: int = 1 << 30, small: bool = False) -> None:
        self.device, self.name, self.ms, self.wrong_from, self.small = fake, name, ms, wrong_from, small
        self.watched_runs = 0

    def fits(self, m: int, n: int, k: int) -> bool:
        return not self.small or m <= 768

    def launch(self, a: Any, b: Any, c: Any) -> Any:
        def run() -> None:
            self.device.now += self.ms
            self.device.last = self.name
            if np.isnan(c[0, 0]):  # the clock's runs need not multiply again
                c[:] = a @ b.T * (2 if a.shape[0] >= self.wrong_from else 1)

        return run

    def watched(self, a: Any, b: Any, c: Any) -> Any:
        self.watched_runs += 1
        return self.launch(a, b, c)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A device whose contenders are cublas at 4 ms, v6 at 2 ms, triton at 8 ms; tilelang is not installed."""
    made = FakeDevice()
    known = {"cublas": Fake(made, "cublas", 4.0), "triton": Fake(made, "triton", 8.0), "v6": Fake(made, "v6", 2.0)}

    def find(name: str, *_: Any) -> Any:
        if name in known:
            return known[name]
        if name == "v5":
            raise px.Error("v5 does not compile", remedy="mend it")
        raise Missing(f"{name} is not installed")

    monkeypatch.setattr(gemm, "CHECKS", ((64, 128, 64), (48, 64, 72)))
    monkeypatch.setattr(gemm, "peer", find)
    monkeypatch.setattr(gemm, "ours", find)
    made.known = known  # type: ignore[attr-defined]
    return made


def bench(fake: FakeDevice, **options: Any) -> tuple[dict[str, Any], list[str]]:
    said: list[str] = []
    chosen = Options(
        **{"shapes": (Shape(64, 128, 64), Shape(1024, 64, 64)), "rungs": ("v5", "v6", "matmul"), "rounds": 2,
           "burst_rounds": 1, **options}
    )  # fmt: skip
    return GemmBench(chosen, fake, said.append, rest=lambda seconds: None).run(), said


def test_all_contenders_take_turns(fake: FakeDevice) -> None:
    found, said = bench(fake)
    rows = {(row["mode"], tuple(row["shape"]), row["contender"]): row for row in found["rows"]}
    assert len(rows) == 3 * 2 * 3, "steady, in bursts and in turns"
    row = rows["turns", (64, 128, 64), "v6"]
    assert row["ms"] == [2.0, 2.0] and row["ratio"] == 2.0 and row["error"] == 0.0
    assert row["tflops"] == pytest.approx(2 * 64 * 128 * 64 / 2.0 / 1e9)
    assert rows["burst", (1024, 64, 64), "triton"]["ratio"] == 0.5
    assert rows["burst", (1024, 64, 64), "triton"]["ms"] == [8.0]
    assert rows["turns", (64, 128, 64), "cublas"]["ratio"] == 1.0
    assert set(found["errors"]) == {"v5", "v6", "triton"} and found["errors"]["v5"] == "Error: v5 does not compile"
    assert "tilelang: not measured: tilelang is not installed" in found["notes"]
    assert "matmul: not measured: matmul is not installed" in found["notes"]
    assert any(line.startswith("v6: right, largest relative error 0.0e+00") for line in said)


def test_each_contender_first_runs_with_bounded_waits(fake: FakeDevice) -> None:
    bench(fake, shapes=(Shape(64, 64, 64),))
    assert fake.known["v6"].watched_runs == len(gemm.CHECKS)  # type: ignore[attr-defined]


def test_slow_rungs_are_left_out_of_bursts(fake: FakeDevice) -> None:
    found, _ = bench(fake, burst_rungs=("v7",))
    assert {row["contender"] for row in found["rows"] if row["mode"] == "burst"} == {"cublas", "triton"}
    assert {row["contender"] for row in found["rows"] if row["mode"] == "turns"} == {"cublas", "triton", "v6"}


def test_contenders_of_one_shape(fake: FakeDevice) -> None:
    found, _ = bench(fake, shapes=(Shape(64, 64, 64, ("v6",)), Shape(128, 64, 64)), modes=("turns",))
    names = {row["shape"][0]: set() for row in found["rows"]}
    for row in found["rows"]:
        names[row["shape"][0]].add(row["contender"])
    assert names == {64: {"cublas", "v6"}, 128: {"cublas", "v6", "triton"}}


def test_wrong_results_are_left_out(fake: FakeDevice) -> None:
    others = (
        lambda: Fake(fake, "always wrong", 1.0, wrong_from=0),
        lambda: Fake(fake, "wrong when large", 1.0, wrong_from=4096),
        lambda: Fake(fake, "for small ones", 1.0, small=True),
    )
    found, _ = bench(fake, shapes=(Shape(64, 64, 64), Shape(4096, 64, 64)), others=others, modes=("turns",))
    shapes: dict[str, list[int]] = {}
    for row in found["rows"]:
        shapes.setdefault(row["contender"], []).append(row["shape"][0])
    assert "always wrong" not in shapes
    assert shapes["wrong when large"] == [64] and shapes["for small ones"] == [64]
    assert str(found["errors"]["always wrong"]).startswith("AssertionError: relative error 1")
    assert any("4096 x 64 x 64: wrong when large LEFT OUT" in note for note in found["notes"])


def test_steady_runs_say_what_a_launch_drew(fake: FakeDevice) -> None:
    fake.draws = {
        "cublas": Reading(1.0, 600.0, 1500.0), "v6": Reading(0.5, None, 1000.0), "triton": Reading(None, None, None),
    }  # fmt: skip
    found, _ = bench(fake, modes=("steady", "turns"), shapes=(Shape(64, 128, 64),), steady_rounds=2)
    rows = {(row["mode"], row["contender"]): row for row in found["rows"]}
    assert rows["steady", "cublas"]["joules"] == 1.0 and rows["steady", "cublas"]["watts"] == 600.0
    per_cycle = 2 * 64 * 128 * 64 / (2e-3 * 1e9 * fake.sms)
    assert rows["steady", "v6"]["flop_per_cycle_per_sm"] == pytest.approx(per_cycle)
    assert rows["steady", "triton"]["flop_per_cycle_per_sm"] is None
    assert "joules" not in rows["turns", "v6"], "20 ms are too short for the card's counter"
    lines = energy_table(found["rows"], "steady")
    assert [line.split()[5] for line in lines[2:]] == ["cublas", "v6"], "no line without figures"
    assert "0.5000 J (0.500)" in lines[3]
    assert energy_table(found["rows"], "turns") == []


def test_a_card_without_figures_is_noted(fake: FakeDevice) -> None:
    found, _ = bench(fake, modes=("steady",), shapes=(Shape(64, 64, 64),))
    assert "no power, energy or clock: no NVML here" in found["notes"]
    assert all("joules" not in row for row in found["rows"])


def test_a_mode_that_empties_l2(fake: FakeDevice) -> None:
    bench(fake, modes=("cold",), shapes=(Shape(64, 64, 64),), rounds=1)
    assert fake.cold == 2 * 3, "an estimate and a block for each of the three"


def test_without_cublas_there_is_nothing_to_compare_with(fake: FakeDevice) -> None:
    del fake.known["cublas"]  # type: ignore[attr-defined]
    with pytest.raises(px.Error, match="cuBLAS could not be measured"):
        bench(fake)


def test_unknown_modes_peers_and_rungs() -> None:
    with pytest.raises(px.Error, match=r"products\.gemm has no mode 'quick'"):
        Options(modes=("quick",))
    with pytest.raises(px.Error, match='called "sustained" is mode="turns"'):
        Options(modes=("sustained",))
    with pytest.raises(px.Error, match="no peer 'mkl'"):
        Options(peers=("mkl",))
    with pytest.raises(px.Error, match="no peer 'mkl'"):
        peers.peer("mkl", lambda run, repeats: 1.0)
    with pytest.raises(px.Error, match="no contender 'v99'"):
        ours("v99")
    with pytest.raises(px.Error, match="constants that can't be read"):
        ours("v6:STAGES")


def test_the_table(fake: FakeDevice) -> None:
    found, _ = bench(fake)
    lines = table(found["rows"], "turns")
    assert lines[1] == "turns: TFLOP/s (ratio to cuBLAS)"
    assert lines[2].split() == ["M", "x", "N", "x", "K", "cublas", "v6", "triton"]
    assert lines[3].split()[5:] == ["0", "(1.000)", "0", "(2.000)", "0", "(0.500)"]
    assert lines[-1].split() == ["geometric", "mean", "1.000", "2.000", "0.500"]
    assert table(found["rows"], "cold") == []


# Contenders ------------------------------------------------------------------------------------------------


def test_the_rungs_of_the_ladder() -> None:
    rung = Rung("v6:STAGES=3,GROUP=4")
    assert rung.constants == dict(STAGES=3, GROUP=4)
    bound = rung.bound(4096, 4096, 4096)
    assert bound.kernel.name == "gemm_v6" and bound.kernel.watchdog is None


def test_the_library_is_called_as_users_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def matmul(a: Any, b: Any, out: Any) -> None:
        calls.append((a.shape, b.shape, out.shape, os.environ.get("PHALANX_WATCHDOG")))

    monkeypatch.setattr(px.kernels, "matmul", matmul)
    monkeypatch.delenv("PHALANX_WATCHDOG", raising=False)
    a, b, c = FakeDevice().operands(64, 128, 32)
    Library().launch(a, b, c)()
    watched = ours("matmul").watched(a, b, c)
    assert watched is not None
    watched()
    assert calls == [((64, 32), (32, 128), (64, 128), watchdog) for watchdog in (None, "1")]
    assert "PHALANX_WATCHDOG" not in os.environ


def test_the_fastest_setting_that_works() -> None:
    device = FakeDevice()

    def make(ms: float) -> Any:
        if ms == 1.0:
            raise RuntimeError("too much shared memory")

        def run() -> None:
            device.now += ms

        return run

    chosen, run = fastest((4.0, 1.0, 2.0, 3.0), make, device.milliseconds)
    assert chosen == 2.0 and device.milliseconds(run, 1) == 2.0
    with pytest.raises(RuntimeError, match="no setting works: too much shared memory"):
        fastest((1.0,), make, device.milliseconds)


@pytest.mark.parametrize("name", ["triton", "tilelang"])
def test_peers_that_are_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(Missing, match=f"{name} is not installed"):
        peers.peer(name, lambda run, repeats: 1.0)


def test_tilelang_compiles_its_settings_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.products.peers import tilelang_matmul

    compiled: list[list[Any]] = []

    def par_compile(programs: list[Any], target: str, ignore_error: bool) -> list[Any]:
        compiled.append(programs)
        return [None if setting.bm == 256 else (lambda *_, setting=setting: ran.append(setting)) for setting in programs]

    ran: list[Any] = []
    fake = SimpleNamespace(par_compile=par_compile, set_log_level=lambda level: None)
    monkeypatch.setitem(sys.modules, "tilelang", fake)
    monkeypatch.setattr(tilelang_matmul, "program", lambda m, n, k, setting: setting)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())

    def timer(run: Any, repeats: int) -> float:
        run()
        return float(ran[-1].stages * ran[-1].bn)

    peer = tilelang_matmul.TileLang(timer)
    a, b, c = (SimpleNamespace(shape=shape) for shape in ((512, 64), (256, 64), (512, 256)))
    peer.launch(a, b, c)()
    peer.launch(a, b, c)()
    assert compiled == [list(tilelang_matmul.SETTINGS)]
    assert ran[-1] == tilelang_matmul.Setting(128, 128, 64, 4, 256)  # 3 x 128 would be less, but did not compile


# Results and plots ----------------------------------------------------------------------------------------


def test_results_say_where_they_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_COMMIT", "abc1234")
    monkeypatch.setattr(results, "gpu", lambda: {"card": "A card", "driver": "1.2"})
    results.save(tmp_path / "new" / "x.json", {"rows": []})
    data = results.load(tmp_path / "new" / "x.json")
    assert data["rows"] == []
    assert data["machine"].keys() == {"card", "driver", "date", "commit", "python"}
    assert (data["machine"]["card"], data["machine"]["commit"]) == ("A card", "abc1234")
    results.save(None, {"rows": []})
    for text in ("", "[]", '{"rows": []}', '{"machine": 3, "rows": []}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(px.Error, match="is no results file"):
            results.load(tmp_path / "bad.json")


@pytest.mark.long
def test_a_plot_of_the_results_that_ship(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot.main([str(RESULTS), "--out", str(tmp_path)])
    assert (tmp_path / "gemm.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    picture = (tmp_path / "gemm.svg").read_text()
    machine = json.loads(RESULTS.read_text())["machine"]
    for text in ("turns", "burst", "TFLOP/s", machine["card"], machine["driver"], machine["date"], "16384"):
        assert text in picture, text


def test_a_plot_of_one_mode_with_peers(fake: FakeDevice, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found, _ = bench(fake, modes=("turns",))
    plot.plot_gemm({"machine": {"date": "2026-01-01"}, **found}, [tmp_path / "a.svg"])
    picture = (tmp_path / "a.svg").read_text()
    assert "triton" in picture and "2026-01-01" in picture and "burst" not in picture
    with pytest.raises(px.Error, match="no rows to plot"):
        plot.plot_gemm({"machine": {}, "rows": []}, [tmp_path / "a.svg"])


def test_colours_tell_contenders_apart() -> None:
    names = [*contenders.OURS, *peers.PEERS, "reference"]
    assert len({plot.colour_of(name) for name in names}) == len(names)
    assert plot.colour_of("v6:STAGES=3") == plot.colour_of("v6")


def test_matplotlib_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(px.Error, match=r'matplotlib(.|\n)*pip install "phalanx-gpu\[bench\]"'):
        plot.main([str(RESULTS), "--out", str(tmp_path)])


# The command ----------------------------------------------------------------------------------------------


def test_the_script_writes_results_and_plots(
    fake: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(gemm, "TorchDevice", lambda: fake)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "shapes.txt").write_text("64 128 64\n")
    gemm.main([
        "--shapes", str(tmp_path / "shapes.txt"), "--modes", "turns", "--rungs", "v6", "--peers", "triton",
        "--rounds", "1", "--out", str(tmp_path / "out"),
    ])  # fmt: skip
    output = capsys.readouterr().out
    assert "geometric mean" in output and "(2.000)" in output
    data = results.load(tmp_path / "out" / "gemm.json")
    assert [row["contender"] for row in data["rows"]] == ["cublas", "v6", "triton"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"gemm.json", "gemm.png", "gemm.svg"}


def test_what_can_not_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(px.Error, match=r"the benchmark needs torch(.|\n)*pip install torch"):
        gemm.main(["--rungs", "v6"])
    with pytest.raises(px.Error, match="the modes are turns, steady, burst, cold"):
        gemm.main(["--modes", "quick"])
    with pytest.raises(px.Error, match="can't be read"):
        gemm.main(["--shapes", "missing.txt"])


def test_lists_on_the_command_line() -> None:
    assert gemm.words(["v5,v6"]) == gemm.words(["v5", "v6"]) == ["v5", "v6"]
    assert gemm.words(["v5 v6:STAGES=3,GROUP=4,v7"]) == ["v5", "v6:STAGES=3,GROUP=4", "v7"]


def test_the_command_lists_the_benchmarks() -> None:
    lines = command().output.splitlines()
    assert len(lines) > 40
    assert any(line.startswith("products.plot                Plots of GEMM results: TFLOP/s") for line in lines)
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert all(len(line.split()) > 3 for line in lines), "each says what it measures"


def test_the_readme_names_every_benchmark_and_no_other() -> None:
    """Each file of a folder stands in the first column of the folder's table."""
    named, folder = set(), ""
    for line in (ROOT / "benchmarks" / "README.md").read_text().splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else ""
        if first == "script" or first.endswith("/`"):
            folder = "benchmarks." + first.strip("`").replace("script", "").replace("/", ".")
        named |= {folder + file for file in re.findall(r"`(\w+)\.py`", first)}
    assert named == set(tools.scripts(ROOT))


@pytest.mark.parametrize(("has", "told"), [(None, "needs torch, which is not installed"), ("torch", "needs a CUDA GPU")])
def test_a_benchmark_that_can_not_run_here_says_so(has: str | None, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: has)
    monkeypatch.setattr("phalanx.runtime.device.driver.has_gpu", lambda: False)
    result = command("rowwise")
    assert result.exit_code == 2 and f"rowwise.py {told}" in result.stderr and "help: " in result.stderr


def test_the_command_runs_a_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def run(command: list[str], env: dict[str, str], check: bool) -> Any:
        ran.append((command, env["PYTHONPATH"].split(os.pathsep)[0]))
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(tools, "require_torch_for", lambda file: None)
    for name in ("gemm", "products.gemm", "benchmarks.products.gemm"):
        assert command(name, "--modes", "cold", "--help").exit_code == 3
    assert ran == [([sys.executable, "-m", "benchmarks.products.gemm", "--modes", "cold", "--help"], str(ROOT))] * 3
    assert command("copy").exit_code == 3 and ran[-1][0][2] == "benchmarks.rows.device_copy"


def test_names_that_mean_no_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command("gem")
    assert done.exit_code == 2
    assert "there is no benchmark 'gem'" in done.output and "`phalanx bench` lists them" in done.output
    done = command("check")
    assert done.exit_code == 2 and "name it in full: attention.check or overhead.check" in done.output
    monkeypatch.setattr(tools, "__file__", str(tmp_path / "a" / "b" / "c" / "bench.py"))
    monkeypatch.chdir(tmp_path)
    done = command("gemm")
    assert done.exit_code == 2
    assert "there are no benchmarks in" in done.output and "run the command in a checkout" in done.output


def test_the_modes_of_the_tool_are_those_of_the_clock() -> None:
    assert set(gemm.DEFAULT_MODES) < set(MODES)


def test_what_scripts_share_needs_neither_typer_nor_torch_nor_matplotlib() -> None:
    """They run where some of them are missing."""
    script = (
        "import sys\n"
        "for name in ('typer', 'torch', 'matplotlib', 'rich', 'triton'): sys.modules[name] = None\n"
        "import benchmarks.products.gemm, benchmarks.products.plot\n"
        "import benchmarks.products.peers.triton_matmul, benchmarks.products.peers.tilelang_matmul\n"
        "import phalanx.runtime.tuning\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
