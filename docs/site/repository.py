"""Links from pages to files of the repository that are no pages: each gets a page with its highlighted text."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)(\[[^\]\n]*(?:\n[^\]\n]+)?\])\(([^)#:\s]+)\)")
"""A link, which may be broken over two lines, without a scheme or an anchor; not a picture."""
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LANGUAGES = {".py": "python", ".cu": "cuda", ".c": "c", ".h": "c", ".json": "json", ".toml": "toml"}
SCHEME = "repo:"


def page_of(path: str) -> str:
    """The page that shows a file or a folder."""
    return f"source/{path}".rstrip("/")


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Gives links to files that are no pages a scheme of their own, outside code."""
    folder = posixpath.dirname(docname)

    def replaced(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        target = Path(app.srcdir, path)
        if target.is_dir() and (target / "README.md").exists():
            return f"{found[1]}({posixpath.join(found[2], 'README.md')})"
        if target.suffix == ".md" or not target.exists():
            return found[0]
        remember(app, path)
        return f"{found[1]}({SCHEME}{path})"

    parts = FENCE.split(source[0])
    source[0] = "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def remember(app: Sphinx, path: str) -> None:
    """Notes a file, or a folder with its files, that pages link to."""
    target = Path(app.srcdir, path)
    shown: set[str] = app.env.__dict__.setdefault("repository_files", set())
    shown.add(path)
    if target.is_dir():
        shown.update(f"{path}/{item.name}" for item in files_of(target))


def files_of(folder: Path) -> list[Path]:
    """The files of a folder that are shown."""
    return sorted(item for item in folder.iterdir() if item.suffix in LANGUAGES)


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Turns these links into links between pages."""
    for node in doctree.findall(nodes.reference):
        uri = node.get("refuri", "")
        if uri.startswith(SCHEME):
            node["refuri"] = app.builder.get_relative_uri(docname, page_of(uri.removeprefix(SCHEME)))


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of the files that were linked to."""
    for path in sorted(getattr(app.env, "repository_files", ())):
        target = Path(app.srcdir, path)
        body = listing(app, path, target) if target.is_dir() else shown(app, target)
        context = {"title": path, "body": f"<h1>{html.escape(path)}</h1>\n{body}", "parents": []}
        yield page_of(path), context, "page.html"


def listing(app: Sphinx, path: str, folder: Path) -> str:
    """The files of a folder, with the first line of what they say of themselves."""
    rows = []
    for item in files_of(folder):
        link = app.builder.get_relative_uri(page_of(path), page_of(f"{path}/{item.name}"))
        about = re.match(r'"""(.+?)(?:\n|""")', item.read_text())
        words = html.escape(about[1]) if about else ""
        rows.append(f'<li><a href="{link}"><code>{html.escape(item.name)}</code></a> {words}</li>')
    return f"<ul>{''.join(rows)}</ul>"


def shown(app: Sphinx, file: Path) -> str:
    """The highlighted text of a file."""
    return app.builder.highlighter.highlight_block(file.read_text(), LANGUAGES.get(file.suffix, "none"))  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("source-read", rewrite)
    app.connect("doctree-resolved", resolve)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
