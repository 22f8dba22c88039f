"""The draws of benchmarks/drawn/anywhere.py: the same on every machine, within what they promise, and of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

import phalanx as px
from benchmarks import ROOT
from benchmarks.drawn import draws
from benchmarks.drawn.plot import plot


def test_a_seed_is_a_list_of_shapes() -> None:
    for op in draws.DRAWS:
        first = draws.drawn(op, 7, 40)
        assert first == draws.drawn(op, 7, 40) and first[:10] == draws.drawn(op, 7, 10)
        assert first != draws.drawn(op, 8, 40)
        assert len({str(case) for case in first}) > 30, "shapes differ"
    assert [str(case) for case in draws.drawn("matmul", 0, 3)] == [
        "batch 8, m 1936, n 4096, k 11008, bf16, a.T @ b.T",
        "batch 1, m 2640, n 5264, k 4800, bf16, a @ b.T",
        "batch 1, m 3520, n 3696, k 152, f16, a @ b",
    ], "on every machine"


def test_products_are_of_every_kind() -> None:
    cases = draws.drawn("matmul", 1, 400)
    assert {case.traits["form"] for case in cases} == {"a @ b.T", "a @ b", "a.T @ b", "a.T @ b.T"}
    assert {case.dtype for case in cases} == {"bf16", "f16"} and any(case.traits["bias"] for case in cases)
    assert sum(case.sizes["m"] % 8 != 0 for case in cases) > 40, "heights that are no multiple of anything"
    assert all(case.sizes["n"] % 8 == case.sizes["k"] % 8 == 0 for case in cases)
    for batch, m, n, k in (case.size("batch", "m", "n", "k") for case in cases):
        assert 2 * batch * m * n * k <= 4e12 and 2 * batch * (m * n + m * k + n * k) <= 4e9


def test_rows_are_of_any_number_of_bytes() -> None:
    for op, share in (("softmax", 40), ("cross_entropy", 40)):
        cases = draws.drawn(op, 2, 300)
        odd = sum(case.sizes["columns"] * (2 if case.dtype == "bf16" else 4) % 16 != 0 for case in cases)
        assert odd > share
        for case in cases:
            rows, columns = case.size("rows", "columns")
            assert 0.25e9 <= rows * columns * (2 if case.dtype == "bf16" else 4) <= 1.02e9
    columns = [case.sizes["columns"] for case in draws.drawn("softmax", 2, 300)]
    assert min(columns) < 64 and max(columns) > 1_000_000
    widths = [2 * case.sizes["columns"] for case in draws.drawn("gather_rows", 2, 300)]
    assert min(widths) < 64 and max(widths) > 32768 and all(width % 16 == 0 for width in widths)


def test_every_function_of_the_library_is_drawn() -> None:
    by_another_name = {"grouped_matmul": "grouped"}
    for name in px.kernels.__all__:
        own = {"attention": "forward.py", "attention_backward": "backward.py"}.get(name)
        scripted = own is not None and "--seed" in (ROOT / "benchmarks" / "attention" / own).read_text()
        assert scripted or by_another_name.get(name, name) in draws.DRAWS, f"no draw of {name}"


def test_a_picture_of_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [{"op": "matmul", "mode": mode, "ratio": ratio} for mode in ("burst", "steady") for ratio in (0.9, 1.1, 9.0)]
    plot([*rows, {"op": "softmax", "mode": "burst", "wrong": 1}], ["abcdef01"], tmp_path / "drawn.svg")
    picture = (tmp_path / "drawn.svg").read_text()
    for text in ("matmul, burst", "matmul, steady", "lowest 0.90, of 3", "abcdef01"):
        assert text in picture, text
    assert "softmax" not in picture


def test_a_seed_may_be_a_commit() -> None:
    assert draws.seed_of("3") == 3 and draws.seed_of("59cb12a") == 0x59CB12A and draws.seed_of("59cb12a0ff") == 0x59CB12A0
