"""The documentation site: built without warnings, every link leads somewhere, and no page complains in a browser.

Needs `phalanx-gpu[docs]`; for the browser Playwright's package and a Chromium on the path. Skipped where they are missing.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.doc_pages import DOCS, ROOT

SITE = DOCS / "site"
NEEDED = ("sphinx", "myst_parser", "furo")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "doctrees"), "-c", str(SITE)]
    done = subprocess.run([*command, str(ROOT), str(folder / "html")], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip()
    return folder / "html"


def links() -> Any:
    spec = importlib.util.spec_from_file_location("links", SITE / "links.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_leads_somewhere(site: Path) -> None:
    broken, followed, _ = links().broken_links(site)
    assert not broken and followed > 1000


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a><a href="b.html#there">2</a><img src="c.png">')
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1><a href="https://example.org/x">3</a>')
    broken, followed, outside = links().broken_links(tmp_path)
    assert broken == ["a.html: b.html#there has no such anchor", "a.html: c.png is not there"]
    assert followed == 3 and outside == {"https://example.org"}


def test_every_page_of_the_documentation_is_in_the_site(site: Path) -> None:
    wanted = {path.relative_to(ROOT).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert not {path for path in wanted if not (site / path).is_file()}
    contents = (site / "docs" / "index.html").read_text()
    assert not [path for path in wanted if path.name != "index.html" and f"{path.stem}.html" not in contents]


def test_names_are_found_by_the_search(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert '"px.tma"' in index or '"px.tma.load"' in index or "px.tma" in index
    assert (site / "docs" / "reference" / "tma.html").read_text().count('<section id="px-tma-load') == 1


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site behind a server: a browser does not let files search."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as p:
        opened = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_complains_in_a_browser(site: Path, address: str, browser: Any, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{page.url}: {message.text}") if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("response", lambda answer: complaints.append(f"{answer.url}: {answer.status}") if answer.status >= 400 else None)
    pages = sorted(set(site.rglob("*.html")) - {site / "index.html"})  # which only leads to the first page
    for path in pages:
        page.goto(f"{address}/{path.relative_to(site)}")
    assert not complaints and len(pages) > 50


def test_the_search_finds_a_function(address: str, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"{address}/search.html?q=px.tma.load")
    page.wait_for_selector("ul.search li a", timeout=30_000)
    assert "reference/tma.html" in page.locator("ul.search li a").first.get_attribute("href")
