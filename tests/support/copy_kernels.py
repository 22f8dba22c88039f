"""Kernels with copies that several floors' tests share: as text and on the GPU."""

from __future__ import annotations

import phalanx as px


@px.kernel
def hinted(X, Y, *, LOAD="evict_last", STORE="evict_first"):
    """Every kind of copy once, each with a cache hint; tensor copies and runs."""
    i = px.block_id(0) * 8
    s = px.shared((8, 64), X.dtype)
    r = px.shared((1, 64), X.dtype)
    bar = px.barrier()
    px.tma.prefetch(X[i : i + 8, 0:64], cache=LOAD)
    px.tma.prefetch(X[i, 0:64], cache=LOAD)
    with bar.transaction():
        px.tma.load(X[i : i + 8, 0:64], s, bar, cache=LOAD)
        px.tma.load(X[i, 0:64], r[0], bar, cache=LOAD)
    bar.wait(0)
    px.tma.store(s, Y[i : i + 8, 0:64], cache=STORE)
    px.tma.reduce(s, Y[i : i + 8, 64:128], "add", cache=STORE)
    px.tma.store(r[0], Y[i, 128:192], cache=STORE)
    px.tma.commit()
    px.tma.wait(0)
