"""Finds the loaded kernel that a launch takes, by the types of its arguments alone.

A kernel is read, compiled and loaded for types and constants, never for sizes. So a launch with other sizes than any before
it needs its grid, its parameters and the descriptors that changed, and all else is where the last launch of these types
left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phalanx.errors import Error
from phalanx.ir.types import DType
from phalanx.language.reader.capture import is_record, still_holds
from phalanx.runtime.device.arrays import ArgumentKind, ArrayInfo, describe, kind_of, scalar_dtype
from phalanx.runtime.launch.specialise import MAX_AXIS, Specialisation, constants_key

if TYPE_CHECKING:
    from phalanx.runtime.launch.launch_list import Captured
    from phalanx.runtime.launch.launcher import Launcher

_INTEGER, _FLOAT, _BOOL = ArgumentKind.INTEGER, ArgumentKind.FLOAT, ArgumentKind.BOOL
_PLAIN = frozenset((int, bool, str, type(None), DType, float))
"""Types of constants of which equal ones are the same, but for floats."""


class Route:
    """A kernel that is loaded on a device for some types of arguments; None stood for those of `none_at`."""

    __slots__ = ("captured", "cluster", "launcher", "none_at", "specialisation")

    def __init__(self, specialisation: Specialisation, launcher: Launcher, none_at: tuple[int, ...]) -> None:
        self.specialisation, self.launcher, self.none_at = specialisation, launcher, none_at
        self.cluster = specialisation.reading.function.cluster
        self.captured: Captured = specialisation.captured

    def present(self, items: Sequence[Any]) -> list[Any]:
        """The items of a call's arguments, or of what goes with them, that the kernel takes."""
        if not self.none_at:
            return list(items)
        return [item for n, item in enumerate(items) if n not in self.none_at]

    @property
    def is_current(self) -> bool:
        """Whether the constants that the kernel captured still have the values they had."""
        return all(still_holds(source, name, value) for source, name, value in self.captured)


def hides(kind: type) -> bool:
    """Whether constants of a type may be equal and stand for different things: 0.0 and -0.0, (1,) and (True,)."""
    return kind is float or kind is tuple or is_record(kind)


def constants_as_given(constants: dict[str, Any]) -> tuple[Any, ...]:
    """`constants_key`, or where all constants are plain something quicker that tells as much apart."""
    kinds: tuple[Any, ...] = tuple(map(type, constants.values()))
    if not _PLAIN.issuperset(kinds):
        return constants_key(constants)
    if float in kinds:  # 0.0 and -0.0 are equal, and a NaN equals nothing
        kinds = (*kinds, *[value.hex() for value in constants.values() if type(value) is float])
    return tuple(constants.items()), kinds


class Types:
    """The arguments of a launch: what a kernel is specialised for, and the descriptions of the arrays.

    `device` is None where these are not all numbers, None, and arrays of one GPU that have elements, and no axis that is too
    long.
    """

    __slots__ = ("device", "infos", "key")

    def __init__(self, key: tuple[Any, ...], infos: list[ArrayInfo | None], device: int | None) -> None:
        self.key, self.infos, self.device = key, infos, device


def types_of(args: Sequence[Any]) -> Types | None:
    """The types of a launch's arguments; None where one of them is nothing that a kernel takes."""
    key: list[Any] = []
    infos: list[ArrayInfo | None] = []
    device: int | None = None
    agree = True
    try:
        for x in args:
            info = None
            if x is None:
                key.append(None)
            elif (kind := kind_of(x)) is _INTEGER:
                key.append("i32" if -0x80000000 <= x <= 0x7FFFFFFF else scalar_dtype(x))
            elif kind is _FLOAT or kind is _BOOL:
                key.append("f32" if kind is _FLOAT else "bool")
            else:
                info = describe(x)
                if info is None:
                    return None
                elsewhere = info.kind != "cuda" or (device is not None and device != info.device)
                if elsewhere or 0 in info.shape or max(info.shape, default=0) > MAX_AXIS:
                    agree = False
                device = info.device
                key.append(info.facts)
            infos.append(info)
    except Error:
        return None  # what is wrong with it is said by who reads the arguments one by one
    return Types(tuple(key), infos, device if agree else None)
