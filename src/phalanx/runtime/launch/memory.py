"""What kernels and functions of the library remember of their launches. `forget` empties all memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from phalanx.language.kernel import Kernel

if TYPE_CHECKING:
    from phalanx.runtime.launch.dispatch import KernelReplay
    from phalanx.runtime.launch.routes import Route
    from phalanx.runtime.launch.specialise import Specialisation

GEOMETRIES = 1024
"""Calls that a memory keeps: batches of a model in use come in many sizes. One more, and they are forgotten."""
_MEMORIES: WeakSet[LaunchMemory] = WeakSet()


class LaunchMemory:
    """What is kept by what a call is looked up by. For any thread.

    `kept` has a replay, False for a call that can't be repeated, or what says how often a call came that may be.
    """

    __slots__ = ("__weakref__", "kept", "limit")

    def __init__(self, limit: int = GEOMETRIES) -> None:
        self.limit = limit
        self.kept: dict[Any, Any] = {}
        _MEMORIES.add(self)

    def keep(self, key: Any, value: Any) -> None:
        """Remembers `value` under `key`; where there are too many already, they are forgotten first."""
        if len(self.kept) >= self.limit and key not in self.kept:
            self.kept.clear()
        self.kept[key] = value

    def clear(self) -> None:
        """Forgets everything."""
        self.kept.clear()


class KernelMemory(LaunchMemory):
    """What is kept of one kernel: launches by geometry, and what was read and loaded, by types and constants.

    `choices` has what `px.choose` became, by sizes; `latest` has the last launch with given constants, which is tried before
    anything is looked at; `specialisations` the kernel as read; `routes` what was loaded, by device as well. `bound` is the
    kernel's own table of what `kernel[grid]` gave.
    """

    __slots__ = ("bound", "choices", "latest", "routes", "specialisations")

    def __init__(self, bound: dict[Any, Any]) -> None:
        super().__init__()
        self.choices: dict[Any, Any] = {}
        self.latest: dict[tuple[Any, ...], KernelReplay] = {}
        self.specialisations: dict[Any, Specialisation] = {}
        self.routes: dict[Any, Route] = {}
        self.bound = bound

    def clear(self) -> None:
        super().clear()
        for table in (self.choices, self.latest, self.specialisations, self.routes):
            table.clear()
        for bound in self.bound.values():
            bound.last = None
        self.bound.clear()


def memory_of(kernel: Kernel) -> KernelMemory:
    """What is kept of a kernel; it goes when the kernel goes."""
    found: KernelMemory | None = kernel.memory
    if found is None:
        found = KernelMemory(kernel.bound)
        object.__setattr__(kernel, "memory", found)
    return found


def forget() -> None:
    """Empties the memories of all kernels and functions, so that their next calls read and load everything anew."""
    for memory in list(_MEMORIES):
        memory.clear()


def memories() -> list[LaunchMemory]:
    """The memories that there are."""
    return list(_MEMORIES)
