"""Long and deep sources: chains have any length, and what stands inside too much else is an error at its line."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px

NUMBERS = itertools.count()


def kernel_of(folder: Path, body: str, functions: str = "") -> Any:
    """The kernel `k(Y, n)` with a body that was written by a program."""
    path = folder / f"long_{next(NUMBERS)}.py"
    path.write_text(f"import phalanx as px\n\n{functions}@px.kernel(warps=1)\ndef k(Y, n):\n{body}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


@pytest.mark.parametrize("terms", [3, 1500])
@pytest.mark.parametrize("word", ["and", "or"])
@pytest.mark.parametrize("differs", ["first", "last", "none"])
def test_chains_of_truths(word: str, differs: str, terms: int, tmp_path: Path) -> None:
    usual, other = ("n > 0", "n < 0") if word == "and" else ("n < 0", "n > 0")
    parts = [usual] * terms
    if differs != "none":
        parts[0 if differs == "first" else -1] = other
    k = kernel_of(tmp_path, f"    px.store(Y[0], 1 if {f' {word} '.join(parts)} else 2)\n")
    y = np.zeros(4, np.int32)
    k[1](y, 1)
    assert y[0] == (1 if (word == "and") == (differs == "none") else 2)


@pytest.mark.parametrize("word, stops", [("and", "Y[{i}] < 10"), ("or", "Y[{i}] >= 10")])
def test_a_chain_reads_no_further_than_it_must(word: str, stops: str, tmp_path: Path) -> None:
    """Elements behind the one that settles it lie outside of the array."""
    chain = f" {word} ".join(stops.format(i=i) for i in range(150))
    k = kernel_of(tmp_path, f"    px.store(Y[0], 1 if {chain} else 2)\n")
    y = np.arange(12, dtype=np.int32)
    k[1](y, 1)
    assert y[0] == (2 if word == "and" else 1)
    assert px.check(k[1], np.arange(12, dtype=np.int32), 1).ok


@pytest.mark.parametrize(
    "chain, n, wanted",
    [
        ("n > 0 and FLAG and Y.shape[9] > 0", 1, 2), ("n > 0 or not FLAG or Y.shape[9] > 0", 0, 1),
        ("n > 0 and True and n > 1", 1, 2), ("n > 0 or False or n > 1", 1, 1), ("FLAG or n > 0", 1, 1),
        ("True and n > 0 and True", 1, 1), ("n > 5 and n > 0 or n == 1", 1, 1), ("not (n > 0 and n < 3) or n == 2", 2, 1),
    ],
)
def test_constants_among_truths(chain: str, n: int, wanted: int, tmp_path: Path) -> None:
    """What a constant settles is settled while the kernel is read: nothing behind it is."""
    k = kernel_of(tmp_path, f"    px.store(Y[0], 1 if {chain} else 2)\n", "FLAG = False\n\n\n")
    y = np.zeros(4, np.int32)
    k[1](y, n)
    assert y[0] == wanted


@pytest.mark.parametrize("chain", [" + ".join(["n"] * 900), " < ".join(["n"] * 900) + " or n", "n" + " * n" * 500])
def test_chains_of_operators(chain: str, tmp_path: Path) -> None:
    k = kernel_of(tmp_path, f"    px.store(Y[0], px.i32({chain}))\n")
    y = np.zeros(4, np.int32)
    k[1](y, 1)
    assert y[0] == eval(chain, {"n": 1})


BRANCHES = "@px.func\ndef f0(x):\n    return x\n\n\n" + "".join(
    f"@px.func\ndef f{n}(x):\n" + "".join(f"{'    ' * (i + 1)}if x > {i}:\n" for i in range(10))
    + f"{'    ' * 11}x = f{n - 1}(x)\n    return x\n\n\n"
    for n in range(1, 11)
)
RETURNS = "@px.func\ndef f0(x):\n    return x\n\n\n" + "".join(
    f"@px.func\ndef f{n}(x):\n    if x > {n}:\n        return x\n    return f{n - 1}(x - 1)\n\n\n" for n in range(1, 21)
)
SIGNS = "@px.func\ndef f0(x):\n    return x\n\n\n" + "".join(
    f"@px.func\ndef f{n}(x):\n    return {'~' * 90}f{n - 1}(x)\n\n\n" for n in range(1, 40)
)
ELIFS = "    v = 0\n    if n < 0:\n        v = 1\n" + "".join(f"    elif n == {i}:\n        v = {i}\n" for i in range(120))
INLINED = "functions are inlined, and each elif stands in the one before: end some before others begin"


@pytest.mark.parametrize(
    "body, functions, message, line, remedy",
    [
        ("    px.store(Y[0], f10(n))\n", BRANCHES, "branches and loops are nested more than 90 deep", 10, INLINED),
        ("    px.store(Y[0], f20(n))\n", RETURNS, "loops and functions that return early are nested more than 16 deep", None,
         INLINED),
        ("    px.store(Y[0], f39(n))\n", SIGNS,
         "expressions, statements and calls are nested too deep here for Python's stack", None,
         "functions are inlined: call fewer helpers from helpers, and give parts of expressions names"),
        (ELIFS, "", "branches and loops are nested more than 90 deep", 186, INLINED),
        (ELIFS.replace("n ", "0.5 "), "", "statements are nested more than 100 deep", 202,
         "use fewer branches inside branches; each elif stands in the one before"),
    ],
    ids=["branches", "returns", "stack", "elif", "elif of constants"],
)  # fmt: skip
def test_what_is_too_deep(
    body: str, functions: str, message: str, line: int | None, remedy: str, tmp_path: Path
) -> None:
    k = kernel_of(tmp_path, body, functions)
    y = np.zeros(4, np.int32)
    for attempt in (lambda: k[1](y, 1), lambda: px.check(k[1], y, 1), lambda: px.compile(k[1], y, 1, arch="sm_90a")):
        with pytest.raises(px.Error) as caught:
            attempt()
        assert (caught.value.message, caught.value.remedy) == (message, remedy)
        assert Path(caught.value.location.file).parent == tmp_path
        assert line is None or caught.value.location.line == line


@pytest.mark.parametrize(
    "body, functions",
    [
        ("    px.store(Y[0], f9(n))\n", BRANCHES), ("    px.store(Y[0], f16(n))\n", RETURNS),
        ("    px.store(Y[0], f3(n))\n", SIGNS),
        ("".join(ELIFS.splitlines(keepends=True)[:177]) + "    px.store(Y[0], v)\n", ""),
    ],
    ids=["branches", "returns", "stack", "elif"],
)
def test_what_is_just_not_too_deep(body: str, functions: str, tmp_path: Path) -> None:
    k = kernel_of(tmp_path, body, functions)
    y = np.zeros(4, np.int32)
    k[1](y, 1)
    assert px.check(k[1], y, 1, schedules=1).ok
    assert px.compile(k[1], y, 1, arch="sm_90a").spills == 0
