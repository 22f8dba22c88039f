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
from phalanx.runtime.exporting.parameters import ArrayParameter, MapParameter, array_parameter, map_parameter
from phalanx.runtime.exporting.paths import Tree, ends
from phalanx.runtime.launch.dispatch import compiled_for
from phalanx.runtime.launch.specialise import Specialisation
from phalanx.runtime.symbolic.expressions import Expression, combined, constant
from phalanx.runtime.symbolic.numbers import expression_of
from phalanx.runtime.symbolic.tracing import Path, Taken, Viewed

PART = 256
"""Parts of the workspace begin at multiples of so many bytes."""


@frozen
class Scalar:
    """A number that a launch gets: an expression of an integer, or a value."""

    dtype: str
    value: Any


@frozen
class PlannedArray:
    """An array that a launch gets, and what its kernel was compiled for."""

    kind: ArrayParameter
    view: Viewed


@frozen
class PlannedLaunch:
    """A launch: the number of its kernel, its arguments, its descriptors, its grid (None: as many clusters as fit).

    `counters` are so many int32 from byte `counters_at` of the workspace on; `apart` are arguments that share no memory.
    """

    program: int
    arguments: tuple[PlannedArray | Scalar, ...]
    maps: tuple[MapParameter, ...]
    grid: tuple[Expression, Expression, Expression] | None
    cluster: tuple[int, int, int]
    counters: int
    counters_at: int
    apart: tuple[tuple[int, int], ...]


@frozen
class Plan:
    """What is done at one end: launches in their order; scratch memory by name with its place in the workspace."""

    launches: tuple[PlannedLaunch, ...]
    scratch: tuple[tuple[str, Expression], ...]
    workspace: Expression


@frozen
class Plans:
    """All of them, by the path's identity; the kernels, each for every target; results by name with their outlines.

    `specialisations` are the kernels before they were compiled. `counters` are the bytes of the workspace that have to be 0
    before the first call.
    """

    of: dict[int, Plan]
    specialisations: tuple[Specialisation, ...]
    programs: tuple[tuple[Compiled, ...], ...]
    results: tuple[Viewed, ...]
    result_names: dict[str, str]
    counters: int

    @property
    def has_workspace(self) -> bool:
        """Whether some call needs one."""
        return any(plan.workspace.constant != 0 for plan in self.of.values())


def plans_of(tree: Tree, archs: Sequence[str], example: Path, result: str = "out") -> Plans:
    """Compiles the kernels at all ends of a tree, and plans their launches. Results are called `result`, with a number."""
    paths = list(ends(tree))
    order: dict[int, int] = {}
    programs: list[tuple[Compiled, ...]] = []
    specialisations: list[Specialisation] = []
    for path in [example, *paths]:
        for launch in path.launches:
            key = id(launch.specialisation)
            if key not in order:
                order[key] = len(programs)
                specialisations.append(launch.specialisation)
                programs.append(_compiled(launch, archs))
    counters = max((_counted(path, order, programs) for path in paths), default=0)
    new = [result.memory for result in example.results if result.memory.startswith("new_")]
    names = {name: result if len(set(new)) == 1 else f"{result}_{number}" for number, name in enumerate(dict.fromkeys(new))}
    made = {id(path): _plan(path, order, programs, set(names), counters) for path in paths}
    results = tuple(result for result in example.results if result.memory in names)
    return Plans(made, tuple(specialisations), tuple(programs), results, names, counters)


def _compiled(launch: Taken, archs: Sequence[str]) -> tuple[Compiled, ...]:
    made = tuple(compiled_for(launch.specialisation, arch, watchdog=False) for arch in archs)
    for each in made:
        require_plain(launch.specialisation.kernel, each, made[0])
    return made


def _counted(path: Path, order: dict[int, int], programs: list[tuple[Compiled, ...]]) -> int:
    """The bytes of the counters of a path's launches, each in a part of its own."""
    counts = [programs[order[id(launch.specialisation)]][0].signature.counters for launch in path.launches]
    return sum(-(-4 * count // PART) * PART for count in counts)


def _plan(
    path: Path, order: dict[int, int], programs: list[tuple[Compiled, ...]], results: set[str], counters: int
) -> Plan:
    at, launches = 0, []
    for launch in path.launches:
        number = order[id(launch.specialisation)]
        made = programs[number][0]
        launches.append(_launch(launch, number, made, at))
        at += -(-4 * made.signature.counters // PART) * PART
    place: Expression = constant(counters)
    scratch = []
    for memory in path.memories:
        if memory.name in results:
            continue
        scratch.append((memory.name, place))
        nbytes: Expression = constant(ITEM_BYTES[memory.dtype])
        for size in memory.sizes:
            nbytes = combined("*", expression_of(size), nbytes)
        nbytes = combined("ceil", nbytes, constant(PER_BYTE.get(memory.dtype, 1) * PART))
        place = combined("+", place, combined("*", nbytes, constant(PART)))
    return Plan(tuple(launches), tuple(scratch), place)


def _launch(launch: Taken, number: int, made: Compiled, counters_at: int) -> PlannedLaunch:
    signature = made.signature
    arguments: list[PlannedArray | Scalar] = []
    items: list[Any] = []
    for n, (value, kind, slot) in enumerate(zip(launch.arguments, launch.types, signature.given, strict=True)):
        if isinstance(slot, ScalarSlot):
            arguments.append(Scalar(slot.dtype, value))
            items.append(arguments[-1])
            continue
        assert isinstance(kind, ArrayType) and isinstance(value, Viewed)
        parameter = array_parameter(f"view_{n}", kind, slot, (1,) * kind.rank)
        arguments.append(PlannedArray(parameter, value))
        items.append(parameter)
    maps = tuple(map_parameter(item, items) for item in signature.tensor_maps)
    return PlannedLaunch(
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
