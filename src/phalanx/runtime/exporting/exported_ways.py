"""All ways that a function takes, for all sizes that its export is to know: a tree of comparisons with launches at its ends.

The first way is the example's. Each of its guards that depends on sizes alone is turned around, sizes are looked for that
lead there, and the function runs with those; and so on. What no sizes were found for, and what depends on strides or
addresses, ends in an error code. So does a way on which the function refuses its arguments, or copies one, and one whose
kernels would be more than the export has room for. The exported function evaluates the same comparisons: it never takes a
way that was not run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.runtime.device.devices import described
from phalanx.runtime.symbolic.numbers import Guard, Trace
from phalanx.runtime.symbolic.traced_array import NotExported, TracedArray, contiguous
from phalanx.runtime.symbolic.tracing import (
    Given,
    ScalarGiven,
    TracedLaunch,
    Way,
    new_arrays,
    run_traced,
    viewed,
)

MOST_WAYS = 96
"""Ways that are run at most; what is left ends in an error code."""
SIZES = (
    0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 100, 127, 128, 129, 192, 255,
    256, 257, 320, 384, 511, 512, 513, 640, 768, 1000, 1023, 1024, 1025, 1536, 2047, 2048, 2049, 3072, 4095, 4096,
    4097, 6144, 8192, 12288, 16384, 24576, 32768, 65536, 131072, 262144, 1048576, 16777216, 2**31 - 1,
)
"""Sizes that are tried where a guard is to be turned around."""
TRIES = 1000
FIRST_POINTER = 1 << 56
"""Where arguments lie while a function is traced: far from each other and from new arrays."""
POINTER_STEP = 1 << 44


@frozen
class Fork:
    """A comparison, and what follows where it holds and where it does not."""

    guard: Guard
    holds: Any
    fails: Any


@frozen
class End:
    """Where launches follow: the way that was run."""

    way: Way


@frozen
class Refused:
    """Where nothing follows but an error code: the guard before it says which, and the function perhaps why."""

    why: str | None = None


Tree = Fork | End | Refused


def values_for(arguments: Sequence[Given], sizes: dict[str, int]) -> dict[str, Any]:
    """The values of all symbols for given sizes: arrays are contiguous, and begin at multiples of 256 bytes."""
    values: dict[str, Any] = dict(sizes)
    for number, given in enumerate(arguments):
        if isinstance(given, ScalarGiven):
            values[given.name] = given.value
            continue
        shape = [sizes[size] if isinstance(size, str) else size for size in given.sizes]
        values[given.name] = FIRST_POINTER + number * POINTER_STEP
        for axis, step in enumerate(contiguous(tuple(max(size, 1) for size in shape))):
            values[given.stride(axis)] = step
    return values


def run_way(
    call: Callable[[list[Any]], Any], arguments: Sequence[Given], values: dict[str, Any], example: dict[str, Any], arch: str
) -> Way:
    """Runs a function for some sizes; `call` calls it with traced arrays and numbers in the place of its arguments.

    `example` are the values for which the library's choices are made, on a GPU of the target `arch`.
    """
    trace = Trace(values, example)
    launches: list[TracedLaunch] = []
    try:
        _, result = run_traced(trace, call, arguments, launches.append, device=described(arch))
        results = tuple(map(viewed, _arrays_of(result)))
    except Exception as error:  # whatever a user's function does to arrays that have no elements
        text = error.message if isinstance(error, Error) else str(error)
        return Way(tuple(trace.guards), values=values, refusal=text, error=error)
    return Way(tuple(trace.guards), tuple(launches), new_arrays(trace), results, values=values)


def _arrays_of(result: Any) -> list[TracedArray]:
    """The arrays of a result: one, several, or none."""
    if result is None:
        return []
    if isinstance(result, tuple | list):
        return [array for part in result for array in _arrays_of(part)]
    if isinstance(result, TracedArray):
        return [result]
    raise NotExported(
        f"the function returns a {type(result).__name__}", remedy="return arrays, or None where it writes to its arguments"
    )


def explore(
    call: Callable[[list[Any]], Any], arguments: Sequence[Given], example: dict[str, int], arch: str, kernels: int
) -> tuple[Way, Tree]:
    """The example's way and the tree of a function, which `call` calls with traced arguments.

    `kernels` is how many kernels the export has room for; the example's are always among them.
    """
    usual = values_for(arguments, example)
    first = run_way(call, arguments, usual, usual, arch)
    if first.refusal is not None:
        assert first.error is not None
        raise first.error
    search = _Search(arguments, example)
    ways = [first]
    known = {id(launch.specialisation) for launch in first.launches}
    results = _outline(first)
    asked: set[tuple[str, ...]] = {_key(first.guards)}
    sizes = set(example)
    waiting = list(_turned(first, sizes))
    while waiting and len(ways) < MOST_WAYS:
        prefix = waiting.pop(0)
        key = _key(prefix)
        if key in asked or any(_key(way.guards)[: len(key)] == key for way in ways):
            continue
        asked.add(key)
        values = search.satisfying(prefix)
        if values is None:
            continue
        found = run_way(call, arguments, values, usual, arch)
        if _key(found.guards)[: len(key)] != key:
            continue  # the function does not repeat itself: its way stays unknown
        needed = {id(launch.specialisation) for launch in found.launches}
        if found.refusal is None and (len(known | needed) > kernels or _outline(found) != results):
            found = Way(found.guards, values=found.values, refusal="outside of the exported specialisations")
        elif found.refusal is None:
            known |= needed
        ways.append(found)
        waiting += _turned(found, sizes)
    return first, tree_of(ways)


def _key(guards: Iterable[Guard]) -> tuple[str, ...]:
    return tuple(f"{guard.text}={guard.outcome}" for guard in guards)


def _outline(way: Way) -> Any:
    """What the results are, which is the same on all ways."""
    return [(result.memory, result.dtype, len(result.shape)) for result in way.results]


def _turned(way: Way, sizes: set[str]) -> Iterator[tuple[Guard, ...]]:
    """The beginnings of other ways: each guard that depends on sizes alone turned around, behind all before it."""
    for number, guard in enumerate(way.guards):
        if not guard.settled and guard.symbols <= sizes:  # of strides and addresses the example's way is exported
            turned = Guard(guard.left, guard.sign, guard.right, not guard.outcome)
            yield (*way.guards[:number], turned)


class _Search:
    """Looks for sizes that lead along a way."""

    def __init__(self, arguments: Sequence[Given], example: dict[str, int]) -> None:
        self.arguments, self.example = arguments, example
        near = {value + change for value in example.values() for change in (-8, -1, 1, 8, value)}
        self.sizes = sorted({*SIZES, *example.values(), *(size for size in near if 0 <= size < 2**31)})
        self.random = random.Random(0)
        self.seen: list[dict[str, int]] = []

    def satisfying(self, guards: tuple[Guard, ...]) -> dict[str, Any] | None:
        """The values of all symbols for such sizes; None where none were found."""
        known = set(self.example)
        of_sizes = _holding([guard for guard in reversed(guards) if guard.symbols <= known])
        others = _holding([guard for guard in reversed(guards) if not guard.symbols <= known])
        for sizes in self._candidates(guards[-1]):
            if not of_sizes(sizes):
                continue
            values = values_for(self.arguments, sizes)
            if others(values):
                self.seen.append(sizes)
                return values
        return None

    def _candidates(self, last: Guard) -> Iterator[dict[str, int]]:
        names = sorted(last.symbols)
        bases = [self.example, *self.seen]
        for base in bases:
            for name in names:
                for size in self.sizes:
                    yield {**base, name: size}
        for _ in range(TRIES):
            base = self.random.choice(bases)
            changed = names if self.random.random() < 0.5 else list(self.example)
            yield {**base, **{name: self.random.choice(self.sizes) for name in changed}}


def _holding(guards: list[Guard]) -> Callable[[dict[str, Any]], bool]:
    """Whether values are such that all guards turn out as they did."""
    names = {name for guard in guards for name in guard.symbols}
    text = " and ".join(guard.text if guard.outcome else f"not {guard.text}" for guard in guards) or "True"
    pattern = r"\b(" + "|".join(sorted(names, key=len, reverse=True)) + r")\b"
    looked_up = re.sub(pattern, lambda found: f"v['{found[0]}']", text) if names else text
    made: Callable[[dict[str, Any]], bool] = eval(f"lambda v: {looked_up}", {})
    return made


def tree_of(ways: list[Way], depth: int = 0) -> Tree:
    """The tree of ways that are the same up to `depth` guards."""
    over = [way for way in ways if len(way.guards) == depth]
    if over:
        return Refused(over[0].refusal) if over[0].refusal is not None else End(over[0])
    guard = ways[0].guards[depth]
    sides = [[way for way in ways if way.guards[depth].outcome is outcome] for outcome in (True, False)]
    holds, fails = (tree_of(side, depth + 1) if side else Refused() for side in sides)
    return Fork(guard, holds, fails)


def ends(tree: Tree) -> Iterator[Way]:
    """The ways of a tree that have launches, or nothing to launch, the example's first where it comes first."""
    if isinstance(tree, End):
        yield tree.way
    elif isinstance(tree, Fork):
        yield from ends(tree.holds)
        yield from ends(tree.fails)
