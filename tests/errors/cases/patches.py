"""Copies of a convolution's patches: the array, the kernel, the tap, what takes them."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((2, 8, 8, 32), np.float32)


@case
def patches_of_a_matrix():
    @px.kernel
    def copy(X):
        s, b = px.shared((16, 32), px.f32), px.barrier()
        px.tma.load(X.im2col(0, 0, 0, (16, 32), kernel=3), s, b)

    copy[1](np.zeros((64, 32), np.float32))


@case
def a_kernel_of_three_axes_on_two():
    @px.kernel
    def copy(X):
        s, b = px.shared((16, 32), px.f32), px.barrier()
        px.tma.load(X.im2col(0, (0, 0), 0, (16, 32), kernel=(3, 3, 3)), s, b)

    copy[1](X)


@case
def a_tap_outside_its_kernel():
    @px.kernel
    def copy(X):
        s, b = px.shared((16, 32), px.f32), px.barrier()
        px.tma.load(X.im2col(0, (0, 3), 0, (16, 32), kernel=3), s, b)

    copy[1](X)


@case
def a_kernel_that_reaches_too_far():
    @px.kernel
    def copy(X):
        s, b = px.shared((16, 32), px.f32), px.barrier()
        px.tma.load(X.im2col(0, (0, 0), 0, (16, 32), kernel=3, dilation=100), s, b)

    copy[1](X)


@case
def more_patches_than_a_copy_has():
    @px.kernel
    def copy(X):
        s, b = px.shared((512, 32), px.f32), px.barrier()
        px.tma.load(X.im2col(0, (0, 0), 0, (512, 32), kernel=3), s, b)

    copy[1](X)


@case
def patches_loaded_into_registers():
    @px.kernel
    def copy(X):
        px.store(X[0, 0, 0:1, 0:32], px.load(X.im2col(0, (0, 0), 0, (1, 32), kernel=3)))

    copy[1](X)


@case
def patches_shared_out_among_ctas():
    @px.kernel(cluster=2)
    def copy(X):
        s, b = px.shared((16, 32), px.f32), px.barrier()
        with b.transaction():
            px.cluster.load(X.im2col(0, (0, 0), 0, (16, 32), kernel=3), s, b, ctas=0b11)

    copy[2](X)


@case
def patches_that_are_no_whole_pieces():
    @px.kernel
    def copy(X):
        s, b = px.shared((16, 6), px.f32), px.barrier()
        with b.transaction():
            px.tma.load(X.im2col(0, (0, 0), 0, (16, 6), kernel=3), s, b)

    px.compile(copy[1], X, arch="sm_90a")


@case
def patches_in_a_buffer_of_another_shape():
    @px.kernel
    def copy(X):
        s, b = px.shared((32, 16), px.f32), px.barrier()
        px.tma.load(X.im2col(0, (0, 0), 0, (16, 32), kernel=3), s, b)

    copy[1](X)
