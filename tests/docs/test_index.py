"""All pages: each is in a list of the first page or of one below it, and links between files lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.doc_pages import BLOCK, DOCS, ROOT

LISTS = [DOCS / name for name in ("index.md", "tutorials/index.md", "checks.md", "reference.md")]
CHILD = re.compile(r"^(?:- |\| )\[[^\]]*\]\(([^)#]+\.md)\)", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PAGES = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")]


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = {(page.parent / link).resolve() for page in LISTS for link in CHILD.findall(page.read_text())}
    assert {path.relative_to(ROOT) for path in DOCS.rglob("*.md")} - {path.relative_to(ROOT) for path in listed} == {
        Path("docs/index.md")
    }


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown's readers make them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]+`", "", BLOCK.sub("", page.read_text()))
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
