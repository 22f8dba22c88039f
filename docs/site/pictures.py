"""Pictures that `phalanx draw` made stand in the page itself, so that they follow its colours, light and dark."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "docs/pictures/"


def inline(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replaces a link to a picture of ours by the picture."""
    if app.builder.format != "html":
        return
    for node in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, node["uri"])
        if node["uri"].startswith(FOLDER) and path.suffix == ".svg":
            text = f'<figure class="px-picture">{path.read_text()}</figure>'
            node.replace_self(nodes.raw("", text, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("doctree-resolved", inline)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
