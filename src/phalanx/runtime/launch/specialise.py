"""From a call's arguments to a specialisation: types, constants, IR, and what was made of it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from phalanx.cuda.prepare import choose_products, default_arch, has_own_form, prepare_common, prepare_for
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK, Arch
from phalanx.ir.core import Function
from phalanx.ir.types import DTYPES, ArrayType, DType, ScalarType, chunk_axes
from phalanx.language.kernel import Kernel, call_with_constants, is_strict, resolve_cluster
from phalanx.language.reader.capture import CAPTURES, exact, kind_of, still_holds
from phalanx.language.reader.reading import Reading, read_kernel
from phalanx.passes.pipelining.aliasing import Pairs, watched_pairs
from phalanx.passes.pipelining.places import written_arrays
from phalanx.passes.pipelining.plain import without_pipelining
from phalanx.passes.pipelining.write import has_pipelined
from phalanx.passes.stops import without_stops
from phalanx.runtime.device.arrays import ArrayInfo, describe, not_an_argument, scalar_dtype
from phalanx.runtime.device.packed import is_dense
from phalanx.runtime.launch.auto_constants import has_auto, resolve_auto
from phalanx.runtime.launch.auto_grid import FittingGrid, fitting_grid
from phalanx.runtime.launch.memory import memory_of
from phalanx.runtime.launch.strictness import require_fast

MAX_AXIS = 2**31 - 1
SOME_SIZE = 4096
"""Stands for a size with a name where a number is needed and any one does: a kernel's types do not depend on it."""


@frozen
class Spec:
    """An array that is described instead of given, for `px.compile` and `px.export`.

    `names` has a name for every axis whose size only the caller of an exported function knows, and "" for the others; it is
    empty where all are numbers. In `shape` such a size is `SOME_SIZE`.
    """

    shape: tuple[int, ...]
    dtype: DType
    aligned: bool = True
    dense: bool = False
    names: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int | str, ...]:
        """The size of every axis: a number or a name."""
        return tuple(name or size for name, size in zip(self.names or ("",) * len(self.shape), self.shape, strict=True))

    def nbytes(self, count: int) -> int:
        """The bytes that so many neighbours take in memory."""
        return self.dtype.dense_bytes(count) if self.dense else self.dtype.nbytes(count)


def spec(shape: Any, dtype: DType, *, aligned: bool = True, dense: bool = False) -> Spec:
    """Stands for an array of that shape and dtype where only its type matters; `dense` as in `px.packed`.

    A size may be a name, ``px.spec(("m", 4096), px.bf16)``: what `px.export` writes takes it when it is called. Rows of such
    a length begin at multiples of 16 bytes unless `aligned=False`; that is checked then.
    Anyone may call it, outside kernels.
    Example: ``matrix = px.spec((4096, 4096), px.f32); px.compile(copy[64], matrix, matrix)``.
    """
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    names = tuple(size if isinstance(size, str) else "" for size in given)
    wrong = [name for name in names if name and not (name.isidentifier() and name.isascii())]
    sizes = tuple(SOME_SIZE if name else size for name, size in zip(names, given, strict=True))
    if not isinstance(dtype, DType):
        raise Error(
            f"px.spec needs a px dtype, not {dtype!r}",
            location=caller_location(),
            remedy="e.g. px.spec((64, 64), px.f32)",
        )
    if wrong:
        raise Error(
            f"px.spec has a size with the name {wrong[0]!r}",
            location=caller_location(),
            remedy='a name is an identifier, e.g. px.spec(("m", 64), px.f32)',
        )
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MAX_AXIS for size in sizes):
        raise Error(
            f"px.spec needs a shape of integers, not {shape!r}",
            location=caller_location(),
            remedy="e.g. px.spec((64, 64), px.f32)",
        )
    if dtype.per_byte > 1 and (not sizes or sizes[-1] % dtype.per_byte):
        raise Error(
            f"px.spec of {sizes} elements of {dtype} is not whole bytes",
            location=caller_location(),
            remedy=f"{dtype.per_byte} neighbours share a byte: make the last axis a multiple of {dtype.per_byte}",
        )
    found = Spec(sizes, dtype, aligned, is_dense(dtype, dense), names if any(names) else ())
    if found.dense and (not sizes or sizes[-1] % 4):
        raise Error(
            f"px.spec of {sizes} elements of {dtype}, which lie four to three bytes",
            location=caller_location(),
            remedy="make the last axis a multiple of 4",
        )
    return found


def some_array(rank: int, dtype: str) -> Spec:
    """Describes an array of a rank and element type, as well aligned as one can be; it has no data."""
    return Spec((SOME_SIZE,) * rank, DTYPES[dtype])


def _chunk_of(value: Spec) -> tuple[int, ...]:
    """The last axes of a contiguous array that are 16 bytes together."""
    if value.dense or value.dtype.per_byte > 1:
        return ()
    strides = [value.dtype.nbytes(math.prod(value.shape[axis + 1 :])) for axis in range(len(value.shape))]
    return chunk_axes(value.shape, strides, value.dtype.itemsize)


@dataclass
class Argument:
    """One positional argument: its type, and the array's description where there is one."""

    value: Any
    type: ArrayType | ScalarType | None
    info: ArrayInfo | None = None


def read_argument(kernel: Kernel, name: str, value: Any, info: ArrayInfo | None = None) -> Argument:
    """What `value` is to the kernel; `info` is its description, where it is known already."""
    if value is None:
        return Argument(None, None)
    if isinstance(value, Spec):
        promised = bool(value.names) and bool(value.names[-1])
        even = bool(value.shape) and not promised and value.nbytes(value.shape[-1]) % COPY_CHUNK == 0
        inner = value.aligned and (math.prod(value.shape[:-1]) <= 1 or even or promised)
        chunk = () if inner or not value.aligned else _chunk_of(value)
        return Argument(value, ArrayType(len(value.shape), value.dtype, True, inner, inner and even, chunk, value.dense))
    try:
        info = describe(value) if info is None else info
    except Error as error:
        error.message = f"argument '{name}': {error.message}"
        raise error.at(kernel.location) from None
    if info is not None:
        if any(size > MAX_AXIS for size in info.shape):
            raise Error(
                f"argument '{name}' has an axis of {max(info.shape)} elements",
                location=kernel.location,
                remedy=f"an axis has at most {MAX_AXIS} elements: split or reshape the array",
            )
        return Argument(value, _array_type(*info.facts), info)
    try:
        scalar = scalar_dtype(value)
        if scalar is None:
            raise not_an_argument(value)
    except Error as error:
        error.message = f"argument '{name}': {error.message}"
        raise error.at(kernel.location) from None
    return Argument(value, ScalarType(DTYPES[scalar]))


@functools.cache
def _array_type(rank: int, dtype: str, *facts: Any) -> ArrayType:
    """The type of an array with these facts: `ArrayInfo.facts`."""
    return ArrayType(rank, DTYPES[dtype], *facts)


@dataclass
class Specialisation:
    """A kernel for given types and constants, and what was made of it so far.

    `stopping` is its IR with `px.breakpoint`, which the reading is without; None where it has none.
    `programs` are its machine codes by target and whether waits are bounded, `launchers` those by device, each with its
    program: they stay with the kernel's other memories and go with them.
    """

    kernel: Kernel
    constants: dict[str, Any]
    reading: Reading
    stopping: Function | None = None
    programs: dict[Any, Any] = field(default_factory=dict)
    launchers: dict[Any, Any] = field(default_factory=dict)
    _common: dict[int, Function] = field(default_factory=dict)
    _prepared: dict[Arch, Function] = field(default_factory=dict)
    _calm: set[Arch] = field(default_factory=set)

    def calm_down(self, arch: Arch) -> bool:
        """From now on products of loops over `px.pipelined` wait for each other on a target; False where they do already.

        For whoever compiles, if the assembler can't overlap them.
        """
        if not has_pipelined(self.reading.function) or arch in self._calm:
            return False
        self._calm.add(arch)
        self._prepared.pop(arch, None)
        return True

    @functools.cached_property
    def plain(self) -> Specialisation:
        """The kernel with its loops as they are written, without what `px.pipelined` says of them; itself without any."""
        function = without_pipelining(self.reading.function)
        if function is self.reading.function:
            return self
        return Specialisation(self.kernel, self.constants, replace(self.reading, function=function))

    @property
    def with_stops(self) -> Specialisation:
        """The kernel with `px.breakpoint`, for a run that somebody steps through; itself without any."""
        if self.stopping is None:
            return self
        return Specialisation(self.kernel, self.constants, replace(self.reading, function=self.stopping))

    @functools.cached_property
    def watched(self) -> Pairs:
        """Pairs of arguments that must not share memory, if loops are to run ahead."""
        return watched_pairs(self.reading.function)

    @functools.cached_property
    def written(self) -> tuple[int, ...]:
        """The arguments that some instruction declares to write, by their place among those that are not None."""
        function = self.reading.function
        found = {array.index for op in function.walk() for array in written_arrays(op)}
        return tuple(sorted(found & {param.index for param in function.given}))

    @property
    def prepared(self) -> Function:
        """The IR after all passes, for the first target that has all of the kernel's instructions."""
        return self.prepared_for(self.default_arch)

    @functools.cached_property
    def default_arch(self) -> Arch:
        """The target that the kernel is prepared for where none is named."""
        return default_arch(self.reading.function)

    def prepared_for(self, arch: Arch) -> Function:
        """The IR after all passes, for a target.

        Targets with as much shared memory share what the passes made, and with it what was found out about it (layouts,
        say), unless one of them lacks an instruction.
        """
        found = self._prepared.get(arch)
        if found is None:
            found = self._prepare(arch)
            require_fast(found, arch)
            self._prepared[arch] = found
        return found

    def _prepare(self, arch: Arch) -> Function:
        function = self.reading.function
        if has_own_form(function, arch):
            return prepare_for(function, arch, overlap=arch not in self._calm)
        common = self._common.get(arch.shared_limit)
        if common is None:
            common = self._common[arch.shared_limit] = prepare_common(function, arch)
        return choose_products(common, arch)

    def fitting(self, grid: Any, arguments: list[Argument], *, numbers: bool) -> FittingGrid:
        """What `px.auto` is as the grid of a launch with these arguments; see `auto_grid.fitting_grid`."""
        return fitting_grid(self.kernel, grid, self.reading.function, arguments, numbers=numbers)

    @functools.cached_property
    def captured(self) -> tuple[Any, ...]:
        """What was captured from code that is not this package's, whose constants never change."""
        found = self.reading.captured
        return tuple(item for item in found if item[0].fn.__module__.partition(".")[0] != "phalanx")

    @property
    def is_current(self) -> bool:
        """Whether the names captured from the enclosing scopes still have the values they had."""
        return all(still_holds(source, name, value) for source, name, value in self.reading.captured)


def constants_key(constants: dict[str, Any]) -> tuple[Any, ...]:
    """Hashable and exact: 1, 1.0 and True are different constants, also inside tuples."""
    return tuple((name, exact(value)) for name, value in constants.items())


def specialise(kernel: Kernel, arguments: list[Argument], constants: dict[str, Any]) -> Specialisation:
    """The specialisation for these types and constants, read anew if a captured constant changed."""
    types = tuple(argument.type for argument in arguments)
    memory = memory_of(kernel).specialisations
    try:
        key = (types, constants_key(constants))
        found = memory.get(key)
    except TypeError:
        bad = next(name for name, value in constants.items() if not _hashable(value))
        raise Error(
            f"the constant '{bad}' of kernel '{kernel.name}' is {kind_of(constants[bad])}",
            location=kernel.location,
            remedy=f"constants are {CAPTURES}; arrays are positional",
        ) from None
    if found is None or not found.is_current or found.reading.function.strict != is_strict(kernel):
        if has_auto(constants):
            resolved = resolve_auto(kernel, types, constants)
            reading = read_kernel(kernel, types, resolved.constants)
            function = replace(reading.function, notes=(*reading.function.notes, resolved.note))
            found = _launched(kernel, resolved.constants, replace(reading, function=function))
        else:
            found = _launched(kernel, constants, read_kernel(kernel, types, constants))
        memory[key] = found
    return found


def _launched(kernel: Kernel, constants: dict[str, Any], reading: Reading) -> Specialisation:
    """The kernel as launches run it: nothing stops them."""
    function = without_stops(reading.function)
    if function is reading.function:
        return Specialisation(kernel, constants, reading)
    return Specialisation(kernel, constants, replace(reading, function=function), reading.function)


def resolved_constants(kernel: Kernel, arguments: list[Argument], constants: dict[str, Any]) -> dict[str, Any]:
    """The constants, with what `px.auto` stands for: what a grid may be a function of."""
    return specialise(kernel, arguments, constants).constants if has_auto(constants) else constants


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def read_arguments(
    kernel: Kernel, args: tuple[Any, ...], infos: Sequence[ArrayInfo | None] | None = None
) -> list[Argument]:
    """All positional arguments; their number must fit. `infos` are their descriptions, where they are known already."""
    if kernel.groups:
        args = tuple(kernel.spread(args))
    if len(args) != len(kernel.parameters):
        listed = f"its positional parameters are {', '.join(kernel.positional)}"
        remedies = [listed if kernel.parameters else "it has no positional parameters"]
        if len(args) > len(kernel.parameters):
            named = [*kernel.required, *kernel.constants]
            remedies.append(f"constants are passed by name{f': {named[0]}=...' if named else ''}")
        raise Error(
            f"kernel '{kernel.name}' takes {_arguments(len(kernel.parameters))}, not {len(args)}",
            location=kernel.location,
            remedy="; ".join(remedies),
        )
    known = (None,) * len(args) if infos is None else infos
    return [
        read_argument(kernel, name, value, info) for name, value, info in zip(kernel.parameters, args, known, strict=True)
    ]


def _arguments(count: int) -> str:
    return "1 run-time argument" if count == 1 else f"{count} run-time arguments"


def _is_count(size: Any) -> bool:
    """Whether something is an integer of 0 or more; an array of one element is none."""
    try:
        return not isinstance(size, bool) and operator.index(size) >= 0
    except TypeError:
        return False


def normalise_grid(kernel: Kernel, grid: Any, constants: dict[str, Any]) -> tuple[int, int, int]:
    """Three numbers of CTAs; they must be whole clusters."""
    if callable(grid):
        grid = call_with_constants(kernel, "the grid", grid, constants)
    sizes = grid if isinstance(grid, tuple) else (grid,)
    for size in sizes:
        if not _is_count(size):
            raise Error(
                f"the grid of kernel '{kernel.name}' is {grid!r}",
                location=kernel.location,
                remedy="a grid is an int, a tuple of up to three ints, or a function of the constants; it counts CTAs",
            )
    if not 1 <= len(sizes) <= 3:
        raise Error(
            f"the grid of kernel '{kernel.name}' has {len(sizes)} dimensions",
            location=kernel.location,
            remedy="a grid has one to three dimensions",
        )
    x, y, z = (*(operator.index(s) for s in sizes), 1, 1)[:3]
    limits = (2**31 - 1, 65535, 65535)
    for axis, (count, limit) in enumerate(zip((x, y, z), limits, strict=True)):
        if count > limit:
            raise Error(
                f"the grid of kernel '{kernel.name}' has {count} CTAs along axis {axis}, the hardware takes {limit}",
                location=kernel.location,
                remedy="put the longest dimension first, or let each CTA loop over several tiles",
            )
    if kernel.cluster != 1:
        cluster = resolve_cluster(kernel, constants)
        for axis, (count, part) in enumerate(zip((x, y, z), cluster, strict=True)):
            if count % part:
                raise Error(
                    f"the grid {(x, y, z)} of kernel '{kernel.name}' is not a multiple of its cluster {cluster}",
                    location=kernel.location,
                    remedy=f"the grid counts CTAs, not clusters: make dimension {axis} a multiple of {part}",
                )
    return x, y, z
