"""The distribution: its name in hints and in the metadata, and extras that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from phalanx.errors import DISTRIBUTION, extra_of_ours, pip_install

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXTS = [
    path for folder in ("src", "benchmarks", "docs", ".") for pattern in ("*.py", "*.md")
    for path in ((ROOT / folder).glob(pattern) if folder == "." else (ROOT / folder).rglob(pattern))
    if "tests" not in path.parts and path.name != "CHANGELOG.md"
]  # fmt: skip


def test_hints_name_the_distribution_and_extras_that_it_has() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    extras = PROJECT["optional-dependencies"]
    assert pip_install(extra_of_ours("torch"), "numpy>=2") == 'pip install "phalanx-gpu[torch]" "numpy>=2"'
    found = 0
    for path in TEXTS:
        text = path.read_text()
        for extra in re.findall(r"extra_of_ours\(\"([\w-]+)\"\)", text):
            assert extra in extras, path
            found += 1
        for name, extra in re.findall(r"pip\s+install\s+[\"'`]*([\w-]+)\[([\w-]+)\]", text):
            assert (name, extra in extras) == (DISTRIBUTION, True), f"{path}: {name}[{extra}]"
            found += 1
        assert not re.search(r"pip\s+install\s+[\"'`]*phalanx(?![\w-])", text), f"{path}: somebody else's package"
    assert found > 5


@pytest.mark.parametrize("field", ["readme", "authors", "license", "keywords", "classifiers", "requires-python"])
def test_the_metadata_has(field: str) -> None:
    assert PROJECT[field]


def test_files_for_people_who_report_something() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) >= 3
    for path in templates:
        head = re.match(r"---\nname: (.+)\nabout: (.+)\nlabels: \w+\n---\n", path.read_text())
        assert head is not None, path
    assert "## Reporting" in (ROOT / "SECURITY.md").read_text()
