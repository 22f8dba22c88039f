"""The cluster's registers and barriers."""

from __future__ import annotations

import phalanx as px
from cuda_text import body, compiles, module_of
from front import array
from phalanx.ir.types import i32


@px.kernel(cluster=(2, 2))
def who(Y):
    b = px.block_id(0)
    px.store(Y[b, 0], px.cluster.rank())
    px.store(Y[b, 1], px.cluster.rank(1))
    px.store(Y[b, 2], px.cluster.rank(2))
    px.store(Y[b, 3], px.cluster.id())
    px.store(Y[b, 4], px.cluster.id(0))
    px.store(Y[b, 5], px.cluster.size())
    px.cluster.arrive(relaxed=True)
    px.cluster.wait()
    px.cluster.sync()


def test_ranks_ids_and_barriers() -> None:
    types = (array(2, i32),)
    text = body(module_of(who, types))
    assert "const int rank = ptx::cluster_ctarank();" in text
    assert "const int rank_y = ptx::cluster_ctaid_y();" in text
    assert "(int)blockIdx.x / 2" in text
    assert "cluster_ctaid_z" not in text  # one CTA deep: always 0
    arrivals = [line.strip() for line in text.splitlines() if "barrier_cluster_" in line]
    assert arrivals == [
        "ptx::barrier_cluster_arrive_relaxed_aligned();",
        "ptx::barrier_cluster_wait_acquire_aligned();",
        "ptx::barrier_cluster_arrive_release_aligned();",
        "ptx::barrier_cluster_wait_acquire_aligned();",
    ]
    compiles(who, types)
