"""The page on tuning: its code runs, and prints what it says; the commands that it shows are some."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import phalanx as px
from benchmarks import ROOT
from phalanx.runtime.tuning.bench import Bench
from phalanx.tools.bench import module_of, scripts
from support.doc_pages import Page


def test_the_page_runs_and_prints_what_it_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "tuning.py"), regenerate)


def test_the_call_for_a_gpu_has_parameters_and_results_that_exist(page: Page) -> None:
    (text,) = (block.text for block in page.blocks if block.kind == "py")
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    (call,) = (node for node in calls if ast.unparse(node.func) == "px.bench")
    assert {keyword.arg for keyword in call.keywords} <= set(inspect.signature(px.bench).parameters)
    assert set(re.findall(r"found\.(\w+)", text)) <= set(dir(Bench)) | set(Bench.__annotations__)


def test_the_commands_that_it_shows_are_there(page: Page) -> None:
    """They need a GPU: names and options are looked up."""
    (shown,) = (block.text for block in page.blocks if block.kind == "sh")
    known = scripts(ROOT)
    for line in shown.splitlines():
        command = line.partition("#")[0].split()
        for name in command[2].split("|") if command[2:] else ():
            text = ROOT.joinpath(*module_of(name, known).split(".")).with_suffix(".py").read_text()
            text += (ROOT / "benchmarks" / "common" / "machine.py").read_text()
            for option in re.findall(r"--[a-z-]+", line.partition("#")[0]):
                assert f'"{option}"' in text, f"{name} has no {option}"
