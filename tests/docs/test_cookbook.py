"""The cookbook: every kernel runs, and its results are compared with NumPy's."""

from __future__ import annotations

import re
from pathlib import Path

from support.doc_pages import Page


def test_the_page_runs(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "cookbook_page.py"), regenerate)


def test_there_are_enough_kernels_and_each_is_short(page: Page) -> None:
    kernels = re.findall(r"^@px\.kernel.*\n((?:.+\n)+)", "\n\n\n".join(page.code), re.MULTILINE)
    assert len(kernels) >= 18 and max(text.count("\n") for text in kernels) <= 16
