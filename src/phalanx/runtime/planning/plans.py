"""Plans of a library function: calls with new sizes launch what expressions say, without the function being run.

Calls that differ in sizes, strides and addresses alone share a plan. It is made when the second of them comes, by a run of
the function on numbers that remember how they came about (`ways`), and written as one Python function (`plan_text`). A
call whose comparisons or choices turn out otherwise takes the whole way, and adds its own way to the plan. A way is taken
only if what it says of the call that it was traced for is what that call launched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.runtime.device.arrays import describe
from phalanx.runtime.launch.replay import (
    CallReplay,
    Made,
    Memory,
    Recorded,
    Sketch,
    WholeWay,
    is_whole,
    plan_calls_with,
    span_of,
)

if TYPE_CHECKING:
    from phalanx.runtime.planning.plan_text import KnownWay, PlanWriter

MOST_WAYS = 512
"""Ways of one plan: all products of a model are one. Other calls take the whole way."""
PLANNED_TIMES = 4
"""Calls with the same sizes that take the plan, before a replay is made of the next one."""
MOST_ALIKE = 8
"""Manners in which arrays of calls are alike that have functions of their own; what comes after them has a common one."""
MOST_FAILURES = 16
"""Calls that could not be traced; after so many nothing more is tried."""


class Plan:
    """What calls of a function with the same options, types and ranks of arrays do, by their sizes. For any thread.

    `first` is where the first array stands in a call's key, `geometries` how many calls took the whole way so far; `fixed`
    names sizes that the function looks up in tables: each has a way of its own. `functions` has what is written so far, by
    which arrays are alike; `function` is that of the calls that were learnt last, and asks for another one where need be.
    """

    __slots__ = ("failures", "first", "fixed", "function", "functions", "geometries", "terms", "ways", "why", "writer")

    def __init__(self, first: int) -> None:
        self.first = first
        self.geometries = self.failures = 0
        self.ways: list[KnownWay] = []
        self.function: Callable[..., Any] | None = None
        self.functions: dict[tuple[int, ...], Callable[..., Any]] = {}
        self.fixed: frozenset[str] = frozenset()
        self.writer: PlanWriter | None = None
        self.terms: dict[int, Callable[..., Any]] = {}
        self.why: list[str] = []

    def call(self, key: tuple[Any, ...], pointers: tuple[int, ...], arrays: tuple[Any, ...]) -> Any:
        """What is kept of a call that takes a way of the plan, and its result; None where it is to take the whole way."""
        function = self.function
        return None if function is None else function(key, pointers, arrays)

    def unlike(self, key: tuple[Any, ...], pointers: tuple[int, ...], arrays: tuple[Any, ...]) -> Any:
        """The same for calls whose arrays are not as alike as `function` has them."""
        assert self.writer is not None
        alike = self.writer.alike(key)
        found = self.functions.get(alike)
        if found is None:
            if len(self.functions) >= MOST_ALIKE:
                alike = tuple(range(len(alike)))
            found = self.functions.get(alike) or self.writer.function(self.ways, alike)
            self.functions[alike] = found
        return found(key, pointers, arrays)

    def learn(self, sketch: Sketch, call: Callable[..., Any], pointers: tuple[int, ...]) -> None:
        """Adds the way of a call that took the whole one, unless it is the first or can't be traced."""
        self.geometries += 1
        if sketch.captured:
            return  # a kernel captured constants of a user's code, which would have to be looked at
        if self.geometries < 2 or len(self.ways) >= MOST_WAYS or self.failures >= MOST_FAILURES:
            return
        try:
            self._add(sketch, call, pointers)
        except Exception as problem:  # whatever a function does to arrays that have no elements
            self.failures += 1
            self.why.append(f"{type(problem).__name__}: {problem}")

    def _add(self, sketch: Sketch, call: Callable[..., Any], pointers: tuple[int, ...]) -> None:
        from phalanx.runtime.planning.plan_text import KnownWay, Making, PlanWriter, agree, terms_function
        from phalanx.runtime.planning.ways import NotPlanned, trace_way
        from phalanx.runtime.symbolic.numbers import Undecided

        device = sketch.launches[0].launcher.device
        way = None
        while way is None:
            try:
                way = trace_way(call, sketch.infos, device, self.fixed)
            except Undecided as problem:
                if problem.symbols <= self.fixed:
                    raise
                self.fixed |= problem.symbols
                self.ways, self.function, self.functions = [], None, {}  # they began with other comparisons
        planned = Planned(sketch.memory, self)
        known = KnownWay(way, tuple(Making(made.dtype, made.device) for made in sketch.made), planned)
        planned.known = known
        ranks = [None if info is None else len(info.shape) for info in sketch.infos]
        terms = terms_function(way, ranks, self.first, device)
        _require_same(known, terms, sketch, pointers)
        if not agree(self.ways, known):
            raise NotPlanned("the function does not repeat itself")
        ways = [*self.ways, known]
        if self.writer is None:
            dtypes = [None if info is None else info.dtype_name for info in sketch.infos]
            self.writer = PlanWriter(ranks, dtypes, sketch.key, sys.modules["torch"], self.unlike)
        alike = self.writer.alike(sketch.key)
        function = self.writer.function(ways, alike)
        self.terms[id(known)] = terms
        self.ways, self.function, self.functions = ways, function, {alike: function}


def _require_same(known: KnownWay, terms: Callable[..., Any], sketch: Sketch, pointers: tuple[int, ...]) -> None:
    """Compares a way, with the numbers of the call that it was traced for, with what that call did."""
    from phalanx.runtime.planning.ways import NotPlanned

    way, new = known.way, [made.info.pointer for made in sketch.made]
    if len(way.memories) != len(new) or len(way.results) != len(sketch.given) or way.several != sketch.several:
        raise NotPlanned("another number of arrays is made, or given back")
    launches, made, given = terms(sketch.key, pointers, new)
    done = [(one.launcher, one.grid, one.scalars, one.infos) for one in sketch.launches]
    if done != [(one.launcher, *numbers) for one, numbers in zip(way.launches, launches, strict=False)]:
        raise NotPlanned("what is launched is not what was launched")
    if [tuple(map(type, one.scalars)) for one in sketch.launches] != [tuple(map(type, numbers[1])) for numbers in launches]:
        raise NotPlanned("numbers of other types are passed")
    if made != [each.info for each in sketch.made]:
        raise NotPlanned("other arrays are made")
    for told, result, was in zip(given, way.results, sketch.given, strict=True):
        if isinstance(was, Made):
            room = next((span_of(info) for info in made if told is not None and info.pointer == told.pointer), -1)
            if told != was.info or span_of(told) != room or not is_whole(told):
                raise NotPlanned("another array is given back")
        elif _address(result, sketch) != _address(was, sketch):
            raise NotPlanned("another argument is given back")


def _address(result: Any, sketch: Sketch) -> Any:
    """Where an argument that is given back lies: one tensor may be several arguments. Other results are themselves."""
    return sketch.pointers[result] if isinstance(result, int) else result


class Planned:
    """What is kept of calls that took one of a plan's ways, and came `times` times: the plan again, in the end a replay.

    A replay takes a few microseconds less than the plan, and as many as several calls to be made.
    """

    __slots__ = ("_more", "captured", "known", "make", "memory", "plan", "times")

    def __init__(self, memory: Memory, plan: Plan, known: Any = None, times: int = 1) -> None:
        self.memory, self.plan, self.known, self.times = memory, plan, known, times
        self.captured = self.make = None  # as replays have them: nothing to look at, nothing made yet
        self._more: Planned | None = None

    @property
    def more(self) -> Planned:
        """What is kept of those that came once more."""
        if self._more is None:
            self._more = Planned(self.memory, self.plan, self.known, self.times + 1)
        return self._more

    def repeat(
        self, key: tuple[Any, ...], arrays: tuple[Any, ...], pointers: tuple[int, ...], call: WholeWay
    ) -> Any:
        """The call once more; after some of them a `CallReplay` does it."""
        if self.times < PLANNED_TIMES:
            planned = self.plan.call(key, pointers, arrays)
            if planned is not None:
                self.memory.keep(key, self.more)
                return planned[1]
        if any([x is not None and not pointer for x, pointer in zip(arrays, pointers, strict=True)]):
            return call(key, arrays)  # an empty array lies nowhere: this time, not the next
        replay = CallReplay(self.sketch(key, arrays, pointers))
        self.memory.keep(key, replay)
        return replay.repeat(key, arrays, pointers, call)

    def sketch(self, key: tuple[Any, ...], arrays: tuple[Any, ...], pointers: tuple[int, ...]) -> Sketch:
        """What the call launched, made and gave back, as if it had been recorded; what it made lies nowhere."""
        from phalanx.runtime.symbolic.traced_array import NEW_POINTER

        way, makings = self.known.way, self.known.makings
        new = [NEW_POINTER + number * (1 << 40) for number in range(len(makings))]
        launches, made, given = self.plan.terms[id(self.known)](key, pointers, new)
        torch_of = {info.pointer: making for info, making in zip(made, makings, strict=True)}

        def as_made(info: Any) -> Made:
            return Made(info, torch_of[info.pointer].dtype, torch_of[info.pointer].device)

        sketch = Sketch.__new__(Sketch)
        sketch.memory, sketch.key, sketch.pointers, sketch.several = self.memory, key, pointers, way.several
        sketch.infos = [describe(x) for x in arrays]
        sketch.launches = [
            Recorded(terms.launcher, terms.captured, *numbers) for terms, numbers in zip(way.launches, launches, strict=True)
        ]
        sketch.made = list(map(as_made, made))
        sketch.given = []
        for info, result in zip(given, way.results, strict=True):
            if info is not None:
                sketch.given.append(as_made(info))
            else:
                sketch.given.append(result if isinstance(result, int) else None)
        return sketch


plan_calls_with(Plan)

__all__ = ["Plan", "Planned"]
