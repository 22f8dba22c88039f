"""What a thread launches, written down as a list, so that a call of the library can be repeated from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from phalanx.runtime.device.arrays import ArgumentKind, ArrayInfo, kind_of

if TYPE_CHECKING:
    from phalanx.runtime.launch.launcher import Launcher

Captured = tuple[Any, ...]
"""Constants that a kernel captured from a user's code: who asks, the name, and the value it had."""


class LaunchList:
    """What one thread launches on GPUs, and the arrays that the library makes for it meanwhile.

    `refused`: some of it was no plain launch of torch tensors on a GPU, which a list can't repeat.
    """

    __slots__ = ("launches", "made", "refused", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.launches: list[ListedLaunch] = []
        self.made: list[Any] = []
        self.refused = False


class ListedLaunch(NamedTuple):
    """A launch: a launcher of the kernel, the constants that this captured, and its arguments but for None.

    `scalars` has None for arrays, `infos` for all else. No array is kept.
    """

    launcher: Launcher
    captured: Captured
    grid: tuple[int, int, int]
    scalars: list[Any]
    infos: list[ArrayInfo | None]

    @property
    def fields(self) -> tuple[Any, ...]:
        """What is packed of the arguments: the pointer, strides and sizes of an array, else the number."""
        found: list[Any] = []
        for scalar, info in zip(self.scalars, self.infos, strict=True):
            found += (scalar,) if info is None else (info.pointer, *info.strides, *info.shape)
        return tuple(found)


LISTS: list[LaunchList] = []


@contextmanager
def recording() -> Iterator[LaunchList]:
    """Collects the launches of this thread. While anyone records, every launch goes the whole way."""
    made = LaunchList()
    LISTS.append(made)
    try:
        yield made
    finally:
        LISTS.remove(made)


def is_recorded() -> bool:
    """Whether somebody collects the launches of this thread."""
    thread = threading.get_ident() if LISTS else 0
    for one in LISTS:  # noqa: SIM110  (a third of what `any` takes)
        if one.thread == thread:
            return True
    return False


def record_launch(
    launcher: Launcher, captured: Captured, grid: tuple[int, int, int], values: list[Any], infos: list[ArrayInfo | None]
) -> None:
    """Adds a launch to the lists of this thread."""
    scalars: list[Any] = []
    for x, info in zip(values, infos):
        scalars.append(x if info is None else None)
        if info is not None and kind_of(x) is not ArgumentKind.TORCH:
            refuse_recording()
    found = ListedLaunch(launcher, captured, grid, scalars, infos)
    for one in LISTS:
        if one.thread == threading.get_ident():
            one.launches.append(found)


def record_array(made: Any) -> Any:
    """The array, noted in the lists of this thread: a new one, of which launches alone write what is read.

    The library makes its results, and what passes between its kernels, through it: calls that come again make such arrays
    anew. Example: ``record_array(torch.empty(shape, device=x.device))``.
    """
    for one in LISTS:
        if one.thread == threading.get_ident():
            one.made.append(made)
    return made


def refuse_recording() -> None:
    """Tells the lists of this thread that it ran something that can't be repeated."""
    for one in LISTS:
        if one.thread == threading.get_ident():
            one.refused = True


@contextmanager
def unrecorded() -> Iterator[None]:
    """Launches of this thread meanwhile are no part of what is recorded, and go the short ways: measurements."""
    mine = [one for one in LISTS if one.thread == threading.get_ident()]
    for one in mine:
        LISTS.remove(one)
    try:
        yield
    finally:
        LISTS.extend(mine)
