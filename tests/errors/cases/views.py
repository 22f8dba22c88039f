"""Views of memory: extents, indices, shared buffers."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)


@case
def extent_known_at_run_time():
    @px.kernel
    def copy(X, n):
        px.store(X[0, 0:n], 0.0)

    copy[1](X, 8)


@case
def extent_of_a_whole_axis():
    @px.kernel
    def copy(X):
        px.store(X[0, :], 0.0)

    copy[1](X)


@case
def slice_with_a_step():
    @px.kernel
    def copy(X):
        px.store(X[0, 0:16:2], 0.0)

    copy[1](X)


@case
def slice_without_elements():
    @px.kernel
    def copy(X, m):
        px.store(X[m : m - 4, 0:8], 0.0)

    copy[1](X, 8)


@case
def too_few_indices():
    @px.kernel
    def copy(X):
        px.store(X[0:8], 0.0)

    copy[1](X)


@case
def index_is_a_float():
    @px.kernel
    def copy(X):
        px.store(X[X[0, 0], 0:8], 0.0)

    copy[1](X)


@case
def index_is_a_list():
    @px.kernel
    def copy(X):
        px.store(X[[0, 1]], 0.0)

    copy[1](X)


@case
def index_tile_of_rank_two():
    @px.kernel
    def copy(X):
        rows = px.arange(16).reshape(4, 4)
        px.store(X[rows, 0:8], 0.0)

    copy[1](X)


@case
def two_index_tiles():
    @px.kernel
    def copy(X):
        rows = px.arange(16)
        px.store(X[rows, rows], 0.0)

    copy[1](X)


@case
def tile_with_too_few_sizes():
    @px.kernel
    def copy(X):
        px.store(X.tile((0, 0), (8,)), 0.0)

    copy[1](X)


@case
def tile_of_a_run_time_size():
    @px.kernel
    def copy(X, n):
        px.store(X.tile((0, 0), (8, n)), 0.0)

    copy[1](X, 4)


@case
def slice_past_a_shared_buffer():
    @px.kernel
    def copy(X):
        s = px.shared((4, 64), px.f32)
        px.store(s[2:6], 0.0)

    copy[1](X)


@case
def index_past_a_shared_buffer():
    @px.kernel
    def copy(X):
        s = px.shared((4, 64), px.f32)
        px.store(s[4], 0.0)

    copy[1](X)


@case
def too_many_indices_of_a_shared_buffer():
    @px.kernel
    def copy(X):
        s = px.shared((4, 64), px.f32)
        px.store(s[0, 0, 0], 0.0)

    copy[1](X)


@case
def transpose_of_a_global_view():
    @px.kernel
    def copy(X):
        px.store(X[0:8, 0:8], px.load(X[0:8, 0:8].T))

    copy[1](X)


@case
def at_outside_the_cluster():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((4, 64), px.f32)
        px.store(s.at(2), 0.0)

    copy[2](X)


@case
def at_of_a_global_view():
    @px.kernel(cluster=2)
    def copy(X):
        px.store(X[0:8, 0:8].at(1), 0.0)

    copy[2](X)


@case
def shared_inside_a_run_time_loop():
    @px.kernel
    def copy(X):
        for _ in range(X.shape[0]):
            s = px.shared((4, 64), px.f32)
            px.store(s, 0.0)

    copy[1](X)


@case
def shared_of_a_run_time_size():
    @px.kernel
    def copy(X):
        s = px.shared((X.shape[0], 64), px.f32)
        px.store(s, 0.0)

    copy[1](X)


@case
def reuse_of_a_number():
    @px.kernel
    def copy(X):
        s = px.shared((4, 64), px.f32, reuse=3)
        px.store(s, 0.0)

    copy[1](X)


@case
def out_of_a_shared_buffer_at_run_time():
    @px.kernel(warps=1)
    def copy(X, n):
        s = px.shared((4, 64), px.f32)
        px.store(s[n], 0.0)

    copy[1](X, 4)


@case
def part_of_a_shared_buffer():
    @px.kernel(warps=1)
    def copy(X):
        s = px.shared((64,), px.f32)
        px.store(s.within(3, 9), 0.0)

    copy[1](X)


@case
def part_of_an_element():
    @px.kernel(warps=1)
    def copy(X):
        px.store(X[0, 3].within(3, 9), 0.0)

    copy[1](X)


@case
def part_of_a_part():
    @px.kernel(warps=1)
    def copy(X):
        px.store(X[0, 0:64].within(3, 9).within(4, 5), 0.0)

    copy[1](X)


@case
def part_by_wide_integers():
    @px.kernel(warps=1)
    def copy(X, n):
        px.store(X[0, 0:64].within(n.to(px.i64), 9), 0.0)

    copy[1](X, 4)


@case
def part_of_a_copy():
    @px.kernel(warps=1)
    def copy(X):
        s, full = px.shared((64,), px.f32), px.barrier()
        with full.transaction():
            px.tma.load(X[0, 0:64].within(3, 9), s, full)
        full.wait(0)

    copy[1](X)


@case
def shifted_load_of_a_matrix():
    @px.kernel(warps=1)
    def copy(X):
        px.store(X[0, 0:64], px.load(X[1, 0:64], shifted=True))

    copy[1](X)


@case
def shifted_load_of_a_part():
    @px.kernel(warps=1)
    def copy(V, Y):
        px.store(Y[0:64], px.load(V[3:67].within(5, 9), shifted=True))

    copy[1](np.zeros(99, np.float32), np.zeros(64, np.float32))
