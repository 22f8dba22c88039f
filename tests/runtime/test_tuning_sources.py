"""What the text of a function must tell apart: anything that changes what it would compile, and nothing else."""

from __future__ import annotations

import enum
import functools
import importlib
import logging
import math
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.products.split_k import SplitConfig
from phalanx.runtime.tuning.sources import NoText, text_of, version_of

MAIN = '''
import functools
from dataclasses import dataclass
import phalanx as px
import project_helpers as tools
from project_helpers import scaled
from project_package.launching import grid_of

FACTOR = 2
UNUSED = 5
WARPS = 4
WIDTH = 64

@dataclass(frozen=True)
class Choice:
    width: int = 32

    def wide(self):
        return self.width * 2

@px.struct
class Point:
    x: px.i32 = 1

    def twice(self):
        return self.x * 2

@px.func
def inner(x):
    return x + FACTOR

@px.func
def helper(x):
    return inner(x)

@px.kernel(warps=WARPS)
def work(X, *, BM=WIDTH):
    p = Point(1)
    px.store(X[0:BM], helper(px.load(X[0:BM])) * p.twice())

def unused(x):
    return x + UNUSED

def choose(kind):
    return {True: Choice().wide()}[kind]

@functools.cache
def remembered(n):
    return n + 1

def tuned(x, *, kind=1):
    from project_lazy import late
    parts = [scaled(n) for n in range(kind)]
    work[grid_of(x)](x, BM=tools.block(choose(kind > 0)) * remembered(0) * late())
    return parts
'''
FILES = {
    "project_main.py": MAIN,
    "project_helpers.py": "LIMIT = 64\n\ndef block(n):\n    return min(n, LIMIT)\n\ndef scaled(n):\n    return n * 3\n",
    "project_package/__init__.py": "",
    "project_package/launching.py": "from .sizes import SIZE\n\ndef grid_of(x):\n    return 1 if SIZE else 2\n",
    "project_package/sizes.py": "SIZE = 7\n",
    "project_lazy.py": "ONE = 1\n\ndef late():\n    return ONE\n",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Any]:
    """Writes the files, each time in a folder of its own, with an edit; gives the function `tuned` of a fresh import."""
    count = iter(range(100))
    former: list[str] = []

    def load(file: str = "", before: str = "", after: str = "") -> Any:
        folder = tmp_path / str(next(count))
        for name, text in FILES.items():
            if name == file:
                assert text.count(before) == 1
                text = text.replace(before, after)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for name in [name for name in sys.modules if name.startswith("project_")]:
            del sys.modules[name]
        for path in former:
            sys.path.remove(path)
        former[:] = [str(folder)]
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        return importlib.import_module("project_main").tuned

    version_of.cache_clear()
    yield load
    for path in former:
        sys.path.remove(path)
    for name in [name for name in sys.modules if name.startswith("project_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("project_main.py", "return x + FACTOR", "return x - FACTOR"),
        ("project_main.py", "FACTOR = 2", "FACTOR = 2.0"),
        ("project_main.py", "return inner(x)", "return inner(inner(x))"),
        ("project_main.py", "px.store(X[0:BM], helper(", "px.store(X[0:BM], -helper("),
        ("project_main.py", "WARPS = 4", "WARPS = 8"),
        ("project_main.py", "WIDTH = 64", "WIDTH = 32"),
        ("project_main.py", "return self.x * 2", "return self.x * 4"),
        ("project_main.py", "width: int = 32", "width: int = 64"),
        ("project_main.py", "return self.width * 2", "return self.width * 4"),
        ("project_main.py", "return n + 1", "return n + 2"),
        ("project_main.py", "kind=1", "kind=2"),
        ("project_helpers.py", "LIMIT = 64", "LIMIT = 32"),
        ("project_helpers.py", "min(n, LIMIT)", "max(n, LIMIT)"),
        ("project_helpers.py", "n * 3", "n * 4"),
        ("project_package/launching.py", "1 if SIZE else 2", "2 if SIZE else 1"),
        ("project_package/sizes.py", "SIZE = 7", "SIZE = 0"),
        ("project_lazy.py", "ONE = 1", "ONE = 2"),
    ],
    ids=lambda text: text if isinstance(text, str) else "",
)
def test_a_change_of_what_it_uses_is_another_text(project: Any, file: str, before: str, after: str) -> None:
    plain = text_of(project())
    assert text_of(project()) == plain
    assert text_of(project(file, before, after)) != plain


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("project_main.py", "UNUSED = 5", "UNUSED = 6"),
        ("project_main.py", "return x + UNUSED", "return x - UNUSED"),
        ("project_main.py", "FACTOR = 2\n", "\n# lower in its file\n\nFACTOR = 2\n"),
        ("project_lazy.py", "ONE = 1", "ONE = 1\nTWO = 2"),
    ],
    ids=["a global", "a function", "lines that moved", "a module's global"],
)
def test_a_change_of_what_it_does_not_use_is_not(project: Any, file: str, before: str, after: str) -> None:
    assert text_of(project(file, before, after)) == text_of(project())


def test_a_global_that_changes_while_the_process_runs(project: Any) -> None:
    tuned = project()
    plain = text_of(tuned)
    module: Any = sys.modules["project_main"]
    module.FACTOR = 3
    assert text_of(tuned) != plain
    module.FACTOR = 2
    assert text_of(tuned) == plain
    module.work[1]  # the launches that a kernel remembers are no part of it
    assert text_of(tuned) == plain


def test_the_text_is_the_same_in_every_process(project: Any) -> None:
    """Sets and identities vary from process to process."""
    project()
    code = "import project_main; from phalanx.runtime.tuning import sources\n"
    code += "print(sources.text_of([project_main.tuned, {'a', 'b', 'c'}]))"
    path = os.pathsep.join([sys.path[0], str(Path(px.__file__).parent.parent)])
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}, text=True,
            capture_output=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1 and "def helper(x)" in texts.pop()


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Pair:
    a: Any
    b: Any = 0


Plain = namedtuple("Plain", "a b")


def add(x: int, y: int) -> int:
    return x + y


DIFFERENT = [
    None, True, 1, 1.0, -1.0, 0.0, -0.0, "1", b"1", 1j, math.inf, (1,), [1], {1}, {1: 1}, (1, (2,)), (1, 2), ..., range(3),
    px.f32, px.bf16, Colour.RED, Colour.BLUE, Pair(1), Pair(2), Pair(1.0), Plain(1, 2), Plain(2, 1),
    SplitConfig(64, 64, 2, 4), SplitConfig(64, 128, 2, 4), np.float32(1), np.float64(1), np.float32, np.dtype("f4"),
    np.zeros(3), np.ones(3), np.zeros((3, 1)), px.load, px.store, px.kernels.softmax, px.kernels.rms_norm,
    px.auto, px.auto(most=4), math.sqrt, math.exp, len, abs, add, functools.partial(add, 1), functools.partial(add, 2),
    Path("a"), Path("b"), Colour, Pair, Pair(add), [].append, lambda x: x,
    lambda x: x + 1,
]  # fmt: skip


def test_different_values_have_different_texts() -> None:
    texts: dict[str, Any] = {}
    for value in DIFFERENT:
        text = text_of(value)
        assert text not in texts, f"{value!r} and {texts[text]!r}"
        assert text_of(value) == text
        texts[text] = value


def test_what_has_no_text_is_named() -> None:
    log, itself = logging.getLogger("x"), []
    itself.append(itself)

    def inner() -> Any:
        return log

    def outer() -> Any:
        return inner()

    with pytest.raises(NoText) as problem:
        text_of(outer)
    assert str(problem.value) == "inner.log is a Logger"
    with pytest.raises(NoText, match="a list that contains itself"):
        text_of(itself)


def test_functions_that_name_each_other() -> None:
    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n > 0 and even(n - 1)

    assert "return n == 0 or odd(n - 1)" in text_of(odd)


def test_a_closure_counts() -> None:
    def made(offset: Any) -> Any:
        return lambda x: x + offset

    assert text_of(made(1)) == text_of(made(1)) != text_of(made(2))


def test_packages_by_their_version() -> None:
    assert version_of("numpy") == np.__version__
    assert version_of("json") == sys.version.split()[0]
    assert version_of("phalanx") is not None
    assert version_of("__main__") is None and version_of("no_such_package") is None
    assert version_of("runtime") is None, "the folder of these tests"


def test_a_function_that_a_package_wrapped() -> None:
    """What the decorator keeps for itself has no text, and needs none."""
    import contextlib

    @contextlib.contextmanager
    def mine() -> Iterator[int]:
        yield LIMIT

    text = text_of(mine)
    assert "yield LIMIT" in text and "LIMIT: 3" in text


LIMIT = 3
