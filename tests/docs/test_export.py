"""The page on exports: its block runs, and the C that it shows is the C that is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doc_pages import Page


def test_the_page(page: Page, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    headers, written = [], []
    for number, block in enumerate(page.code):
        file = tmp_path / f"page_{number}.py"
        file.write_text(block)  # kernels are read from their file
        exec(compile(block, str(file), "exec"), names)
        made = names["made"]
        headers.append((made.folder / f"{made.name}.h").read_text())
        written.append(set(made.files))
    shown = [block.text for block in page.blocks if block.kind == "c"]
    for header, lines in zip(headers, shown, strict=True):
        assert all(line in header for line in lines.strip().splitlines())
    assert {"scale.c", "scale_code.c", "scale.json", "scale.py", "CMakeLists.txt", "scale_sm_100a.cubin"} <= written[0]
    assert {"softmax.c", "softmax_code.c", "softmax.json", "softmax_sm_90a.cubin"} <= written[1]
