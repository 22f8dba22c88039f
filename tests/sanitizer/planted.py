"""Kernels with exactly one planted bug, each with its fixed twin.

A case is a kernel with a constant `BUG`: true plants the bug, false is the twin. The line where the finding must show
is marked `# bug`, the one it conflicts with `# other` (one line may carry both: `# bug, other`). Example::

    @planted("race", grid=1, args=(array(64), array(64)))
    @px.kernel(warps=2)
    def reads_too_early(X, Y, *, BUG):
        ...

    @pytest.mark.parametrize("case", cases(__name__), ids=str)
    def test_planted(case):
        case.verify()
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import phalanx as px
from phalanx.sanitizer.findings import Finding
from phalanx.sanitizer.report import Report

CASES: dict[str, list[Case]] = {}
"""All cases that were defined so far, by module."""


@dataclass(frozen=True)
class Case:
    """A kernel with its bug, a launch, and the finding that is expected: its kind and, by the marks, its lines."""

    kernel: Any
    kind: str
    grid: Any
    args: tuple[np.ndarray | int | float, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    schedules: int = 3
    strict: bool = False
    twin_strict: bool | None = None

    def __str__(self) -> str:
        return self.kernel.name

    def check(self, bug: bool, **options: Any) -> Report:
        """Checks the kernel with its bug, or its twin."""
        strict = self.strict if bug or self.twin_strict is None else self.twin_strict
        options = {"schedules": self.schedules, "strict": strict, **options}
        return px.check(self.kernel[self.grid], *self.args, BUG=bug, **self.constants, **options)

    def verify(self) -> None:
        """The bug is reported, once, with the right kind and lines; the twin is clean."""
        report = self.check(True)
        only(report, self.kind, line_of(self.kernel, "bug"), line_of(self.kernel, "other", required=False))
        twin = self.check(False)
        assert twin.ok, f"the twin is not clean:\n{twin}"


def only(report: Report, kind: str, line: int, other: int | None) -> Finding:
    """The report's one finding, with that kind and those lines."""
    got = [(f.kind, f.location.line, f.other.line if f.other else None) for f in report.findings]
    assert got == [(kind, line, other)], f"expected {(kind, line, other)}, got {got}\n{report}"
    finding = report.findings[0]
    assert finding.message
    assert finding.agents or not finding.schedule  # before any run there are none
    assert len(str(finding).splitlines()) < 30
    return finding


def planted(
    kind: str, *, grid: Any = 1, args: tuple[Any, ...] = (), schedules: int = 3, strict: bool = False,
    twin_strict: bool | None = None, **constants: Any,
) -> Callable[[Any], Any]:
    """Declares a kernel (with the constant `BUG`) as a case of its module."""

    def register(kernel: Any) -> Any:
        case = Case(kernel, kind, grid, args, constants, schedules, strict, twin_strict)
        CASES.setdefault(kernel.fn.__module__, []).append(case)
        return kernel

    return register


def cases(module: str) -> list[Case]:
    """The cases of a module, for `pytest.mark.parametrize`."""
    return CASES[module]


def line_of(kernel: Any, mark: str, *, required: bool = True) -> int | None:
    """The number of the line of the kernel's source that is marked `# mark`."""
    source, first = inspect.getsourcelines(kernel.fn)
    found = [first + i for i, text in enumerate(source) if re.search(rf"#[\w ,]*\b{mark}\b", text)]
    assert len(found) == 1 or (not found and not required), f"{kernel.name}: {len(found)} lines are marked '{mark}'"
    return found[0] if found else None


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Numbers that differ from each other, as an argument."""
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
