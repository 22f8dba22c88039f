"""Exported functions of the library, called from a C program on a GPU: the results of Phalanx's own launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from export.c_program import COMPILER, headers, run_program
from export.replay import exported
from phalanx.kernels.products.matmul_config import Problem, choose

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(COMPILER is None or headers() is None, reason="no C compiler, or no cuda.h")


def results(folder: Path, made: Any, cases: list[tuple[list[int], list[Any], tuple[int, ...]]]) -> list[Any]:
    """The results of the C program, of bf16."""
    written = [
        {"sizes": sizes, "arrays": arrays, "outs": [(folder / f"out_{n}.bin", 2 * torch.Size(shape).numel())]}
        for n, (sizes, arrays, shape) in enumerate(cases)
    ]
    run_program(folder, made, written)
    read = [torch.frombuffer(bytearray(case["outs"][0][0].read_bytes()), dtype=torch.bfloat16) for case in written]
    return [x.reshape(shape).cuda() for x, (_, _, shape) in zip(read, cases)]


def random(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def test_matmul(tmp_path: Path) -> None:
    a, b = px.spec(("m", 4096), px.bf16), px.spec((4096, "n"), px.bf16)
    made = exported(tmp_path, px.kernels.matmul, a, b, sizes={"m": 4096, "n": 4096})
    pairs = [(random(m, 4096), random(4096, n)) for m, n in ((4096, 4096), (1000, 2048), (17, 512))]
    pairs.append((random(100, 8192)[:, :4096], random(4096, 1032)[:, :1024]))  # rows with gaps
    cases = [([x.shape[0], y.shape[1]], [x, y], (x.shape[0], y.shape[1])) for x, y in pairs]
    config = choose(Problem(4096, 4096, 4096, by_k=(True, False)))
    for (x, y), out in zip(pairs, results(tmp_path, made, cases)):
        assert torch.equal(out, px.kernels.matmul(x, y, config=config))


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, tmp_path: Path) -> None:
    q, k = px.spec(("batch", 32, "queries", 128), px.bf16), px.spec(("batch", 8, "keys", 128), px.bf16)
    example = {"batch": 4, "queries": 4096, "keys": 4096}
    made = exported(tmp_path, px.kernels.attention, q, k, k, sizes=example, causal=causal)
    cases = []
    for batch, queries, keys in ((4, 4096, 4096), (1, 777, 1500), (2, 300, 100)):
        given = [random(batch, 32, queries, 128), random(batch, 8, keys, 128), random(batch, 8, keys, 128)]
        cases.append(([batch, queries, keys], given, (batch, 32, queries, 128)))
    for (_, given, _), out in zip(cases, results(tmp_path, made, cases)):
        assert torch.equal(out, px.kernels.attention(*given, causal=causal))


@pytest.mark.parametrize("name", ["softmax", "rms_norm"])
def test_rows(name: str, tmp_path: Path) -> None:
    function = getattr(px.kernels, name)
    specs = [px.spec(("rows", 4096), px.bf16)] + [px.spec((4096,), px.bf16)] * (name == "rms_norm")
    made = exported(tmp_path, function, *specs, sizes={"rows": 4096})  # eps, of which there is a default, is settled
    cases = []
    for rows in (4096, 1, 333):
        cases.append(([rows], [random(rows, 4096), random(4096)][: len(specs)], (rows, 4096)))
    for (_, given, _), out in zip(cases, results(tmp_path, made, cases)):
        assert torch.equal(out, function(*given))
