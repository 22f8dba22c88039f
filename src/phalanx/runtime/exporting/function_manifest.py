"""The manifest of an exported function: its arguments, the tree of its ways, and the launches at their ends."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from phalanx.runtime.exporting.function_source import FunctionExport
from phalanx.runtime.exporting.manifest import launched
from phalanx.runtime.exporting.paths import End, Fork, Tree
from phalanx.runtime.exporting.plans import Plan, PlannedArray
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.reals import RealExpression
from phalanx.runtime.symbolic.tracing import ArrayGiven

FORMAT = 2


def function_manifest(made: FunctionExport) -> str:
    """The text of NAME.json. Expressions are Python's, over sizes, addresses (NAME) and strides (NAME_AXIS)."""
    plans: list[str] = []
    content: dict[str, Any] = {
        "format": FORMAT,
        "name": made.name,
        "described": made.described,
        "sizes": list(made.sizes),
        "parameters": [
            {"kind": "array", "name": given.name, "dtype": given.spec.dtype.name, "shape": list(given.spec.sizes)}
            if isinstance(given, ArrayGiven)
            else {"kind": "scalar", "name": given.name, "dtype": "f64"}
            for given in made.arguments
        ],
        "results": [
            {
                "name": made.plans.result_names[view.memory], "memory": view.memory, "dtype": view.dtype,
                "shape": [size.text for size in view.shape], "strides": [step.text for step in view.strides],
            }
            for view in made.plans.results
        ],
        "zeroed_bytes": made.plans.counters,
        "has_workspace": made.plans.has_workspace,
        "programs": [_program(made, number) for number in range(len(made.programs))],
        "choose": _tree(made, made.tree, plans),
    }  # fmt: skip
    content["plans"] = [json.loads(plan) for plan in plans]
    return json.dumps(content, indent=1) + "\n"


def cubin_name(made: FunctionExport, number: int, arch: str) -> str:
    """The file with the machine code of a kernel for a target."""
    return f"{made.name}_{number}_{arch}.cubin" if len(made.programs) > 1 else f"{made.name}_{arch}.cubin"


def _program(made: FunctionExport, number: int) -> dict[str, Any]:
    model = made.programs[number][0]
    return {
        "entry": model.name,
        **launched(model),
        "targets": {
            each.arch: {"cubin": cubin_name(made, number, each.arch), "registers": each.registers, "spills": each.spills}
            for each in made.programs[number]
        },
    }


def _tree(made: FunctionExport, tree: Tree, plans: list[str]) -> Any:
    """Nested [comparison, where it holds, where it does not]; the number of a plan, or None where there is none."""
    if isinstance(tree, Fork):
        return [tree.guard.text, _tree(made, tree.holds, plans), _tree(made, tree.fails, plans)]
    if not isinstance(tree, End):
        return None
    text = json.dumps(_plan(made.plans.of[id(tree.path)]))
    if text not in plans:
        plans.append(text)
    return plans.index(text)


def _plan(plan: Plan) -> dict[str, Any]:
    launches = []
    for launch in plan.launches:
        arguments: list[Any] = []
        for argument in launch.arguments:
            if isinstance(argument, PlannedArray):
                view = argument.view
                facts = {"dtype": view.dtype, "share": argument.kind.share, "nbytes": argument.kind.nbytes}
                places = {"shape": [size.text for size in view.shape], "strides": [step.text for step in view.strides]}
                arguments.append(
                    {"kind": "array", **facts, "in_bytes": argument.kind.in_bytes, "data": view.data.text, **places}
                )
            else:
                value = argument.value
                shown = value.text if isinstance(value, Expression | RealExpression) else repr(value)
                arguments.append({"kind": "scalar", "dtype": argument.dtype, "value": shown})
        launches.append(
            {
                "program": launch.program, "arguments": arguments, "tensor_maps": [asdict(item) for item in launch.maps],
                "grid": None if launch.grid is None else [size.text for size in launch.grid],
                "counters": launch.counters, "counters_at": launch.counters_at,
                "apart": [list(pair) for pair in launch.apart],
            }
        )  # fmt: skip
    scratch = {name: place.text for name, place in plan.scratch}
    return {"launches": launches, "scratch": scratch, "workspace": plan.workspace.text}
