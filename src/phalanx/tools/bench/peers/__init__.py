"""The others, written as their own documentation would: each with a small search of its settings for every shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from phalanx.errors import Error
from phalanx.runtime.timing import Run, Timer

PEERS = ("cublas", "triton", "tilelang")
BASELINE = "cublas"

T = TypeVar("T")


def peer(name: str, timer: Timer) -> Any:
    """A contender by its name; `Missing` where it is not installed."""
    if name == "triton":
        from phalanx.tools.bench.peers.triton_matmul import Triton

        return Triton(timer)
    if name == "tilelang":
        from phalanx.tools.bench.peers.tilelang_matmul import TileLang

        return TileLang(timer)
    if name == BASELINE:
        from phalanx.tools.bench.peers.cublas import Cublas

        return Cublas()
    raise Error(
        f"there is no peer {name!r}", remedy=f"the peers are {', '.join(PEERS)}"
    )


def fastest(
    choices: Iterable[T], make: Callable[[T], Run], timer: Timer, *, repeats: int = 10, rounds: int = 3
) -> tuple[T, Run]:
    """The choice whose runs take least time, in turns; those that do not compile or launch are left out."""
    runs: list[tuple[T, Run]] = []
    problem: Exception | None = None
    for choice in choices:
        try:
            run = make(choice)
            run()
            timer(run, 1)
            runs.append((choice, run))
        except Exception as found:  # too much shared memory, an unknown option of another version
            problem = found
    if not runs:
        raise RuntimeError(f"no setting works: {problem}") from problem
    best = [min(timer(run, repeats) for _ in range(rounds)) for _, run in runs]
    return runs[best.index(min(best))]
