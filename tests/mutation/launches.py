"""A launch whose kernel is mutated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from mutation.mutation import Mutant, Verdict, judge, mutants, outcome_of
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Function
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.specialise import Specialisation, normalise_grid, read_arguments, specialise


@dataclass
class Case:
    """A launch to mutate."""

    name: str
    bound: Any
    args: list[Any]
    constants: dict[str, Any]
    clusters: int | None = None
    """As many run at once, in a kernel that asks for further ones; None: as the simulator has it."""
    schedules: int = 3
    """Under as many orders of events each mutant is checked: more where two roles end in either order."""
    arch: str | None = None
    """The target; None: the first that has all of the kernel's instructions."""

    @cached_property
    def specialisation(self) -> Specialisation:
        """The kernel that was read for these arguments."""
        kernel = self.bound.kernel
        return specialise(kernel, read_arguments(kernel, tuple(self.args)), kernel.bind_constants(self.constants))

    @cached_property
    def function(self) -> Function:
        """The prepared kernel."""
        found = self.specialisation
        return found.prepared if self.arch is None else found.prepared_for(arch_of(self.arch))

    @cached_property
    def grid(self) -> tuple[int, int, int]:
        kernel, grid = self.bound.kernel, self.bound.grid
        if leaves_grid(grid):
            arguments = read_arguments(kernel, tuple(self.args))
            return self.specialisation.fitting(grid, arguments, numbers=True).in_simulator()
        return normalise_grid(kernel, grid, kernel.bind_constants(self.constants))

    @property
    def values(self) -> list[Any]:
        """The arguments of the prepared kernel, which was read with those that are None as constants."""
        return [arg for arg in self.args if arg is not None]

    @cached_property
    def outcome(self) -> bytes:
        with self.device():
            return outcome_of(self.function, self.grid, self.values)

    @cached_property
    def mutants(self) -> list[Mutant]:
        return list(mutants(self.function))

    @cached_property
    def source_mutants(self) -> list[Mutant]:
        """Of the kernel as it was read: counts and bytes are worked out after the change."""
        kernel = self.bound.kernel
        arguments = read_arguments(kernel, tuple(self.args))
        return list(mutants(specialise(kernel, arguments, kernel.bind_constants(self.constants)).reading.function))

    def judge(self, mutant: Mutant, **options: Any) -> Verdict:
        outcome = self.outcome
        with self.device():
            return judge(mutant, outcome, self.grid, self.values, schedules=self.schedules, **options)

    @contextmanager
    def device(self) -> Iterator[None]:
        """A device that holds as many clusters as the case says."""
        with pytest.MonkeyPatch.context() as patch:
            if self.clusters is not None:
                patch.setenv("PHALANX_CLUSTERS", str(self.clusters))
            yield
