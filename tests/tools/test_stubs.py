"""Stubs: what editors and type checkers know of the language is what the language has."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import phalanx as px
from phalanx.language.builtin import BUILTINS, Builtin
from phalanx.tools.stubs import MEMBERS, STRUCTS, stubs

PACKAGE = Path(px.__path__[0])
PAGES = Path(__file__).with_name("typing")
MISTAKES = {
    number for number, line in enumerate((PAGES / "wrong.py").read_text().splitlines(), 1) if "# error" in line
}  # fmt: skip


def test_the_stubs_are_those_of_the_language(regenerate: bool) -> None:
    for name, text in stubs().items():
        if regenerate:
            (PACKAGE / name).write_text(text, encoding="utf-8")
        assert (PACKAGE / name).read_text(encoding="utf-8") == text, "make golden"


def defined(name: str) -> dict[str, ast.stmt]:
    """The definitions of a stub by name; those inside classes as CLASS.NAME."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        names += [alias.asname or alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        names += [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []
        found |= dict.fromkeys(names, node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_every_public_name_is_there() -> None:
    assert set(px.__all__) <= set(defined("__init__.pyi"))


def test_every_function_of_kernels_has_its_parameters() -> None:
    found, reached = defined("__init__.pyi"), set()
    for name in px.__all__:
        item = getattr(px, name)
        inner = vars(item).items() if inspect.ismodule(item) else [("", item)]
        for part, function in inner:
            called = f"{name}.{part}" if part else name
            if not isinstance(function, Builtin) or (part and function.name != called):
                continue
            reached.add(function.name)
            node = found[called]
            assert isinstance(node, ast.FunctionDef) and ast.get_docstring(node), called
            arguments = node.args
            given = [arg.arg for arg in (*arguments.args, *arguments.kwonlyargs)]
            wanted = [p.name for p in function.signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
            assert given == wanted, called
    public = {function.name for function in BUILTINS if not function.impl.__module__.startswith(("tests", "test_"))}
    assert len(reached) > 90 and reached == public & reached


def test_members_of_values_are_there() -> None:
    found = defined("types.pyi")
    wanted = {"Tile.reshape", "Tile.T", "View.nbytes", "Barrier.arrive_and_expect_tx", "Ring.advance", "Pipe.produce"}
    assert wanted <= set(found)
    assert set(MEMBERS) | set(STRUCTS) <= set(found)


def test_the_page_of_user_code_runs() -> None:
    runpy.run_path(str(PAGES / "right.py"))


def lines_with_errors(command: list[str], pattern: str, folder: Path) -> dict[str, set[int]]:
    """By page, the lines that a type checker says something about."""
    source = str(PACKAGE.parent)
    environment = {**os.environ, "MYPYPATH": source, "PYTHONPATH": source}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    found: dict[str, set[int]] = {"right.py": set(), "wrong.py": set()}
    for file, line in re.findall(pattern, done.stdout, re.MULTILINE):
        found[file].add(int(line))
    assert found["wrong.py"], done.stdout + done.stderr
    return found


@pytest.mark.long
def test_mypy_finds_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    pages = [str(PAGES / name) for name in ("right.py", "wrong.py")]
    options = ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), "--config-file", os.devnull]
    found = lines_with_errors([sys.executable, "-m", "mypy", *options, *pages], r"(\w+\.py):(\d+): error", tmp_path)
    assert found == {"right.py": set(), "wrong.py": MISTAKES}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pyright") is None, reason="no pyright: pip install pyright")
def test_pyright_finds_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    for name in ("right.py", "wrong.py"):
        shutil.copy(PAGES / name, tmp_path)
    settings = {"extraPaths": [str(PACKAGE.parent)], "include": ["right.py", "wrong.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["pyright", "-p", str(tmp_path), "--pythonpath", sys.executable]
    found = lines_with_errors(command, r"/(\w+\.py):(\d+):\d+ - error", tmp_path)
    assert found == {"right.py": set(), "wrong.py": MISTAKES}


COMPLETED = {
    "px.tma.": {"load", "store", "wait", "commit", "gather4"},
    "px.load(X[0:64]).": {"reshape", "permute", "to", "T", "shape", "dtype"},
    "px.barrier(2)[0].": {"arrive", "wait", "transaction", "expect_tx"},
    "px.shared((64,), px.f32).": {"at", "nbytes", "T", "shape"},
    "px.pipe(2).": {"acquire", "commit", "produce", "release"},
}


@pytest.mark.parametrize("text", COMPLETED)
def test_what_an_editor_completes(text: str) -> None:
    jedi = pytest.importorskip("jedi", reason="no jedi: pip install jedi")
    code = f"import phalanx as px\n{text}"
    project = jedi.Project(str(PACKAGE.parent), added_sys_path=[str(PACKAGE.parent)])
    found = {item.name for item in jedi.Script(code, path=str(PAGES / "completed.py"), project=project).complete()}
    assert COMPLETED[text] <= found
