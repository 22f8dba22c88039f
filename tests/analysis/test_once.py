"""Answers about a function are kept as long as it lives."""

from __future__ import annotations

import gc
import weakref

from phalanx.analysis.divisibility import find_divisibility
from phalanx.analysis.once import once
from phalanx.analysis.signs import find_signs
from phalanx.ir.core import Block, Function


def function() -> Function:
    return Function("kernel", (), (), 1, (1, 1, 1), True, (), (), Block())


def test_each_function_is_asked_once() -> None:
    asked = []

    @once
    def find(function: Function) -> list[str]:
        """What it finds."""
        asked.append(function)
        return [function.name]

    first, second = function(), function()
    assert find(first) is find(first) and find(second) is not find(first)
    assert asked == [first, second]
    assert find.__doc__ == "What it finds."


def test_answers_do_not_keep_functions_alive() -> None:
    gone = function()
    find_divisibility(gone), find_signs(gone)
    watch = weakref.ref(gone)
    del gone
    gc.collect()
    assert watch() is None
