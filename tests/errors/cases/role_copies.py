"""Copies of a role: how many, on which warps, what may be made inside, and what each of them must do."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 32), np.float32)


@case
def no_copies():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2, copies=0) as c:
            px.store(X[c, 0], 1.0)

    split[1](X)


@case
def a_run_time_number_of_copies():
    @px.kernel(warps=4)
    def split(X, n):
        with px.warps(0, 2, copies=n) as c:
            px.store(X[c, 0], 1.0)

    split[1](X, 2)


@case
def copies_exceed_the_warps():
    @px.kernel(warps=10)
    def split(X):
        with px.warps(4, 4, copies=2) as c:
            px.store(X[c, 0], 1.0)

    split[1](X)


@case
def copies_overlap_another_role():
    @px.kernel(warps=8)
    def split(X):
        with px.warps(0, 2, copies=3) as c:
            px.store(X[c, 0], 1.0)
        with px.warps(4, 4):
            px.store(X[4, 0], 1.0)

    split[1](X)


@case
def the_registers_of_copies_do_not_fit():
    @px.kernel(warps=16)
    def split(X):
        with px.warps(0, 1, regs=56):
            px.store(X[0, 0], 1.0)
        with px.warps(4, 4, copies=3, regs=160) as c:
            px.store(X[c, 0], 1.0)

    split[1](X)


@case
def shared_memory_made_in_a_copy():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2, copies=2) as c:
            s = px.shared((32,), px.f32)
            px.store(s, px.load(X[c]))

    split[1](X)


@case
def a_barrier_made_in_a_copy():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2, copies=2):
            bar = px.barrier()
            bar.arrive()

    split[1](X)


@case
def the_number_of_a_copy_behind_the_role():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2, copies=2) as c:
            px.store(X[c, 0], 1.0)
        px.store(X[c, 1], 1.0)

    split[1](X)


@case
def a_barrier_that_the_last_copy_does_not_have():
    @px.kernel(warps=6)
    def split(X):
        bar = px.barrier(2)
        with px.warps(0, 2, copies=3) as c:
            bar[c].arrive()
            bar[c].wait(0)

    split[1](X)


@case
def a_count_that_forgets_the_copies():
    @px.kernel(warps=9)
    def ring(X):
        s, full, free = px.shared((32,), px.f32), px.barrier(), px.barrier(count=1)
        with px.warps(0, 1):
            for t in range(4):
                free.wait((t & 1) ^ 1)
                with full.transaction():
                    px.tma.load(X[t, 0:32], s, full)
        with px.warps(1, 4, copies=2):
            for t in range(4):
                full.wait(t & 1)
                free.arrive()

    ring[1](X)


@case
def a_copy_that_nobody_signals():
    @px.kernel(warps=9)
    def ring(X):
        full = px.barrier(2)
        with px.warps(0, 1):
            full[0].arrive()
        with px.warps(1, 4, copies=2) as c:
            full[c].wait(0)

    ring[1](X)


@case
def a_cluster_barrier_in_one_copy():
    @px.kernel(warps=4, cluster=2)
    def split(X):
        with px.warps(0, 2, copies=2) as c:
            if c == 0:
                px.cluster.sync()

    split[2](X)


@case
def a_reduction_that_one_rank_of_a_copy_leaves_out():
    @px.kernel(warps=4, cluster=2)
    def split(X):
        with px.warps(0, 2, copies=2) as c:
            if c == px.cluster.rank():
                px.store(X[c, 0], px.cluster.reduce(px.load(X[c, 1]), "sum"))

    split[2](X)


@case
def too_many_copies_of_several_warps():
    @px.kernel(warps=32)
    def split(X):
        s = px.shared((16, 64), px.f32)
        with px.warps(0, 2, copies=16) as c:
            px.store(s[c], px.zeros((64,), px.f32))
            px.store(X[c, 0:32], px.load(s[c, 0:32]))

    px.compile(split[1], X, arch="sm_90a")
