"""What a deadlock says: the whole text."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from sim.build import Build, ref, ring_copy


def deadlock(function, grid: int, args: list[np.ndarray], **options) -> Error:
    with pytest.raises(Error) as error:
        simulate(function, grid, args, **options)
    assert error.value.kind == "deadlock"
    return error.value


def test_the_whole_report_of_a_ring_that_is_never_emptied():
    x = np.zeros((16, 64), np.float32)
    error = deadlock(ring_copy(2, 16, arrive_empty=False), 1, [x, x.copy()])
    assert str(error) == "\n".join([
        "deadlock: no agent can go on: 2 agents wait for what never comes",
        "   --> kernel.py:16:1",
        "   |",
        "16 | line 16",
        "   | ^^^^",
        "  cluster 0  CTA 0  producer (warp 0)  kernel.py:16  waits for empty[0], parity 0  "
        "phase 0: 1 of 1 arrivals pending, 0 bytes outstanding; short of 1 arrival",
        "  cluster 0  CTA 0  consumer (warp 1)  kernel.py:25  waits for full[0], parity 1   "
        "phase 1: 1 of 1 arrivals pending, 0 bytes outstanding; short of 1 arrival",
        "  = help: let every wait have its arrivals, its bytes and its parity; a ring flips the parity when it wraps",
    ])


@pytest.mark.parametrize("schedule", [Schedule("late"), Schedule("early"), Schedule("random", 1)], ids=str)
@pytest.mark.parametrize(("expected", "missing"), [
    (1025, "0 of 1 arrivals pending, 1 bytes outstanding; short of 1 bytes"),
    (1000, "0 of 1 arrivals pending, -24 bytes outstanding; 24 bytes landed that nobody expected"),
])
def test_bytes_that_do_not_balance_are_named(schedule, expected, missing):
    x = np.zeros((16, 16), np.float32)
    error = deadlock(ring_copy(2, 16, expected=expected), 1, [x, x.copy()], schedule=schedule)
    assert error.details.splitlines() == [
        f"cluster 0  CTA 0  consumer (warp 1)  kernel.py:25  waits for full[0], parity 0  phase 0: {missing}"
    ]


def test_a_wait_that_comes_a_round_late():
    b = Build()
    bar = b.barrier()
    b.arrive(ref(bar))
    b.arrive(ref(bar))
    b.wait(ref(bar), 0)
    error = deadlock(b.done(), 1, [])
    assert error.details == (
        "cluster 0  CTA 0  all warps  kernel.py:4  waits for bar, parity 0  phase 2: 1 of 1 arrivals pending, "
        "0 bytes outstanding; short of 1 arrival; phase 0 of the same parity is over: "
        "the wait may have come a round late"
    )
    assert error.location.line == 4


def test_a_cluster_barrier_that_is_not_complete():
    b = Build(warps=4, cluster=(2, 1, 1))
    bar = b.barrier()
    with b.if_(b.compare("eq", b.rank(), 0)):
        b.wait(ref(bar), 0)
    b.cluster_sync()
    error = deadlock(b.done(), 2, [])
    assert error.details.splitlines() == [
        "cluster 0  CTA 0  all warps  kernel.py:5  waits for bar, parity 0  "
        "phase 0: 1 of 1 arrivals pending, 0 bytes outstanding; short of 1 arrival",
        "cluster 0  CTA 1  all warps  kernel.py:6  waits for the cluster    "
        "phase 0: 4 of 8 warps have arrived; short of 4 warps",
    ]


def test_a_cluster_barrier_that_a_role_alone_arrives_at():
    b = Build(warps=4)
    with b.roles() as regions:
        with b.role(regions, "half", 0, 2):
            b.cluster_sync()
    error = deadlock(b.done(), 1, [])
    assert "half (warps 0-1)" in error.details and "short of 2 warps" in error.details


def test_many_blocked_agents_are_cut_short():
    b = Build(warps=3, cluster=(16, 1, 1))
    bar = b.barrier()
    with b.roles() as regions:
        for number in range(3):
            with b.role(regions, f"role{number}", number):
                b.wait(ref(bar), 0)
    error = deadlock(b.done(), 16, [])
    assert error.message == "no agent can go on: 48 agents wait for what never comes"
    assert error.details.splitlines()[-1] == "and 16 more"
