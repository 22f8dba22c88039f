"""Plans of a library function: calls with new sizes launch what expressions say, without the function being run.

Calls that differ in sizes, strides and addresses alone share a plan. It is made when the second of them comes, by a run of
the function on numbers that remember how they came about (`ways`), whose comparisons, choices and launches are compiled
(`compiled_ways`). A call whose comparisons or choices turn out otherwise takes the whole way, and adds its own way to the
plan. A way is taken only if what it says of the call that it was traced for is what that call launched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from phalanx.runtime.launch.replay import Made, Sketch, is_whole, plan_calls_with, span_of
from phalanx.runtime.launch.watchdog import ENVIRONMENT, NAME_THERE

if TYPE_CHECKING:
    from phalanx.runtime.planning.compiled_ways import End, Kind, Node, Values
    from phalanx.runtime.symbolic.tracing import Way

MOST_WAYS = 512
"""Ways of one plan: all products of a model are one. Other calls take the whole way."""
MOST_ALIKE = 8
"""Manners in which arrays of calls are alike that have ways of their own; what comes after them shares one."""
MOST_FAILURES = 16
"""Calls that could not be traced; after so many nothing more is tried."""


class CallPlan:
    """What calls of a function with the same options, types and ranks of arrays do, by their sizes. For any thread.

    `first` is where the first array stands in a call's key, `geometries` how many calls took the whole way so far, `why`
    what kept some from being planned. `trees` has the ways by which arrays are alike; `newest` is the one used last.
    """

    __slots__ = ("failures", "first", "geometries", "kind", "newest", "trees", "why")

    def __init__(self, first: int) -> None:
        self.first = first
        self.geometries = self.failures = 0
        self.kind: Kind | None = None
        self.trees: dict[tuple[int, ...], Tree] = {}
        self.newest: Tree | None = None
        self.why: list[str] = []

    def call(self, key: tuple[Any, ...], pointers: tuple[int, ...], arrays: tuple[Any, ...]) -> tuple[Any] | None:
        """The result of a call that takes a way of the plan, in a tuple; None where it is to take the whole way."""
        if self.kind is None or NAME_THERE in ENVIRONMENT:
            return None
        newest = self.newest
        if newest is not None and newest.holds(key):
            planned = newest.call(key, pointers, arrays)
            if planned is not None:
                return planned
        tree = self.trees.get(self.kind.alike(key))
        if tree is None and len(self.trees) >= MOST_ALIKE:
            tree = self.trees.get(tuple(range(len(arrays))))
        if tree is None or tree is newest:
            return None
        self.newest = tree
        return tree.call(key, pointers, arrays)

    def learn(self, sketch: Sketch, call: Callable[..., Any]) -> None:
        """Adds the way of a call that took the whole one, unless it is the first or can't be traced."""
        self.geometries += 1
        if sketch.captured:
            return  # a kernel captured constants of a user's code, which would have to be looked at
        if self.geometries < 2 or self.failures >= MOST_FAILURES:
            return
        try:
            self._add(sketch, call)
        except Exception as problem:  # whatever a function does to arrays that have no elements
            self.failures += 1
            self.why.append(f"{type(problem).__name__}: {problem}")

    def _add(self, sketch: Sketch, call: Callable[..., Any]) -> None:
        from phalanx.runtime.planning.compiled_ways import Kind

        if self.kind is None:
            ranks = [None if info is None else len(info.shape) for info in sketch.infos]
            dtypes = [None if info is None else info.dtype_name for info in sketch.infos]
            self.kind = Kind(ranks, dtypes, self.first)
        alike = self.kind.alike(sketch.key)
        if alike not in self.trees and len(self.trees) >= MOST_ALIKE:
            alike = tuple(range(len(alike)))
        tree = self.trees.setdefault(alike, Tree(self.kind, alike))
        if sum(len(each.ways) for each in self.trees.values()) < MOST_WAYS:
            tree.add(sketch, call)


class Tree:
    """The ways of calls whose arrays are `alike`. `fixed` names sizes that the function looks up in tables.

    Each of these sizes has ways of its own.
    """

    __slots__ = ("alike", "ends", "fixed", "holds", "names", "root", "small", "values", "ways")

    def __init__(self, kind: Kind, alike: tuple[int, ...]) -> None:
        self.alike = alike
        self.names = kind.names(alike)
        self.small = kind.small(alike)
        self.holds = kind.holds(alike)
        self.values: Callable[..., Values] = kind.values(alike)
        self.fixed: frozenset[str] = frozenset()
        self.ways: list[Way] = []
        self.ends: list[End] = []
        self.root: Node | End | None = None

    def call(self, key: tuple[Any, ...], pointers: tuple[int, ...], arrays: tuple[Any, ...]) -> tuple[Any] | None:
        """The result of a call in a tuple; None where it takes none of the ways."""
        values, node = self.values(key, pointers), self.root
        if node is None:
            return None
        try:
            while (ask := getattr(node, "ask", None)) is not None:
                found = node.table[ask(*values)]  # type: ignore[union-attr]
                then = node.then  # type: ignore[union-attr]
                if then is None:
                    node = found
                else:
                    values += found
                    node = then
        except Exception:  # no way goes on so, or a choice refuses the sizes: the whole way says why
            return None
        return node.run(arrays, *values)  # type: ignore[union-attr]

    def add(self, sketch: Sketch, call: Callable[..., Any]) -> None:
        """Adds the way of a call."""
        from phalanx.runtime.planning.compiled_ways import End, Making, agree, counted, tree
        from phalanx.runtime.planning.ways import NotPlanned, trace_way
        from phalanx.runtime.symbolic.numbers import Undecided

        device = sketch.launches[0].launcher.device
        way = None
        while way is None:
            try:
                way = trace_way(call, sketch.infos, device, self.alike, self.fixed)
            except Undecided as problem:
                if problem.symbols <= self.fixed:
                    raise
                self.fixed |= problem.symbols
                self.ways, self.ends, self.root = [], [], None  # they began with other comparisons
        end = End(way, [Making(made.dtype, made.device) for made in sketch.made], self.names)
        _require_same(end, (*self.values(sketch.key, sketch.pointers), *counted(way)), sketch)
        if not agree(self.ways, way):
            raise NotPlanned("the function does not repeat itself")
        ways, ends = [*self.ways, way], [*self.ends, end]
        self.root = tree(ways, ends, self.names, before=[self.small])
        self.ways, self.ends = ways, ends


def _require_same(end: End, values: Sequence[Any], sketch: Sketch) -> None:
    """Compares a way, with the numbers of the call that it was traced for, with what that call did."""
    from phalanx.runtime.planning.ways import NotPlanned

    way, new = end.way, [made.info.pointer for made in sketch.made]
    if len(way.memories) != len(new) or len(way.results) != len(sketch.given) or way.several != sketch.several:
        raise NotPlanned("another number of arrays is made, or given back")
    numbers, results, scratch, whole = end.terms(new, *values)
    told = [(terms.launcher, *each[:2]) for terms, each in zip(way.launches, numbers, strict=True)]
    done = [(one.launcher, one.grid, one.fields) for one in sketch.launches]
    if told != done:
        raise NotPlanned("what is launched is not what was launched")
    if [list(map(type, fields)) for *_, fields in told] != [list(map(type, fields)) for *_, fields in done]:
        raise NotPlanned("numbers of other types are passed")
    places = {each.name: made.info for each, made in zip(way.memories, sketch.made, strict=True)}
    if scratch != {name: span_of(info) for name, info in places.items() if name not in results}:
        raise NotPlanned("other arrays are made")
    if not whole:
        raise NotPlanned("a result is a part of an array")
    for result, was in zip(way.results, sketch.given, strict=True):
        if not isinstance(was, Made):
            if _address(result, sketch) != _address(was, sketch):
                raise NotPlanned("another argument is given back")
        elif isinstance(result, int) or result is None or places[result.memory].pointer != was.info.pointer:
            raise NotPlanned("another array is given back")
        elif results[result.memory] != (was.info.shape, was.info.strides) or not is_whole(was.info):
            raise NotPlanned("an array of another shape is given back")


def _address(result: Any, sketch: Sketch) -> Any:
    """Where an argument that is given back lies: one tensor may be several arguments. Other results are themselves."""
    return sketch.pointers[result] if isinstance(result, int) else result


plan_calls_with(CallPlan)
