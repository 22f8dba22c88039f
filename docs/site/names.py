"""Names of the language: headings of the reference are found by the search, and `px.name` anywhere links to them."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

NAME = re.compile(r"px(?:\.\w+)+")
FOLDER = "docs/reference/"


def declare(app: Sphinx, doctree: nodes.document) -> None:
    """Makes each heading of the reference that is a call an object of the Python domain."""
    if not app.env.docname.startswith(FOLDER):
        return
    domain = app.env.domains.python_domain
    for section in doctree.findall(nodes.section):
        title = section.next_node(nodes.title)
        found = NAME.match(title.astext()) if title is not None else None
        if found:
            domain.note_object(found[0], "function", section["ids"][0], location=section)


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Links names in running text to their headings."""
    objects = app.env.domains.python_domain.objects
    for node in list(doctree.findall(nodes.literal)):
        if isinstance(node.parent, nodes.reference | nodes.title):
            continue
        found = NAME.match(node.astext())
        entry = objects.get(found[0]) if found and found.end() in (len(node.astext()), node.astext().find("(")) else None
        if entry is None:
            continue
        page = "" if entry.docname == docname else app.builder.get_relative_uri(docname, entry.docname)
        uri = f"{page}#{entry.node_id}"
        reference = nodes.reference("", "", internal=True, refuri=uri, classes=["px-name"])
        node.replace_self(reference)
        reference += node


def setup(app: Sphinx) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("doctree-read", declare)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
