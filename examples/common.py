"""What the examples share: a case to run, and how it is verified in the simulator and on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    """A launch with its arguments, and what must be in the outputs afterwards.

    `tolerance` is relative to the largest expected value; 0 asks for equality bit by bit.
    """

    launch: Any
    args: list[Any]
    expected: dict[int, np.ndarray]
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0

    def run(self, move: Callable[[np.ndarray], Any] = np.copy, back: Callable[[Any], np.ndarray] = np.asarray) -> None:
        """Runs it on copies of the arguments that `move` made, and compares the outputs."""
        args = [moved(a, move) for a in self.args]
        self.launch(*args, **self.constants)
        for position, want in self.expected.items():
            compare(back(args[position]), want, self.tolerance)


def moved(argument: Any, move: Callable[[np.ndarray], Any]) -> Any:
    """An argument of a launch where `move` puts arrays: packed ones by their bytes, all else as it is."""
    from phalanx.runtime.device.packed import Packed

    if isinstance(argument, Packed):
        return Packed(move(argument.data), argument.dtype, argument.dense)
    return move(argument) if isinstance(argument, np.ndarray) else argument


def checked(make: Callable[..., Case], **sizes: int) -> tuple[Any, list[Any], dict[str, Any]]:
    """What `@px.example` asks for: a launch, its arguments and constants."""
    case = make(np.random.default_rng(0), **sizes)
    return case.launch, case.args, case.constants


def compare(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Raises AssertionError with the first difference."""
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, got.dtype, want.shape, want.dtype)
    if tolerance == 0.0:
        different = np.ascontiguousarray(got).view(np.uint8) != np.ascontiguousarray(want).view(np.uint8)
        assert not different.any(), f"{different.sum()} bytes differ"
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    limit = tolerance * max(1e-30, float(np.abs(b).max(initial=0.0)))
    error = np.abs(a - b)
    assert np.isfinite(a).all() and (error <= limit).all(), f"largest error {error.max()}, allowed {limit}"


def gpu_mover() -> tuple[Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]] | None:
    """Functions to and from the GPU through torch or CuPy; None where there is no GPU."""
    from phalanx.runtime.device.driver import has_gpu

    if not has_gpu():
        return None
    try:
        import cupy
    except ImportError:
        cupy = None
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        from phalanx.runtime.device.host_copies import to_host

        def move(x: Any) -> Any:
            if x.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
                carrier = np.int16 if x.dtype.itemsize == 2 else np.uint8
                return torch.from_numpy(np.ascontiguousarray(x).view(carrier)).cuda().view(getattr(torch, x.dtype.name))
            return torch.from_numpy(np.array(x)).cuda()

        return move, to_host
    if cupy is not None:
        return cupy.asarray, cupy.asnumpy
    return None


def main(make: Callable[[np.random.Generator], Case]) -> None:
    """Runs an example: always in the simulator, on the GPU too where there is one."""
    case = make(np.random.default_rng(0))
    case.run()
    print(f"{sys.argv[0]}: right in the simulator")
    mover = gpu_mover()
    if mover is not None:
        case.run(*mover)
        print(f"{sys.argv[0]}: right on the GPU")
