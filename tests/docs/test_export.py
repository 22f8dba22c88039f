"""The page on exports: its block runs, and the C that it shows is the C that is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def test_the_page(tmp_path: Path) -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    headers, written = [], []
    for number, block in enumerate(blocks):
        file = tmp_path / f"page_{number}.py"
        file.write_text(block)
        exec(compile(block, str(file), "exec"), names)
        made = names["made"]
        headers.append((made.folder / f"{made.name}.h").read_text())
        written.append(set(made.files))
    shown = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    for header, lines in zip(headers, shown, strict=True):
        assert all(line in header for line in lines.strip().splitlines())
    assert {"scale.c", "scale_code.c", "scale.json", "scale.py", "CMakeLists.txt", "scale_sm_100a.cubin"} <= written[0]
    assert {"softmax.c", "softmax_code.c", "softmax.json", "softmax_sm_90a.cubin"} <= written[1]
