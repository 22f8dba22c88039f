"""The combination of candidates that a launch takes: found once for sizes, kept in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import USUAL, Arch
from phalanx.ir.core import Note
from phalanx.ir.types import ArrayType
from phalanx.language.kernel import Kernel, is_strict
from phalanx.runtime.choosing.candidates import combinations, has_choice
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.memory import GEOMETRIES, memory_of
from phalanx.runtime.launch.specialise import (
    Argument,
    Specialisation,
    constants_key,
    normalise_grid,
    resolved_constants,
    specialise,
)


@frozen
class Choice:
    """The constants of a launch, and what is said of them; no note where nothing was to choose."""

    constants: dict[str, Any]
    note: Note | None = None


@frozen
class Kept:
    """A choice in a kernel's memory: valid while what the kernel captured is as it was."""

    choice: Choice
    specialisation: Specialisation


def choice_of(
    kernel: Kernel, grid: Any, arguments: list[Argument], constants: dict[str, Any], arch: Arch | None = None,
    compiles: Callable[[Specialisation], object] | None = None,
) -> Choice:
    """The constants of a launch with the candidates settled: the combination that is quickest on the model of time.

    For whoever launches, checks or compiles a kernel, before it is specialised. `arch` is the target, where one is named.
    `compiles` compiles a kernel, for whoever needs its machine code: where it raises an error, the next best is taken.
    """
    if not has_choice(constants):
        return Choice(constants)
    from phalanx.runtime.choosing.kept import load_choice, store_choice
    from phalanx.runtime.choosing.ranking import best_of
    from phalanx.runtime.timeline.cards import card_for

    memory = memory_of(kernel).choices
    candidates = combinations(kernel, constants)
    grids = [grid_or_error(kernel, grid, arguments, candidate) for candidate in candidates]
    arch = arch or usual_arch(kernel, arguments, candidates)
    card = card_for(arch.name).key
    key = (
        sizes_key(arguments), constants_key(constants), tuple(map(str, grids)), arch.name, card, is_strict(kernel),
        compiles is not None,
    )
    found = memory.get(key)
    if found is None or not found.specialisation.is_current:
        kept = load_choice(kernel, key)
        number, told = kept or best_of(kernel, constants, candidates, grids, arguments, arch, compiles)
        if kept is None:
            store_choice(kernel, key, number, told)
        choice = Choice(candidates[number], Note(told, kernel.location))
        if len(memory) >= GEOMETRIES:
            memory.clear()
        found = memory[key] = Kept(choice, specialise(kernel, arguments, choice.constants))
    return found.choice


def usual_arch(kernel: Kernel, arguments: list[Argument], candidates: list[dict[str, Any]]) -> Arch:
    """The target that the first combination which can be read is prepared for; any one where none can be."""
    for candidate in candidates:
        try:
            return specialise(kernel, arguments, candidate).default_arch
        except Error:
            continue
    return USUAL[0]


def grid_or_error(kernel: Kernel, grid: Any, arguments: list[Argument], constants: dict[str, Any]) -> Any:
    """The grid of a combination; what is wrong with it, as an error."""
    if leaves_grid(grid):
        return grid
    try:
        return normalise_grid(kernel, grid, resolved_constants(kernel, arguments, constants))
    except Error as error:
        return error


def sizes_key(arguments: list[Argument]) -> tuple[Any, ...]:
    """The types of the arguments, the sizes of arrays, and the integers among the numbers."""
    found: list[Any] = []
    for argument in arguments:
        shape: Any = None
        if isinstance(argument.type, ArrayType):
            shape = tuple(argument.value.shape if argument.info is None else argument.info.shape)
        elif argument.type is not None and argument.type.dtype.is_integer:
            shape = int(argument.value)
        found.append((argument.type, shape))
    return tuple(found)
