"""Rows by index: the matrix, the rows, the column, the shared tile, the barrier, and what the hardware can't do."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)
CUBE = np.zeros((4, 16, 64), np.float32)
IDX = np.zeros(64, np.int32)
SHORT = np.zeros((64, 66), np.float32)[:, :64]  # rows 264 bytes apart


@case
def gather_from_a_view():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X[0:64, 0:64], (0, 1, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_from_shared_memory():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(s, (0, 1, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_from_three_axes():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b)

    move[1](CUBE, IDX)


@case
def gather_from_a_vector():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(I, (0, 1, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_of_three_rows():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2), 0, s, b)

    move[1](X, IDX)


@case
def gather_of_one_number():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, 3, 0, s, b)

    move[1](X, IDX)


@case
def gather_of_float_rows():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1.5, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_of_a_float_tile():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather(X, px.zeros((4,), px.f32), 0, s, b)

    move[1](X, IDX)


@case
def gather_by_a_float_array():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather(X, X[0, 0:4], 0, s, b)

    move[1](X, IDX)


@case
def gather_by_a_matrix_of_indices():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather(X, px.zeros((2, 2), px.i32), 0, s, b)

    move[1](X, IDX)


@case
def gather4_of_eight_rows():
    @px.kernel
    def move(X, I):
        s = px.shared((8, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, I[0:8], 0, s, b)

    move[1](X, IDX)


@case
def gather_of_six_rows():
    @px.kernel
    def move(X, I):
        s = px.shared((6, 64), px.f32)
        b = px.barrier()
        px.tma.gather(X, I[0:6], 0, s, b)

    move[1](X, IDX)


@case
def gather_of_more_rows_than_the_tile_has():
    @px.kernel
    def move(X, I):
        s = px.shared((8, 64), px.f32)
        b = px.barrier()
        px.tma.gather(X, I[0:16], 0, s, b)

    move[1](X, IDX)


@case
def gather_into_a_global_array():
    @px.kernel
    def move(X, I):
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, X[0:4, 0:64], b)

    move[1](X, IDX)


@case
def gather_into_three_axes():
    @px.kernel
    def move(X, I):
        s = px.shared((2, 4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_into_rows_apart():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 2, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s[0:4, 0], b)

    move[1](X, IDX)


@case
def gather_into_a_transpose():
    @px.kernel
    def move(X, I):
        s = px.shared((64, 4), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s.T, b)

    move[1](X, IDX)


@case
def gather_into_a_peer():
    @px.kernel(cluster=2)
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s.at(1), b)

    move[2](X, IDX)


@case
def gather_of_another_type():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.bf16)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_of_narrow_rows():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 6), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b)

    move[1](X, IDX)


@case
def gather_from_an_odd_column():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 32), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 2, s, b)

    move[1](X, IDX)


@case
def gather_from_a_float_column():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0.5, s, b)

    move[1](X, IDX)


@case
def gather_from_a_column_of_unknown_alignment():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 32), px.f32)
        b = px.barrier()
        b.arrive_and_expect_tx(s.nbytes)
        px.tma.gather4(X, (0, 1, 2, 3), I[0], s, b)

    px.compile(move[1], X, IDX, arch="sm_90a")


@case
def gather_from_a_misaligned_column():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 32), px.f32)
        b = px.barrier()
        b.arrive_and_expect_tx(s.nbytes)
        px.tma.gather4(X, (0, 1, 2, 3), I[0] + 1, s, b)

    move[1](X, IDX)


@case
def gather_without_a_barrier():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, 3)

    move[1](X, IDX)


@case
def gather_with_an_unknown_hint():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b, cache="evict_never")

    move[1](X, IDX)


@case
def gather_to_a_cta_outside_the_cluster():
    @px.kernel(cluster=2)
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b, multicast=0b100)

    move[2](X, IDX)


@case
def gather_of_rows_that_start_anywhere():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        b.arrive_and_expect_tx(s.nbytes)
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b)

    px.compile(move[1], SHORT, IDX, arch="sm_90a")


@case
def gather_of_rows_that_start_anywhere_in_the_simulator():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        b = px.barrier()
        b.arrive_and_expect_tx(s.nbytes)
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b)

    move[1](SHORT, IDX)


@case
def multicast_gather_of_short_rows():
    @px.kernel(cluster=2)
    def move(X, I):
        s = px.shared((4, 16), px.f32)
        b = px.barrier()
        b.arrive_and_expect_tx(s.nbytes)
        px.tma.gather4(X, (0, 1, 2, 3), 0, s, b, multicast=0b11)

    px.compile(move[2], X, IDX, arch="sm_90a")


@case
def scatter_to_a_view():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        px.tma.scatter4(s, (0, 1, 2, 3), 0, X[0:4, 0:64])

    move[1](X, IDX)


@case
def scatter_from_a_global_array():
    @px.kernel
    def move(X, I):
        px.tma.scatter4(X, (0, 1, 2, 3), 0, X)

    move[1](X, IDX)


@case
def scatter_of_another_type():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.i32)
        px.tma.scatter4(s, (0, 1, 2, 3), 0, X)

    move[1](X, IDX)


@case
def scatter_of_two_rows():
    @px.kernel
    def move(X, I):
        s = px.shared((2, 64), px.f32)
        px.tma.scatter(s, (0, 1), 0, X)

    move[1](X, IDX)


@case
def scatter_from_a_column_that_may_be_negative():
    @px.kernel
    def move(X, I):
        s = px.shared((4, 64), px.f32)
        px.tma.scatter4(s, (0, 1, 2, 3), (I[0] - 8) * 4, X)

    px.compile(move[1], X, IDX, arch="sm_90a")


@case
def gather_outside_a_kernel():
    px.tma.gather4(X, (0, 1, 2, 3), 0, None, None)
