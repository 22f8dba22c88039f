"""Writes `__init__.pyi` and `types.pyi`, from which editors and type checkers know the language: `make golden`.

Names, parameters, defaults and texts come from the functions of the language themselves. What a parameter takes and a
function gives is said by the tables below, by the name of the parameter and of the annotated class.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phalanx
import phalanx.language.ops.fence
from phalanx.ir.types import DType
from phalanx.language.builtin import Builtin
from phalanx.language.objects import exposed_names
from phalanx.language.ops import pipes
from phalanx.language.ops.mbarrier import BarrierValue
from phalanx.language.ops.ring import RING
from phalanx.language.ops.tile import TileObject
from phalanx.language.structs import StructClass
from phalanx.language.values import ViewValue
from phalanx.tools.stub_texts import PACKAGE, TYPES

PARAMETERS = {
    "acc": "Tile | View", "arm": "_b.bool", "axis": "int | None", "bar": "Barrier",
    "checked": "_b.bool", "dtype": "DType",
    "init": "_b.bool", "keepdims": "_b.bool", "message": "str", "op": "str", "order": "str", "padded": "_b.bool",
    "read": "_b.bool", "relaxed": "_b.bool", "shape": "Shape", "text": "str", "two_cta": "_b.bool", "along": "str",
    "cache": "str | None", "space": "str", "func": "Callable[..., Any]", "producer": "_b.bool", "nbytes": "Number",
    "parity": "Number", "ctas": "Number | None", "skip_ones": "_b.bool", "approx": "_b.bool", "multicast": "Number | None",
}  # fmt: skip
"""What a parameter of this name takes; any other takes anything."""
OTHERWISE = {
    "tcgen05.commit.bar": "Barrier | Pipe", "cp_async.commit.bar": "Barrier | Pipe", "tcgen05.mma.acc": "View",
    "pipelined.multicast": "_b.bool", "cluster.load.ctas": "Any", "pipe.ctas": "Any",
}  # fmt: skip
"""What a parameter takes where its name means something else, by FUNCTION.PARAMETER."""
RESULTS = {
    "None": "None", "Value": "Tile", "Numeric": "Tile", "bool | Value": "Tile", "BarrierValue": "Barrier", "int": "int",
    "int | Value": "int", "ViewValue": "View", "StaticRange": "Iterable[int]", "RangeObject": "Iterable[Any]",
    "RangeObject | TilesObject": "Iterable[int]", "WarpsValue": "AbstractContextManager[int]", "Param": "View",
    "TransactionValue": "AbstractContextManager[None]", "PipeRegion": "AbstractContextManager[int]", "DType": "DType",
    "tuple[int, ...]": "tuple[int, ...]", "tuple[Value, Value]": "tuple[Tile, Tile]", "Value | tuple[Value, ...]": "Any",
}  # fmt: skip
"""What the annotation of a function's result is to users; a member's too."""
GIVES = {
    "block_id": "int", "num_blocks": "int", "cluster.id": "int", "cluster.count": "int", "cdiv": "int",
    "topk": "tuple[Tile, Tile]", "cluster.gather": "tuple[Tile, ...]", "ring": "Ring", "pipe": "Pipe",
}  # fmt: skip
"""What a function gives where its annotation does not say it."""
MEMBERS: dict[str, type] = {"Tile": TileObject, "View": ViewValue, "Barrier": BarrierValue}
STRUCTS: dict[str, StructClass] = {"Ring": RING, "Pipe": pipes.PIPE}


def first_paragraph(text: str | None, indent: int) -> Iterator[str]:
    """The first paragraph of a docstring as one, below a `def`."""
    about = " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split()).replace("\\", "\\\\")
    lines = textwrap.wrap(f'"""{about}', 112 - indent)
    lines[-1] += '"""'
    yield from (" " * indent + line for line in lines)


def parameter(found: inspect.Parameter, function: str) -> str:
    """One parameter with its type, as a stub has it."""
    kind = OTHERWISE.get(f"{function}.{found.name}") or PARAMETERS.get(found.name, "Any")
    if found.kind is found.VAR_POSITIONAL:
        return f"*{found.name}: Any"
    default = ""
    if found.default is None and "None" not in kind and kind != "Any":
        kind += " | None"
    if found.default is not found.empty:
        plain = found.default is None or isinstance(found.default, int | float | str)
        default = f" = {found.default!r}" if plain else " = ..."
    return f"{found.name}: {kind}{default}"


def definition(name: str, function: str, impl: Callable[..., Any], skipped: int, gives: str, indent: int = 0) -> list[str]:
    """A function or a method of a stub; `skipped` parameters are the compiler's, unless the first is `self`."""
    parameters = list(inspect.signature(impl).parameters.values())
    parts = ["self"] if skipped == 2 else []
    by_name = False
    for found in parameters[skipped:]:
        if found.kind is found.KEYWORD_ONLY and not by_name:
            by_name = True
            parts.append("*")
        parts.append(parameter(found, function))
    pad = " " * indent
    lines = [f"{pad}def {name}({', '.join(parts)}) -> {gives}:"]
    if len(lines[0]) > 116:
        lines = [f"{pad}def {name}(", *(f"{pad}    {part}," for part in parts), f"{pad}) -> {gives}:"]
    return [*lines, *first_paragraph(impl.__doc__, indent + 4)]


def result_of(name: str, impl: Callable[..., Any]) -> str:
    """What users get from a function or a member."""
    return GIVES.get(name) or RESULTS.get(str(inspect.signature(impl).return_annotation), "Any")


def namespaces() -> Iterator[tuple[str, Any]]:
    """`px.tma` and its kin, in the order of their names."""
    for name in sorted(phalanx.__all__):
        found = getattr(phalanx, name)
        if inspect.ismodule(found) and found.__name__.startswith("phalanx.language.ops."):
            yield name, found


def functions() -> Iterator[str]:
    """All functions that kernels call: those of a namespace as its static methods."""
    for name in sorted(phalanx.__all__):
        found = getattr(phalanx, name)
        if isinstance(found, Builtin):
            yield from definition(name, found.name, found.impl, 1, result_of(found.name, found.impl))
            yield ""
    for name, module in namespaces():
        yield f"class {name}:"
        yield from first_paragraph(module.__doc__, 4)
        yield ""
        for part in sorted(vars(module)):
            inner = vars(module)[part]
            if isinstance(inner, Builtin) and inner.name.startswith(f"{name}."):
                yield "    @staticmethod"
                called = part.removesuffix("_")
                yield from definition(called, inner.name, inner.impl, 1, result_of(inner.name, inner.impl), 4)
                yield ""


def members(name: str) -> Iterator[str]:
    """What kernels write behind the dot of a value of this class."""
    cls = MEMBERS[name]
    for member in exposed_names(cls):
        impl = getattr(cls, member)
        if impl.__exposed__ == "method":
            yield from definition(member, f"{name}.{member}", impl, 2, result_of("", impl), 4)
        else:
            yield "    @property"
            yield f"    def {member}(self) -> {result_of('', impl)}:"
            yield from first_paragraph(impl.__doc__, 8)
        yield ""


def struct_members(name: str) -> Iterator[str]:
    """Fields and methods of a struct that the language itself makes."""
    struct = STRUCTS[name]
    for field in struct.fields:
        yield f"    {field}: Any"
    yield ""
    for method, impl in struct.natives.items():
        variable = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(impl).parameters.values())
        if variable:
            yield f"    def {method}(self) -> None:"
            yield from first_paragraph(impl.__doc__, 8)
        else:
            yield from definition(method, f"{name}.{method}", impl, 2, result_of("", impl), 4)
        yield ""


def loaded_later() -> Iterator[str]:
    """Imports of the names that the package loads when they are first used."""
    for name, module in sorted(vars(phalanx)["_LAZY"].items(), key=lambda item: item[1]):
        home = "phalanx" if module == f"phalanx.{name}" else module
        yield f"from {home} import {name} as {name}"


def stubs() -> dict[str, str]:
    """The text of each stub, by its name below the package."""
    dtypes = "\n".join(f"{name}: DType" for name in sorted(phalanx.__all__) if isinstance(getattr(phalanx, name), DType))
    names = ", ".join(f'"{name}"' for name in sorted(phalanx.__all__))
    exported = textwrap.fill(names + ",", 116, initial_indent="    ", subsequent_indent="    ")
    package = PACKAGE.replace("# LATER", "\n".join(loaded_later())).replace("# DTYPES", dtypes)
    package = package.replace("# FUNCTIONS", "\n".join(functions()).rstrip())
    types = TYPES
    for name in (*MEMBERS, *STRUCTS):
        lines = members(name) if name in MEMBERS else struct_members(name)
        types = types.replace(f"    # MEMBERS OF {name}", "\n".join(lines).rstrip())
    package = package.replace("# EXPORTED", exported)
    return {"__init__.pyi": tidy(package), "types.pyi": tidy(types)}


def tidy(text: str) -> str:
    """Without more than one empty line in a row."""
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def write(folder: Path) -> None:
    """Writes all of them into the package's folder."""
    for name, text in stubs().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(phalanx.__path__[0]))
