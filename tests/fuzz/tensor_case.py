"""A drawn kernel for Blackwell's tensor cores: its text, its launch, and what NumPy says that it leaves in its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz.choreo_kernel import load
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Function
from phalanx.ir.types import FROM_NUMPY
from phalanx.runtime.device.packed import Packed
from support.front import prepared
from support.host_cuda import type_of

ARCH = "sm_100a"


def as_given(value: np.ndarray) -> Any:
    """An argument as a user passes it."""
    dtype = FROM_NUMPY[value.dtype]
    return px.packed(value, dtype, dense=True) if dtype.bits == 6 else value


@dataclass
class Case:
    """A kernel as text, with the arguments of one launch and the outputs by name."""

    seed: int
    text: str
    grid: int
    arguments: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    features: list[str]
    folder: Path
    refused: list[str] = field(default_factory=list)
    """What the language said of the kernels that were drawn before this one."""

    @cached_property
    def kernel(self) -> Any:
        return load(self.text, self.folder, f"tensor_{self.seed}_{len(self.refused)}")

    @cached_property
    def function(self) -> Function:
        """The kernel as the simulator gets it, prepared for the target."""
        return prepared(self.kernel, tuple(type_of(as_given(value)) for value in self.arguments.values()), arch_of(ARCH))

    @cached_property
    def module(self) -> Module:
        """Its text for the target."""
        return generate(lower(self.function, arch_of(ARCH)))

    def copies(self) -> list[np.ndarray]:
        """Arguments of a run, as NumPy arrays."""
        return [value.copy() for value in self.arguments.values()]

    def given(self) -> list[Any]:
        """The same as users pass them: elements of 6 bits are dense arrays'."""
        return [as_given(value) for value in self.copies()]

    def differences(self, results: Sequence[Any]) -> str:
        """Which outputs are not what they should be; the sign of a zero does not count."""
        found = []
        for name, given in zip(self.arguments, results, strict=True):
            got = given.data if isinstance(given, Packed) else given
            want = self.expected.get(name, self.arguments[name])
            mine, wanted = got.astype(np.float32), want.astype(np.float32)
            if not np.array_equal(mine, wanted):
                places = np.argwhere(mine != wanted)
                first = tuple(int(i) for i in places[0])
                found.append(f"{name}: {len(places)} of {got.size} differ, at {first} {mine[first]}, not {wanted[first]}")
        return "; ".join(found)
