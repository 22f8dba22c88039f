"""What tests of `px.tune` search among, and where: kernels, functions, configurations."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px
from support import tuning_fakes as fakes

X = np.zeros(256, np.float32)
SQUARE = np.ones((4, 4), np.float32)
SCALE = 2


@px.kernel(warps=1)
def double(X, Y, *, BM=64, COUNT=1, FACTOR=SCALE):
    s = px.shared((BM,), X.dtype)
    bar = px.barrier(count=COUNT, checked=False)
    i = px.block_id(0) * BM
    with bar.transaction():
        px.tma.load(X[i : i + BM], s, bar)
    bar.wait(0)
    px.store(Y[i : i + BM], px.load(s) * FACTOR)


@px.kernel(warps=1)
def early(X, Y, *, BM=64, WAITS=True):
    s = px.shared((BM,), X.dtype)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:BM], s, bar)
    if WAITS:
        bar.wait(0)
    px.store(Y[0:BM], px.load(s) * 2)
    if not WAITS:
        bar.wait(0)


def blocks(BM):
    return px.cdiv(256, BM)


def kinds(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [dict(kind=name, **more) for name in names]


def statuses(tuned: Any) -> dict[Any, str]:
    return {row.config["kind"]: row.status for row in tuned.table}


def find(configs: Any = (dict(kind="good"), dict(kind="better")), args: Any = (SQUARE, SQUARE), **options: Any) -> Any:
    return px.tune(fakes.candidate, list(configs), args, **{"measure": fakes.by_kind, "rounds": 1, **options})
