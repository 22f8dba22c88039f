"""The page that a module of tests is about: `test_matmul.py` has `docs/matmul.md`."""

from __future__ import annotations

import pytest

from support.doc_pages import DOCS, Page


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> Page:
    """The page of the module's name."""
    return Page(DOCS / f"{request.path.stem.removeprefix('test_')}.md")
