"""Sections whose parts are to stand side by side where there is room: the languages of a kernel."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

PAGE = "docs/coming_from"


def mark(app: Sphinx, doctree: nodes.document) -> None:
    """Gives such sections a class, by which the style sheet knows them."""
    if app.env.docname != PAGE:
        return
    for section in doctree.findall(nodes.section):
        parts = [child for child in section.children if isinstance(child, nodes.section)]
        if len(parts) > 1 and not any(isinstance(inner, nodes.section) for part in parts for inner in part.children):
            section["classes"].append("px-beside")


def setup(app: Sphinx) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
