"""`px.explore`: every order of events of a small kernel."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from phalanx.errors import Error
from phalanx.ir.core import Function
from phalanx.runtime.checking import require_bound, require_executor, require_number
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.device.outlines import tell_launch
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, debugging, function_for, on_host, require_data
from phalanx.runtime.launch.options import named_arch, require_pipelined
from phalanx.runtime.launch.overlaps import as_launched
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise
from phalanx.runtime.process_pool import explore_part, in_order, pack, processes, travels
from phalanx.sanitizer.exploration import Found, Search, Start, split
from phalanx.sanitizer.runs import copies_of
from phalanx.sim.steps import Steps

DEFAULT_LIMIT = 10_000
FEW = 200
"""Runs that are made in this process before others are asked."""
PARTS = 32


@dataclass
class Exploration:
    """What `px.explore` saw.

    `explored` is how many orders of events were run, none of them equivalent to another; `complete` whether there are
    no more. `outcomes` is how many different results (contents of the arrays that the kernel writes) there were,
    `deadlocks` and `errors` what went wrong on the way, as `px.Error`s. `ok`: all orders were run, nothing went wrong,
    and all results are the same.
    """

    kernel: str
    explored: int
    complete: bool
    outcomes: int
    deadlocks: list[Error]
    errors: list[Error]
    clashes: set[frozenset[tuple[str, int]]]
    """Pairs of (file, line) whose accesses of the same bytes, one of them a write, were possible at the same time."""
    parts: int = 1

    @property
    def ok(self) -> bool:
        """Whether every order was run, nothing went wrong, and all of them end alike."""
        return self.complete and not self.deadlocks and not self.errors and self.outcomes <= 1

    def __bool__(self) -> bool:
        return self.ok

    def summary(self) -> str:
        """The result in one line."""
        how = "all" if self.complete else "the first"
        count = len(self.deadlocks)
        wrong = [f"{count or 'no'} deadlock{'s' * (count > 1)}"]
        if self.errors:
            wrong.append(f"{len(self.errors)} other error{'s' * (len(self.errors) != 1)}")
        results = f"{self.outcomes} outcome{'s' * (self.outcomes != 1)}"
        orders = f"{self.explored} order{'s' * (self.explored != 1)}"
        return f"{self.kernel}: {results}, {', '.join(wrong)} in {how} {orders} of events"

    def __str__(self) -> str:
        return "\n\n".join([*map(str, (*self.deadlocks, *self.errors)), self.summary()])

    def __repr__(self) -> str:
        return f"<Exploration {self.summary()}>"


def explore(
    bound: BoundLaunch, *args: Any, limit: int = DEFAULT_LIMIT, executor: Executor | None = None,
    arch: str | None = None, pipelined: bool = True, **constants: Any,
) -> Exploration:
    """Runs a small kernel in every order of events that can make a difference, to prove that none of them deadlocks.

    Anyone may call it, outside kernels; needs no GPU. Events are barrier signals and waits, copies that land, cluster
    barriers, group waits and accesses of memory; orders that only swap events which commute count as one. The proof
    holds for the grid and the arguments given. At most about `limit` orders are run; `complete` says whether that was all.
    `executor` is a `concurrent.futures.Executor` to spread the work over; without one, processes of this machine help
    where there is much of it. The arguments are copied. `arch` is the target whose version of the kernel is run,
    `pipelined=False` leaves loops as they are written, as for `px.check`. Example::

        seen = px.explore(ring[2], x, y, STAGES=2)
        assert seen.complete and not seen.deadlocks and seen.outcomes == 1
    """
    require_bound("px.explore", bound)
    require_number("limit", limit, 1, "allow at least one run")
    require_executor(executor)
    tell_launch(bound, args, constants)
    kernel = bound.kernel
    with debugging(kernel):
        target = named_arch(arch)
        arguments = require_data(kernel, read_arguments(kernel, args))
        values = choice_of(kernel, bound.grid, arguments, kernel.bind_constants(constants), target).constants
        specialisation = specialise(kernel, arguments, values)
        specialisation = as_launched(specialisation, arguments, args, require_pipelined(pipelined))
        if leaves_grid(bound.grid):
            grid = specialisation.fitting(bound.grid, arguments, numbers=True).in_simulator()
        else:
            grid = normalise_grid(kernel, bound.grid, specialisation.constants)
        function = function_for(specialisation, target)
        host = on_host(arguments)
        if 0 in grid:
            return Exploration(kernel.name, 0, True, 0, [], [], set())
        return explore_function(function, grid, host, limit=limit, executor=executor)


def explore_function(
    function: Function, grid: Any, args: list[Any], *, limit: int = DEFAULT_LIMIT, executor: Executor | None = None
) -> Exploration:
    """`explore` for a kernel that is prepared already."""
    found, parts = Found(complete=False), 1
    if executor is None:
        found = Search(Steps(function, grid, copies_of(args)), Start(), min(limit, FEW)).run()
    if not found.complete and (executor is not None or limit > FEW):
        with ExitStack() as stack:
            pool = executor
            if executor is None and travels(function):
                pool = stack.enter_context(processes())
            if pool is None:
                found = Search(Steps(function, grid, copies_of(args)), Start(), limit).run()
            else:
                starts = split(function, grid, copies_of(args), PARTS)
                parts = len(starts)
                packed = pack(function)
                found = Found()
                jobs = [(packed, grid, args, start, limit) for start in starts]
                for number, part in enumerate(in_order(pool, explore_part, jobs)):
                    found.add(part)
                    if found.explored >= limit and number + 1 < parts:
                        found.complete = False
                        break
    return result(function.name, found, parts)


def result(name: str, found: Found, parts: int) -> Exploration:
    """What the search found of the kernel of that name, as users see it."""
    return Exploration(
        name, found.explored, found.complete, len(found.outcomes), found.deadlocks, found.errors, found.clashes, parts
    )
