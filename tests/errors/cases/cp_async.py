"""Copies that threads begin: sides, shapes, types, the barrier of a commit."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)


@case
def source_in_shared_memory():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.cp_async.load(s, s)

    copy[1](X)


@case
def source_of_one_element():
    @px.kernel
    def copy(X):
        s = px.shared((64,), px.f32)
        px.cp_async.load(X[0, 0], s[0])

    copy[1](X)


@case
def destination_in_global_memory():
    @px.kernel
    def copy(X):
        px.cp_async.load(X[0:64, 0:64], X[0:64, 0:64])

    copy[1](X)


@case
def destination_that_is_transposed():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.cp_async.load(X[0:64, 0:64], s.T)

    copy[1](X)


@case
def destination_by_index():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.cp_async.load(X[0:64, 0:64], s[px.arange(64)])

    copy[1](X)


@case
def destination_in_another_cta():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.cp_async.load(X[0:64, 0:64], s.at(1))

    copy[2](X)


@case
def another_shape():
    @px.kernel
    def copy(X):
        s = px.shared((32, 64), px.f32)
        px.cp_async.load(X[0:64, 0:64], s)

    copy[1](X)


@case
def another_type():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.bf16)
        px.cp_async.load(X[0:64, 0:64], s)

    copy[1](X)


@case
def narrow_elements():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f4e2m1)
        px.cp_async.load(X[0:64, 0:64], s)

    copy[1](px.packed(np.zeros((64, 32), np.uint8), px.f4e2m1))


@case
def commit_without_a_barrier():
    @px.kernel
    def copy(X):
        s = px.shared((64, 64), px.f32)
        px.cp_async.load(X[0:64, 0:64], s)
        px.cp_async.commit(s)

    copy[1](X)


@case
def commit_of_a_pipe_without_a_stage():
    @px.kernel
    def copy(X):
        s = px.shared((2, 64, 64), px.f32)
        pipe = px.pipe(2)
        px.cp_async.load(X[0:64, 0:64], s[0])
        px.cp_async.commit(pipe)

    copy[1](X)


@case
def commit_of_a_stage_that_was_taken():
    @px.kernel(warps=2)
    def copy(X):
        s = px.shared((2, 64, 64), px.f32)
        pipe = px.pipe(2)
        with px.warps(0, 1):
            with pipe.produce() as at:
                px.tma.load(X[0:64, 0:64], s[at], pipe.full[at])
        with px.warps(1, 1):
            pipe.wait()
            px.cp_async.commit(pipe)

    copy[1](X)
