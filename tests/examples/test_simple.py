"""The simple examples: right in the simulator for sizes of all kinds, compiled for every target, and short."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import phalanx as px
from examples.simple import FOLDER, NAMES, SIZES, SMALLER, case
from passes.test_pipelining import notes

ALL = [pytest.param(name, sizes, id=f"{name} {sizes or 'as it is'}") for name in NAMES for sizes in SIZES[name]]
MOST_LINES = {"delta_rule": 40}
"""Where it is not 30."""


@pytest.mark.share(16)
@pytest.mark.parametrize("name, sizes", ALL)
def test_is_right(name: str, sizes: dict[str, Any]) -> None:
    case(name, **sizes).run()


@pytest.mark.long
@pytest.mark.parametrize("name, sizes", ALL)
def test_is_right_as_it_is_written(name: str, sizes: dict[str, Any]) -> None:
    made = case(name, **sizes)
    made.constants["pipelined"] = False
    made.run()


@pytest.mark.long
@pytest.mark.parametrize("name, sizes", ALL)
def test_is_clean(name: str, sizes: dict[str, Any]) -> None:
    made = case(name, **sizes)
    report = px.check(made.launch, *made.args, **made.constants)
    assert report.ok, report


@pytest.mark.share(9)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", NAMES)
def test_compiles_without_spills(name: str, arch: str) -> None:
    made, smaller = case(name), {} if arch == "sm_90a" else SMALLER.get(name, {})
    if smaller is None:
        pytest.skip(f"its tiles are for the registers that {arch} has no wgmma for")
    compiled = px.compile(made.launch, *made.args, arch=arch, **{**made.constants, **smaller})
    assert compiled.cubin[:4] == b"\x7fELF"
    assert compiled.spills == 0


ALIGNED = {"block_scaled": {"n": 256, "k": 512}, "dequantised": {}, "state_space": {}, "delta_rule": {}}


@pytest.mark.parametrize("name", ALIGNED)
def test_loses_no_speed_that_is_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops of computed operands, of promotion and of carried states: nothing for `strict=True` to say."""
    monkeypatch.setenv("PHALANX_STRICT", "1")
    made = case(name, **ALIGNED[name])
    said = [note for note in notes(made.launch, *made.args, **made.constants) if note.startswith("px.dot")]
    assert said and all(note.startswith("px.dot runs as wgmma") for note in said)


@pytest.mark.parametrize("name", NAMES)
def test_is_short(name: str) -> None:
    """Statements alone count: not the docstring, not what is blank."""
    text = (FOLDER / f"{name}.py").read_text()
    lines = [line for line in text.splitlines() if line.strip()]
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert len(lines) - len(docstring.splitlines()) < MOST_LINES.get(name, 30)


def test_the_list_is_complete() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"arrays"} == set(NAMES)
