"""Does a call have the same kinds of arguments as the last one? One generated function answers.

Asking torch for a tensor's address, dtype, shape and strides is most of what a launch costs. A loop over the
arguments would cost as much again, so the questions are generated as straight-line code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.runtime.device.arrays import ArgumentKind, call_key, kind_of, scalar_dtype

Matcher = Callable[[Sequence[Any]], list[Any] | None]
"""From a call's arguments: their pointers and scalar values, or None if they are not as remembered."""


def make_matcher(args: Sequence[Any]) -> Matcher:
    """A matcher for calls that differ from this one in pointers and scalar values only.

    It passes exactly the calls for which `call_key(...)[0]` is the same, with one exception: a tensor of the
    same geometry on another device passes; whoever writes its changed pointer has to look at its device.
    """
    kinds = tuple(kind_of(x) for x in args)
    if not set(kinds) <= _GENERATED:
        return _generic_matcher(call_key(args)[0])
    constants: list[Any] = []
    for kind, x in zip(kinds, args):
        if kind is ArgumentKind.TORCH:
            constants += [x.dtype, x.shape, x.stride(), x.data_ptr() & 15]
        else:
            constants += [type(x)] if kind is not ArgumentKind.INTEGER else [type(x), scalar_dtype(x)]
    return _factory(kinds)(*constants)


_GENERATED = {ArgumentKind.TORCH, ArgumentKind.INTEGER, ArgumentKind.FLOAT, ArgumentKind.BOOL}


def _generic_matcher(expected: tuple[Any, ...]) -> Matcher:
    def match(args: Sequence[Any]) -> list[Any] | None:
        key, values = call_key(args)
        return values if key == expected else None

    return match


@functools.cache
def _factory(kinds: tuple[ArgumentKind, ...]) -> Callable[..., Matcher]:
    """From the constants of a call to its matcher; compiled once per combination of kinds."""
    constants: list[str] = []
    body: list[str] = []
    results: list[str] = []
    for n, kind in enumerate(kinds):
        if kind is ArgumentKind.TORCH:
            constants += [f"dtype{n}", f"shape{n}", f"strides{n}", f"low{n}"]
            results.append(f"pointer{n}")
            body += [
                f"pointer{n} = x{n}.data_ptr()",
                f"if pointer{n} & 15 != low{n} or x{n}.dtype is not dtype{n} or x{n}.shape != shape{n} "
                f"or x{n}.stride() != strides{n}: return None",
            ]
            continue
        constants.append(f"type{n}")
        results.append(f"x{n}")
        body.append(f"if type(x{n}) is not type{n}: return None")
        if kind is ArgumentKind.INTEGER:
            constants.append(f"scalar{n}")
            body += [
                f"if scalar{n} == 'i32':",
                f"    if not -0x80000000 <= x{n} <= 0x7FFFFFFF: return None",
                f"elif scalar_dtype(x{n}) != scalar{n}: return None",
            ]
    names = "".join(f"x{n}, " for n in range(len(kinds)))
    text = "\n".join(
        [
            f"def factory({', '.join(constants)}):",
            "    def match(args):",
            "        try:",
            *([f"            {names}= args"] if names else ["            if args: return None"]),
            *("            " + line for line in body),
            "        except (AttributeError, ValueError):  # not a tensor, or another number of arguments",
            "            return None",
            f"        return [{', '.join(results)}]",
            "    return match",
        ]
    )
    namespace: dict[str, Any] = {"scalar_dtype": scalar_dtype}
    exec(compile(text, "<argument matcher>", "exec"), namespace)
    return namespace["factory"]
