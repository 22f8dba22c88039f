"""What an exported function does at the end of each of its ways: which compiled kernels it launches, with what.

Kernels are compiled once each, for every target. New memory that comes back is a result, for which the caller gives a
pointer; all other new memory, and the counters of kernels that have any, are parts of the workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phalanx.cuda.abi import ScalarSlot
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.types import ArrayType
from phalanx.language.kernel import Kernel
from phalanx.runtime.compiled import Compiled
from phalanx.runtime.device.arrays import ITEM_BYTES, PER_BYTE
from phalanx.runtime.exporting.exported_ways import Tree, ends
from phalanx.runtime.exporting.parameters import ArrayKind, MapParameter, kind_of_type, map_parameter
from phalanx.runtime.launch.dispatch import compiled_for
from phalanx.runtime.launch.specialise import Specialisation
from phalanx.runtime.symbolic.expressions import Expression, combined, constant
from phalanx.runtime.symbolic.tracing import ArrayView, TracedLaunch, Way

PART = 256
"""Parts of the workspace begin at multiples of so many bytes."""


@frozen
class CScalar:
    """A number that a launch gets: an expression, or a value."""

    dtype: str
    value: Any


@frozen
class CArray:
    """An array that a launch gets, and what its kernel was compiled for."""

    kind: ArrayKind
    view: ArrayView


@frozen
class CLaunch:
    """A launch: the number of its kernel, its arguments, its descriptors, its grid (None: as many clusters as fit).

    `counters` is the number of int32 that it counts with, which begin at byte `counters_at` of the workspace; `apart` are
    pairs of arguments that may share no memory.
    """

    program: int
    arguments: tuple[CArray | CScalar, ...]
    maps: tuple[MapParameter, ...]
    grid: tuple[Expression, Expression, Expression] | None
    cluster: tuple[int, int, int]
    counters: int
    counters_at: int
    apart: tuple[tuple[int, int], ...]


@frozen
class Ending:
    """What is done at one end: launches in their order; scratch memory by name with its place in the workspace."""

    launches: tuple[CLaunch, ...]
    scratch: tuple[tuple[str, Expression], ...]
    workspace: Expression


@frozen
class Result:
    """An array that the function writes, and for which its caller gives the memory."""

    name: str
    memory: str
    dtype: str
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]


@frozen
class Endings:
    """What a function does at the end of each way, by the way's identity; its kernels, each for every target; its results.

    `specialisations` are the kernels before they were compiled. `counters` is how many bytes of the workspace have to be 0
    before the first call.
    """

    of: dict[int, Ending]
    specialisations: tuple[Specialisation, ...]
    programs: tuple[tuple[Compiled, ...], ...]
    results: tuple[Result, ...]
    counters: int

    @property
    def has_workspace(self) -> bool:
        """Whether some call needs one."""
        return any(ending.workspace.constant != 0 for ending in self.of.values())

    @property
    def launches(self) -> list[CLaunch]:
        """All launches of the function, once each."""
        return [launch for ending in self.of.values() for launch in ending.launches]


def endings_of(tree: Tree, archs: Sequence[str], example: Way, result: str = "out") -> Endings:
    """Compiles the kernels at all ends of a tree, and arranges their launches. Results are called `result`, and numbered."""
    ways = list(ends(tree))
    order: dict[int, int] = {}
    programs: list[tuple[Compiled, ...]] = []
    specialisations: list[Specialisation] = []
    for way in [example, *ways]:
        for launch in way.launches:
            key = id(launch.specialisation)
            if key not in order:
                order[key] = len(programs)
                specialisations.append(launch.specialisation)
                programs.append(_compiled(launch, archs))
    counters = max((_counted(way, order, programs) for way in ways), default=0)
    new = [result.memory for result in example.results if result.memory.startswith("new_")]
    alone = len(set(new)) == 1
    names = {name: result if alone else f"{result}_{number}" for number, name in enumerate(dict.fromkeys(new))}
    made = {id(way): _ending(way, order, programs, set(names), counters) for way in ways}
    results = [view for view in example.results if view.memory in names]
    given = tuple(Result(names[view.memory], view.memory, view.dtype, view.shape, view.strides) for view in results)
    return Endings(made, tuple(specialisations), tuple(programs), given, counters)


def _compiled(launch: TracedLaunch, archs: Sequence[str]) -> tuple[Compiled, ...]:
    made = tuple(compiled_for(launch.specialisation, arch) for arch in archs)
    for each in made:
        require_plain(launch.specialisation.kernel, each, made[0])
    return made


def _counted(way: Way, order: dict[int, int], programs: list[tuple[Compiled, ...]]) -> int:
    """The bytes of the counters of a way's launches, each in a part of its own."""
    counts = [programs[order[id(launch.specialisation)]][0].signature.counters for launch in way.launches]
    return sum(-(-4 * count // PART) * PART for count in counts)


def _ending(
    way: Way, order: dict[int, int], programs: list[tuple[Compiled, ...]], results: set[str], counters: int
) -> Ending:
    at, launches = 0, []
    for launch in way.launches:
        number = order[id(launch.specialisation)]
        made = programs[number][0]
        launches.append(_launch(launch, number, made, at))
        at += -(-4 * made.signature.counters // PART) * PART
    place: Expression = constant(counters)
    scratch = []
    for memory in way.memories:
        if memory.name in results:
            continue
        scratch.append((memory.name, place))
        nbytes: Expression = constant(ITEM_BYTES[memory.dtype])
        for size in memory.sizes:
            nbytes = combined("*", size, nbytes)
        nbytes = combined("ceil", nbytes, constant(PER_BYTE.get(memory.dtype, 1) * PART))
        place = combined("+", place, combined("*", nbytes, constant(PART)))
    return Ending(tuple(launches), tuple(scratch), place)


def _launch(launch: TracedLaunch, number: int, made: Compiled, counters_at: int) -> CLaunch:
    signature, kernel = made.signature, launch.specialisation.kernel
    names = [name for name, each in zip(kernel.parameters, launch.arguments, strict=True) if each.type is not None]
    arguments: list[CArray | CScalar] = []
    kinds: list[Any] = []
    for value, kind, slot in zip(launch.values, launch.types, signature.given, strict=True):
        if isinstance(slot, ScalarSlot):
            arguments.append(CScalar(slot.dtype, value))
            kinds.append(None)
            continue
        assert isinstance(kind, ArrayType) and isinstance(value, ArrayView)
        kinds.append(kind_of_type(kind, slot))
        arguments.append(CArray(kinds[-1], value))
    maps = tuple(map_parameter(item, kinds[item.array], names[item.array]) for item in signature.tensor_maps)
    return CLaunch(
        number, tuple(arguments), maps, launch.grid, made.cluster, signature.counters, counters_at,
        launch.specialisation.watched,
    )


def require_plain(kernel: Kernel, made: Compiled, model: Compiled) -> None:
    """One C function launches all programs, and nobody reads debug records there."""
    if made.signature.debug:
        raise Error(
            f"kernel '{kernel.name}' has px.device_assert, whose reports only Phalanx's own launch reads",
            location=kernel.location,
            remedy="leave it out for the export, under a constant: if CHECKED: px.device_assert(...)",
        )
    same = (made.signature, made.shared_bytes, made.cluster, made.warps, made.addresses_cluster)
    if same != (model.signature, model.shared_bytes, model.cluster, model.warps, model.addresses_cluster):
        raise Error(
            f"kernel '{kernel.name}' is launched in another way on {made.arch} than on {model.arch}",
            location=kernel.location,
            remedy="export it for each target into a folder of its own, under names of their own",
        )
