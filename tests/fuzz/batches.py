"""Seeds in batches, dealt to processes: a module of its own, which processes that are spawned can import."""

from __future__ import annotations

import collections
import importlib
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from fuzz.outcomes import Options, Outcome


def judged(work: tuple[str, list[int], Options]) -> list[Outcome]:
    """All outcomes of a batch, in a process of its own where there are several."""
    kind, seeds, options = work
    return list(importlib.import_module(f"fuzz.{kind}").judge(seeds, options))


def batches(kind: str, first: int, count: int, options: Options) -> list[tuple[str, list[int], Options]]:
    """The seeds cut into what the kind likes to have at once."""
    size = importlib.import_module(f"fuzz.{kind}").BATCH
    seeds = range(first, first + count)
    return [(kind, list(seeds[n : n + size]), options) for n in range(0, count, size)]


def outcomes(work: list[tuple[str, list[int], Options]], jobs: int, seconds: float) -> Iterator[list[Outcome]]:
    """The outcomes of each batch, in the order of the seeds; no batch begins after so many seconds."""
    end = time.monotonic() + seconds
    if jobs == 1:
        for batch in work:
            if time.monotonic() > end:
                return
            yield judged(batch)
        return
    # Not multiprocessing's pool: its processes may have no children, and kinds that may lose a process start one.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running: collections.deque[Future[list[Outcome]]] = collections.deque()
        for batch in work:
            if len(running) > jobs:
                yield running.popleft().result()
            if time.monotonic() > end:
                break
            running.append(pool.submit(judged, batch))
        while running:
            yield running.popleft().result()
