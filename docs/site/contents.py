"""The table of contents, from the lists of links of some pages: those pages stay plain Markdown.

A line `- [title](page.md)...`, or a row of a table that begins with such a link, makes the page one of its children; on the
first page each section is a caption of its own.
"""

from __future__ import annotations

import posixpath
import re

from sphinx.application import Sphinx

PAGES = ("docs/index", "docs/tutorials/index", "docs/checks", "docs/reference")
CHILD = re.compile(r"^(?:- |\| )\[([^\]]*)\]\(([^)#]+)\.md\)", re.MULTILINE)


def toctrees(docname: str, text: str) -> str:
    """Directives for the children that a page links to, to stand at its end."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        children = [entry(docname, words, path) for words, path in CHILD.findall(body)]
        if not children:
            continue
        caption = [f":caption: {title}"] if docname == PAGES[0] else []
        lines = ["```{toctree}", ":hidden:", *caption, "", *dict.fromkeys(children), "```"]
        found.append("\n".join(lines))
    return "\n\n".join(found)


def entry(docname: str, words: str, path: str) -> str:
    """A page by its own title; the README, whose title is the project's, by the words of the link."""
    child = posixpath.normpath(posixpath.join(posixpath.dirname(docname), path))
    return f"{words} </{child}>" if child == "README" else f"/{child}"


def add(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds them to a page that was read."""
    if docname in PAGES:
        source[0] += "\n\n" + toctrees(docname, source[0]) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
