"""Cluster launch control as text: who issues, one CTA or all, the block of the own position, and what compiles where."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.ops.clc import request
from phalanx.cuda.text.helper import helper
from phalanx.ir.types import i32
from support.cuda_text import body, module_of
from support.front import array

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "blackwell"))  # behind another ladder's v0 to v7
from clc_scale import clc_scale

TARGETS = ("sm_100a", "sm_100f", "sm_103a", "sm_110a", "sm_120a", "sm_121a")


def test_mnemonics_are_built_from_modifiers() -> None:
    alone, everywhere = request(False), request(True)
    mnemonic = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    assert f'"{mnemonic}.b128 [%0], [%1];"' in alone.text
    assert f'"{mnemonic}.multicast::cluster::all.b128 [%0], [%1];"' in everywhere.text
    query = helper("clusterlaunchcontrol_query_cancel").text
    assert "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;" in query
    assert "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, _}, r;" in query


@px.kernel(warps=1, cluster=lambda CLUSTER: CLUSTER)
def once(Y, *, CLUSTER=1):
    results, full = px.shared((3, 4), px.i32), px.barrier()
    i = px.block_id(0) % 3
    with full.transaction():
        px.clc.try_cancel(results[i], full)
    full.wait(0)
    granted, block = px.clc.query(results[i])
    px.store(Y[0], px.where(granted, block, 0))


def text(cluster: object) -> str:
    return body(module_of(once, (array(1, i32),), arch="sm_100a", CLUSTER=cluster))


def test_in_a_cluster_of_one_every_cta_asks_for_itself() -> None:
    made = text(1)
    assert "if (px_one) {\n    ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16);\n" in made
    assert "ptx::clusterlaunchcontrol_try_cancel(results_addr + " in made and "multicast" not in made
    assert "rank" not in made and "cluster_ctaid" not in made


def test_in_a_cluster_of_several_rank_0_asks_for_all() -> None:
    made = text((2, 2, 1))
    asks = r"if \((\w+) == 0\) \{\n +if \(px_one\) \{\n +ptx::clusterlaunchcontrol_try_cancel_multicast"
    (where,) = re.findall(asks, made)
    assert f"const int {where} = ptx::cluster_ctarank();" in made
    assert "ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16);" in made, "in every CTA"


@pytest.mark.parametrize(
    ("cluster", "block"),
    [
        (1, "first_x + (int)gridDim.x * (first_y + (int)gridDim.y * first_z)"),
        ((2, 1, 1), "(first_x + ptx::cluster_ctaid_x()) + (int)gridDim.x * (first_y + (int)gridDim.y * first_z)"),
        (
            (2, 2, 2),
            "(first_x + ptx::cluster_ctaid_x()) + (int)gridDim.x * ((first_y + ptx::cluster_ctaid_y()) + "
            "(int)gridDim.y * (first_z + ptx::cluster_ctaid_z()))",
        ),
    ],
)
def test_the_block_is_that_of_the_own_position(cluster: object, block: str) -> None:
    assert f"granted ? {block} : -1" in text(cluster)


def test_the_fence_of_the_read_follows_it() -> None:
    lines = [line.strip() for line in text(1).splitlines()]
    (read,) = [i for i, line in enumerate(lines) if "query_cancel(" in line]
    assert lines[read + 1] == "ptx::fence_proxy_async_shared_cta();"


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_the_example_compiles_without_spills(ctas: int, arch: str) -> None:
    matrix = px.spec((128, 128), px.f32)
    made = px.compile(clc_scale[4 * ctas], matrix, matrix, 3.0, arch=arch, CTAS=ctas)
    assert made.cubin[:4] == b"\x7fELF" and made.spills == 0
    assert ("multicast::cluster::all" in made.ptx) == (ctas > 1)


def test_results_are_16_byte_aligned() -> None:
    made = module_of(once, (array(1, i32),), arch="sm_100a")
    (address,) = re.findall(r"const unsigned results_addr = px_base(?: \+ (\d+))?;", made.source)
    assert int(address or 0) % 16 == 0
    assert compile_cuda(made.source, "sm_100a").resources_of(made.entry).spill_store_bytes == 0
