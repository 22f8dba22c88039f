"""`px.export` of the library, function by function: C against the stub, its launches simulated, the library's results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from export.replay import Memory, call_text, exported, ran, simulate_launches, statuses
from export.stub import COMPILER, MISSING
from phalanx.errors import Error

pytestmark = [pytest.mark.long, pytest.mark.skipif(COMPILER is None, reason=MISSING)]
Call = tuple[tuple[Any, ...], Callable[[int], list[Any]]]


def numbers(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def below(count: int, end: int) -> np.ndarray:
    """Indices, each of them at most once where there are enough."""
    return np.random.default_rng(count).permutation(max(count, end))[:count].astype(np.int32) % end


def groups(rows: int) -> np.ndarray:
    return np.array([rows - rows // 3, 0, rows // 3], np.int32)


ROWS, WEIGHT = px.spec(("rows", 256), px.bf16), px.spec((256,), px.bf16)
TABLE, INDEX, GROUPS = px.spec((300, 256), px.bf16), px.spec(("rows",), px.i32), px.spec((3,), px.i32)
EXPERTS = px.spec((3, 64, 256), px.bf16)
CALLS: dict[str, Call] = {
    # Specs, and arguments for a number of rows.
    "log_softmax": ((ROWS,), lambda n: [numbers(n, 256)]),
    "add_rms_norm": ((ROWS, ROWS, WEIGHT), lambda n: [numbers(n, 256), numbers(n, 256), numbers(256)]),
    "layer_norm": ((ROWS, WEIGHT, WEIGHT), lambda n: [numbers(n, 256), numbers(256), numbers(256)]),
    "gather_rows": ((TABLE, INDEX), lambda n: [numbers(300, 256), below(n, 300)]),
    "embedding": ((TABLE, INDEX), lambda n: [numbers(300, 256), below(n, 300)]),
    "scatter_rows": ((ROWS, INDEX, TABLE), lambda n: [numbers(n, 256), below(n, 300), numbers(300, 256)]),
    "scatter_add_rows": ((ROWS, INDEX, TABLE), lambda n: [numbers(n, 256), below(n, 300), numbers(300, 256)]),
    "cross_entropy": ((ROWS, INDEX), lambda n: [numbers(n, 256), below(n, 256)]),
    "split_k_matmul": ((ROWS, px.spec((256, 64), px.bf16)), lambda n: [numbers(n, 256), numbers(256, 64)]),
    "grouped_matmul": ((ROWS, EXPERTS, GROUPS), lambda n: [numbers(n, 256), numbers(3, 64, 256), groups(n)]),
    "moe_matmul": ((ROWS, EXPERTS, GROUPS), lambda n: [numbers(n, 256), numbers(3, 64, 256), groups(n)]),
    "moe_gather_matmul": (
        (TABLE, INDEX, EXPERTS, GROUPS), lambda n: [numbers(300, 256), below(n, 300), numbers(3, 64, 256), groups(n)]
    ),
    "moe_matmul_scatter": (
        (ROWS, EXPERTS, GROUPS, INDEX, px.spec(("rows",), px.f32), px.spec((300, 64), px.f32)),
        lambda n: [
            numbers(n, 256), numbers(3, 64, 256), groups(n), below(n, 300), numbers(n, dtype=np.float32),
            numbers(300, 64, dtype=np.float32),
        ],
    ),
    "pack_scales": (
        (px.spec(("rows", 64), px.f8e8m0),), lambda n: [np.abs(numbers(n, 64)).astype(ml_dtypes.float8_e8m0fnu)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_library_s(name: str, tmp_path: Path) -> None:
    specs, make = CALLS[name]
    function = getattr(px.kernels, name)
    made = exported(tmp_path, function, *specs, sizes={"rows": 128})
    memory, texts, cases = Memory(), [], []
    for rows in (37, 3):
        given, own = make(rows), make(rows)
        wanted = function(*own)
        wanted = [x for x in (wanted if isinstance(wanted, tuple) else (wanted,)) if not any(x is each for each in own)]
        outs = [np.zeros(x.shape, x.dtype) for x in map(np.asarray, wanted)]
        places = [memory.put(x) for x in (*given, *outs)]
        if made.has_workspace:
            places.append(memory.put(np.zeros(1 << 20, np.uint8)))
        texts.append(call_text(made, {"rows": rows}, places))
        cases.append(([*given, *outs], [*own, *wanted]))
    found = ran(tmp_path, made, texts)
    assert statuses(found) == [0, 0]
    simulate_launches(made, found, memory)
    for ours, wanted in cases:
        for one, other in zip(ours, wanted, strict=True):
            np.testing.assert_array_equal(one.astype(np.float32), np.asarray(other).astype(np.float32))


CACHES = px.spec(("rows", 1024, 2, 128), px.bf16)
GRADIENT = [px.spec((1, 8, "rows", 128), px.bf16)] * 5
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "attention_decode": ((px.spec(("rows", 1, 8, 128), px.bf16), CACHES, CACHES, INDEX), "rows is looked up in a table"),
    "kv_compact": (
        (px.spec(("rows", 64, 256), px.bf16), px.spec(("rows", 16), px.i32)), "kv_compact can't be exported as it is"
    ),
    "attention_backward": ((*GRADIENT, px.spec((1, 8, "rows"), px.f32)), "'do' can't be the name of a parameter"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_exported_says_so(name: str, tmp_path: Path) -> None:
    specs, message = REFUSED[name]
    with pytest.raises(Error) as caught:
        px.export(getattr(px.kernels, name), *specs, to=tmp_path, sizes={"rows": 128})
    assert message in str(caught.value) and not list(tmp_path.iterdir())
