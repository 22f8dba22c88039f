"""Does a call have the same kinds of arguments as the last one? One generated function answers.

Asking torch for a tensor's address, dtype, shape and strides is most of what a launch costs. A loop over the
arguments would cost as much again, so the questions are generated as straight-line code.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.runtime.device.arrays import ArgumentKind, call_key, kind_of, scalar_dtype
from phalanx.runtime.device.torch_tensors import count_versions, tracked, version_counter

Matcher = Callable[[Sequence[Any]], list[Any] | None]
"""From a call's arguments: their pointers and scalar values, or None if they are not as remembered."""


def make_matcher(args: Sequence[Any], written: Sequence[int] = ()) -> Matcher:
    """A matcher for calls that differ from this one in pointers and scalar values only.

    It passes exactly the calls for which `call_key(...)[0]` is the same, with three exceptions: a tensor of the
    same geometry on another device passes; whoever writes its changed pointer has to look at its device. A tensor that
    torch would record the launch for does not pass, nor does one that begins nowhere. A launch follows what passes, so
    torch counts a new version of those arguments whose places are in `written`.
    """
    kinds = tuple(kind_of(x) for x in args)
    if not set(kinds) <= _GENERATED:
        return _generic_matcher(call_key(args)[0], written)
    constants: list[Any] = []
    tensors = False
    for kind, x in zip(kinds, args):
        if kind is ArgumentKind.TORCH:
            low = x.data_ptr() & 15
            constants += [x.dtype, x.shape, x.stride(), low, low ^ 1 if x.data_ptr() else 0]
            tensors = True
        else:
            constants += [type(x)] if kind is not ArgumentKind.INTEGER else [type(x), scalar_dtype(x)]
    if tensors:
        constants += [sys.modules["torch"].is_grad_enabled, version_counter()]
    return _factory(kinds, tuple(written))(*constants)


_GENERATED = {ArgumentKind.TORCH, ArgumentKind.INTEGER, ArgumentKind.FLOAT, ArgumentKind.BOOL}


def _generic_matcher(expected: tuple[Any, ...], written: Sequence[int]) -> Matcher:
    def match(args: Sequence[Any]) -> list[Any] | None:
        key, values = call_key(args)
        if key != expected or tracked(args) is not None:
            return None
        count_versions(args, written)
        return values

    return match


@functools.cache
def _factory(kinds: tuple[ArgumentKind, ...], written: tuple[int, ...]) -> Callable[..., Matcher]:
    """From the constants of a call to its matcher; compiled once per combination of kinds.

    A tensor at 0 has no memory: in the place of its address stands a number that differs from the one remembered, but where
    that was 0 itself, of an empty tensor.
    """
    constants: list[str] = []
    body: list[str] = []
    results: list[str] = []
    for n, kind in enumerate(kinds):
        if kind is ArgumentKind.TORCH:
            constants += [f"dtype{n}", f"shape{n}", f"strides{n}", f"low{n}", f"other{n}"]
            results.append(f"pointer{n}")
            body += [
                f"pointer{n} = x{n}.data_ptr()",
                f"if (pointer{n} or other{n}) & 15 != low{n} or x{n}.dtype is not dtype{n} "
                f"or x{n}.shape != shape{n} or x{n}.stride() != strides{n}: return None",
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
    tensors = [n for n, kind in enumerate(kinds) if kind is ArgumentKind.TORCH]
    changed = "".join(f"x{n}, " for n in tensors if n in written)
    if tensors:
        constants += ["records", "count_versions"]
        body.append(f"if records() and ({' or '.join(f'x{n}.requires_grad' for n in tensors)}): return None")
    if changed:
        body.append(f"count_versions(({changed}))")
    text = "\n".join(
        [
            f"def factory({', '.join(constants)}):",
            "    def match(args):",
            "        try:",
            *([f"            {names}= args"] if names else ["            if args: return None"]),
            *("            " + line for line in body),
            "        except (AttributeError, RuntimeError, ValueError):  # no tensor, no memory, too few or too many",
            "            return None",
            f"        return [{', '.join(results)}]",
            "    return match",
        ]
    )
    namespace: dict[str, Any] = {"scalar_dtype": scalar_dtype}
    exec(compile(text, "<argument matcher>", "exec"), namespace)
    return namespace["factory"]
