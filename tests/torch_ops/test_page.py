"""The page on torch: its code runs in order, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc_pages import DOCS, Page

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, regenerate: bool) -> None:
    Page(DOCS / "torch.md").verify(tmp_path, regenerate=regenerate)
