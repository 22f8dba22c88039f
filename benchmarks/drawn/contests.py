"""What is called for a draw of `anywhere.py`: our function, and torch's ways to do the same, on operands of that shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

import phalanx as px
from benchmarks.drawn.draws import Case

Run = Callable[[], Any]
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn}


@dataclass
class Contest:
    """Our call, torch's ways to do the same, the two numbers, and how far results may be apart."""

    ours: Run
    theirs: dict[str, Run]
    flops: float
    nbytes: float
    tolerance: float = 0.02


DEVICE = "cuda"
UNTOUCHED = False


@contextmanager
def untouched() -> Iterator[None]:
    """Operands that are made inside have any values."""
    global UNTOUCHED
    UNTOUCHED = True
    try:
        yield
    finally:
        UNTOUCHED = False


def normal(*shape: int, dtype: str = "bf16") -> Any:
    if UNTOUCHED:
        return torch.empty(*shape, device=DEVICE, dtype=TYPES[dtype])
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(TYPES[dtype])


def matmul_contest(case: Case) -> Contest:
    batch, m, n, k = case.size("batch", "m", "n", "k")
    form = case.traits.get("form", "a @ b")
    lead = (batch,) if batch > 1 else ()
    a = normal(*lead, k, m, dtype=case.dtype).mT if form.startswith("a.T") else normal(*lead, m, k, dtype=case.dtype)
    b = normal(*lead, n, k, dtype=case.dtype).mT if form.endswith("b.T") else normal(*lead, k, n, dtype=case.dtype)
    out, other = (torch.empty(*lead, m, n, device=DEVICE, dtype=a.dtype) for _ in range(2))
    flops, nbytes = 2.0 * batch * m * n * k, 2.0 * batch * (m * n + m * k + n * k)
    if case.traits.get("bias"):
        bias = normal(n, dtype=case.dtype)
        way = {"addmm": lambda: torch.addmm(bias, a, b, out=other)}
        return Contest(lambda: px.kernels.matmul(a, b, bias, out=out), way, flops, nbytes)
    return Contest(
        lambda: px.kernels.matmul(a, b, out=out), {"matmul": lambda: torch.matmul(a, b, out=other)}, flops, nbytes,
    )


def few_rows_contest(case: Case) -> Contest:
    m, n, k = case.size("m", "n", "k")
    x, w = normal(m, k), normal(n, k)
    out, other = (torch.empty(m, n, device=DEVICE, dtype=x.dtype) for _ in range(2))
    return Contest(
        lambda: px.kernels.matmul(x, w.T, out=out), {"matmul": lambda: torch.matmul(x, w.T, out=other)},
        2.0 * m * n * k, 2.0 * (m * n + m * k + n * k),
    )


def fp8_contest(case: Case) -> Contest:
    m, n, k = case.size("m", "n", "k")
    x, w = normal(m, k, dtype="f8e4m3"), normal(n, k, dtype="f8e4m3")
    one, other = torch.ones((), device=DEVICE), torch.ones((), device=DEVICE)
    out = torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16)
    return Contest(
        lambda: px.kernels.matmul(x, w.T, scale_a=one, scale_b=other, out=out),
        {"_scaled_mm": lambda: torch._scaled_mm(x, w.T, one, other, out_dtype=torch.bfloat16, use_fast_accum=True)},
        2.0 * m * n * k, m * k + n * k + 2.0 * m * n,
    )


def rows_of_groups(case: Case) -> tuple[Any, Any, Callable[..., Any]]:
    """How many rows each group has, where they end, and torch's grouped product."""
    groups, rows, seed = case.size("groups", "rows", "seed")
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(groups, generator=generator) ** 2
    sizes = (share / share.sum() * rows).floor().int()
    sizes[0] += rows - int(sizes.sum())
    given = sizes.to(DEVICE)
    return given, given.cumsum(0).to(torch.int32), getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm


def grouped_contest(case: Case) -> Contest:
    groups, rows, n, k = case.size("groups", "rows", "n", "k")
    given, ends, call = rows_of_groups(case)
    x, w = normal(rows, k), normal(groups, n, k)
    out = torch.empty(rows, n, device=DEVICE, dtype=x.dtype)
    return Contest(
        lambda: px.kernels.grouped_matmul(x, w, given, out=out), {"grouped_mm": lambda: call(x, w.mT, offs=ends)},
        2.0 * rows * n * k, 2.0 * (rows * k + groups * n * k + rows * n),
    )


def rows_contest(case: Case) -> Contest:
    """Against the device copy of the matrix, whose bandwidth is what there is; cross_entropy reads only."""
    rows, columns = case.size("rows", "columns")
    x = normal(rows, columns, dtype=case.dtype)
    copy = torch.empty_like(x)
    weight, bias = normal(columns, dtype=case.dtype), normal(columns, dtype=case.dtype)
    library = px.kernels
    if case.op == "cross_entropy":
        target = torch.randint(0, columns, (rows,), device=DEVICE)
        half = slice(0, max(1, rows // 2))  # as many bytes as a read of all: a copy reads and writes
        way = {"copy of half": lambda: copy[half].copy_(x[half])}
        return Contest(lambda: library.cross_entropy(x, target), way, 0.0, float(x.nbytes))
    calls: dict[str, Run] = {
        "softmax": lambda: library.softmax(x),
        "log_softmax": lambda: library.log_softmax(x),
        "rms_norm": lambda: library.rms_norm(x, weight),
        "layer_norm": lambda: library.layer_norm(x, weight, bias),
    }
    return Contest(calls[case.op], {"copy": lambda: copy.copy_(x)}, 0.0, 2.0 * x.nbytes)


def indexed_contest(case: Case) -> Contest:
    rows, moved, columns, seed = case.size("rows", "moved", "columns", "seed")
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    x, part = normal(rows, columns), normal(moved, columns)
    library = px.kernels
    nbytes = 2.0 * part.nbytes
    if case.op in ("gather_rows", "embedding"):
        index = torch.randint(0, rows, (moved,), device=DEVICE, generator=generator)
        call = (lambda: library.gather_rows(x, index)) if case.op == "gather_rows" else (lambda: library.embedding(x, index))
        return Contest(call, {"index_select": lambda: torch.index_select(x, 0, index)}, 0.0, nbytes)
    if case.op == "scatter_rows":
        index = torch.randperm(rows, device=DEVICE, generator=generator)[:moved]
        way = {"index_copy_": lambda: x.index_copy_(0, index, part)}
        return Contest(lambda: library.scatter_rows(part, index, x), way, 0.0, nbytes)
    index = torch.randint(0, rows, (moved,), device=DEVICE, generator=generator)
    sums, others = torch.zeros_like(x), torch.zeros_like(x)
    return Contest(
        lambda: library.scatter_add_rows(part, index, sums), {"index_add_": lambda: others.index_add_(0, index, part)},
        0.0, nbytes * 1.5,
    )


CONTESTS: dict[str, Callable[[Case], Contest]] = {
    **{op: matmul_contest for op in ("matmul", "matmul_of_odd_sizes", "batched")},
    "few_rows": few_rows_contest, "fp8": fp8_contest, "grouped": grouped_contest,
    **{op: rows_contest for op in ("softmax", "log_softmax", "rms_norm", "layer_norm", "cross_entropy")},
    **{op: indexed_contest for op in ("gather_rows", "embedding", "scatter_rows", "scatter_add_rows")},
}  # fmt: skip
