"""Runs of `px.check` and `px.explore` on an executor of the caller's choice, or on processes of this machine.

What travels is the prepared IR, the arguments and the schedule: plain data, so that a kernel need not be importable
elsewhere. Any `concurrent.futures.Executor` will do, also one of Dask or Ray.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from phalanx.errors import Error
from phalanx.ir.core import Function, Op, rewrite

_KNOWN: dict[bytes, Function] = {}
"""Functions that this process was sent, so that the code of each is generated once."""
_KEPT = 8


def pack(function: Function, *, runs: bool = True) -> bytes:
    """The IR as bytes; its constants are in it, and those that are functions may not travel.

    What `px.ptx` computes in the simulator does travel, by its name, where the kernel `runs` there.
    """
    function = dataclasses.replace(function, constants=())
    stuck = _stuck(function)
    if stuck is not None and runs:
        raise Error(
            "sim= of px.ptx can't be sent to another process: it is a lambda, or made inside a function",
            location=stuck.loc,
            remedy="define it with def at the top of a file",
        )
    if stuck is not None:
        body = rewrite(function.body, lambda op: [_without_model(op)] if op.assembly else None)
        function = dataclasses.replace(function, body=body)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20000))  # blocks in blocks, and places of inlined calls, are a deep tree
    try:
        return pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        sys.setrecursionlimit(limit)


def travels(function: Function) -> bool:
    """Whether a kernel can be sent to another process to be run there."""
    return _stuck(function) is None


def _stuck(function: Function) -> Op | None:
    """The first instruction whose function for the simulator can't be sent to another process."""
    for op in function.walk():
        if op.assembly:
            try:
                pickle.dumps(op.sim)  # type: ignore[attr-defined]
            except Exception:
                return op
    return None


def _without_model(op: Op) -> Op:
    return dataclasses.replace(op, sim=None)  # type: ignore[call-arg]


def unpack(packed: bytes) -> Function:
    """The IR again, the same object for the same bytes."""
    function = _KNOWN.get(packed)
    if function is None:
        while len(_KNOWN) >= _KEPT:
            del _KNOWN[next(iter(_KNOWN))]
        function = _KNOWN[packed] = pickle.loads(packed)
    return function


@contextmanager
def processes() -> Iterator[Executor | None]:
    """Processes of this machine; None where it has none to spare, or they would have to begin from scratch."""
    count = os.cpu_count() or 1
    if count < 2 or "fork" not in multiprocessing.get_all_start_methods() or multiprocessing.current_process().daemon:
        yield None
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("fork")) as pool:
        yield pool


def in_order(executor: Executor, work: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """The results of all jobs, in their order; those that nobody asks for any more are cancelled."""
    futures = [executor.submit(work, *job) for job in jobs]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def check_part(packed: bytes, grid: Any, args: list[Any], schedule: Any, strict: bool, seed: int) -> Any:
    """One schedule of a check, in a process that was sent the kernel."""
    from phalanx.runtime.device.devices import SIMULATED_SMS
    from phalanx.sanitizer.runs import copies_of, run_again

    return run_again(unpack(packed), grid, copies_of(args), schedule, strict=strict, seed=seed, sms=SIMULATED_SMS)


def explore_part(packed: bytes, grid: Any, args: list[Any], start: Any, limit: int) -> Any:
    """One part of an exploration, in a process that was sent the kernel."""
    from phalanx.sanitizer.exploration import Search
    from phalanx.sanitizer.runs import copies_of
    from phalanx.sim.steps import Steps

    return Search(Steps(unpack(packed), grid, copies_of(args)), start, limit).run()
