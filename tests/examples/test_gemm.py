"""The GEMM ladder: every rung right in the simulator, compiled without spills, to the instructions it should have."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "gemm"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

RUNGS = tuple(f"v{n}" for n in range(8))
SHAPES = ((256, 512, 192), (200, 328, 104), (513, 264, 512), (128, 256, 64))


def case(rung: str, *shape: int, **constants: Any) -> Any:
    return importlib.import_module(rung).example(np.random.default_rng(0), *shape, **constants)


@pytest.mark.share(18)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rung", RUNGS)
def test_is_right(rung: str, shape: tuple[int, ...]) -> None:
    case(rung, *shape).run()


@pytest.mark.share(4)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_clusters_of_any_shape(cluster: tuple[int, int]) -> None:
    case("v7", 512, 1024, 192, CM=cluster[0], CN=cluster[1]).run()


@pytest.mark.share(2)
@pytest.mark.parametrize("schedule", [Schedule("early"), Schedule("random", 1), Schedule("random", 2)])
@pytest.mark.parametrize("rung", ["v1", "v4", "v6"])
def test_is_right_under_other_schedules(rung: str, schedule: Schedule) -> None:
    from phalanx.runtime.launch.specialise import read_arguments, specialise

    made = case(rung)
    kernel = made.launch.kernel
    args = [np.copy(a) for a in made.args]
    function = specialise(kernel, read_arguments(kernel, args), kernel.bind_constants(made.constants)).prepared
    simulate(function, made.launch.grid, args, schedule=schedule)
    from common import compare

    compare(args[2], made.expected[2], made.tolerance)


def test_f16_works_as_well() -> None:
    from shapes import gemm_case

    module = importlib.import_module("v6")
    gemm_case(module.launch, np.random.default_rng(0), 256, 512, 192, {}, np.float16).run()


# Per rung: instructions in the text (rungs v6 and v7 have two consumer roles), and the columns of each.
EXPECTED = {
    "v0": (8, 128), "v1": (8, 128), "v2": (8, 128), "v3": (4, 256), "v4": (4, 256), "v5": (4, 256), "v6": (8, 256),
    "v7": (8, 256),
}  # fmt: skip


@pytest.mark.share(14)
@pytest.mark.parametrize("rung", RUNGS)
def test_compiles_to_the_instructions_it_should(rung: str) -> None:
    made = case(rung)
    compiled = px.compile(made.launch, *made.args, arch="sm_90a", **made.constants)
    assert compiled.spills == 0
    count, columns = EXPECTED[rung]
    found = re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\S+)", compiled.ptx)
    assert found == [f"m64n{columns}k16.f32.bf16.bf16"] * count
    multicasts = compiled.ptx.count(".multicast::cluster")
    assert multicasts == (1 if rung >= "v4" else 0)
    assert ("stmatrix" in compiled.ptx) == (rung >= "v6")


def test_the_main_loop_has_no_barrier_of_threads() -> None:
    made = case("v6")
    compiled = px.compile(made.launch, *made.args, arch="sm_90a", **made.constants)
    loops = re.findall(r"for (?:(?!for ).)*?wgmma\.commit", compiled.ir, flags=re.S)
    assert len(loops) == 2 and all("sync  (" not in loop for loop in loops)


@pytest.mark.share(2)
@pytest.mark.parametrize("rung", RUNGS)
def test_blackwell_refuses_with_an_alternative(rung: str) -> None:
    made = case(rung)
    with pytest.raises(px.Error) as caught:
        px.compile(made.launch, *made.args, arch="sm_100a", **made.constants)
    assert "px.dot" in caught.value.remedy


def test_grouped_visits_every_tile_once() -> None:
    grouped = importlib.import_module("orders").grouped
    for rows, columns, group in ((7, 5, 4), (8, 3, 8), (3, 9, 16), (5, 4, 0)):
        seen = {grouped(t, rows, columns, group) for t in range(rows * columns)}
        assert seen == {(i, j) for i in range(rows) for j in range(columns)}


def test_the_ladder_is_complete() -> None:
    assert {path.stem for path in FOLDER.glob("v*.py")} == set(RUNGS)
    readme = (FOLDER / "README.md").read_text()
    assert all(f"| {rung} |" in readme for rung in RUNGS)


def test_the_library_s_plain_product_is_the_last_rung() -> None:
    """What `px.kernels.matmul` can do beyond it leaves no trace where it is not asked for."""
    from phalanx.kernels.products.matmul_tiles import matmul_tiles

    operand = px.spec((4096, 4096), px.bf16)
    rung = px.compile(importlib.import_module("v7").gemm_v7[66, 2], *[operand] * 3, arch="sm_90a")
    plain = px.compile(matmul_tiles[66, 2], *[operand] * 3, None, None, None, None, None, arch="sm_90a")
    assert (rung.registers, rung.shared_bytes, rung.spills) == (plain.registers, plain.shared_bytes, plain.spills)
    assert instructions(rung.source) == instructions(plain.source)


def instructions(source: str) -> list[str]:
    """The functions that the kernel's text calls, in order; index arithmetic may have names of its own."""
    body = re.sub(r" *//.*", "", source[source.index("__global__") :])
    return [name for name in re.findall(r"ptx::(\w+)", body) if not name.startswith("wrap_")]
