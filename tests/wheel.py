"""Builds the wheel, installs it into an empty environment of each Python, and runs the README's first kernel there.

`python tests/wheel.py python3.11 python3.12`: Pythons that this machine does not have are named and left out. Exits with 1
where one fails, or where there is none. pip fetches what the package needs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def readme() -> tuple[str, str]:
    """The README's first kernel, and what it prints."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    first = next(number for number, (kind, _) in enumerate(blocks) if kind == "python")
    return blocks[first][1], blocks[first + 1][1]


def build(folder: Path) -> Path:
    """The wheel, made from a copy of the sources: nothing that lies about in the tree gets into it."""
    copy = folder / "sources"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    builder = folder / "builder"
    venv.create(builder, with_pip=True)
    python = str(builder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(copy)], check=True)
    (wheel,) = folder.glob("phalanx_gpu-*.whl")
    return wheel


def missing_from(wheel: Path) -> list[str]:
    """Files of the package that the wheel lacks."""
    source = ROOT / "src"
    endings = (".py", ".pyi", ".cuh", ".typed", ".json", ".html", ".css", ".js")
    wanted = [path for path in (source / "phalanx").rglob("*") if path.suffix in endings]
    held = set(zipfile.ZipFile(wheel).namelist())
    return [name for path in wanted if (name := path.relative_to(source).as_posix()) not in held]


def runs(python: str) -> bool:
    """Whether there is such a Python: a name on the path may be a stand-in that only says where it would be."""
    return shutil.which(python) is not None and not subprocess.run([python, "-c", ""], capture_output=True).returncode


def attempt(python: str, wheel: Path, folder: Path) -> str:
    """What goes wrong with one Python; "" where nothing does."""
    home = Path(tempfile.mkdtemp(dir=folder))
    subprocess.run([python, "-m", "venv", str(home)], check=True)
    inside = str(home / "bin" / "python")
    subprocess.run([inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)], check=True)
    code, wanted = readme()
    (home / "matmul.py").write_text(code)
    done = subprocess.run([inside, "matmul.py"], cwd=home, capture_output=True, text=True)
    if done.returncode or done.stdout.rstrip() != wanted.rstrip():
        return f"the README's kernel: {done.stderr or done.stdout}"
    doctor = subprocess.run([str(home / "bin" / "phalanx"), "doctor"], cwd=home, capture_output=True, text=True)
    print(doctor.stdout)
    return "" if doctor.returncode == 0 else "phalanx doctor finds something broken"


def main(pythons: list[str]) -> int:
    """Tries each Python that is there, and says what was not tried."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder)
        missing = missing_from(wheel)
        print(f"{wheel.name}, {wheel.stat().st_size >> 10} KiB; missing: {', '.join(missing) or 'nothing'}")
        failed, tried = bool(missing), 0
        for python in pythons:
            if not runs(python):
                print(f"{python}: not on this machine, not tried")
                continue
            tried += 1
            problem = attempt(python, wheel, folder)
            failed |= bool(problem)
            print(f"{python}: {problem or 'the README kernel prints what the README says'}")
        (ROOT / "dist").mkdir(exist_ok=True)
        shutil.copy(wheel, ROOT / "dist")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["python3"]))
