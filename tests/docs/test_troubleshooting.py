"""The page on troubleshooting: messages that it quotes are messages of the package."""

from __future__ import annotations

import re
from pathlib import Path

import phalanx
from phalanx.sanitizer.findings import KINDS
from support.doc_pages import Page


def test_what_it_quotes_is_said(page: Page) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in Path(phalanx.__path__[0]).rglob("*.py"))
    first = re.findall(r"^\| (`[^|]*) \|", page.text, re.MULTILINE)
    quoted = [text for cell in first for text in re.findall(r"`([^`]+)`", cell)]
    assert len(quoted) >= 15
    assert [text for text in quoted if text not in sources and text not in KINDS] == []
