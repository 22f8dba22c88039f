"""Commits of Blackwell's tensor cores, and pairs of CTAs."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float16)


@case
def a_commit_on_no_barrier():
    @px.kernel(warps=4)
    def kernel(X):
        s = px.shared((4,), px.i32)
        px.tcgen05.commit(s)

    kernel[1](X)


@case
def a_commit_outside_the_cluster():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        bar = px.barrier(count=1, checked=False)
        px.tcgen05.commit(bar, multicast=0b101)

    kernel[2](X)


@case
def a_pair_in_a_cluster_of_one():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc, two_cta=True)

    kernel[1](X)


@case
def a_pair_in_a_cluster_of_three():
    @px.kernel(warps=4, cluster=3)
    def kernel(X):
        bar = px.barrier()
        px.tcgen05.commit(bar, two_cta=True)

    kernel[3](X)


@case
def a_pair_in_the_second_dimension():
    @px.kernel(warps=4, cluster=(1, 2))
    def kernel(X):
        a, full = px.shared((64, 64), px.f16), px.barrier()
        px.tma.load(X[0:64, 0:64], a, full, two_cta=True)

    kernel[1, 2](X)


@case
def pairs_at_run_time():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, full = px.shared((64, 64), px.f16), px.barrier()
        px.tma.load(X[0:64, 0:64], a, full, two_cta=px.cluster.rank() == 0)

    kernel[2](X)


@case
def the_whole_of_b_in_each_cta():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc, two_cta=True)

    kernel[2](X)


@case
def too_many_columns_for_a_pair():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((192, 64), px.bf16), px.tmem((128, 384), px.f32)
        px.tcgen05.mma(a, b.T, acc, two_cta=True)

    kernel[2](X)


@case
def eight_columns_for_a_pair():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((4, 64), px.bf16), px.tmem((128, 8), px.f32)
        px.tcgen05.mma(a, b.T, acc, two_cta=True)

    kernel[2](X)


@case
def a_pair_and_a_single_cta():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((32, 64), px.bf16), px.tmem((128, 64), px.f32)
        done = px.barrier(count=1, checked=False)
        if px.cluster.rank() == 0:
            px.tcgen05.mma(a, b.T, acc, two_cta=True)
            px.tcgen05.commit(done)

    kernel[2](X)


@case
def a_pair_that_may_be_left_alone():
    @px.kernel(warps=4, cluster=2, exit_sync=False)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((32, 64), px.bf16), px.tmem((128, 64), px.f32)
        done = px.barrier(count=1, checked=False)
        if px.cluster.rank() == 0:
            px.tcgen05.mma(a, b.T, acc, two_cta=True)
            px.tcgen05.commit(done, two_cta=True)

    kernel[2](X)


@case
def a_commit_to_who_may_be_gone():
    @px.kernel(warps=4, cluster=2, exit_sync=False)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        done = px.barrier(count=2, checked=False)
        px.tcgen05.mma(a, b.T, acc)
        px.tcgen05.commit(done, multicast=0b11)
        done.wait(0)

    kernel[2](X)


@case
def an_odd_cta_that_issues():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((32, 64), px.bf16), px.tmem((128, 64), px.f32)
        done = px.barrier()
        if px.cluster.rank() == 1:
            px.tcgen05.mma(a, b.T, acc, two_cta=True)
            px.tcgen05.commit(done, multicast=0b11, two_cta=True)
        done.wait(0)

    kernel[2](X)


@case
def a_scaled_pair_of_64_rows():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((64, 128), px.f8e4m3), px.shared((64, 128), px.f8e4m3), px.tmem((64, 128), px.f32)
        sa, sb = px.tmem((64, 4), px.f8e8m0), px.tmem((128, 4), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=sa, scale_b=sb, two_cta=True)

    kernel[2](X)
