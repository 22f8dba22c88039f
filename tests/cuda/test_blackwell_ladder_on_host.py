"""The text of every rung for Blackwell on the CPU: what the compiler wrote computes what NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from examples.blackwell import RUNGS, case
from fuzz.host import HostCase, run_batch
from phalanx.runtime.launch.specialise import normalise_grid
from support.host_cuda import COMPILER, MISSING, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

LAUNCHES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    *((rung, (200, 328, 104), {}) for rung in RUNGS[:6]),
    *(("v6", (300, 264, 136), {"CM": height, "CN": width}) for height, width in ((1, 1), (1, 2), (2, 1), (2, 2))),
    *(("v7", (300, 264, 288), {"CM": height, "CN": width}) for height, width in ((1, 1), (1, 2), (2, 1), (2, 2))),
    *(("v7", (300, 264, 544), {"make": "nvfp4", "CM": height, "CN": width}) for height, width in ((1, 1), (1, 2), (2, 1))),
]


SOME = [LAUNCHES[n] for n in (0, 4, 5, 8, 10)]


@pytest.mark.parametrize("launches", [SOME, pytest.param(LAUNCHES, marks=pytest.mark.long)], ids=["some", "all"])
def test_the_text_of_every_rung_is_right(launches: list[tuple[str, tuple[int, ...], dict[str, Any]]]) -> None:
    from common import compare

    cases = [case(rung, *shape, **constants) for rung, shape, constants in launches]
    hosts = []
    for number, made in enumerate(cases):
        kernel = made.launch.kernel
        grid = normalise_grid(kernel, made.launch.grid, kernel.bind_constants(made.constants))
        module = module_for(kernel, tuple(made.args), arch="sm_100a", **made.constants)
        hosts.append(HostCase(module, grid, [np.copy(arg) for arg in made.args], 1 + number))
    for launch, made, result in zip(launches, cases, run_batch(hosts), strict=True):
        assert result.failure is None, f"{launch}\n{result.failure}"
        for position, want in made.expected.items():
            compare(result.args[position], want, made.tolerance)
