"""`phalanx bench`: the benchmarks of a checkout, by their names."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import typer

from phalanx.errors import Error, extra_of_ours, pip_install
from phalanx.tools.output import UNABLE, complain, say

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
ALIASES = {"copy": "device_copy", "plot": "products.plot"}


def checkout() -> Path:
    """The checkout that this package is in, or the working directory."""
    candidates = (Path(__file__).resolve().parents[3], Path.cwd())
    for root in candidates:
        if (root / "benchmarks" / "common" / "machine.py").is_file():
            return root
    raise Error(
        f"there are no benchmarks in {' or '.join(str(root) for root in candidates)}",
        remedy="run the command in a checkout of phalanx; the package itself has none",
    )


@functools.cache
def scripts(root: Path) -> dict[str, str]:
    """The benchmarks of a checkout: module and what it measures."""
    found: dict[str, str] = {}
    for path in sorted((root / "benchmarks").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            about = ast.get_docstring(ast.parse(text)) or ""
            found[".".join(path.relative_to(root).with_suffix("").parts)] = about.partition("\n")[0]
    return found


def module_of(name: str, known: dict[str, str]) -> str:
    """The module that a benchmark's name means: `gemm`, `products.gemm` or the whole `benchmarks.products.gemm`."""
    dotted = f".{ALIASES.get(name, name)}"
    found = [module for module in known if f".{module}".endswith(dotted)]
    if len(found) == 1:
        return found[0]
    if found:
        remedy = f"name it in full: {' or '.join(module.removeprefix('benchmarks.') for module in found)}"
        raise Error(f"several benchmarks are called {name!r}", remedy=remedy)
    raise Error(f"there is no benchmark {name!r}", remedy="`phalanx bench` lists them")


def require_torch_for(file: Path) -> None:
    """Raises `px.Error` where a benchmark is for torch on a GPU, and this machine lacks one of the two."""
    text = file.read_text(encoding="utf-8")
    if not re.search(r"^import torch$", text, re.MULTILINE):
        return
    if importlib.util.find_spec("torch") is None:
        raise Error(f"{file.name} needs torch, which is not installed", remedy=pip_install(extra_of_ours("torch")))
    from phalanx.runtime.device.driver import has_gpu

    if "cuda" in text and not has_gpu():
        raise Error(
            f"{file.name} needs a CUDA GPU, and there is none here",
            remedy="run it on a machine with a GPU; `phalanx bench sim` measures the simulator",
        )


def bench(context: typer.Context) -> None:
    """Runs a benchmark of the checkout with its options (`phalanx bench gemm --modes steady`); without a name lists them."""
    try:
        root = checkout()
        known = scripts(root)
        if not context.args or context.args[0].startswith("-"):
            say("\n".join(f"{module.removeprefix('benchmarks.'):28} {about}" for module, about in known.items()))
            return
        module = module_of(context.args[0], known)
        require_torch_for(root / f"{module.replace('.', '/')}.py")
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", module, *context.args[1:]]
    raise typer.Exit(subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode)
