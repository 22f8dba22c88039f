"""Calls of library functions, remembered by the geometry of their arguments.

The first call with some geometry runs the function and records what it launches; a later one with other pointers is one
look-up, one allocation, and those launches. What a record can't tell apart goes the whole way each time.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.language.reader.capture import still_holds
from phalanx.runtime.device.arrays import (
    ITEM_BYTES,
    ArgumentKind,
    ArrayInfo,
    dense_strides,
    describe,
    kind_of,
    refuse_gradients,
)
from phalanx.runtime.launch.dispatch import RECORDS, Recorded, recording
from phalanx.runtime.launch.prepared import PreparedLaunch

REMEMBERED = 1024
"""Geometries per function; one more, and all are forgotten."""


class RememberedCall:
    """What a function did: its launches, and the tensor it gives back.

    `make` allocates that tensor, the last source of pointers; without it argument number `returned` comes back.
    """

    __slots__ = ("captured", "launches", "make", "returned")

    def __init__(
        self, launches: tuple[PreparedLaunch, ...], captured: tuple[Any, ...], make: Callable[[], Any] | None, returned: int
    ) -> None:
        self.launches, self.captured, self.make, self.returned = launches, captured, make, returned

    def is_current(self) -> bool:
        """Whether the constants that its kernels captured still have the values they had."""
        return all(still_holds(source, name, value) for source, name, value in self.captured)


def remembered(*arrays: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lets calls of a library function with torch tensors of a known geometry repeat in a few microseconds.

    `arrays` name the parameters that take arrays or None; the others are options, hashable and compared by value. The
    function must do nothing to memory but launch kernels, and what it does must depend on the options and on the
    arrays' types, shapes, strides, alignment (mod 16) and devices alone. A call is remembered if every array that was
    launched begins where an argument or the result does: so not where one was copied first, nor in the simulator. CuPy
    and NumPy arrays take the whole way. For functions of the library; no kernel, no hardware. Example::

        @remembered("x", "weight")
        def rms_norm(x, weight=None, eps=1e-6): ...
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        memory: dict[Any, RememberedCall | bool] = {}
        made = _wrapper(function, arrays, memory)
        made = functools.wraps(function)(made)
        made.remembered = memory  # type: ignore[attr-defined]
        return made

    return decorate


def _wrapper(function: Callable[..., Any], arrays: Sequence[str], memory: dict[Any, Any]) -> Any:
    """The function with the same signature that looks first, written as straight-line code: see `matcher`."""
    parameters = inspect.signature(function).parameters
    options = [name for name in parameters if name not in arrays]
    namespace: dict[str, Any] = {
        "__name__": __name__, "function_": function, "memory_": memory, "learn_": functools.partial(_learn, memory),
        "records_": RECORDS, "refuse_gradients_": refuse_gradients,
    }  # fmt: skip
    signature, passed, starred = [], [], False
    for name, parameter in parameters.items():
        by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if by_name and not starred:
            signature.append("*")
            starred = True
        if parameter.default is inspect.Parameter.empty:
            signature.append(name)
        else:
            namespace[f"default_{name}"] = parameter.default
            signature.append(f"{name}=default_{name}")
        passed.append(f"{name}={name}" if by_name else name)
    optional = {name for name in arrays if parameters[name].default is None}
    tracked = [f"{f'{name} is not None and ' * (name in optional)}{name}.requires_grad" for name in arrays]
    pointers = {name: f"pointer_{name}" for name in arrays}
    fields = [f"{name}, {name}.__class__" for name in options]
    for name in arrays:
        told = (
            f"({name}.dtype, {name}.shape, {name}.stride(), ({pointers[name]} := {name}.data_ptr()) & 15, "
            f"{name}.get_device())"
        )
        fields.append(f"None if {name} is None else {told}" if name in optional else told)
    call = f"function_({', '.join(passed)})"
    everything = "".join(f"{name}, " for name in arrays)
    text = "\n".join(
        [
            f"def {function.__name__}({', '.join(signature)}):",
            "    if records_:  # somebody writes down what is launched: a replay would not be seen",
            f"        return {call}",
            f"    {' = '.join(pointers.values())} = 0",
            "    try:",
            f"        key = ({', '.join(fields)},)",
            f"        tracked = {' or '.join(tracked)}",
            "        found = memory_.get(key)",
            "    except Exception:  # no torch tensors, or an option that can't be looked up",
            f"        return {call}",
            "    if tracked:",
            f"        refuse_gradients_({tuple(arrays)!r}, ({everything}))",
            "    if found is None:",
            f"        return learn_(key, ({everything}), lambda: {call})",
            "    if found is False:",
            f"        return {call}",
            "    if found.captured and not found.is_current():",
            "        memory_.pop(key, None)",
            f"        return {call}",
            "    make = found.make",
            "    if make is None:",
            f"        result = ({everything})[found.returned]",
            f"        pointers = ({', '.join(pointers.values())},)",
            "    else:",
            "        result = make()",
            f"        pointers = ({', '.join(pointers.values())}, result.data_ptr())",
            "    for launch in found.launches:",
            "        launch(pointers)",
            "    return result",
        ]
    )
    # A file of this package, as the search for the caller's line sees it.
    exec(compile(text, os.path.join(os.path.dirname(__file__), f"<calls of {function.__name__}>"), "exec"), namespace)
    return namespace[function.__name__]


def _learn(memory: dict[Any, Any], key: Any, arrays: tuple[Any, ...], call: Callable[[], Any]) -> Any:
    """Runs a call of a new geometry, and remembers it, or that it can't be."""
    own = [x.data_ptr() for x in arrays if x is not None]
    if len(set(own)) < len(own) or 0 in own:
        return call()  # which argument a pointer stands for can't be told: this time, not the next
    with recording() as record:
        result = call()
    remembered = _remembered(record.launches, arrays, result) if not record.refused else None
    if len(memory) >= REMEMBERED:
        memory.clear()
    memory[key] = False if remembered is None or not _is_exact(key) else remembered
    return result


def _is_exact(key: tuple[Any, ...]) -> bool:
    """Whether equal keys mean equal options: not so for zeros, of either sign, and for numbers that equal nothing."""
    return not any(isinstance(option, float) and (option == 0 or option != option) for option in key)


def _remembered(launches: Sequence[Recorded], arrays: tuple[Any, ...], result: Any) -> RememberedCall | None:
    sources = {x.data_ptr(): number for number, x in enumerate(arrays) if x is not None}
    returned = next((number for number, x in enumerate(arrays) if x is result and x is not None), -1)
    make = None
    if returned < 0:
        made = describe(result) if kind_of(result) is ArgumentKind.TORCH else None
        if made is None or made.pointer in sources or made.strides != dense_strides(made.shape):
            return None
        sources[made.pointer] = len(arrays)
        make = functools.partial(sys.modules["torch"].empty, made.shape, dtype=result.dtype, device=result.device)
    prepared = []
    for launch in launches:
        infos = [describe(x) for x in launch.values]
        for x, info in zip(launch.values, infos):
            if info is None:
                continue
            source = sources.get(info.pointer)
            if source is None or kind_of(x) is not ArgumentKind.TORCH:
                return None
            if source == len(arrays) and _span(info) > result.numel() * result.element_size():
                return None  # the result is the beginning of something larger
        numbers = [None if info is None else sources[info.pointer] for info in infos]
        prepared.append(launch.launcher.prepare(launch.grid, launch.values, numbers))
    if not prepared:
        return None
    captured = [
        (source, name, value)
        for launch in launches
        for source, name, value in launch.specialisation.reading.captured
        if source.fn.__module__.partition(".")[0] != "phalanx"  # whose constants never change
    ]
    return RememberedCall(tuple(prepared), tuple(captured), make, returned)


def _span(info: ArrayInfo) -> int:
    """Bytes from an array's first element to behind its last one."""
    last = sum((size - 1) * stride for size, stride in zip(info.shape, info.strides))
    return (last + 1) * ITEM_BYTES[info.dtype_name]


__all__ = ["remembered"]
