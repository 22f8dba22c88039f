"""The manifest of an exported function: its arguments, the tree of its ways, and the launches at their ends."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.endings import CArray, CLaunch, Ending
from phalanx.runtime.exporting.exported_ways import End, Fork, Tree
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.reals import RealExpression
from phalanx.runtime.symbolic.tracing import ArrayGiven, Given

FORMAT = 3
LOADER = Path(__file__).with_name("loader.py")
"""Copied into the folder as it is: it imports nothing of Phalanx."""


def manifest(made: CFunction) -> str:
    """The text of NAME.json. Expressions are Python's, over sizes, addresses (NAME) and strides (NAME_AXIS)."""
    ends: list[str] = []
    content: dict[str, Any] = {
        "format": FORMAT,
        "name": made.name,
        "described": made.described,
        "sizes": list(made.sizes),
        "parameters": [_parameter(made, given) for given in made.arguments],
        "results": [
            {
                "name": result.name, "memory": result.memory, "dtype": result.dtype,
                "shape": [size.text for size in result.shape], "strides": [step.text for step in result.strides],
            }
            for result in made.results
        ],
        "zeroed_bytes": made.endings.counters,
        "has_workspace": made.has_workspace,
        "programs": [_program(made, number) for number in range(len(made.programs))],
        "choose": _tree(made, made.tree, ends),
    }  # fmt: skip
    content["ends"] = [json.loads(end) for end in ends]
    return json.dumps(content, indent=1) + "\n"


def cubin_name(made: CFunction, number: int, arch: str) -> str:
    """The file with the machine code of a kernel for a target."""
    return f"{made.code_name(number, arch)}.cubin"


def _parameter(made: CFunction, given: Given) -> dict[str, Any]:
    if isinstance(given, ArrayGiven):
        return {"kind": "array", "name": given.name, "shape": list(given.sizes), **asdict(made.kinds[given.name])}
    return {"kind": "scalar", "name": given.name, "dtype": given.dtype}


def _program(made: CFunction, number: int) -> dict[str, Any]:
    model = made.programs[number][0]
    return {
        "entry": model.name,
        "cluster": list(model.cluster),
        "as_cluster": model.addresses_cluster or model.cluster != (1, 1, 1),
        "threads": 32 * model.warps,
        "shared_bytes": model.shared_bytes,
        "overlap": model.pdl,
        "cooperative": model.cooperative,
        "targets": {
            each.arch: {"cubin": cubin_name(made, number, each.arch), "registers": each.registers, "spills": each.spills}
            for each in made.programs[number]
        },
    }


def _tree(made: CFunction, tree: Tree, ends: list[str]) -> Any:
    """Nested [comparison, where it holds, where it does not]; the number of an end, or None where there is none."""
    if isinstance(tree, Fork):
        return [tree.guard.text, _tree(made, tree.holds, ends), _tree(made, tree.fails, ends)]
    if not isinstance(tree, End):
        return None
    text = json.dumps(_end(made.endings.of[id(tree.way)]))
    if text not in ends:
        ends.append(text)
    return ends.index(text)


def _end(ending: Ending) -> dict[str, Any]:
    scratch = {name: place.text for name, place in ending.scratch}
    return {"launches": list(map(_launch, ending.launches)), "scratch": scratch, "workspace": ending.workspace.text}


def _launch(launch: CLaunch) -> dict[str, Any]:
    arguments: list[Any] = []
    for argument in launch.arguments:
        if isinstance(argument, CArray):
            view = argument.view
            places = {"shape": [size.text for size in view.shape], "strides": [step.text for step in view.strides]}
            arguments.append({"kind": "array", **asdict(argument.kind), "data": view.data.text, **places})
        else:
            value = argument.value
            shown = value.text if isinstance(value, Expression | RealExpression) else repr(value)
            arguments.append({"kind": "scalar", "dtype": argument.dtype, "value": shown})
    return {
        "program": launch.program, "arguments": arguments, "tensor_maps": [asdict(item) for item in launch.maps],
        "grid": None if launch.grid is None else [size.text for size in launch.grid],
        "counters": launch.counters, "counters_at": launch.counters_at, "apart": [list(pair) for pair in launch.apart],
    }  # fmt: skip
