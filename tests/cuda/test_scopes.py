"""The PTX of signals between CTAs: cluster scope where ordinary stores cross, and nowhere else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phalanx as px
from examples.cases import random_case
from passes import test_scopes as kernels
from support.cluster_cases import case
from support.collective_cases import case as collective

SIGNAL = re.compile(
    r"\b((?:mbarrier\.(?!init)|fence\.(?!mbarrier_init)|st\.async|st\.shared::cluster|ld\.shared::cluster)[\w.:]*)"
)
SYNC = re.compile(r"\b(barrier\.cluster\.[\w.]*)")
X = np.zeros((64, 64), np.float32)
EXPECT, WAIT = "mbarrier.arrive.expect_tx.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"
REMOTE = "mbarrier.arrive.shared::cluster.b64"
RELEASE, ACQUIRE = (
    "mbarrier.arrive.release.cluster.shared::cluster.b64",
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
)


def ptx_of(launch: Any, args: list[Any], constants: dict[str, Any]) -> str:
    return px.compile(launch, *args, arch="sm_90a", **constants).ptx


def signals(launch: Any, args: list[Any], constants: dict[str, Any] | None = None) -> set[str]:
    return set(SIGNAL.findall(ptx_of(launch, args, constants or {})))


def of_case(name: str) -> set[str]:
    made = case(name, (4, 1, 1))
    return signals(made.kernel[made.grid], made.args, made.constants)


@pytest.mark.parametrize("name", ["multicast_copy", "pipe_copy"])
def test_a_multicast_pipeline_has_no_cluster_scope(name: str) -> None:
    made = random_case(name, 0)
    assert signals(made.launch, made.args, made.constants) == {EXPECT, WAIT, REMOTE}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["balanced", "lowest_fetches", "piped", "piped_2d"])
def test_collective_copies_have_no_cluster_scope(name: str) -> None:
    made = collective(name, (2, 2, 1))
    assert not {s for s in signals(made.kernel[made.grid], made.args, made.constants) if ".cluster." in s}


def test_a_bulk_push_is_ordered_by_its_barrier_alone() -> None:
    assert of_case("whole") == {"fence.proxy.async.shared::cta", EXPECT, WAIT}


def test_a_sender_that_arms_arrives_remotely() -> None:
    assert of_case("relay") == {
        "fence.proxy.async.shared::cta",
        "mbarrier.arrive.expect_tx.shared::cluster.b64",
        REMOTE,
        WAIT,
    }


def test_asynchronous_stores_are_ordered_by_their_barrier_alone() -> None:
    assert of_case("transposed") == {
        "fence.proxy.async.shared::cta",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32",
        EXPECT,
        WAIT,
    }


def test_ordinary_stores_are_fenced_credited_and_acquired() -> None:
    assert of_case("transposed_narrow") == {
        "fence.proxy.async.shared::cta",
        "st.shared::cluster.b16",
        "fence.acq_rel.cluster",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64",
        EXPECT,
        ACQUIRE,
    }


def test_stores_for_an_engine_pass_the_proxy() -> None:
    assert of_case("read_by_an_engine") == {
        "fence.proxy.async.shared::cta",
        "fence.proxy.async.shared::cluster",
        "st.shared::cluster.b32",
        "fence.acq_rel.cluster",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64",
        EXPECT,
        ACQUIRE,
    }


def test_stores_without_a_barrier_leave_it_to_the_cluster_barrier() -> None:
    assert of_case("no_barrier") == {"fence.proxy.async.shared::cta", "st.shared::cluster.v4.b32"}


def test_a_reduction_has_no_scope_and_no_release() -> None:
    made = case("softmax", (4, 1, 1))
    ptx = ptx_of(made.kernel[made.grid], made.args, made.constants)
    assert set(SIGNAL.findall(ptx)) == {EXPECT, WAIT, "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"}
    assert set(SYNC.findall(ptx)) == {"barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.wait.acquire.aligned"}


def test_a_store_to_a_peer_is_released_to_it_and_local_signals_stay_local() -> None:
    assert signals(kernels.push[2], [X]) == {
        "st.shared::cluster.v4.b32",
        RELEASE,
        ACQUIRE,
        "mbarrier.arrive.shared::cta.b64",
        WAIT,
    }


def test_what_a_peer_loads_is_released_to_it() -> None:
    assert signals(kernels.pull[2], [X, X.copy()]) == {"ld.shared::cluster.v4.b32", RELEASE, ACQUIRE}


def test_what_crosses_through_global_memory_is_released() -> None:
    assert signals(kernels.through_global[2], [X, X.copy()]) == {RELEASE, ACQUIRE}


def test_a_pipeline_before_the_store_stays_cheap() -> None:
    assert signals(kernels.store_after_the_pipeline[2], [X, X.copy()]) == {
        "st.shared::cluster.v4.b32",
        EXPECT,
        WAIT,
        REMOTE,
        RELEASE,
        ACQUIRE,
    }
