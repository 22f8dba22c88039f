"""Which registers, lanes and warps hold the bits of a coordinate, and what combining along it then exchanges."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.layouts.axes import Run, exchanged, families, is_ordered, runs_along
from phalanx.layouts.blocked import blocked
from phalanx.layouts.mma import wgmma_accumulator
from phalanx.layouts.registers import RegisterLayout


def test_runs_of_a_blocked_layout() -> None:
    layout = blocked((4096,), 4, 4)
    assert runs_along(layout, 0) == (
        Run("register", 0, (0, 1)), Run("lane", 2, (0, 1, 2, 3, 4)), Run("warp", 7, (0, 1)), Run("register", 9, (2, 3, 4)),
    )
    assert exchanged(layout, 0) == [(Run("lane", 2, (0, 1, 2, 3, 4)), 8), (Run("warp", 7, (0, 1)), 8)]


def test_warps_on_top_exchange_one_block_each() -> None:
    layout = blocked((4096,), 4, 4, None, 0, True)
    assert [run.kind for run in runs_along(layout, 0)] == ["register", "lane", "register", "warp"]
    assert [(run.kind, blocks) for run, blocks in exchanged(layout, 0)] == [("lane", 8), ("warp", 1)]


def test_lanes_stay_along_rows_while_threads_hold_neighbours_down_the_columns() -> None:
    """Four lanes read a row of 16; each thread has 32 neighbours of a column, then come 8 lanes, then warps."""
    layout = blocked((1024, 16), 4, 4, None, 0, True)
    assert runs_along(layout, 0) == (
        Run("register", 0, (2, 3, 4, 5, 6)), Run("lane", 5, (2, 3, 4)), Run("warp", 8, (0, 1)),
    )
    assert runs_along(layout, 1) == (Run("register", 0, (0, 1)), Run("lane", 2, (0, 1)))


@pytest.mark.parametrize("layout", [
    blocked((16, 64), 4, 4), blocked((24, 40), 6, 2, None, 1, True), blocked((3, 1000), 4, 1, (0, 1), 1, True),
    wgmma_accumulator(64, 96, 4), blocked((5, 6, 7), 2),
], ids=lambda layout: "x".join(map(str, layout.shape)))  # fmt: skip
def test_runs_cover_the_coordinate(layout: RegisterLayout) -> None:
    """A coordinate is the sum of what its runs contribute; families are in the order of the axis."""
    for axis in range(layout.rank):
        assert is_ordered(layout, axis)
        runs, total = runs_along(layout, axis), 0
        for run in runs:
            assert run.position == total
            total += len(run.bits)
        assert 1 << total == layout.linear.shape[axis]
        numbers = {"register": np.array(layout.live_registers())[:, None, None], "lane": np.arange(32)[None, :, None],
                   "warp": np.arange(layout.warps)[None, None, :]}  # fmt: skip
        found = np.zeros((layout.num_registers, 32, layout.warps), int)
        for run in runs:
            for place, bit in enumerate(run.bits):
                found = found + ((numbers[run.kind] >> bit & 1) << (run.position + place))
        assert np.array_equal(found, layout.coordinates[axis])
        keys = list(layout.live_registers())
        for run in runs:
            if run.kind == "register":
                grouped = families(keys, run)
                for members in grouped.values():
                    along = [layout.register_offset(member)[axis] for member in members]
                    assert along == sorted(along)
                keys = list(grouped)
