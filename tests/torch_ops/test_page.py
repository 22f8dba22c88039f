"""The pages on torch: their code runs in order, and prints what they say; the reference has all that there is."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

from phalanx.tools.reference import signature
from phalanx.tools.torch_reference import described
from support.doc_pages import DOCS, Page
from support.reference_examples import Example, examples

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from phalanx.torch.library import OPERATORS  # noqa: E402
from support.torch_operators import CALLS, numbers  # noqa: E402


@pytest.mark.parametrize("name", ["torch", "tutorials/torch"])
def test_the_page_runs_and_prints_what_it_says(name: str, tmp_path: Path, regenerate: bool) -> None:
    Page(DOCS / f"{name}.md").verify(tmp_path, regenerate=regenerate)


def test_the_reference_has_all_of_it_with_its_signatures() -> None:
    """It is read from the source, where torch may be missing: what it says is what there is."""
    said = {each.call.partition("(")[0]: each for each in described()}
    there = {f"px.torch.{name}": getattr(px.torch, name) for name in px.torch.__all__ if name != "nn"}
    there |= {f"px.torch.nn.{name}": getattr(px.torch.nn, name) for name in px.torch.nn.__all__}
    assert set(said) == set(there)
    for name, found in there.items():
        assert said[name].call == name + signature(inspect.signature(found))
        assert said[name].text == inspect.getdoc(found)


DOUBLE = """
import torch
import phalanx as px


@px.kernel(warps=4)
def double_rows(X, Y):
    m = px.block_id(0) * 64
    px.store(Y[m : m + 64, 0:64], px.load(X[m : m + 64, 0:64]) * 2)


{code}

x = torch.ones(3, 64, requires_grad=True)
double(x).sum().backward()
assert (x.grad == 2).all()
"""


def names_of(example: Example) -> dict[str, Any]:
    """Tensors for the names in an example's call, by their places in the call of the operator of that name."""
    name = example.name.rpartition(".")[2]
    if name == "rotated":
        cos, sin = px.torch.nn.rotations(5, 64)
        return {"q": numbers(2, 5, 64), "cos": cos, "sin": sin}
    if name not in CALLS:
        return {"model": torch.nn.Sequential(torch.nn.Linear(8, 8)).bfloat16()}
    called = (node for node in ast.walk(ast.parse(example.code)) if isinstance(node, ast.Call))
    call = next(node for node in called if ast.unparse(node.func) == example.name)
    values, schema = CALLS[name](), [argument.name for argument in OPERATORS[name]._schema.arguments]
    places = [*enumerate(call.args), *((schema.index(each.arg), each.value) for each in call.keywords if each.arg)]
    found = {}
    for place, given in places:
        if isinstance(given, ast.Name):
            found[given.id] = values[place]
        elif isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name):
            found[given.value.id] = getattr(values[place], given.attr)  # .T of .T
    return found


@pytest.mark.share(5)
@pytest.mark.parametrize("example", [pytest.param(each, id=each.name) for each in examples() if each.page == "torch"])
def test_the_examples_of_the_reference_run(example: Example, tmp_path: Path) -> None:
    if example.name == "px.torch.op":
        file = tmp_path / "example.py"
        file.write_text(DOUBLE.format(code=example.code))
        exec(compile(file.read_text(), str(file), "exec"), {})
        return
    if example.name == "px.torch.quantize" and not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip(f"torch {torch.__version__} has no float8_e8m0fnu")
    own = {name: getattr(px.torch.nn, name) for name in px.torch.nn.__all__}
    names = {"px": px, "torch": torch, **own, **names_of(example)}
    exec(example.code, names)
