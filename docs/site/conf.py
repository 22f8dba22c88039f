"""Sphinx: the documentation site. `make docs` builds it from the repository's Markdown into build/docs.

The source folder is the repository itself, so that links between pages, to the README and to the examples mean the same
here as where the files lie.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "src")]

import phalanx  # noqa: E402

project = "Phalanx"
author = "The Phalanx authors"
copyright = author
version = release = phalanx.__version__

root_doc = "docs/index"
include_patterns = [
    "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/*.md", "docs/**/*.md", "examples/**/*.md",
    "benchmarks/results/README.md",
]  # fmt: skip
exclude_patterns = [".venv*", "build", "src", "tests", ".*"]

extensions = ["myst_parser", "contents", "repository", "names", "pictures", "beside"]
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "mailto": None, "repo": None}
highlight_language = "none"
nitpicky = True

html_theme = "furo"
html_title = f"Phalanx {version}"
templates_path = ["templates"]
html_additional_pages = {"index": "redirect.html"}  # the first page is docs/index.html
html_static_path = ["static"]
html_css_files = ["phalanx.css"]
html_js_files = ["copy.js"]
html_use_index = False  # the reference has a list of all functions
html_favicon = "static/favicon.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
