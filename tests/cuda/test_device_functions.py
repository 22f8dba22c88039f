"""The C++ files of device functions: every name that emitters ask for is there, everything that is there is asked for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import phalanx
from phalanx.cuda.text.helper import find_helper, helper, paragraphs

CUDA = Path(phalanx.__file__).parent / "cuda"
ASKING = ("use", "helper", "find_helper")


def patterns_of(node: ast.expr) -> Iterator[str]:
    """Expressions that match the names which an argument can be; none for one that is no text."""
    match node:
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case ast.JoinedStr(values=parts):
            yield "".join(re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+" for part in parts)
        case ast.IfExp(body=body, orelse=other):
            yield from patterns_of(body)
            yield from patterns_of(other)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (before + behind for before in patterns_of(left) for behind in patterns_of(right))
        case ast.BinOp(left=left, op=ast.Mult()):
            yield from (f"({pattern})?" for pattern in patterns_of(left))


@cache
def asked_for() -> set[str]:
    """What emitters ask for, as expressions that match names."""
    calls = [
        node for file in CUDA.rglob("*.py") for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ASKING
    ]
    return {pattern for call in calls for argument in call.args for pattern in patterns_of(argument)}


def test_what_emitters_ask_for_is_there() -> None:
    missing = [pattern for pattern in asked_for() if not any(re.fullmatch(pattern, name) for name in paragraphs())]
    assert not missing


def test_all_that_is_there_is_asked_for() -> None:
    asked = [name for name in paragraphs() if any(re.fullmatch(pattern, name) for pattern in asked_for())]
    used = set(asked)
    while asked:
        new = set(paragraphs()[asked.pop()][1]) - used
        used |= new
        asked += new
    assert not paragraphs().keys() - used


def test_each_names_what_it_calls() -> None:
    for name in paragraphs():
        needed, before = {name}, [helper(name)]
        while before:
            new = [need for need in before.pop().needs if need.name not in needed]
            needed |= {need.name for need in new}
            before += new
        code = re.sub(r"//.*|\".*?\"", "", helper(name).text)
        called = {word for word in re.findall(r"\b(\w+)(?=[(<])", code) if word in paragraphs()}
        assert called <= needed, f"{name} calls {called - needed}"


def test_a_name_that_is_not_there() -> None:
    assert find_helper("bulk_load") is not None
    assert find_helper("bulk_loads") is None


def test_notes_for_readers_stay_in_the_file() -> None:
    stop = helper("px_stop").text
    assert stop.startswith("__device__ __noinline__ void px_stop(")
    assert "The debug buffer in 64-bit words" in (CUDA / "device_functions" / "kernel.cuh").read_text()
    assert helper("warp_min").needs == (helper("warp_max"),)
