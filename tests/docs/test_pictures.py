"""The page on pictures: its code makes the pictures that it shows, byte by byte."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from support.doc_pages import DOCS, PICTURES, Page


@pytest.fixture(scope="module")
def made(page: Page, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pictures that the page's code writes, which are those that it shows."""
    folder = tmp_path_factory.mktemp("pictures")
    assert page.printed_here(folder, "pictures.py") == [""] * len(page.code)
    return page.compare_pictures(folder, bool(request.config.getoption("--regenerate")))


def test_every_picture_is_made_by_a_page_and_small() -> None:
    """The code of the pages that show pictures writes all of them."""
    written = {name for page in DOCS.rglob("*.md") for name in re.findall(r'Path\("(\w+\.svg)"\)', page.read_text())}
    assert written == {path.name for path in PICTURES.glob("*.svg")}
    for path in PICTURES.glob("*.svg"):
        assert path.stat().st_size < 40_000
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def texts(svg: str) -> list[str]:
    return [item.text or "" for item in ElementTree.fromstring(svg).iter() if item.tag.endswith("}text")]


def test_a_timeline_has_the_roles_and_engines(made: dict[str, str]) -> None:
    found = texts(made["matmul_timeline.svg"])
    assert {"consumer (warps 0-7)", "tensor cores", "producer (warp 8)", "TMA engine"} <= set(found)


def test_banks_of_a_column(made: dict[str, str]) -> None:
    """Without a swizzle those of every column are the same, with it all eight differ."""
    cells = {name: [text for text in texts(made[name]) if "-" in text] for name in ("plain.svg", "swizzled.svg")}
    assert len(set(cells["plain.svg"][::8])) == 1 and len(set(cells["swizzled.svg"][::8])) == 8


def test_the_first_rows_of_an_accumulator(made: dict[str, str]) -> None:
    cells = [text for text in texts(made["accumulator.svg"]) if re.fullmatch(r"\d+:\d+", text)]
    assert cells[:10] == ["0:0", "0:1", "1:0", "1:1", "2:0", "2:1", "3:0", "3:1", "4:0", "4:1"]

