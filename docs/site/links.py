"""Checks the links of a built site: every page, file and anchor that a page points to inside the site is there.

`python docs/site/links.py build/docs`. Links to other sites are listed, not followed: the check needs no network.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what a tag points to, and what points to it."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken_links(folder: Path) -> tuple[list[str], int, set[str]]:
    """Links that lead nowhere, how many were followed, and the other sites that pages point to."""
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    broken, followed, outside = [], 0, set()
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("data", "mailto"):
                continue
            if parts.scheme or parts.netloc:
                outside.add(f"{parts.scheme}://{parts.netloc}")
                continue
            followed += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{path.relative_to(folder.resolve())}: {link} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder.resolve())}: {link} has no such anchor")
    return broken, followed, outside


def main(folder: Path) -> int:
    """Prints what is broken; the exit code says whether anything is."""
    broken, followed, outside = broken_links(folder)
    print(*broken, sep="\n", end="\n" if broken else "")
    print(f"{followed} links within {folder}, {len(broken)} broken; other sites: {', '.join(sorted(outside)) or 'none'}")
    return 1 if broken or not followed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
