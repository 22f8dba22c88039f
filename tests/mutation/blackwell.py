"""Small launches of the rungs for Blackwell, for their mutants: rings wrap, those of accumulators and of answers, too.

There are four tiles for the one cluster that the simulated device holds, so that it asks four times. Pairs have 128 rows in
each CTA: of 64 rows no four warps take parts of the columns.
"""

from __future__ import annotations

from collections.abc import Callable

from examples.blackwell import case as rung_case
from mutation.launches import Case


def small(name: str, m: int, n: int, k: int, label: str = "", make: str = "example", **constants: int) -> Callable[[], Case]:
    def made() -> Case:
        case = rung_case(name, m, n, k, make=make, **constants)
        return Case(f"blackwell_{name}{label}", case.launch, case.args, case.constants, clusters=1)

    return made


PERSISTENT = {"BN": 32, "BK": 16, "STAGES": 2, "GROUP": 2}
IN_PARTS = {**PERSISTENT, "PART": 16}

BLACKWELL: dict[str, Callable[[], Case]] = {
    "blackwell_v0": small("v0", 64, 32, 48, BM=64, BN=32, BK=16),
    "blackwell_v1": small("v1", 64, 32, 80, BM=64, BN=32, BK=16, STAGES=3),
    "blackwell_v2": small("v2", 64, 64, 80, BM=64, BN=64, BK=16, STAGES=2),
    "blackwell_v3": small("v3", 64, 4 * 64, 32, BM=64, **{**PERSISTENT, "BN": 64}),
    "blackwell_v4": small("v4", 64, 4 * 32, 32, BM=64, **IN_PARTS),
    "blackwell_v5": small("v5", 256, 4 * 32, 32, **IN_PARTS),
    "blackwell_v6": small("v6", 256, 4 * 64, 32, **IN_PARTS),
    "blackwell_v6, pairs above each other": small("v6", 512, 4 * 32, 32, CM=2, CN=1, **IN_PARTS),
    "blackwell_v7": small("v7", 256, 4 * 128, 256, STAGES=2, GROUP=2, CN=1),
}
