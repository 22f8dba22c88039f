"""The page on exports: its code runs, the C that it shows is the C that is written, and its commands build it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from export.outside import parameter_bytes, ran_outside
from export.replay import exported
from export.stub import COMPILER, MISSING, stub_library
from phalanx.runtime.exporting.interfaces import write_interfaces
from support.doc_pages import Page

needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@dataclass(frozen=True)
class Ran:
    """What the page's program exported: a kernel and a function, and the files that it said it wrote."""

    scale: Any
    softmax: Any


@pytest.fixture(scope="module")
def ran(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, names, made = tmp_path_factory.mktemp("page"), {}, []
    for number, block in enumerate(page.code):
        file = folder / f"page_{number}.py"
        file.write_text(block)  # kernels are read from their file
        exec(compile(block, str(file), "exec"), names)
        made.append(names["made"])
    return Ran(*made)


def test_the_c_is_what_is_written(page: Page, ran: Ran) -> None:
    shown = [block.text for block in page.blocks if block.kind == "c"]
    for made, lines in zip((ran.scale, ran.softmax), shown, strict=True):
        header = (made.folder / f"{made.name}.h").read_text()
        assert all(line in header for line in lines.strip().splitlines())
    wanted = {"scale.c", "scale_code.c", "scale.json", "scale.py", "CMakeLists.txt", "scale_sm_100a.cubin"}
    assert wanted <= set(ran.scale.files)
    assert {"softmax.c", "softmax_code.c", "softmax.json", "softmax_sm_90a.cubin"} <= set(ran.softmax.files)


def shown(page: Page, kind: str, word: str) -> str:
    """The block of a language that has a word in it."""
    (text,) = (block.text for block in page.blocks if block.kind == kind and word in block.text)
    return text


@needs_compiler
def test_the_commands_build_it(page: Page, ran: Ran, tmp_path: Path) -> None:
    """With our declarations in the place of the toolkit's, and the stub in that of the driver."""
    include, text = tmp_path / "include", shown(page, "sh", "gcc")
    include.mkdir()
    stub_library(include)
    (tmp_path / "libcuda.so").symlink_to(include / "libcuda.so.1")
    for name in ("scale.c", "scale.h", "scale_code.c"):
        (tmp_path / name).write_bytes((ran.scale.folder / name).read_bytes())
    (tmp_path / "program.c").write_text(
        '#include "scale.h"\nint main(void) { return scale(0, 64, 0, 0, 0, 0, 2.0f) != -1; }\n'
    )
    paths = {"CUDA": str(tmp_path), "LIBRARY_PATH": str(tmp_path), "CPATH": str(include), "LD_LIBRARY_PATH": str(include)}
    for command in (*text.splitlines(), "./a.out"):
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@needs_compiler
def test_the_loader(page: Page, ran: Ran, tmp_path: Path) -> None:
    text = """
class x:
    data_ptr = staticmethod(lambda: 0x10000)
y, stream = x, 7
"""
    for file in ran.scale.folder.glob("scale*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text += shown(page, "py", "from scale")
    calls = ran_outside(tmp_path, text, parameter_bytes(ran.scale.compiled), bindings_alone=True)
    (launch,) = (call for call in calls if call["call"] == "launch")
    assert (launch["grid"], launch["stream"]) == ([16, 64, 1], 7)


ROWS, SIZES = px.spec(("rows", 4096), px.bf16), {"rows": 8192}


@needs_compiler
@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("tvm_ffi") is None, reason="no tvm_ffi: pip install phalanx-gpu[tvm-ffi]")
def test_tvm_ffi(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    made = px.export(px.kernels.softmax, ROWS, scale=0.125, sizes=SIZES, to=folder, interfaces="tvm-ffi")
    text = f"""
import os
from fake import Fake
os.chdir({str(tmp_path)!r})
x, out = Fake(0x100000, (100, 4096), "bf16"), Fake(0x900000, (100, 4096), "bf16")
"""
    calls = ran_outside(tmp_path, text + shown(page, "py", "tvm_ffi"), parameter_bytes(made.compiled))
    assert [call["call"] for call in calls].count("launch") == 1


@needs_compiler
@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="no jax: pip install phalanx-gpu[jax]")
def test_jax(page: Page, tmp_path: Path) -> None:
    """On a CPU, where XLA has no streams."""
    made = exported(tmp_path, px.kernels.softmax, ROWS, scale=0.125, sizes=SIZES)
    write_interfaces(tmp_path, made, ("jax",), ["-DPX_WITHOUT_STREAM"])
    code = shown(page, "py", "softmax_jax").replace("register()", "register('cpu')")
    text = f"import jax\nimport jax.numpy as jnp\nx = jnp.ones((100, 4096), jnp.bfloat16)\n{code}\ny.block_until_ready()\n"
    calls = ran_outside(tmp_path, text, parameter_bytes(program for each in made.programs for program in each))
    assert [call["call"] for call in calls].count("launch") == 1
