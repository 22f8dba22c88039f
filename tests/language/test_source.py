"""Reading functions from their source: indentation, comments, wide characters, places outside kernels."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import linecache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.language.reader.source import is_same, parse_function, read_source


def location_of(error: px.Error) -> str:
    """The part of the source line that the carets are under."""
    place = error.location
    return place.text[place.column : place.end_column]


def test_a_comment_at_the_margin_of_an_indented_kernel() -> None:
    @px.kernel
    def commented(OUT):
        x = 1
# not indented at all
        px.store(OUT[0], x + 1)

    out = np.zeros(1, np.int32)
    commented[1](out)
    assert out[0] == 2


def test_strings_over_several_lines() -> None:
    @px.kernel
    def documented(OUT):
        """First line
of a docstring at the margin.
        """
        px.store(OUT[0], 3)

    out = np.zeros(1, np.int32)
    documented[1](out)
    assert out[0] == 3


def test_columns_count_characters() -> None:
    @px.kernel
    def wide(OUT):
        px.print("größe 日本", unknown_name)  # noqa: F821

    with pytest.raises(px.Error) as caught:
        wide[1](np.zeros(1))
    assert location_of(caught.value) == "unknown_name"
    line, carets = str(caught.value).splitlines()[3:5]
    wide_characters = 2
    assert carets.index("^") == line.index("unknown_name") + wide_characters


def test_tabs_are_expanded_under_the_carets() -> None:
    text = "@px.kernel\ndef tabbed(OUT):\n\tpx.store(OUT[0],\tmissing)\n"
    node = parse_function(text.splitlines(keepends=True))
    assert node is not None and node.lineno == 2


def test_lines_are_those_of_the_file() -> None:
    @px.func
    def helper(x):
        return x + nothing_here  # noqa: F821

    @px.kernel
    def caller(OUT):
        px.store(OUT[0], helper(1))

    with pytest.raises(px.Error) as caught:
        caller[1](np.zeros(1))
    _, first = inspect.getsourcelines(helper.fn)
    assert caught.value.location.line == first + 2
    assert caught.value.location.file == __file__
    assert caught.value.location.caller is not None
    assert "helper(1)" in caught.value.location.caller.text


def test_the_location_of_a_kernel_is_its_def() -> None:
    @px.kernel(
        warps=2,
    )
    def spread(
        OUT,
    ):
        pass

    assert spread.location.text.strip() == "def spread("
    assert isinstance(read_source(spread.fn).node, ast.FunctionDef)


def test_functions_without_source() -> None:
    names: dict[str, object] = {"px": px}
    exec(compile("def made(OUT):\n    pass\n", "<made>", "exec"), names)
    kernel = px.kernel(names["made"])
    with pytest.raises(px.Error, match="the source of 'made' is not available"):
        kernel[1](np.zeros(1))


def test_mistakes_outside_kernels_name_the_callers_line() -> None:
    with pytest.raises(px.Error, match="called outside a kernel") as caught:
        px.load(np.zeros(3))
    assert caught.value.location.file == __file__
    assert "px.load(np.zeros(3))" in caught.value.location.text


KERNEL = "import phalanx as px\n\n\n@px.kernel\ndef one(OUT):\n    px.store(OUT[0], helper(NUMBER))\n"
HELPER = "\n\n@px.func\ndef helper(x):\n    return x + 1\n"


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_that_changes_after_its_import(tmp_path: Path) -> None:
    """What runs is what was imported, whatever stands in the file by the time of the first launch."""
    path = tmp_path / "edited.py"
    path.write_text(KERNEL.replace("NUMBER", "41") + HELPER)
    module = imported(path)
    path.write_text("# another line\n" + KERNEL.replace("NUMBER", "7") + HELPER.replace("x + 1", "x - 1"))
    linecache.checkcache(str(path))
    out = np.zeros(1, np.int32)
    module.one[1](out)
    assert out[0] == 42
    assert module.one.location.text == "def one(OUT):\n" and module.one.location.line == 5

    path.unlink()
    again = imported_text(tmp_path / "gone.py", KERNEL.replace("NUMBER", "1") + HELPER)
    again.one[1](out)
    assert out[0] == 2


def imported_text(path: Path, text: str) -> Any:
    path.write_text(text)
    module = imported(path)
    path.unlink()
    return module


def test_a_function_that_becomes_a_kernel_after_its_file_changed(tmp_path: Path) -> None:
    path = tmp_path / "late.py"
    plain = "import phalanx as px\n\ndef one(OUT):\n    px.store(OUT[0], 1)\n\ndef two(OUT):\n    px.store(OUT[0], 2)\n"
    path.write_text(plain)
    module = imported(path)
    path.write_text(plain.replace("OUT[0], 1", "OUT[0], 5"))
    with pytest.raises(px.Error, match="is not 'one' as it was imported") as caught:
        px.kernel(module.one)[1](np.zeros(1, np.int32))
    assert caught.value.location.line == 3 and "import it again" in (caught.value.remedy or "")
    path.write_text("import phalanx as px\n\ndef two(OUT):\n    px.store(OUT[0], 2)\n")
    with pytest.raises(px.Error, match="is not 'two' as it was imported"):
        px.kernel(module.two)[1](np.zeros(1, np.int32))


def test_text_that_only_linecache_has() -> None:
    """As notebooks and doctests define functions: their lines are in `linecache`, not in a file."""
    text = "def cell(OUT):\n    px.store(OUT[0], 6)\n"
    linecache.cache["<cell 3>"] = (len(text), None, text.splitlines(keepends=True), "<cell 3>")
    names: dict[str, Any] = {"px": px}
    exec(compile(text, "<cell 3>", "exec"), names)
    out = np.zeros(1, np.int32)
    px.kernel(names["cell"])[1](out)
    assert out[0] == 6


def test_closures_private_names_and_assertions_are_what_was_imported() -> None:
    offset = 3

    @px.struct
    class Counter:
        __hidden: int = 4

        def total(self):
            return self.__hidden + offset

    @px.kernel
    def closed(OUT):
        assert offset == 3, "a message"
        px.store(OUT[0], offset)

    out = np.zeros(1, np.int32)
    closed[1](out)
    assert out[0] == 3
    assert is_same(read_source(Counter.methods["total"]).node, Counter.methods["total"])
