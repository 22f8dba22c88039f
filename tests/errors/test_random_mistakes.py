"""A right kernel with a wrong expression put somewhere: still right, or a `px.Error` with a place and a remedy."""

from __future__ import annotations

import ast
import copy
import importlib.util
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from phalanx.cuda.prepare import prepare_for
from phalanx.errors import Error
from phalanx.ir.types import ArrayType, ScalarType, f32, i32
from phalanx.language.reader.reading import read_kernel

SOURCE = (Path(__file__).parent / "healthy_kernels.py").read_text()
TYPES = (ArrayType(2, f32), ArrayType(2, f32), ScalarType(i32), ScalarType(f32))

WRONG = """
X; s; full; t; r; None; 'str'; 1.5; px.f32; (1, 2); x; px.load; undefined; -1; True; t.m; px.ring(2); 0; helper; Cursor
px; math; n; f; acc; X[0:4, 0:4]; X[0, 0]; s[0]; full[0]; px.tma; px.zeros((4,)); (n, 2); px.block_id; range(3)
px.static_range(2); px.warps(0, 1); 2**70; 1 << 40; float('nan'); print; len; lambda: 1; [1]; {}; ...; x > 0; n > 2
px.cluster; tot; i; z; rows; px.bool(1); px.i64(5); b''; N; X.shape; X.dtype; px.barrier(); 10000000; X @ X; not x
"""
EXPRESSIONS = [ast.parse(part.strip(), mode="eval").body for part in WRONG.strip().replace("\n", ";").split(";")]


def places(body: list[ast.stmt]) -> list[tuple[ast.AST, str, int | None]]:
    """Where an expression stands that is read, not assigned: its parent, the field, the position in it."""
    found: list[tuple[ast.AST, str, int | None]] = []
    for parent in (node for statement in body for node in ast.walk(statement)):
        if isinstance(parent, ast.JoinedStr):
            continue  # only its values may change, and they are found below it
        for name, value in ast.iter_fields(parent):
            items = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for position, item in items:
                if isinstance(item, ast.expr) and not isinstance(getattr(item, "ctx", None), ast.Store):
                    found.append((parent, name, position))
    return found


def broken(rng: random.Random) -> tuple[str, str]:
    """The text of the kernels with one or two expressions replaced, and the name of the kernel that has them."""
    tree = ast.parse(SOURCE)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    name, helper = rng.choice([("ring", "helper"), ("tiles", "helper"), ("folds", "joined")])
    body = functions[rng.choice([name, name, name, helper])].body
    for _ in range(rng.choice([1, 1, 2])):
        parent, field, position = rng.choice(places(body))
        wrong = copy.deepcopy(rng.choice(EXPRESSIONS))
        if position is None:
            setattr(parent, field, wrong)
        else:
            getattr(parent, field)[position] = wrong
    if rng.random() < 0.15:
        body.pop(rng.randrange(len(body)))
    return ast.unparse(ast.fix_missing_locations(tree)), name


def load(text: str, file: Path) -> Any:
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # Python's own opinion of 1.5(x)
        spec.loader.exec_module(module)
    return module


def check(seed: int, folder: Path) -> None:
    text, name = broken(random.Random(seed))
    file = folder / f"mistake_{seed}.py"
    try:
        kernel = getattr(load(text, file), name)
    except (SyntaxError, IndexError):
        return  # Python refuses it before a kernel is made
    try:
        prepare_for(read_kernel(kernel, TYPES, kernel.bind_constants({})).function)
    except Error as error:
        assert error.location.file == str(file) and error.remedy, error
        assert "internal" not in error.message and " object at 0x" not in str(error), error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mistakes")


_QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
_SEEDS = st.integers(0, 2**32 - 1)


def test_the_kernels_are_healthy(folder: Path) -> None:
    module = load(SOURCE, folder / "healthy.py")
    for kernel in (module.ring, module.tiles, module.folds):
        prepare_for(read_kernel(kernel, TYPES, kernel.bind_constants({})).function)


@settings(max_examples=80, derandomize=True, **_QUIET)
@given(_SEEDS)
def test_random_mistakes(folder: Path, seed: int) -> None:
    check(seed, folder)


@pytest.mark.long
@settings(max_examples=2000, **_QUIET)
@given(_SEEDS)
def test_many_random_mistakes(folder: Path, seed: int) -> None:
    check(seed, folder)
