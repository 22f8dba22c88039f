"""A launch whose kernel is mutated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mutation.mutation import Mutant, Verdict, judge, mutants, outcome_of
from phalanx.ir.core import Function
from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, specialise


@dataclass
class Case:
    """A launch to mutate."""

    name: str
    bound: Any
    args: list[Any]
    constants: dict[str, Any]

    @cached_property
    def function(self) -> Function:
        """The prepared kernel."""
        kernel = self.bound.kernel
        arguments = read_arguments(kernel, tuple(self.args))
        return specialise(kernel, arguments, kernel.bind_constants(self.constants)).prepared

    @cached_property
    def grid(self) -> tuple[int, int, int]:
        kernel = self.bound.kernel
        return normalise_grid(kernel, self.bound.grid, kernel.bind_constants(self.constants))

    @property
    def values(self) -> list[Any]:
        """The arguments of the prepared kernel, which was read with those that are None as constants."""
        return [arg for arg in self.args if arg is not None]

    @cached_property
    def outcome(self) -> bytes:
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
        return judge(mutant, self.outcome, self.grid, self.values, **options)
