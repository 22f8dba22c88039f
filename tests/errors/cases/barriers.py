"""mbarriers: counts, indices, parities, masks, bytes."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)


@case
def count_of_zero():
    @px.kernel
    def wait(X):
        b = px.barrier(2, count=0)
        b[0].wait(0)

    wait[1](X)


@case
def count_too_large():
    @px.kernel
    def wait(X):
        b = px.barrier(2, count=1 << 20)
        b[0].wait(0)

    wait[1](X)


@case
def count_known_at_run_time():
    @px.kernel
    def wait(X, n):
        b = px.barrier(2, count=n)
        b[0].wait(0)

    wait[1](X, 3)


@case
def arrive_with_count_zero():
    @px.kernel
    def wait(X):
        b = px.barrier()
        b.arrive(0)

    wait[1](X)


@case
def index_outside():
    @px.kernel
    def wait(X):
        full = px.barrier(4)
        full[4].wait(0)

    wait[1](X)


@case
def array_without_an_index():
    @px.kernel
    def wait(X):
        full = px.barrier(4)
        full.wait(0)

    wait[1](X)


@case
def parity_of_two():
    @px.kernel
    def wait(X):
        full = px.barrier(4)
        full[0].wait(2)

    wait[1](X)


@case
def mask_outside_the_cluster():
    @px.kernel(cluster=2)
    def wait(X):
        b = px.barrier()
        b.arrive(ctas=0b101)
        b.wait(0)

    wait[2](X)


@case
def empty_mask():
    @px.kernel(cluster=2)
    def wait(X):
        b = px.barrier()
        b.arrive(ctas=0)
        b.wait(0)

    wait[2](X)


@case
def too_many_bytes():
    @px.kernel
    def wait(X):
        b = px.barrier()
        b.arrive_and_expect_tx(1 << 20)
        b.wait(0)

    wait[1](X)


@case
def too_many_barriers():
    @px.kernel
    def step(X):
        px.barrier(1 << 30)

    step[1](X)


@case
def init_of_an_initialised_barrier():
    @px.kernel
    def wait(X):
        b = px.barrier()
        b.init(1)

    wait[1](X)


@case
def barrier_inside_a_run_time_loop():
    @px.kernel
    def wait(X):
        for _ in range(X.shape[0]):
            b = px.barrier()
            b.arrive()
            b.wait(0)

    wait[1](X)


@case
def count_mismatch():
    @px.kernel(warps=3)
    def ring(X):
        s = px.shared((64, 64), px.f32)
        full = px.barrier()
        empty = px.barrier(count=1)
        with px.warps(0, 1):
            for k in range(X.shape[0]):
                empty.wait((k & 1) ^ 1)
                with full.transaction():
                    px.tma.load(X[0:64, 0:64], s, full)
        with px.warps(1, 1):
            for k in range(X.shape[0]):
                full.wait(k & 1)
                empty.arrive()
        with px.warps(2, 1):
            for k in range(X.shape[0]):
                full.wait(k & 1)
                empty.arrive()

    ring[1](X)


@case
def undecidable_count():
    @px.kernel(warps=2)
    def ring(X):
        b = px.barrier()
        with px.warps(0, 1):
            for k in range(X.shape[0]):
                b.arrive(k + 1)
        with px.warps(1, 1):
            for k in range(X.shape[0]):
                b.wait(k & 1)

    ring[1](X)


@case
def no_arrivals_at_all():
    @px.kernel(warps=1)
    def ring(X):
        b = px.barrier()
        b.wait(0)

    ring[1](X)


@case
def transaction_of_a_run_time_loop():
    @px.kernel(warps=1)
    def ring(X, n):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        with b.transaction():
            for _ in range(n):
                px.tma.load(X[0:64, 0:64], s, b)
        b.wait(0)

    ring[1](X, 2)


@case
def deadlock():
    @px.kernel(warps=1)
    def ring(X):
        b = px.barrier(count=2, checked=False)
        b.arrive()
        b.wait(0)

    ring[1](X)


@case
def parity_is_a_tile():
    @px.kernel(warps=1)
    def ring(X):
        b = px.barrier()
        b.wait(px.load(X[0, 0:4]))

    ring[1](X)
