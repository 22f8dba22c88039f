"""`@px.kernel`, `@px.func`: kernels as objects, and what their functions of the constants say."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, NoReturn

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.language.auto import auto
from phalanx.language.builtin import Builtin
from phalanx.language.choose import Choose
from phalanx.language.inlined import InlinedFunction, by_name
from phalanx.language.reader.source import FunctionSource, keep_source, read_source
from phalanx.language.structs import StructClass
from phalanx.location import Location

SHAPING = ("warps", "cluster", "ctas_per_sm")
"""Arguments of `@px.kernel` that follow from the constants of a launch."""
MAX_WARPS = 32
MAX_BOUND = 256  # grids whose bound launches a kernel remembers
MAX_CLUSTER = 16
MAX_CTAS_PER_SM = 32
MAX_WARPS_PER_SM = 64


def func(fn: Callable[..., object]) -> InlinedFunction:
    """A helper that is inlined where kernels call it; recursion is refused.

    Decorates a function. Any agent; any GPU; no PTX. Outside kernels it is the plain Python function. Example::

        @px.func
        def swizzle(t, n, group):
            return t // group % n, t % group
    """
    if not inspect.isfunction(fn):
        raise Error(
            "@px.func decorates a function",
            location=caller_location(),
            remedy="write it directly above 'def name(...):'",
        )
    keep_source(fn)
    return InlinedFunction(fn)


@frozen(eq=False)
class Kernel:
    """A kernel: `kernel[grid](arguments..., CONSTANT=...)` launches it."""

    fn: Callable[..., object]
    warps: object
    cluster: object
    exit_sync: bool
    watchdog: bool | None
    parameters: tuple[str, ...]
    constants: dict[str, object]
    required: tuple[str, ...]
    ctas_per_sm: object = 1
    pdl: bool = False
    cooperative: bool = False
    strict: bool | None = None
    on_loss: str = "error"
    groups: tuple[tuple[str, StructClass, tuple[str, ...]], ...] = ()
    """Parameters that are annotated with a `@px.struct`: the name, the struct, and the `parameters` that are its fields."""
    bound: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    """What `kernel[grid]` gave, by grid: grids that are integers, tuples of them, or `px.auto`."""
    instead_in_kernels = "a kernel launches no other: share code by @px.func, and launch one kernel after the other"
    """What an error says where a kernel names another one."""
    memory: Any = field(default=None, init=False, repr=False)
    """What the runtime keeps of the kernel's launches; nobody else looks into it."""

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.fn.__name__

    @property
    def source(self) -> FunctionSource:
        """Its function as text and syntax tree."""
        return read_source(self.fn)

    @property
    def location(self) -> Location:
        """Where its `def` is, for messages about the kernel as a whole."""
        return self.source.locate(self.source.node)

    def __getitem__(self, grid: object) -> Any:
        found = self.bound.get(grid) if type(grid) is int or grid is auto else None
        if type(grid) is tuple and _are_ints(grid):  # (1.0,) and (True,) are equal to (1,), but no grids
            found = self.bound.get(grid)
        if found is None:
            found = _binders[-1](self, grid)
            plain = type(grid) is int or grid is auto or (type(grid) is tuple and _are_ints(grid))
            if plain and len(self.bound) < MAX_BOUND:
                self.bound[grid] = found
        return found

    def __call__(self, *args: object, **kwargs: object) -> None:
        self.run_unread(_refuse_call)

    def run_unread(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """Calls a function with the kernel in front. torch.compile, which reads what it compiles, runs it without reading.

        It takes methods of objects so, but no objects as arguments, before torch 2.12: `args` and `options` are numbers,
        strings, types of torch, functions, None, and tuples of them.
        """
        return function(self, *args, **options)

    @property
    def positional(self) -> list[str]:
        """The run-time parameters for messages: names, and those that are structs with how one is made."""
        firsts = {fields[0]: f"{name} = {struct.name}({', '.join(struct.fields)})" for name, struct, fields in self.groups}
        rest = {name for _, _, fields in self.groups for name in fields[1:]}
        return [firsts.get(name, name) for name in self.parameters if name not in rest]

    def spread(self, args: Sequence[Any]) -> list[Any]:
        """The run-time arguments one by one: the fields of a struct that is passed for a parameter stand in its place."""
        hosts = {struct.host: struct.fields for _, struct, _ in self.groups}
        found: list[Any] = []
        for arg in args:
            fields = hosts.get(type(arg))
            found += [arg] if fields is None else [getattr(arg, name) for name in fields]
        return found

    def __reduce__(self) -> tuple[object, ...]:
        """By module and name, as functions are: another process imports it."""
        return by_name(self, self.fn)

    @property
    def shaping(self) -> tuple[str, ...]:
        """What of the decorator is `px.choose`: a constant of that name, which the kernel's own code does not see."""
        return tuple(name for name in SHAPING if type(getattr(self, name)) is Choose)

    def bind_constants(self, given: dict[str, object]) -> dict[str, object]:
        """All constants: defaults overridden by `given`."""
        for name in given:
            if name not in self.constants and name not in self.required:
                known = ", ".join([*self.required, *self.constants])
                remedy = f"its keyword-only parameters are {known}" if known else "it has no keyword-only parameters"
                if name in self.parameters:
                    remedy = f"'{name}' is a run-time parameter: pass it by position"
                raise Error(
                    f"kernel '{self.name}' has no constant '{name}'", location=self.location, remedy=remedy
                )
        missing = [name for name in self.required if name not in given]
        if missing:
            raise Error(
                f"kernel '{self.name}' needs the constant{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
                location=self.location,
                remedy=f"pass {missing[0]}=... at the launch",
            )
        return {**self.constants, **given}


def _refuse_call(kernel: Kernel) -> NoReturn:
    error = Error(
        f"kernel '{kernel.name}' was called without a grid",
        location=kernel.location,
        remedy=f"write {kernel.name}[grid](...); a grid counts CTAs: an int, a tuple, or a function of the constants",
    )
    error.call = caller_location()
    raise error


Kernel.run_unread._dynamo_marked_constant = True  # type: ignore[attr-defined]  # by torch.compiler's decorator: loads it

Binder = Callable[[Kernel, object], Any]
_binders: list[Binder] = []


def bind_with(binder: Binder) -> None:
    """Says what `kernel[grid]` gives: `binder` makes it of the two, something that is called with the arguments.

    The package calls it once, when it is imported, with a function of the runtime: a kernel is data, and its launching is
    none of its business. Example: ``bind_with(lambda kernel, grid: Launch(kernel, grid))``.
    """
    _binders.append(binder)


Tracer = Callable[[Kernel, object, tuple[Any, ...], dict[str, Any]], None]
_tracers: list[Tracer] = []


def trace_with(tracer: Tracer) -> None:
    """Says what a launch is where torch traces it: `tracer` gets the kernel, its grid, the arguments and the constants.

    The package calls it once, when it is imported. Example: ``trace_with(write_down)``.
    """
    _tracers.append(tracer)


def launch_traced(kernel: Kernel, grid: object, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """A launch on tensors that torch traces: a part of its graph. For the runtime, and for what torch.compile reads."""
    _tracers[-1](kernel, grid, args, constants)


def _bound_within_a_trace(kernel: Kernel, grid: object) -> Callable[..., None]:
    """What torch.compile reads in the place of `kernel[grid]`."""

    def launch(*args: Any, **constants: Any) -> None:
        launch_traced(kernel, grid, args, constants)

    return launch


Kernel.__getitem__._torchdynamo_inline = _bound_within_a_trace  # type: ignore[attr-defined]


def _are_ints(items: tuple[object, ...]) -> bool:
    return all(type(item) is int for item in items)


def kernel(
    fn: Callable[..., object] | None = None,
    *,
    warps: object = 4,
    cluster: object = 1,
    exit_sync: bool = True,
    watchdog: bool | None = None,
    ctas_per_sm: object = 1,
    pdl: bool = False,
    cooperative: bool = False,
    strict: bool | None = None,
    on_loss: str = "error",
    **others: object,
) -> Any:
    """Makes a kernel of a Python function: positional parameters are run-time values, keyword-only ones constants.

    Decorates a function. `warps` per CTA and `cluster` (an int or up to three) may be functions of the constants;
    `exit_sync=False` drops the cluster barrier at the end; `watchdog=True` bounds every wait on the GPU; `ctas_per_sm`
    (or a function of the constants) makes the compiler use few enough registers for that many CTAs on an SM; `pdl=True`
    lets it begin before its predecessor on the stream has ended (programmatic dependent launch), as far as its
    `px.wait_prior()`; `cooperative=True` has all CTAs of a launch run at the same time, so that they may wait for each other
    (by atomics): a grid that the GPU does not hold at once is an error; `strict=True` makes what would be a note about lost
    speed an error at its line (None: as PHALANX_STRICT=1 says); `on_loss="note"` takes a kernel whose products the assembler
    makes wait for each other, which is an error otherwise. Any GPU from sm_90; PTX ``.entry``, ``.minnctapersm``.
    Example::

        @px.kernel(warps=4)
        def scale(X, Y, alpha, *, BM=64, BN=64):
            m, n = px.block_id(0) * BM, px.block_id(1) * BN
            px.store(Y[m:m+BM, n:n+BN], px.load(X[m:m+BM, n:n+BN]) * alpha)
    """

    for name in others:
        known = list(inspect.signature(kernel).parameters)[1:]
        close = difflib.get_close_matches(name, known, 1)
        listed = f"it has {', '.join(known)}; constants are keyword-only parameters"
        remedy = f"did you mean {close[0]}=?" if close else listed
        raise Error(f"px.kernel has no argument '{name}'", location=caller_location(), remedy=remedy)

    def wrap(target: Callable[..., object]) -> Kernel:
        check_function(target)
        keep_source(target)
        positional, constants, required, groups = [], {}, [], []
        for parameter in inspect.signature(target).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise Error(
                    f"kernel '{target.__name__}' has a variable number of parameters",
                    location=read_source(target).locate(read_source(target).node),
                    remedy="name each parameter",
                )
            if parameter.kind is parameter.KEYWORD_ONLY:
                if parameter.default is parameter.empty:
                    required.append(parameter.name)
                else:
                    constants[parameter.name] = parameter.default
            else:
                if parameter.default is not parameter.empty:
                    raise Error(
                        f"the run-time parameter '{parameter.name}' of kernel '{target.__name__}' has a default",
                        location=read_source(target).locate(read_source(target).node),
                        remedy="run-time arguments are always passed; constants, after a '*', may have defaults",
                    )
                struct = annotated_struct(target, parameter.annotation)
                if struct is None:
                    positional.append(parameter.name)
                    continue
                taken = {*positional, *inspect.signature(target).parameters}
                fields = tuple(f"{parameter.name}_{name}" if name in taken else name for name in struct.fields)
                groups.append((parameter.name, struct, fields))
                positional += fields
        for name, value in zip(SHAPING, (warps, cluster, ctas_per_sm)):
            if type(value) is Choose:
                constants[name] = value
                refuse_same_name(target, name)
        return Kernel(
            target, warps, cluster, exit_sync, watchdog, tuple(positional), constants, tuple(required), ctas_per_sm,
            pdl, cooperative, strict, on_loss, tuple(groups),
        )

    return wrap if fn is None else wrap(fn)


kernel.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [p for p in inspect.signature(kernel).parameters.values() if p.kind is not p.VAR_KEYWORD]
)  # what it does not have is refused by name


def check_function(target: Any) -> None:
    """Raises an error unless a function is as it was written with `def`, and no method."""
    if not inspect.isfunction(target):
        raise Error(
            "@px.kernel decorates a function",
            location=caller_location(),
            remedy="write it directly above 'def name(...):', and name its own arguments: @px.kernel(warps=4)",
        )
    if hasattr(target, "__wrapped__"):
        raise Error(
            f"@px.kernel stands above another decorator of '{target.__name__}', which would not be called",
            location=caller_location(),
            remedy="write @px.kernel directly above the def; decorate the function that launches the kernel",
        )
    if next(iter(inspect.signature(target).parameters), None) in ("self", "cls"):
        raise Error(
            f"kernel '{target.__name__}' is a method: nothing would be passed as its first parameter",
            location=caller_location(),
            remedy="leave the first parameter out and write @staticmethod above @px.kernel; pass what it needs as arguments",
        )


def refuse_same_name(target: Callable[..., object], name: str) -> None:
    """Raises an error where a kernel has a parameter with the name of what its decorator leaves open."""
    if name in inspect.signature(target).parameters:
        raise Error(
            f"kernel '{target.__name__}' has a parameter '{name}', and {name}= of @px.kernel is px.choose",
            location=read_source(target).locate(read_source(target).node),
            remedy=f"a launch gives it by that name: rename the parameter, or write {name}=lambda {name}: {name}",
        )


def annotated_struct(fn: Callable[..., object], annotation: object) -> StructClass | None:
    """The `@px.struct` that a parameter of `fn` is annotated with; None where the annotation is anything else.

    An annotation may be text. Its name is then looked up where the kernel is defined: in the function around it, or
    in the module.
    """
    if isinstance(annotation, str):
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        annotation = frame.f_locals.get(annotation, getattr(fn, "__globals__", {}).get(annotation))
    return annotation if isinstance(annotation, StructClass) and annotation.host is not None else None


def is_strict(kernel: Kernel) -> bool:
    """Whether notes about lost speed are errors: as the decorator says, else as the environment does for users' kernels."""
    if kernel.strict is not None:
        return kernel.strict
    of_users = (kernel.fn.__module__ or "").partition(".")[0] != "phalanx"
    return of_users and os.environ.get("PHALANX_STRICT", "0") not in ("", "0")


def call_with_constants(kernel: Kernel, what: str, fn: Callable[..., object], constants: dict[str, object]) -> object:
    """Calls a user's function with the constants it names (all, for `**kwargs`; a single other name gets the dict)."""
    args, kwargs = constants_for(kernel, what, fn, constants)
    try:
        return fn(*args, **kwargs)
    except Error:
        raise
    except Exception as problem:
        raise Error(
            f"the function for {what} of kernel '{kernel.name}' failed: {type(problem).__name__}: {problem}",
            location=kernel.location,
            remedy="it is called with the constants that its parameters name",
        ) from problem


def constants_for(
    kernel: Kernel, what: str, fn: Callable[..., object], constants: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments for a user's function of the constants."""
    if isinstance(fn, Builtin) and fn.host is None:
        raise Error(
            f"{what} of kernel '{kernel.name}' is px.{fn.name}, which is called inside kernels",
            location=kernel.location,
            remedy="give a number, or a function of the constants: lambda BM: ...",
        )
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        name = getattr(fn, "__name__", repr(fn))
        raise Error(
            f"{what} of kernel '{kernel.name}' is {name}, which does not say what parameters it has",
            location=kernel.location,
            remedy="give a number, or a function of the constants: lambda BM: ...",
        ) from None
    for parameter in parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty and len(parameters) > 1:
            raise Error(
                f"the function for {what} of kernel '{kernel.name}' has positional-only parameters",
                location=kernel.location,
                remedy="its parameters are the names of constants: lambda BM, BN: ...",
            )
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return (), constants
    if len(parameters) == 1 and next(iter(parameters)) not in constants:
        return (constants,), {}
    for name, parameter in parameters.items():
        if name not in constants and parameter.default is parameter.empty:
            raise Error(
                f"the function for {what} of kernel '{kernel.name}' asks for '{name}', which is not a constant of it",
                location=kernel.location,
                remedy=f"the constants are {', '.join(constants) or 'none'}",
            )
    return (), {name: constants[name] for name in parameters if name in constants}


def of_decorator(kernel: Kernel, name: str, constants: dict[str, object]) -> object:
    """What an argument of `@px.kernel` is with these constants: itself, what a function says, or what was chosen."""
    value = getattr(kernel, name)
    if type(value) is Choose:
        return constants[name]
    return call_with_constants(kernel, f"{name}=", value, constants) if callable(value) else value


def resolve_warps(kernel: Kernel, constants: dict[str, object]) -> int:
    """How many warps a CTA has, with these constants."""
    value = of_decorator(kernel, "warps", constants)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_WARPS:
        raise Error(
            f"kernel '{kernel.name}' asks for {value!r} warps",
            location=kernel.location,
            remedy=f"a CTA has 1 to {MAX_WARPS} warps (of 32 threads)",
        )
    return value


def resolve_cluster(kernel: Kernel, constants: dict[str, object]) -> tuple[int, int, int]:
    """The cluster's three sizes in CTAs, with these constants."""
    value = of_decorator(kernel, "cluster", constants)
    sizes = value if isinstance(value, tuple) else (value,)
    total = 1
    for size in sizes:
        ok = isinstance(size, int) and not isinstance(size, bool) and size >= 1
        total *= size if ok else 0
    if not 1 <= len(sizes) <= 3 or not 1 <= total <= MAX_CLUSTER:
        raise Error(
            f"kernel '{kernel.name}' asks for a cluster of {value!r}",
            location=kernel.location,
            remedy=f"a cluster has one to three dimensions and 1 to {MAX_CLUSTER} CTAs in all",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def resolve_ctas_per_sm(kernel: Kernel, constants: dict[str, object], warps: int) -> int:
    """How many CTAs of so many warps are to be on an SM at once, with these constants."""
    value = of_decorator(kernel, "ctas_per_sm", constants)
    most = min(MAX_CTAS_PER_SM, MAX_WARPS_PER_SM // warps)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise Error(
            f"kernel '{kernel.name}' asks for {value!r} CTAs of {warps} warps on an SM",
            location=kernel.location,
            remedy=f"an SM holds {MAX_WARPS_PER_SM} warps and {MAX_CTAS_PER_SM} CTAs: here 1 to {most} CTAs",
        )
    return value
