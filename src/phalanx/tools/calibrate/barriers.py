"""Probes of mbarriers: arrivals, waits, round trips between roles and between CTAs."""

from __future__ import annotations

import phalanx as px
from phalanx.tools.calibrate.probe import Probe, pair
from phalanx.tools.calibrate.threads import word


@px.kernel(warps=1)
def arrivals(X, n):
    """Arrivals that nobody waits for."""
    bar = px.barrier(count=1)
    for _ in range(n):
        bar.arrive()
    bar.wait((n + 1) & 1)


@px.kernel(warps=1)
def passed(X, n):
    """Waits for what has happened."""
    bar = px.barrier()
    bar.arrive()
    for _ in range(n):
        bar.wait(0)


@px.kernel(warps=1)
def asked(X, n):
    """Questions whether something has happened, which it has not."""
    bar = px.barrier(count=1)
    found = px.load(X[0])
    for _ in range(n):
        found += px.where(bar.test_wait(0), 1.0, 0.0)
    px.store(X[0], found)


@px.kernel(warps=2)
def to_and_fro(X, n):
    """Two roles that answer each other."""
    there, back = px.barrier(), px.barrier()
    with px.warps(0, 1):
        for i in range(n):
            there.arrive()
            back.wait(i & 1)
    with px.warps(1, 1):
        for i in range(n):
            there.wait(i & 1)
            back.arrive()


@px.kernel(warps=1, cluster=2)
def across(X, n):
    """Two CTAs that answer each other."""
    there, back = px.barrier(), px.barrier()
    for i in range(n):
        if px.cluster.rank() == 0:
            there.arrive(ctas=0b10)
            back.wait(i & 1)
        else:
            there.wait(i & 1)
            back.arrive(ctas=0b01)


PROBES = (
    Probe("step", "an arrival", arrivals, word, (500, 4500), (8, 24)),
    Probe("wait", "a wait that is passed at once", passed, word, (500, 4500), (8, 24)),
    Probe("query", "a question to a barrier", asked, word, (500, 4500), (8, 24)),
    Probe("arrive_latency", "a round trip between two roles", to_and_fro, word, (500, 4500), (8, 24)),
    Probe("remote_arrive_latency", "a round trip between two CTAs", across, word, (200, 2200), (8, 24), grid=pair),
)
