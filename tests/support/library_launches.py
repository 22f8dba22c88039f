"""What calls of the library launch: the kernels with their grids, arguments and constants, to be checked and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

import phalanx as px
from support.host_cuda import run_on_host


@dataclass
class LibraryLaunch:
    """One launch. `arguments` are those of the call itself: what the kernel writes is where the call wrote it."""

    kernel: Any
    grid: Any
    arguments: tuple[Any, ...]
    constants: dict[str, Any]

    def check(self, **options: Any) -> Any:
        """The report of `px.check`."""
        return px.check(self.kernel[self.grid], *self.arguments, **options, **self.constants)

    def compile(self, arch: str) -> Any:
        """The kernel for a target."""
        return px.compile(self.kernel[self.grid], *self.arguments, arch=arch, **self.constants)

    def on_host(self, arch: str = "sm_100a") -> None:
        """Runs the CUDA text on the CPU, in place."""
        run_on_host(self.kernel, self.grid, *self.arguments, arch=arch, **self.constants)


@contextmanager
def launches(
    *kernels: tuple[ModuleType, str], run: bool = True, arch: str | None = None, on_host: bool = False
) -> Iterator[list[LibraryLaunch]]:
    """What is launched inside of the kernels that these names of modules stand for; without `run` nothing else happens.

    `arch`: the simulator runs it as that target gets it, or with `on_host` the CPU runs that target's text.
    """
    named = {} if arch is None else {"arch": arch}
    found: list[LibraryLaunch] = []

    class Recorder:
        def __init__(self, kernel: Any) -> None:
            self.kernel = kernel

        def __getitem__(self, grid: Any) -> Callable[..., None]:
            def launch(*args: Any, **constants: Any) -> None:
                kept = {name: value for name, value in constants.items() if name != "arch"}
                found.append(LibraryLaunch(self.kernel, grid, tuple(self.kernel.spread(args)), kept))
                if on_host:
                    found[-1].on_host(**named)
                elif run:
                    self.kernel[grid](*args, **{**constants, **named})

            return launch

    patches = [patch.object(module, name, Recorder(getattr(module, name))) for module, name in kernels]
    for each in patches:
        each.start()
    try:
        yield found
    finally:
        for each in patches:
            each.stop()
