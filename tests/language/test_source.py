"""Reading functions from their source: indentation, comments, wide characters, places outside kernels."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest

import phalanx as px
from phalanx.language.source import parse_function, read_source


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
    exec("def made(OUT):\n    pass\n", names)
    kernel = px.kernel(names["made"])
    with pytest.raises(px.Error, match="the source of 'made' is not available"):
        kernel[1](np.zeros(1))


def test_mistakes_outside_kernels_name_the_callers_line() -> None:
    with pytest.raises(px.Error, match="called outside a kernel") as caught:
        px.load(np.zeros(3))
    assert caught.value.location.file == __file__
    assert "px.load(np.zeros(3))" in caught.value.location.text
