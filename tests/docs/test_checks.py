"""The page on the checks and its pages by kind: each bug is reported as its page shows, and its fix is clean."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import phalanx as px
from phalanx.sanitizer.findings import KINDS as FINDINGS
from support.doc_pages import DOCS, Page

KINDS = [path.stem for path in sorted((DOCS / "checks").glob("*.md"))]


def test_every_kind_has_a_page(page: Page) -> None:
    assert set(FINDINGS) == set(KINDS)
    table = page.text[page.text.index("## What is found") : page.text.index("## What orders what")]
    rows = re.findall(r"^\| \[`([\w-]+)`\]\(checks/([\w-]+)\.md\) \|", table, re.MULTILINE)
    assert all(kind == target for kind, target in rows) and sorted(kind for kind, _ in rows) == KINDS
    assert len(re.findall(r"^\| ", table, re.MULTILINE)) == len(KINDS) + 2, "a row without a page"


@px.kernel(warps=1)
def copy(X, Y, *, BM=64):
    m = px.block_id(0) * BM
    px.store(Y[m : m + BM, 0:8], px.load(X[m : m + BM, 0:8]))


def test_what_a_report_has(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = page.code
    x = np.zeros((64 * 128, 8), np.float32)
    names = {"px": px, "copy": copy, "x": x, "y": np.ones_like(x)}
    exec(code, names)
    assert names["report"].ok and capsys.readouterr().out == "copy: no findings under 3 schedules\n"


@pytest.mark.parametrize("kind", KINDS)
def test_the_bug_is_reported_and_the_fix_is_clean(kind: str, tmp_path: Path, regenerate: bool) -> None:
    page = Page(DOCS / "checks" / f"{kind}.md")
    assert page.text.startswith(f"# {kind}\n") and page.titles()[:3] == ["The bug", "The fix", "More of the kind"]
    printed = page.printed_here(tmp_path, f"{kind.replace('-', '_')}.py")
    page.compare(printed, regenerate)
    report, clean, *_ = printed
    assert report.startswith(f"{kind}: ") and ": 1 finding" in report
    assert re.search(r": no findings under 3 schedules$", clean.rstrip())
