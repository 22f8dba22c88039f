"""The README's code runs, and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "README.md").read_text())


def run(text: str, folder: Path, name: str = "ring.py") -> str:
    (folder / name).write_text(text)
    done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kernel", ["matmul", "copy"])
def test_a_kernel_prints_what_the_page_says(kernel: str, tmp_path: Path, regenerate: bool) -> None:
    found = blocks()
    code = next(text for kind, text in found if kind == "python" and f"def {kernel}(" in text)
    shown = found[found.index(("python", code)) + 1][1]
    printed = run(code, tmp_path, {"matmul": "matmul.py", "copy": "ring.py"}[kernel])
    if regenerate:
        page = ROOT / "README.md"
        before, after = page.read_text().split(code)
        after = after.replace(f"```\n{shown}```", f"```\n{printed.rstrip()}\n```", 1) if shown else after
        page.write_text(before + code + after)
        shown = printed
    assert printed.rstrip() == shown.rstrip()


def test_the_mended_kernel_is_clean_and_runs(tmp_path: Path) -> None:
    found = [text for kind, text in blocks() if kind == "python" and "def matmul(" not in text]
    early = re.search(r"( *)empty\[ring\.stage\]\.arrive\(\)  # too early.*\n", found[0])
    assert early is not None
    mended = found[0].replace(early[0], f"{early[1]}px.tma.wait(0, read=True)\n{early[1]}empty[ring.stage].arrive()\n")
    launch = "y = np.zeros_like(x)\ncopy[2](x, y)\nassert np.array_equal(x, y)\n"
    printed = run(mended + launch, tmp_path)
    assert "no findings" in printed
