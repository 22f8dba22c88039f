"""The cluster's registers and barriers; pushes, collective copies and reductions as text, compiled for both targets."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
import support.cluster_cases as cluster_cases
import support.collective_cases as collective_cases
from phalanx.ir.types import i32
from support.cuda_text import body, compiles, module_of
from support.front import array
from support.host_cuda import type_of

CASES = [(module, name) for module in (cluster_cases, collective_cases) for name in module.MAKERS]


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
    assert "const int rank_y = (int)((unsigned)ptx::cluster_ctarank() / 2u);" in text  # %cluster_ctaid costs a division
    assert "(int)blockIdx.x / 2" in text
    assert "cluster_ctaid" not in text and "rank_z" not in text  # one CTA deep: always 0
    arrivals = [line.strip() for line in text.splitlines() if "barrier_cluster_" in line]
    assert arrivals == [
        "ptx::barrier_cluster_arrive_relaxed_aligned();",
        "ptx::barrier_cluster_wait_acquire_aligned();",
        "ptx::barrier_cluster_arrive_release_aligned();",
        "ptx::barrier_cluster_wait_acquire_aligned();",
    ]
    compiles(who, types)


@pytest.mark.share(24)
@pytest.mark.parametrize(("module", "name"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_pushes_reductions_and_collective_copies_compile(module: Any, name: str) -> None:
    made = module.case(name, (4, 1, 1))
    compiles(made.kernel, tuple(map(type_of, made.args)), **made.constants)


def text_of(name: str, shape: tuple[int, int, int] = (4, 1, 1)) -> str:
    made = cluster_cases.case(name, shape)
    return body(module_of(made.kernel, tuple(map(type_of, made.args)), **made.constants))


def test_a_contiguous_push_is_one_copy_by_one_thread() -> None:
    text = text_of("whole")
    assert text.count("cp_async_bulk_shared_shared(") == 1
    assert (
        "ptx::cp_async_bulk_shared_shared(ptx::mapa_shared_cluster(inbox_addr, to), mine_addr, 4096, there_bar);"
        in text
    )


def test_many_rows_are_shared_out_over_the_lanes() -> None:
    text = text_of("parts")
    assert "for (int i = px_lane; i < 48; i += 32) {" in text
    assert "ptx::cp_async_bulk_shared_shared(" in text
    assert "there + (i / 24) * 10752 + (i % 24) * 384, here + (i / 24) * 6144 + (i % 24) * 256, 128, there_bar" in text


def test_reductions_of_a_loop_share_inboxes_and_take_turns() -> None:
    text = text_of("softmax")
    assert text.count("unsigned turn = 0;") == 1 and text.count("++turn;") == 2
    assert text.count("each warp sends its partial result to every CTA") == 2
    assert "__syncthreads" not in text


def test_a_gather_of_pairs_is_one_store_of_each_warp_and_no_barrier() -> None:
    text = text_of("online_softmax")
    assert "__syncthreads" not in text and "bar_sync" not in text
    assert text.count("ptx::st_async<2>(") == 1 and text.count("st_async") == 1
    assert "if (px_lane < 4) {" in text  # a lane for each CTA
    assert text.count("mbarrier_wait_parity(") == 1
    assert "mbarrier_arrive_expect_tx_shared_cta(inbox_bar, 256);" in text  # 4 CTAs, 8 warps, 8 bytes
    assert "ptx::load_vector<2>(" in text and "px_warp_id" not in text.split("received = ")[1].split("++turn")[0]


def test_in_a_cluster_of_one_a_gather_is_shared_memory_and_one_barrier() -> None:
    text = text_of("online_softmax", (1, 1, 1))
    assert text.count("__syncthreads();") == 1 and "__syncthreads();  // all warps have written" in text
    assert "st_async" not in text and "mbarrier" not in text
    assert text.count("ptx::store_vector<2>(reinterpret_cast<float*>(there") == 1


def test_three_fill_a_record_of_four_and_five_take_two() -> None:
    text = text_of("gathered")
    assert text.count("ptx::st_async<4>(") == 2  # the three, and four of the five
    assert text.count("ptx::st_async<") == 1 + 1 + 1 + 1 + 2 + 1  # tile, pair, reduction, three, five, parts


def test_a_reduction_of_scalars_that_all_know_is_sent_by_the_first_warp() -> None:
    text = text_of("reduced")
    assert "if (px_warp_id == 0 && px_lane < 4) {" in text
    assert "__syncthreads();  // the inboxes of the turn before have been read" in text
