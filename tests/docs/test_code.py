"""All code on the site is run by a test: no page has code that none reads, and none hides it in a block without a name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.doc_pages import DOCS, ROOT, Page

TESTS = Path(__file__).resolve().parents[1]
KINDS = {"python", "text", "py", "c", "cuda", "sh", ""}
PAGES = [path for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md"))]
ELSEWHERE = {
    # Pages whose code is run by tests of another name, each with a word by which that test takes the page.
    "README.md": ("docs/test_readme.py", "README.md"), "CONTRIBUTING.md": ("test_floors.py", "CONTRIBUTING.md"),
    "docs/torch.md": ("torch_ops/test_page.py", '"torch"'),
    "docs/tutorials/torch.md": ("torch_ops/test_page.py", "tutorials/torch"),
}  # fmt: skip
FOLDERS = {DOCS / "checks": "docs/test_checks.py", DOCS / "tutorials": "docs/test_tutorials.py"}
RUNS = ("page.verify(", "page.printed_here(", "page.printed(", "page.names(", "page.code")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_test_runs_it(path: Path) -> None:
    page = Page(path)
    if not any(block.kind in ("python", "py") for block in page.blocks):
        return
    if name_of(path) in ELSEWHERE:
        file, word = ELSEWHERE[name_of(path)]
        assert word in (TESTS / file).read_text()
        return
    test = TESTS / FOLDERS.get(path.parent, f"docs/test_{path.stem}.py")
    assert test.exists() and any(word in test.read_text() for word in RUNS), f"nothing runs the code of {path.name}"
    if any(block.kind == "py" for block in page.blocks):
        assert '"py"' in test.read_text()


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_code_is_called_so(path: Path) -> None:
    for block in Page(path).blocks:
        assert block.kind in KINDS
        if block.kind in ("text", ""):
            assert not is_python(block.text), block.text


def is_python(text: str) -> bool:
    """Whether a text is a program: it has an import, a call or an assignment, and is none of a table or of output."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.FunctionDef) for node in tree.body)
