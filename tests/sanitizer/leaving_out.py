"""Kernels without one of the instructions that the compiler writes: what users can't leave out themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import phalanx as px
from phalanx.ir.core import Function, Op, rewrite, substitute
from phalanx.sanitizer.findings import Finding
from phalanx.sanitizer.runs import copies_of, run_checked, schedules_of
from support.front import array, prepared


def function_of(kernel: Any, args: tuple[np.ndarray, ...], **constants: Any) -> Function:
    """The kernel as the simulator gets it, for these arguments."""
    names = {"float32": px.f32, "bfloat16": px.bf16}
    return prepared(kernel, tuple(array(a.ndim, names[str(a.dtype)]) for a in args), **constants)


def leave_out(function: Function, which: Callable[[Op], bool]) -> Function:
    """`function` without the instructions that `which` picks; what they hand on is what they were given."""
    handed: dict[Any, Any] = {}
    left: list[Op] = []

    def visit(op: Op) -> list[Op] | None:
        if which(op):
            left.append(op)
            handed.update((new, old) for old, new in op.updates())
            return []
        return [substitute(op, handed)]

    body = rewrite(function.body, visit)
    assert left, "nothing was left out"
    return dataclasses.replace(function, body=body)


def called(mnemonic: str, line: int | None = None) -> Callable[[Op], bool]:
    """Picks the instructions of that name, of one line of the source or of all."""
    return lambda op: op.mnemonic == mnemonic and (line is None or op.loc.line == line)


def findings_of(function: Function, grid: int, args: tuple[np.ndarray, ...], **options: Any) -> list[Finding]:
    """What the first of the schedules that finds something finds."""
    for schedule in schedules_of(3, 0):
        found = run_checked(function, (grid, 1, 1), copies_of(list(args)), schedule, **options)
        if found:
            return found
    return []
