"""On the GPU: the code of the docs that needs one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "running.md"


def test_a_launch_in_a_graph(tmp_path: Path) -> None:
    kernel = re.search(r"```python\n(.*?)^x, bias", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    graph = re.search(r"```python notest\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert kernel is not None and graph is not None
    file = tmp_path / "running.py"
    file.write_text(kernel[1] + graph[1])
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    torch.cuda.synchronize()
    assert (names["y"] == 3).all()
