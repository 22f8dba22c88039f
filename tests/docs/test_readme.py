"""The README's code runs, and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "README.md").read_text())


def run(text: str, folder: Path) -> str:
    (folder / "ring.py").write_text(text)
    done = subprocess.run([sys.executable, "ring.py"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_kernel_prints_its_report(tmp_path: Path, regenerate: bool) -> None:
    found = blocks()
    kernel = next(text for kind, text in found if kind == "python" and "@px.kernel" in text)
    shown = found[found.index(("python", kernel)) + 1][1]
    printed = run(kernel, tmp_path)
    if regenerate:
        page = ROOT / "README.md"
        page.write_text(page.read_text().replace(f"```\n{shown}```", f"```\n{printed.rstrip()}\n```"))
        shown = printed
    assert printed.rstrip() == shown.rstrip()


def test_the_mended_kernel_is_clean_and_runs(tmp_path: Path) -> None:
    found = [text for kind, text in blocks() if kind == "python"]
    early = re.search(r"( *)empty\[ring\.stage\]\.arrive\(\)  # too early.*\n", found[0])
    assert early is not None
    mended = found[0].replace(early[0], f"{early[1]}px.tma.wait(0, read=True)\n{early[1]}empty[ring.stage].arrive()\n")
    printed = run(mended + found[1] + "assert np.array_equal(x, y)\n", tmp_path)
    assert "no findings" in printed
