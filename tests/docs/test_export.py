"""The page on exports: its block runs, and the C that it shows is the C that is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def test_the_page(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "page.py"
    file.write_text(block)
    names: dict[str, Any] = {}
    exec(compile(block, str(file), "exec"), names)
    header = (names["folder"] / "scale.h").read_text()
    (shown,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    assert all(line in header for line in shown.strip().splitlines())
    files = {"scale.c", "scale_code.c", "scale.json", "scale.py", "CMakeLists.txt", "scale_sm_100a.cubin"}
    assert files <= set(names["made"].files)
