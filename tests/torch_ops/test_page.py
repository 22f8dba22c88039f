"""The pages on torch: their code runs in order, and prints what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc_pages import DOCS, Page

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")


@pytest.mark.parametrize("name", ["torch", "tutorials/torch"])
def test_the_page_runs_and_prints_what_it_says(name: str, tmp_path: Path, regenerate: bool) -> None:
    Page(DOCS / f"{name}.md").verify(tmp_path, regenerate=regenerate)
