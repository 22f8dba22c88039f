"""`kernel[grid](...)` on tensors that torch traces: an operator for each kernel, opaque, which says what the kernel writes.

torch.compile and torch.export read `launch` in the place of a launch; eager code calls it for tensors without memory
(`runtime.device.torch_tensors.WithoutMemory`). An operator belongs to a kernel, the kinds of its arguments and its
constants; what it writes is what the kernel's instructions declare, for arguments of those kinds. Sizes are no part of it:
grids and integers may be symbols. Its name depends on nothing else, so that graphs that torch keeps on disk find it again.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from phalanx.errors import Error, caller_location
from phalanx.ir.types import DTYPES, DType
from phalanx.language.auto import auto
from phalanx.language.kernel import Kernel, call_with_constants
from phalanx.runtime.choosing.candidates import first_combination, has_choice
from phalanx.runtime.device.arrays import torch_dtype_name
from phalanx.runtime.device.torch_tensors import lost_gradient
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.options import split_target
from phalanx.runtime.launch.specialise import Specialisation, constants_key, read_arguments, some_array, specialise
from phalanx.torch.library import DEVICES, refusing, without_tangents
from phalanx.torch.plain import traced, transform

SPACE = "phalanx_launches"
LIBRARY = torch.library.Library(SPACE, "DEF")
Kinds = tuple[Any, ...]
"""What the arguments of a launch are: type and rank of a tensor, "SymInt", "float" or "bool" of a number, None for None."""
DTYPE = "a type of phalanx"
"""Stands before the name of one among constants."""
_NAMES: dict[Any, str] = {}
"""The operators made so far, by kernel, kinds of arguments, way of the grid and constants."""
_TAGS = [torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)]
"""Kernels are compiled for arrays whose rows are contiguous: a compiler that moves tensors about leaves them as they are."""


def launch(kernel: Any, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Launches a kernel as an operator of torch. torch.compile reads this function, which is written for it."""
    id(kernel)  # a graph is one of this kernel: torch.compile looks at it before each call
    if not traced() and transform() is not None:
        kernel.run_unread(_refuse, "within a transform of torch.func, which has no rule for it")
    args = tuple(kernel.spread(args))
    kinds = tuple([_kind_of(kernel, x) for x in args])
    constants = {name: _plain(value) for name, value in constants.items()}
    sizes: tuple[Any, ...] = ()
    if not leaves_grid(grid):
        sizes = _sizes_of(kernel, kinds, grid, constants)
    name = kernel.run_unread(operator_of, kinds, len(sizes), **constants)
    getattr(torch.ops.phalanx_launches, name).default(*[x for x in args if x is not None], *sizes)


def _plain(constant: Any) -> Any:
    """A constant as `run_unread` takes it. A symbol becomes the number that it is, on which the graph then depends."""
    if type(constant) is tuple:
        return tuple([_plain(each) for each in constant])
    if isinstance(constant, DType):
        return DTYPE, constant.name
    is_integer = isinstance(constant, int | torch.SymInt) and not isinstance(constant, bool)
    return operator.index(constant) if is_integer else constant


def _given(constant: Any) -> Any:
    """The constant of which `_plain` made this one."""
    if type(constant) is not tuple:
        return constant
    return DTYPES[constant[1]] if constant[:1] == (DTYPE,) else tuple([_given(each) for each in constant])


def _kind_of(kernel: Any, x: Any) -> Any:
    """What an argument is to an operator."""
    if x is None:
        return None
    if isinstance(x, torch.Tensor):
        return x.dtype, x.dim()
    if isinstance(x, bool | torch.SymBool):
        return "bool"
    if isinstance(x, int | torch.SymInt):
        return "SymInt"
    if isinstance(x, float | torch.SymFloat):
        return "float"
    return kernel.run_unread(_refuse, f"with a {type(x).__name__}: a graph of torch has tensors and numbers")


def _sizes_of(kernel: Any, kinds: Kinds, grid: Any, constants: dict[str, Any]) -> tuple[Any, ...]:
    """The grid's numbers, which may be symbols."""
    if callable(grid):
        kernel.run_unread(_require_settled, **constants)
        every = {**kernel.constants, **constants}
        if not traced():
            grid = call_with_constants(kernel, "the grid", grid, _settled(kernel, kinds, **constants))
        else:
            grid = _called(kernel, kinds, grid, every, constants)
    return grid if isinstance(grid, tuple) else (grid,)


def _require_settled(kernel: Kernel, /, **constants: Any) -> None:
    """Refuses a grid that would be a function of candidates: a graph is made before the sizes of its calls are known."""
    if has_choice(kernel.bind_constants(split_target(kernel, constants)[0])):
        raise Error(
            f"in a graph of torch the grid of kernel '{kernel.name}' is a function of constants that are px.choose",
            location=kernel.location,
            remedy="give the constants, or the grid as px.auto or numbers",
        )


def _called(kernel: Any, kinds: Kinds, grid: Any, every: dict[str, Any], constants: dict[str, Any]) -> Any:
    """What a function of the constants says, as `call_with_constants`, by what torch.compile knows of a function."""
    code = grid.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = {
        name: kernel.run_unread(_settled_one, kinds, name, **constants) if leaves_grid(value) else _given(value)
        for name, value in every.items()
    }
    if code.co_flags & 8:  # **constants
        return grid(**values)
    if len(names) == 1 and names[0] not in values:
        return grid(values)
    return grid(**{name: values[name] for name in names if name in values})


def _settled(kernel: Kernel, kinds: Kinds, /, **constants: Any) -> dict[str, Any]:
    """All constants of a launch, with what `px.auto` stands for."""
    return specialised(kernel, kinds, constants).constants


def _settled_one(kernel: Kernel, kinds: Kinds, name: str, /, **constants: Any) -> Any:
    """One constant of a launch, with what `px.auto` stands for."""
    return _settled(kernel, kinds, **constants)[name]


def specialised(kernel: Kernel, kinds: Kinds, constants: dict[str, Any]) -> Specialisation:
    """The kernel for arguments of these kinds, arrays as well aligned as they can be: what it writes depends on no more."""
    named, _, _ = split_target(kernel, {name: _given(value) for name, value in constants.items()})
    examples: dict[Any, Any] = {None: None, "SymInt": 1, "float": 1.0, "bool": True}
    values = tuple(examples[kind] if kind in examples else some_array(kind[1], torch_dtype_name(kind[0])) for kind in kinds)
    return specialise(kernel, read_arguments(kernel, values), first_combination(kernel.bind_constants(named)))


def operator_of(kernel: Kernel, kinds: Kinds, sizes: int, /, **constants: Any) -> str:
    """The name of the operator of a kernel for such arguments, and a grid of so many numbers: made when first asked for."""
    key = kernel, kinds, sizes, constants_key(constants)
    found = _NAMES.get(key)
    if found is None:
        found = _NAMES[key] = _make(kernel, kinds, sizes, constants)
    return found


def _make(kernel: Kernel, kinds: Kinds, sizes: int, constants: dict[str, Any]) -> str:
    written = specialised(kernel, kinds, constants).written
    schema = _schema(kernel, kinds, sizes, written)
    about = f"{kernel.fn.__module__}.{kernel.fn.__qualname__}{schema}{constants_key(constants)}"
    base = f"{kernel.name}_{hashlib.sha256(about.encode()).hexdigest()[:8]}"
    tried = (base if number == 0 else f"{base}_{number}" for number in itertools.count())
    name = next(one for one in tried if one not in _NAMES.values())
    full = f"{SPACE}::{name}"
    LIBRARY.define(name + schema, tags=tuple(_TAGS))
    run = _runner(kernel, kinds, sizes, constants)
    for device in DEVICES:
        LIBRARY.impl(name, without_tangents(full, run), device)
    torch.library.register_fake(full, lambda *args: None, lib=LIBRARY)
    made = getattr(getattr(torch.ops, SPACE), name).default
    refused = refusing(made, lambda _, argument: lost_gradient(kernel.name, argument))
    LIBRARY.impl(name, refused, "Autograd", with_keyset=True)
    torch.fx.node.has_side_effect(made)  # a kernel that writes nothing may print
    return name


def _schema(kernel: Kernel, kinds: Kinds, sizes: int, written: tuple[int, ...]) -> str:
    """The schema of an operator, ``(arguments) -> ()``: present arguments by their names, then the grid's numbers."""
    present = [(name, kind) for name, kind in zip(kernel.parameters, kinds, strict=True) if kind is not None]
    parts = []
    for number, (name, kind) in enumerate(present):
        tensor = f"Tensor(a{number}!)" if number in written else "Tensor"
        parts.append(f"{kind if isinstance(kind, str) else tensor} {name}")
    taken = "_" * max((len(name) - len(name.rstrip("_")) for name, _ in present), default=0)
    parts += [f"SymInt ctas_{axis}{taken}" for axis in ("x", "y", "z")[:sizes]]
    return f"({', '.join(parts)}) -> ()"


def _runner(kernel: Kernel, kinds: Kinds, sizes: int, constants: dict[str, Any]) -> Callable[..., None]:
    """What the operator runs on tensors with memory: the launch."""

    settled = {name: _given(value) for name, value in constants.items()}

    def run(*given: Any) -> None:
        present = iter(given[: len(given) - sizes])
        args = [None if kind is None else next(present) for kind in kinds]
        grid = tuple(given[len(given) - sizes :]) if sizes else auto
        kernel[grid](*args, **settled)

    return run


def _refuse(kernel: Kernel, why: str) -> NoReturn:
    """Raises `px.Error`; torch.compile can't read how one is made."""
    raise Error(
        f"kernel '{kernel.name}' is launched {why}", location=caller_location(),
        remedy="px.torch.op makes an operator of a function that launches it",
    )
