"""Who takes part in a GEMM benchmark on our side: rungs of the ladder and the library's `matmul`."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from typing import Any, Protocol

from benchmarks import EXAMPLES
from phalanx.errors import Error
from phalanx.runtime.device.timing import Run
from phalanx.runtime.launch.dispatch import BoundLaunch

RUNGS = ("v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7")
LIBRARY = "matmul"
OURS = (*RUNGS, LIBRARY)


class Contender(Protocol):
    """A way to compute C = A @ B.T."""

    name: str

    def fits(self, m: int, n: int, k: int) -> bool:
        """Whether it can compute that shape."""

    def launch(self, a: Any, b: Any, c: Any) -> Run:
        """A function that computes c on the GPU; the choice of a configuration is made here, not in it."""

    def watched(self, a: Any, b: Any, c: Any) -> Run | None:
        """The same with bounded waits, for a first run that must not hang; None where there is no such thing."""


class Missing(Exception):
    """A contender is not installed here; the text says what is missing."""


LADDER = EXAMPLES / "gemm"


class Rung:
    """A rung of the ladder, with constants of its own: `v6`, or `v6:STAGES=3,GROUP=4`."""

    def __init__(self, text: str) -> None:
        self.name = text
        rung, _, settings = text.partition(":")
        try:
            self.constants = {name: int(value) for name, value in (p.split("=") for p in settings.split(",") if p)}
        except ValueError:
            raise Error(
                f"the rung {text!r} has constants that can't be read",
                remedy="write v6:STAGES=3,GROUP=4",
            ) from None
        if rung not in RUNGS:
            raise Error(
                f"there is no contender {rung!r}",
                remedy=f"the rungs are {', '.join(RUNGS)}, the library's function is {LIBRARY}",
            )
        for path in (EXAMPLES, LADDER):
            if str(path) not in sys.path:
                sys.path.insert(0, str(path))
        self.module = importlib.import_module(rung)

    def fits(self, m: int, n: int, k: int) -> bool:
        """Every rung runs every shape."""
        return True

    def bound(self, m: int, n: int, k: int) -> BoundLaunch:
        """The rung's kernel with the grid of this shape."""
        return self.module.launch(m, n, k, **self.constants)

    def launch(self, a: Any, b: Any, c: Any) -> Run:
        """A function that runs the product once."""
        bound = self.bound(a.shape[0], b.shape[0], a.shape[1])
        return lambda: bound(a, b, c, **self.constants)

    def watched(self, a: Any, b: Any, c: Any) -> Run | None:
        """The same with waits that give up, so that a hang becomes an error."""
        bound = self.bound(a.shape[0], b.shape[0], a.shape[1])
        kernel = BoundLaunch(dataclasses.replace(bound.kernel, watchdog=True), bound.grid)
        return lambda: kernel(a, b, c, **self.constants)


class Library:
    """`px.kernels.matmul`, as users call it."""

    name = LIBRARY

    def __init__(self) -> None:
        from phalanx import kernels

        self.function = kernels.matmul

    def fits(self, m: int, n: int, k: int) -> bool:
        """The library runs every shape."""
        return True

    def launch(self, a: Any, b: Any, c: Any) -> Run:
        """A function that runs the product once."""
        function, transposed = self.function, b.T
        return lambda: function(a, transposed, out=c)

    def watched(self, a: Any, b: Any, c: Any) -> Run | None:
        """The same with waits that give up, so that a hang becomes an error."""
        from phalanx.runtime.launch.watchdog import bounded_waits

        plain = self.launch(a, b, c)

        def run() -> None:
            with bounded_waits():
                plain()

        return run


def ours(text: str) -> Contender:
    """A contender of our side by its name."""
    return Library() if text == LIBRARY else Rung(text)
