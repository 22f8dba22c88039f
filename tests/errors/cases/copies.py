"""TMA copies: sides, shapes, types, barriers, hints."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)
WIDE = np.zeros((64, 80), np.float32)
FIVE = np.zeros((2, 2, 2, 2, 2, 16), np.float32)


@case
def copy_between_different_shapes():
    @px.kernel
    def copy(X):
        s = px.shared((32, 64), px.f32)
        b = px.barrier()
        px.tma.load(X[0:64, 0:64], s, b)

    copy[1](X)


@case
def copy_between_different_types():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.bf16)
        b = px.barrier()
        px.tma.load(X[0:64, 0:64], s, b)

    copy[1](X)


@case
def copy_into_a_global_array():
    @px.kernel
    def copy(X):
        b = px.barrier()
        px.tma.load(X[0:64, 0:64], X[0:64, 0:64], b)

    copy[1](X)


@case
def copy_from_shared_memory():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        px.tma.load(s, s, b)

    copy[1](X)


@case
def copy_without_a_barrier():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.tma.load(X[0:64, 0:64], s, 0)

    copy[1](X)


@case
def copy_of_a_tile():
    @px.kernel
    def copy(X):
        px.tma.store(px.load(X[0:64, 0:64]), X[0:64, 0:64])

    copy[1](X)


@case
def copy_into_a_peer():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        px.tma.load(X[0:64, 0:64], s.at(1), b)

    copy[2](X)


@case
def copy_into_a_transposed_buffer():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        px.tma.load(X[0:64, 0:64], s.T, b)

    copy[1](X)


@case
def copy_of_rows_by_index():
    @px.kernel
    def copy(X):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.load(X[px.arange(4), 0:64], s, b)

    copy[1](X)


@case
def copy_of_six_axes():
    @px.kernel
    def copy(X):
        s = px.shared((2, 2, 2, 2, 2, 16), px.f32)
        b = px.barrier()
        px.tma.load(X[0:2, 0:2, 0:2, 0:2, 0:2, 0:16], s, b)

    copy[1](FIVE)


@case
def multicast_outside_the_cluster():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        with b.transaction():
            px.tma.load(X[0:64, 0:64], s, b, multicast=0b111)
        b.wait(0)

    copy[2](X)


@case
def unknown_cache_hint():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        px.tma.load(X[0:64, 0:64], s, b, cache="keep")

    copy[1](X)


@case
def unknown_reduction():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.tma.reduce(s, X[0:64, 0:64], "mul")

    copy[1](X)


@case
def reduction_that_the_type_lacks():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.tma.reduce(s, X[0:64, 0:64], "max")

    copy[1](X)


@case
def wait_for_a_run_time_number_of_groups():
    @px.kernel
    def copy(X, n):
        px.tma.wait(n)

    copy[1](X, 1)


@case
def unknown_space_of_a_fence():
    @px.kernel
    def copy(X):
        px.fence.async_proxy("shared")

    copy[1](X)


@case
def unknown_cache_hint_of_a_store():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.tma.store(s, X[0:64, 0:64], cache="stream")

    copy[1](np.zeros((64, 64), np.float32))
