"""Arguments with which loops over `px.pipelined` run as they are written: some that share memory, and empty ones.

Which pairs matter the kernel says (`passes.pipelining.aliasing`). Arrays are compared by the bytes between their first and
last element: two that interleave count as overlapping, which costs speed and never a result. Of an empty array the copy
engine has no description; its loops have no steps, or find nothing in any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phalanx.frozen import frozen
from phalanx.runtime.device.arrays import ArrayInfo, describe
from phalanx.runtime.launch.specialise import Argument, Specialisation


def span_of(info: ArrayInfo) -> tuple[int, int]:
    """The first byte of an array and the one behind its last, from its pointer on; empty for an array without elements."""
    if 0 in info.shape:
        return 0, 0
    reaches = [info.bytes_of(stride * (size - 1)) for size, stride in zip(info.shape, info.strides)]
    return sum(min(0, reach) for reach in reaches), sum(max(0, reach) for reach in reaches) + max(1, info.bytes_of(1))


@frozen
class Watched:
    """Pairs of arguments, by their place in a call, with the bytes that each reaches over from its pointer on."""

    pairs: tuple[tuple[int, int, tuple[int, int], tuple[int, int]], ...]

    @property
    def last(self) -> int:
        """The last argument of the pairs."""
        return max(max(pair[:2]) for pair in self.pairs)

    def overlap(self, args: Sequence[Any]) -> bool:
        """Whether any two share memory, in a call whose arguments have the same geometry."""
        return any(_meet(_pointer(args[a]), of_a, _pointer(args[b]), of_b) for a, b, of_a, of_b in self.pairs)


def watched_by(specialisation: Specialisation, arguments: list[Argument]) -> Watched | None:
    """What a launch with such arguments looks at; None where nothing runs ahead."""
    pairs = specialisation.watched
    if not pairs:
        return None
    given = [n for n, argument in enumerate(arguments) if argument.type is not None]
    spans = [None if argument.info is None else span_of(argument.info) for argument in arguments]
    found = []
    for a, b in pairs:
        if max(a, b) >= len(given):  # the runtime's own array shares memory with nobody
            continue
        first, second = spans[given[a]], spans[given[b]]
        assert first is not None and second is not None
        found.append((given[a], given[b], first, second))
    return Watched(tuple(found)) if found else None


def has_empty(arguments: list[Argument]) -> bool:
    """Whether any array has no elements."""
    return any(argument.info is not None and 0 in argument.info.shape for argument in arguments)


def as_launched(
    specialisation: Specialisation, arguments: list[Argument], args: Sequence[Any], pipelined: bool
) -> Specialisation:
    """The version of the kernel that a launch with these arguments runs, for tools that run no launch."""
    watched = watched_by(specialisation, arguments) if pipelined else None
    overlap = watched is not None and watched.overlap(args)
    return specialisation.plain if not pipelined or overlap or has_empty(arguments) else specialisation


def _pointer(array: Any) -> int:
    pointer = getattr(array, "data_ptr", None)
    if pointer is not None:
        return int(pointer())
    info = describe(array)
    assert info is not None
    return info.pointer


def _meet(a: int, of_a: tuple[int, int], b: int, of_b: tuple[int, int]) -> bool:
    if of_a[0] == of_a[1] or of_b[0] == of_b[1]:
        return False
    return a + of_a[0] < b + of_b[1] and b + of_b[0] < a + of_a[1]
