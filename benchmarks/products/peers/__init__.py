"""The others, written as their own documentation would: each with a small search of its settings for every shape."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error
from phalanx.runtime.device.timing import Timer

PEERS = ("cublas", "triton", "tilelang")
BASELINE = "cublas"


def peer(name: str, timer: Timer) -> Any:
    """A contender by its name; `Missing` where it is not installed."""
    if name == "triton":
        from benchmarks.products.peers.triton_matmul import Triton

        return Triton(timer)
    if name == "tilelang":
        from benchmarks.products.peers.tilelang_matmul import TileLang

        return TileLang(timer)
    if name == BASELINE:
        from benchmarks.products.peers.cublas import Cublas

        return Cublas()
    raise Error(
        f"there is no peer {name!r}", remedy=f"the peers are {', '.join(PEERS)}"
    )
