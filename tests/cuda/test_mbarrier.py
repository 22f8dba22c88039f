"""mbarrier instructions: spaces, scopes, masks, counts, bounded waits."""

from __future__ import annotations

import phalanx as px
from phalanx.cuda.module import generate
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.ops.mbarrier import arrive, arrive_expect_tx, bounded_wait, poll, wait
from phalanx.cuda.plan import Plan
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.mbarrier import BarrierInit
from phalanx.ir.types import I32
from phalanx.ir.values import Const
from phalanx.ir.views import BarrierArray
from support.cuda_text import body, compiles, module_of
from support.front import array


def test_functions_are_built_from_modifiers() -> None:
    assert arrive("cta").name == "mbarrier_arrive_shared_cta"
    assert arrive("cluster", ".release.cluster").name == "mbarrier_arrive_release_cluster_shared_cluster"
    assert '"mbarrier.arrive.shared::cta.b64 _, [%0], %1;"' in arrive("cta", counted=True).text
    assert '"mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;"' in arrive_expect_tx("cluster").text
    acquiring = poll("try_wait", ".acquire.cluster").text
    assert "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;" in acquiring
    assert wait().name == "mbarrier_wait_parity"
    assert bounded_wait(".acquire.cluster").name == "mbarrier_wait_parity_acquire_cluster_bounded"


@px.kernel(cluster=4)
def signals(X, mask, phase):
    bar = px.barrier(3, count=7, checked=False)
    peer = px.cluster.rank() ^ 1
    bar[0].arrive()
    bar[1].arrive(2)
    bar[2].expect_tx(64)
    bar[1].expect_tx(16, ctas=1 << peer)
    bar[0].arrive_and_expect_tx(128)
    bar[1].arrive(ctas=1 << peer)
    bar[2].arrive(ctas=0b1010)
    bar[mask % 3].arrive_and_expect_tx(32, ctas=mask)
    bar[0].wait(phase & 1)
    done = bar[0].test_wait(1)
    while not done:
        done = bar[0].test_wait(0)
    bar[2].invalidate()


def test_every_signal() -> None:
    text = body(module_of(signals, (array(1), I32, I32)))
    for expected in (
        "for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(bar + 8 * px_i, 7);",
        "ptx::mbarrier_arrive_shared_cta(bar);",
        "ptx::mbarrier_arrive_shared_cta_count(bar + 8, 2);",
        "ptx::mbarrier_expect_tx_relaxed_cta_shared_cta(bar + 16, 64);",
        "ptx::mbarrier_expect_tx_relaxed_cluster_shared_cluster(ptx::mapa_shared_cluster(bar + 8, peer), 16);",
        "ptx::mbarrier_arrive_expect_tx_shared_cta(bar, 128);",
        "ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(bar + 8, peer));",
        "ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(bar + 16, 1));",
        "ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(bar + 16, 3));",
        "for (unsigned px_ctas = mask; px_ctas != 0; px_ctas &= px_ctas - 1) {",
        "ptx::mbarrier_wait_parity(bar, phase & 1);",
        "__syncthreads_and(ptx::mbarrier_test_wait_parity_shared_cta(bar, 1))",
        "ptx::mbarrier_inval_shared_cta(bar + 16);",
    ):
        assert expected in text
    assert ".release.cluster" not in text
    compiles(signals, (array(1), I32, I32))


@px.kernel(warps=8)
def asking(X):
    bar = px.barrier(count=1)
    with px.warps(0, 1):
        while not bar.test_wait(0):
            pass
    with px.warps(4, 4):
        while not bar.test_wait(0):
            pass
        px.sync()  # all four warps take part
    with px.warps(2, 1):
        bar.arrive()


def test_threads_of_an_agent_agree_on_an_answer() -> None:
    text = body(module_of(asking, (array(1),)))
    assert "__all_sync(0xffffffffu, ptx::mbarrier_test_wait_parity_shared_cta(bar, 0))" in text
    assert "ptx::bar_red_and<1, 128>(ptx::mbarrier_test_wait_parity_shared_cta(bar, 0))" in text
    compiles(asking, (array(1),))


@px.kernel(cluster=2)
def push(X):
    s = px.shared((32, 32), px.f32)
    ready = px.barrier(count=1)
    peer = px.cluster.rank() ^ 1
    px.store(s.at(peer), px.load(X[0:32, 0:32]))
    ready.arrive(ctas=1 << peer)
    ready.wait(0)


def test_stores_to_a_peer_pay_for_cluster_scope() -> None:
    text = body(module_of(push, (array(2),)))
    assert "ptx::mbarrier_arrive_release_cluster_shared_cluster(" in text
    assert "ptx::mbarrier_wait_parity_acquire_cluster(ready, 0);" in text
    compiles(push, (array(2),))


def test_bounded_waits_name_their_sites() -> None:
    module = module_of(asking, (array(1),), watchdog=True)
    assert module.sites == () and not module.signature.debug  # it only asks, it never waits
    module = module_of(signals, (array(1), I32, I32), watchdog=True)
    (site,) = module.sites
    assert (site.kind, site.name, site.role) == ("wait", "bar", "")
    assert site.location.text.strip() == "bar[0].wait(phase & 1)"
    assert "ptx::mbarrier_wait_parity_bounded(bar, phase & 1, px_debug, 0, 0);" in module.source
    assert module.signature.debug and module.signature.layout.debug is not None
    compiles(signals, (array(1), I32, I32), watchdog=True)


@px.kernel(warps=1)
def waits_again_and_again(X, *, N=12):
    bar = px.barrier(count=1)
    for i in px.static_range(N):
        bar.arrive()
        bar.wait(i & 1)


def test_bounded_waits_of_an_unrolled_loop_share_their_report() -> None:
    """It is called: a compiler that has its text, with a loop, at every wait takes a minute for some kernels."""
    found = []
    for n in (1, 12):
        module = module_of(waits_again_and_again, (array(1),), watchdog=True, N=n)
        ptx = compile_cuda(module.source, "sm_90a").ptx
        assert ptx.count("mbarrier.try_wait.parity") >= 2 * n
        found.append(ptx.count("nanosleep"))
    assert found[0] == found[1] > 0


def init_text(*ops: Op, barrier: BarrierArray, cluster: int) -> str:
    function = Function("k", (), (), 4, (cluster, 1, 1), True, (), (barrier,), Block(ops))
    return generate(Plan(function, arch_of("sm_90a"), barriers={barrier: 0}, shared_bytes=64)).source


def test_counts_that_differ_by_barrier_and_by_rank() -> None:
    bar = BarrierArray("bar", 4)
    counts = ((1, 1, 2, 2), (1, 1, 3, 3), (1, 1, 3, 3), (1, 1, 3, 3))
    text = init_text(BarrierInit(bar, counts=counts), barrier=bar, cluster=4)
    assert "for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(bar + 8 * px_i, 1);" in text
    assert (
        "for (int px_i = 2; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(bar + 8 * px_i, "
        "(0x1 >> ptx::cluster_ctarank() & 1 ? 2 : 3));" in text
    )


def test_init_by_the_user() -> None:
    bar = BarrierArray("bar", 4, init=False)
    text = init_text(
        BarrierInit(bar, index=Const(2), count=Const(5)), BarrierInit(bar, count=Const(6)), barrier=bar, cluster=1
    )
    assert "ptx::mbarrier_init_shared_cta(bar + 16, 5);" in text
    assert "for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(bar + 8 * px_i, 6);" in text
