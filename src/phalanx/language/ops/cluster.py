"""`px.cluster`: rank, size and id in the cluster, the barrier of all its threads, and its copies, reductions and gathers."""

from __future__ import annotations

from phalanx.ir.ops.cluster import ClusterArrive, ClusterSync, ClusterWait
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import describe
from phalanx.language.ops.collectives import copy, gather, load, reduce, store


def require_dim(ctx: Builder, d: object) -> int | None:
    """The dimension of the cluster that `d` is; None stands for all of them."""
    if d is not None and (not isinstance(d, int) or isinstance(d, bool) or d not in (0, 1, 2)):
        ctx.fail(
            f"a cluster has the dimensions 0, 1 and 2, not {describe(d)}",
            "leave it out for the rank in the whole cluster",
        )
    return d


@builtin("cluster.rank")
def rank(ctx: Builder, d: object = None) -> int | Value:
    """This CTA's rank in its cluster (dimension 0 fastest), or its coordinate along `d`.

    Any agent; sm_90 and up; PTX ``%cluster_ctarank``. Example: ``peer = px.cluster.rank() ^ 1``.
    """
    dim = require_dim(ctx, d)
    size = ctx.cluster_size if dim is None else ctx.cluster[dim]
    return 0 if size == 1 else ctx.cluster_rank(dim)


@builtin("cluster.size")
def size(ctx: Builder, d: object = None) -> int:
    """The number of CTAs of the cluster, in all or along `d`: a compile-time constant.

    Any agent; sm_90 and up; no PTX. Example: ``mask = (1 << px.cluster.size()) - 1``.
    """
    dim = require_dim(ctx, d)
    return ctx.cluster_size if dim is None else ctx.cluster[dim]


@builtin("cluster.id")
def id(ctx: Builder, d: object = None) -> Value:
    """The index of this cluster in the grid, linear or along `d`.

    Any agent; sm_90 and up; PTX ``%clusterid``. Example: ``for t in range(px.cluster.id(), tiles, step):``.
    """
    return ctx.cluster_id(require_dim(ctx, d))


@builtin("cluster.count")
def count(ctx: Builder) -> Value:
    """The number of clusters of the grid; without clusters, of its CTAs.

    Any agent; sm_90 and up; PTX ``%nctaid``. Example: ``for t in range(px.cluster.id(), tiles, px.cluster.count()):``.
    """
    return ctx.cluster_count()


@builtin("cluster.sync")
def sync(ctx: Builder) -> None:
    """Waits until all threads of the cluster are here; what they did before is visible after it.

    All warps of the CTA; sm_90 and up; PTX ``barrier.cluster.arrive.release`` and ``wait.acquire``.
    Example: ``px.cluster.sync(); px.store(s.at(peer), x); px.cluster.sync(); y = px.load(s)``.
    """
    ctx.emit(ClusterSync(loc=ctx.loc))


@builtin("cluster.arrive")
def arrive(ctx: Builder, relaxed: object = False) -> None:
    """The first half of `px.cluster.sync`; a relaxed arrival publishes nothing but fenced barrier inits.

    All warps of the CTA; sm_90 and up; PTX ``barrier.cluster.arrive{.release|.relaxed}``.
    Example: ``px.cluster.arrive()``.
    """
    if not isinstance(relaxed, bool):
        ctx.fail(f"relaxed= must be True or False, not {describe(relaxed)}", "it is decided at compile time")
    ctx.emit(ClusterArrive(relaxed, loc=ctx.loc))


@builtin("cluster.wait")
def wait(ctx: Builder) -> None:
    """The second half of `px.cluster.sync`.

    All warps of the CTA; sm_90 and up; PTX ``barrier.cluster.wait.acquire``. Example: ``px.cluster.wait()``.
    """
    ctx.emit(ClusterWait(loc=ctx.loc))


__all__ = ["arrive", "copy", "count", "gather", "id", "load", "rank", "reduce", "size", "store", "sync", "wait"]
