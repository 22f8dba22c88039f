"""Random kernels of several buffers: what shares memory is never in use together, and nothing changes but addresses.

The generator knows from the program it wrote when each buffer is in use, statement by statement; the compiler works it
out from effects. Both are compared, and the kernel is checked and run with and without sharing.
"""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from passes.overlaps import clean, shared
from phalanx.sim.run import simulate
from support import front

UNIT = 256  # elements of f32
PIECES = 4  # a buffer is up to so many units long; 32 CTAs per SM leave 6 KiB, 6 units, for each
NUMBER = itertools.count()


@dataclass
class Program:
    """Statements as text; `uses`: (buffer, first, last) positions, loops as a whole; `stores`: those still read."""

    lines: list[str] = field(default_factory=list)
    uses: list[tuple[str, int, int]] = field(default_factory=list)
    open: list[tuple[str, int]] = field(default_factory=list)
    position: int = 0
    barriers: int = 0
    outputs: int = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * (1 + depth) + text)


def use(program: Program, depth: int, buffer: str, size: int, kind: str, settle: bool, repeat: str) -> None:
    """One use of a buffer, written, and noted: from here to the point where it is over."""
    if any(other == buffer for other, _ in program.open):
        close(program, depth)
    program.position += 1
    here = program.position
    n, out = size * UNIT, program.outputs * PIECES * UNIT
    source = f"X[{(here % 3) * UNIT}:{(here % 3) * UNIT + n}]"
    target = f"Y[{out}:{out + n}]"
    program.outputs += 1
    if kind == "load":
        bar = f"bar[{program.barriers}]"
        program.barriers += 1
        program.line(depth, f"with {bar}.transaction():")
        program.line(depth + 1, f"px.tma.load({source}, {buffer}, {bar})")
        program.line(depth, f"{bar}.wait({repeat} % 2)")
        program.line(depth, f"px.store({target}, px.load({buffer}) + {here})")
        program.line(depth, "px.sync()")
    else:
        program.line(depth, f"px.store({buffer}, px.load({source}) * {here})")
        if kind == "store":
            program.line(depth, "px.fence.async_proxy()")
            program.line(depth, f"px.tma.store({buffer}, {target})")
            program.line(depth, "px.tma.commit()")
            program.open.append((buffer, here))
            if settle or depth:
                close(program, depth)
        else:
            program.line(depth, "px.sync()")
            program.line(depth, f"px.store({target}, px.load({buffer}))")
            program.line(depth, "px.sync()")
            program.line(depth, "px.fence.async_proxy()")
    program.uses.append((buffer, here, here))


def close(program: Program, depth: int) -> None:
    """All stores so far have read their sources."""
    program.line(depth, "px.tma.wait(0)" if depth else "px.tma.wait(0, read=True)")
    program.uses += [(buffer, begun, program.position) for buffer, begun in program.open]
    program.open.clear()


KINDS = st.sampled_from(["plain", "load", "store", "store"])
SETTLED = st.sampled_from([False, False, False, True])


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[str, int]]:
    sizes = {f"s{n}": draw(st.integers(1, PIECES), label="units") for n in range(draw(st.integers(2, 5), label="buffers"))}
    program = Program()
    for _ in range(draw(st.integers(2, 5), label="phases")):
        phase = draw(st.sampled_from(["straight", "straight", "straight", "loop", "branch", "role"]), label="phase")
        start = program.position + 1
        steps = draw(st.lists(st.tuples(st.sampled_from(sorted(sizes)), KINDS, SETTLED), min_size=1, max_size=3))
        if phase != "straight":
            close(program, 0)
        heads = {"loop": "for i in range(2):", "branch": "if X.shape[0] > 4:", "role": "with px.warps(0, 1):"}
        depth = 0 if phase == "straight" else 1
        if depth:
            program.line(0, heads[phase])
        for buffer, kind, settle in steps:
            last = len(program.uses)
            settle = settle or phase == "role"
            use(program, depth, buffer, sizes[buffer], kind, settle, "i" if phase == "loop" else "0")
            if phase == "branch" and kind == "store" and program.open:
                close(program, depth)
            assert len(program.uses) > last
        if phase == "loop":
            inside = {buffer for buffer, _, _ in steps}
            program.uses += [(buffer, start, program.position) for buffer in inside]
        if phase == "role":
            program.line(0, "px.sync()")
    program.position += 1
    close(program, 0)
    program.line(0, "px.tma.wait(0)")
    return program, sizes


def kernel_of(program: Program, sizes: dict[str, int], folder: Path) -> Any:
    name = f"random_kernel_{next(NUMBER)}"
    head = [f"    {buffer} = px.shared({size * UNIT}, px.f32)" for buffer, size in sizes.items()]
    bars = [f"    bar = px.barrier({max(1, program.barriers)}, count=1)"]
    text = "\n".join([
        "import phalanx as px", "", "@px.kernel(warps=2, ctas_per_sm=lambda CROWD: CROWD)",
        "def kernel(X, Y, *, CROWD):", *head, *bars, *program.lines,
    ])
    path = folder / f"{name}.py"
    path.write_text(text + "\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=programs())
def test_what_shares_is_never_in_use_together(case: tuple[Program, dict[str, int]], folder: Path) -> None:
    program, sizes = case
    kernel = kernel_of(program, sizes, folder)
    types = front.array(1), front.array(1)
    function, apart = front.prepared(kernel, types, CROWD=32), front.prepared(kernel, types, CROWD=1)
    assert shared(apart) == set()
    lives = {buffer: (min(a, default=0), max(b, default=0)) for buffer in sizes
             for a, b in [([u[1] for u in program.uses if u[0] == buffer], [u[2] for u in program.uses if u[0] == buffer])]}
    pairs = shared(function)
    for first, second in map(tuple, pairs):
        (a, b), (c, d) = lives[first], lives[second]
        unused = not b or not d
        assert unused or b < c or d < a, (first, second, lives, "\n".join(program.lines))
    event(f"{len(pairs)} pairs share")
    x = np.arange((2 + PIECES) * UNIT, dtype=np.float32)
    outs = [np.zeros(max(1, program.outputs) * PIECES * UNIT, np.float32) for _ in range(2)]
    clean(function, x, outs[0])
    for prepared, out in zip((function, apart), outs, strict=True):
        simulate(prepared, (1, 1, 1), [x, out])
    assert np.array_equal(*outs)
