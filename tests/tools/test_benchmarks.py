"""The clocks of single scripts in benchmarks/, on a torch made of Python that writes down what it is asked for."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ROOT
from benchmarks.common import machine
from phalanx.runtime.device.timing import turns


class FakeTorch(types.ModuleType):
    """A GPU on which contender number n takes n + 1 milliseconds, a flush a hundred."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.log: list[str] = []
        self.now = 0.0
        self.cuda = types.SimpleNamespace(Event=self.event, synchronize=lambda: self.log.append("synchronize"))
        self.Generator = self.bfloat16 = self.float16 = None

    def event(self, enable_timing: bool) -> Any:
        assert enable_timing
        made = types.SimpleNamespace(at=0.0)

        def record() -> None:
            self.log.append("record")
            made.at = self.now

        made.record, made.elapsed_time = record, lambda stop: stop.at - made.at
        return made

    def contender(self, number: int) -> Callable[[], None]:
        def run() -> None:
            self.log.append(f"run {number}")
            self.now += number + 1

        return run

    def flush(self) -> None:
        self.log.append("flush")
        self.now += 100


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    fake, before = FakeTorch(), set(sys.modules)
    monkeypatch.setitem(sys.modules, "torch", fake)
    yield fake
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if Path(file).is_relative_to(ROOT / "examples"):
            del sys.modules[name]


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A file of benchmarks/ as a module of this test alone, which has its own torch."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which scripts add the examples
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, made)
    spec.loader.exec_module(made)
    return made


def test_a_block_is_timed_by_events_around_it(torch: FakeTorch) -> None:
    assert machine.milliseconds(torch.contender(3), 2) == 4.0
    assert torch.log == ["record", "run 3", "run 3", "record", "synchronize"]


@pytest.mark.parametrize("count", [1, 3])
def test_small_m_flushes_before_each_launch_and_times_the_launch_alone(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    small_m = script("products/small_m", monkeypatch)
    contenders = {f"c{number}": torch.contender(number) for number in range(count)}
    times = small_m.microseconds(contenders, torch.flush, 20)
    assert times == {f"c{number}": [1000.0 * (number + 1)] * 20 for number in range(count)}
    want = [f"run {number}" for number in range(count)] + ["synchronize"]
    for place, (turn, number) in enumerate(turns(count, 20), 1):
        want += ["flush", "record", f"run {number}", "record"]
        if turn % 8 == 7 and place % count == 0:
            want.append("synchronize")
    assert torch.log == [*want, "synchronize"]
    assert small_m.FLUSH_BYTES == 256 << 20


def test_tensor_cores_run_once_before_the_clock(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor_cores = script("products/tensor_cores", monkeypatch)
    contenders = {f"c{number}": torch.contender(number) for number in range(3)}
    times = tensor_cores.measure(contenders, 4, 2)
    assert times == {f"c{number}": [number + 1.0] * 4 for number in range(3)}
    want = ["run 0", "run 1", "run 2"]
    for _, number in turns(3, 4):
        want += [f"run {number}", "record", f"run {number}", f"run {number}", "record", "synchronize"]
    assert torch.log == want


def test_medians_are_of_turns(torch: FakeTorch) -> None:
    contenders = {f"c{number}": torch.contender(number) for number in range(2)}
    assert machine.medians(contenders, 3, 2) == {"c0": 1.0, "c1": 2.0}
    assert torch.log[2:7] == ["record", *[f"run {next(who for _, who in turns(2, 3))}"] * 2, "record", "synchronize"]


FILES = sorted((ROOT / "benchmarks").rglob("*.py"))


def names_of(module: str) -> set[str]:
    """What a module of benchmarks/ has, as its text says: few of them can be imported without torch."""
    home = ROOT.joinpath(*module.split("."))
    file = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
    tree = ast.parse(file.read_text())
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    inside = {path.stem for path in home.iterdir()} if home.is_dir() else set()
    return stored | defined | imported | inside


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_takes_from_others_is_there(path: Path) -> None:
    """Most of them need a GPU to run: a name that moved would be noticed when one is there at last."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.partition(".")[0] == "benchmarks":
            assert {name.name for name in node.names} <= names_of(node.module), node.module
        elif node.module.partition(".")[0] == "phalanx":
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
