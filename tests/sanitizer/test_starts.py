"""A peer's memory before the peer has started, and CTAs that share a copy but not its region."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.core import Block
from phalanx.ir.ops.cluster import ClusterSync
from phalanx.runtime.launch.specialise import read_arguments, specialise
from phalanx.sanitizer.runs import run_checked
from phalanx.sim.scheduler import Schedule
from sanitizer.planted import array, cases, planted

X, Y = array(64, 64), array(64, 64)
TWO = dict(grid=2, args=(X, Y))


@px.kernel(warps=2, cluster=2)
def stores_into_a_peer(X, Y, *, ROLE=False, OWN=None):
    """Nothing comes before the store; with OWN a cluster barrier of the kernel's own, in one piece or in two."""
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    x = px.load(X[rank, 0:64])
    if OWN == "sync":
        px.cluster.sync()
    if OWN == "halves":
        px.cluster.arrive(relaxed=True)
        px.cluster.wait()
    if ROLE:
        with px.warps(0, 1):
            px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))
    else:
        px.store(s.at(rank ^ 1), x)
    px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(s))


def prepared(**constants):
    return specialise(stores_into_a_peer, read_arguments(stores_into_a_peer, (X, Y)),
                      stores_into_a_peer.bind_constants(constants)).prepared


@pytest.mark.parametrize("role", [False, True])
def test_the_compiler_waits_for_the_peers_to_start(role):
    assert px.check(stores_into_a_peer[2], X, Y, ROLE=role).ok
    first, *rest = prepared(ROLE=role).body.ops
    assert isinstance(first, ClusterSync) and first.relaxed and first.reason.startswith("entry")
    without = dataclasses.replace(prepared(ROLE=role), body=Block(tuple(rest)))
    (finding,) = run_checked(without, (2, 1, 1), [X, Y], Schedule("late"), quiet=True)
    assert finding.kind == "race"
    assert "may not have started" in finding.message


@pytest.mark.parametrize("own", ["sync", "halves"])
def test_a_barrier_of_the_kernel_is_enough(own):
    assert px.check(stores_into_a_peer[2], X, Y, OWN=own).ok
    assert not any(getattr(op, "reason", "").startswith("entry") for op in prepared(OWN=own).walk())


@planted("region-mismatch", **TWO)
@px.kernel(warps=1, cluster=2)
def shares_a_load_of_two_regions(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((8, 32), X.dtype)
    bar = px.barrier()
    row = rank * 8 if BUG else 0
    with bar.transaction():
        px.cluster.load(X[row:row + 8, 0:32], s, bar, ctas=3)  # bug, other
    bar.wait(0)
    px.store(Y[rank * 8:rank * 8 + 8, 0:32], px.load(s))


@planted("region-mismatch", **TWO)
@px.kernel(warps=1, cluster=2)
def receives_another_tile_than_it_names(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((8, 32), X.dtype)
    bar = px.barrier(2)
    for step in range(2):
        column = 32 * step if not BUG or rank == 0 else 32 * (1 - step)
        with bar[step].transaction():
            px.cluster.copy(X[0:8, column:column + 32], s, bar[step], mask=3)  # bug, other
        bar[step].wait(0)
        px.store(Y[rank * 8:rank * 8 + 8, 32 * step:32 * step + 32], px.load(s))
        px.cluster.sync()


@planted("region-mismatch", **TWO)
@px.kernel(warps=1, cluster=2)
def shares_with_one_who_does_not_come(X, Y, *, BUG):
    """Only a run knows the mask, and who comes: CTA 1 has what it waits for, but takes no part."""
    rank = px.cluster.rank()
    s = px.shared((8, 32), X.dtype)
    bar = px.barrier(count=1)
    above = X[0, 0] < X[0, 1]
    bar.arrive_and_expect_tx(s.nbytes)
    px.cluster.sync()
    if (rank == 0) & above | (BUG == 0):
        px.cluster.copy(X[0:8, 0:32], s, bar, mask=px.where(above, 3, 1 << rank))  # bug, other
    bar.wait(0)


@planted("count-mismatch", **TWO)
@px.kernel(warps=1, cluster=2)
def says_that_three_share(X, Y, *, BUG):
    s = px.shared((12, 32), X.dtype)
    bar = px.barrier()
    both = px.where(X[0, 0] < X[0, 1], 3, 1)
    with bar.transaction():
        px.cluster.load(X[0:12, 0:32], s, bar, ctas=both, count=3 if BUG else 2)  # bug, other
    bar.wait(0)


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_both_ctas_are_named():
    case = next(case for case in cases(__name__) if case.kernel.name == "shares_a_load_of_two_regions")
    (finding,) = case.check(True).findings
    assert "CTA 0 and CTA 1 share a copy of X, but name different regions" in finding.message
    assert "[0, 0]" in finding.message and "[8, 0]" in finding.message


@px.kernel(warps=1, cluster=4)
def masks_of_a_launch(X, M, *, WAIT=True):
    s, bar = px.shared((8, 32), X.dtype), px.barrier(count=1)
    bar.arrive_and_expect_tx(s.nbytes)
    px.cluster.sync()
    px.cluster.copy(X[0:8, 0:32], s, bar, mask=M[px.cluster.rank()])
    if WAIT:
        bar.wait(0)


@pytest.mark.parametrize(("masks", "message"), [
    ((3, 3, 12, 12), ""),
    ((3, 3, 12, 1), "CTA 2 shares a copy of X by the mask 0b1100, CTA 3 of that mask names 0b1"),
    ((3, 1, 12, 12), "CTA 0 shares a copy of X by the mask 0b11, CTA 1 of that mask names 0b1"),
    ((2, 1, 7, 7), "CTA 2 shares a copy of X by the mask 0b111, CTA 0 of that mask names 0b10"),
])
def test_masks_that_only_a_launch_knows(masks: tuple[int, ...], message: str) -> None:
    launch = masks_of_a_launch[4]
    if not message:
        launch(X, np.array(masks, np.int32))
        assert px.check(launch, X, np.array(masks, np.int32)).ok
        return
    with pytest.raises(px.Error) as error:
        launch(X, np.array(masks, np.int32))
    assert error.value.kind == "region-mismatch" and error.value.message == message


def test_a_copy_that_is_shared_with_one_who_waits_for_ever() -> None:
    """CTA 0 is not the lowest of the mask that it names alone: nobody fetches for it, which its mask explains."""
    with pytest.raises(px.Error) as error:
        masks_of_a_launch[4](X, np.array([1, 3, 12, 12], np.int32))
    assert error.value.message == "CTA 1 shares a copy of X by the mask 0b11, CTA 0 of that mask names 0b1"
