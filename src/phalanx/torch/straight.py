"""Functions whose calls go straight to the library's where torch neither records nor traces them."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from phalanx.runtime.device.torch_tensors import refuse_rowless
from phalanx.torch.plain import autocasts, forward, is_plain, modes, refuse_tangents, traced, transform


def straight(
    library: Callable[..., Any], *arrays: str, casts: bool = False, rare: Sequence[str] = (),
    settled: dict[str, Callable[[Any], Any]] | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Gives a function for recorded and traced calls the library's for all others, which has the same parameters.

    A call that gives a parameter of its own, one that the library lacks, is the function's, too.
    `arrays` name the parameters that take arrays, numbers or None. `casts`: under autocast no call is plain. `rare` ones are
    None in most calls, and in the library by default: then they are not even passed. `settled` has functions of the first
    array for options that are None here, and not in the library. What is asked before the launch is written as straight-line
    code, in the order of what most calls are, tensors without gradients: it takes about half a microsecond. For functions of
    this package. Example::

        @straight(kernels.rms_norm, "x", "weight")
        def rms_norm(x, weight=None, eps=1e-6, *, config=None): ...  # calls torch.ops.phalanx.rms_norm
    """

    def decorate(function: Callable[..., Any]) -> Any:
        namespace: dict[str, Any] = {  # no module of its own, in which torch.compile would look for these names
            "library_": library, "function_": function, "traced_": traced, "modes_": modes, "transform_": transform,
            "autocasts_": autocasts, "is_plain_": is_plain, "Tensor_": torch.Tensor, "forward_": forward,
            "refuse_": refuse_tangents, "refuse_rowless_": refuse_rowless,
        }  # fmt: skip
        signature, passed, own, starred = [], [], [], False
        known = inspect.signature(library).parameters
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                signature.append(f"**{name}")
                passed.append(f"**{name}")
                continue
            by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            if by_name and not starred:
                signature.append("*")
                starred = True
            namespace[f"default_{name}"] = parameter.default
            signature.append(name if parameter.default is inspect.Parameter.empty else f"{name}=default_{name}")
            passed.append(f"{name}={name}" if by_name else name)
            if name not in known:
                own.append(name)
        lines = [f"def {function.__name__}({', '.join(signature)}):"]
        watched = "traced_() or modes_() or transform_() is not None or forward_._current_level >= 0"
        watched += "".join([f" or {name} is not default_{name}" for name in own])
        lines += [f"    if not ({watched}{' or autocasts_()' if casts else ''}):"]
        given = [one for one in passed if one not in own]
        for name, settle in (settled or {}).items():
            namespace[f"settle_{name}"] = settle
            given[given.index(f"{name}={name}")] = f"{name}=settle_{name}({arrays[0]}) if {name} is None else {name}"
        if rare:
            few, most = [x for x in arrays if x not in rare], [one for one in given if one.partition("=")[0] not in rare]
            lines += [f"        if {' is '.join(rare)} is None and {_are_plain(few)}:"]
            lines += [f"            return library_({', '.join(most)})"]
        lines += [f"        if {'' if rare else _are_plain(arrays) + ' or '}is_plain_({', '.join(arrays)}):"]
        lines += [f"            return library_({', '.join(given)})"]
        lines += ["    if not traced_():"]
        lines += [f"        refuse_rowless_(({', '.join(arrays)},))"]
        lines += ["        if forward_._current_level >= 0:"]  # an operator sees less
        lines += [f"            refuse_('phalanx::{function.__name__}', ({', '.join(arrays)},))"]
        lines += [f"    return function_({', '.join(passed)})"]
        # A file of this package, as the search for the caller's line sees it.
        file = os.path.join(os.path.dirname(__file__), f"<calls of {function.__name__}>")
        exec(compile("\n".join(lines), file, "exec"), namespace)
        return functools.wraps(function)(namespace[function.__name__])

    return decorate


def _are_plain(arrays: Sequence[str]) -> str:
    """The question whether these are tensors without gradients, or None."""
    return " and ".join(f"({x} is None or {x}.__class__ is Tensor_ and not {x}.requires_grad)" for x in arrays)
