"""The pages on torch: their code runs in order, and prints what they say; the reference has all that there is."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from doc_pages import DOCS, Page
from phalanx.tools.reference import signature
from phalanx.tools.torch_reference import described

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")


@pytest.mark.parametrize("name", ["torch", "tutorials/torch"])
def test_the_page_runs_and_prints_what_it_says(name: str, tmp_path: Path, regenerate: bool) -> None:
    Page(DOCS / f"{name}.md").verify(tmp_path, regenerate=regenerate)


def test_the_reference_has_all_of_it_with_its_signatures() -> None:
    """It is read from the source, where torch may be missing: what it says is what there is."""
    import phalanx as px

    said = {each.call.partition("(")[0]: each for each in described()}
    there = {f"px.torch.{name}": getattr(px.torch, name) for name in px.torch.__all__ if name != "nn"}
    there |= {f"px.torch.nn.{name}": getattr(px.torch.nn, name) for name in px.torch.nn.__all__}
    assert set(said) == set(there)
    for name, found in there.items():
        assert said[name].call == name + signature(inspect.signature(found))
        assert said[name].text == inspect.getdoc(found)
