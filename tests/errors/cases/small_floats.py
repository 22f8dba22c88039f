"""Mistakes with floats of 8 bits and less, and with memory in which two elements share a byte."""

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)
P = np.zeros((64, 64), ml_dtypes.float4_e2m1fn)
S = np.zeros((64, 64), ml_dtypes.float8_e8m0fnu)
DENSE = px.packed(np.zeros((64, 96), np.uint8), px.f6e2m3, dense=True)


@case
def arithmetic_on_four_bits():
    @px.kernel
    def add(P):
        p = px.load(P[0:8, 0:8])
        px.store(P[0:8, 0:8], p + p)

    add[1](P)


@case
def a_product_with_a_scale():
    @px.kernel
    def scale(X, S):
        px.store(X[0:8, 0:8], px.load(X[0:8, 0:8]) * px.load(S[0:8, 0:8]))

    scale[1](X, S)


@case
def floats_into_four_bits():
    @px.kernel
    def quantize(X, P):
        px.store(P[0:8, 0:8], px.load(X[0:8, 0:8]))

    quantize[1](X, P)


@case
def bits_of_four_bits():
    @px.kernel
    def look(P, X):
        px.store(X[0:8, 0:8], px.bitcast(px.load(P[0:8, 0:8]), px.u8).to(px.f32))

    look[1](P, X)


@case
def one_element_of_a_byte():
    @px.kernel
    def look(P, X):
        px.store(X[0, 0], px.load(P[3, 5]).to(px.f32))

    look[1](P, X)


@case
def one_column_of_bytes():
    @px.kernel
    def look(P, X):
        px.store(X[0, 0:8], px.load(P[0:8, 4]).to(px.f32))

    look[1](P, X)


@case
def half_a_byte_at_the_end():
    @px.kernel
    def look(P, X):
        px.store(X[0:8, 0:7], px.load(P[0:8, 0:7]).to(px.f32))

    look[1](P, X)


@case
def half_a_byte_at_the_start():
    @px.kernel
    def look(P, X):
        px.store(X[0:8, 0:8], px.load(P[0:8, 3:11]).to(px.f32))

    look[1](P, X)


@case
def an_odd_start_at_run_time():
    @px.kernel
    def look(P, X, k):
        px.store(X[0:8, 0:8], px.load(P[0:8, k:k+8]).to(px.f32))

    look[1](P, X, 3)


@case
def an_unknown_start():
    @px.kernel
    def look(P, X, k):
        px.store(X[0:8, 0:8], px.load(P[0:8, k:k+8]).to(px.f32))

    px.compile(look[1], px.spec((64, 64), px.f4e2m1), px.spec((64, 64), px.f32), 4)


@case
def columns_by_index():
    @px.kernel
    def look(P, X):
        px.store(X[0:8, 0:8], px.load(P[0:8, px.arange(8)]).to(px.f32))

    look[1](P, X)


@case
def a_fill_that_is_no_constant():
    @px.kernel
    def look(P, X, f):
        px.store(X[0:8, 0:8], px.load(P[0:8, 0:8], fill=f.to(px.f4e2m1)).to(px.f32))

    px.compile(look[1], px.spec((64, 64), px.f4e2m1), px.spec((64, 64), px.f32), 1.0)


@case
def a_buffer_of_half_bytes():
    @px.kernel
    def keep(X):
        px.shared((4, 7), px.f4e2m1)
        px.store(X[0, 0], 1.0)

    keep[1](X)


@case
def an_atomic_of_four_bits():
    @px.kernel
    def add(P):
        px.atomic_add(P[0:8, 0:8], px.zeros((8, 8), px.f4e2m1))

    add[1](P)


@case
def a_push_that_would_convert():
    @px.kernel(cluster=2)
    def push(X):
        s, d, full = px.shared((8, 64), px.f4e2m1), px.shared((8, 64), px.f32), px.barrier()
        px.cluster.copy(s, d, full, cta=px.cluster.rank() ^ 1, arm=True)
        full.wait(0)
        px.store(X[0:8, 0:64], px.load(d))

    push[2](X)


@case
def an_array_of_odd_rows():
    @px.kernel
    def look(P, X):
        px.store(X[0:8, 0:8], px.load(P[0:8, 0:8]).to(px.f32))

    look[1](np.zeros((8, 9), ml_dtypes.float4_e2m1fn), X)


@case
def packed_of_floats():
    @px.kernel
    def look(P, X):
        px.store(X[0:8, 0:8], px.load(P[0:8, 0:8]).to(px.f32))

    look[1](px.packed(X, px.f4e2m1), X)


@case
def packed_of_a_type_that_is_not():
    px.packed(np.zeros((4, 8), np.uint8), px.i8)


@case
def a_spec_of_half_bytes():
    px.spec((4, 7), px.f4e2m1)


@case
def threads_at_a_padded_buffer():
    @px.kernel
    def look(P, X):
        s = px.shared((8, 128), px.f4e2m1, padded=True)
        px.store(X[0:8, 0:64], px.load(s[:, 0:64]).to(px.f32))

    look[1](P, X)


@case
def a_store_to_a_padded_buffer():
    @px.kernel
    def fill(P, X):
        s = px.shared((8, 128), px.f4e2m1, padded=True)
        px.store(s, px.zeros((8, 128), px.f4e2m1))

    fill[1](P, X)


@case
def threads_at_a_dense_array():
    @px.kernel
    def look(D, X):
        px.store(X[0:8, 0:8], px.load(D[0:8, 0:8]).to(px.f32))

    look[1](DENSE, X)


@case
def a_dense_array_without_padding():
    @px.kernel
    def bring(D, X):
        s, full = px.shared((8, 128), px.f6e2m3), px.barrier()
        with full.transaction():
            px.tma.load(D[0:8, 0:128], s, full)

    bring[1](DENSE, X)


@case
def bytes_for_a_padded_buffer():
    @px.kernel
    def bring(D, X):
        s, full = px.shared((8, 128), px.f6e2m3, padded=True), px.barrier()
        with full.transaction():
            px.tma.load(D[0:8, 0:128], s, full)

    bring[1](np.zeros((8, 128), ml_dtypes.float6_e2m3fn), X)


@case
def rows_by_index_of_a_dense_array():
    @px.kernel
    def bring(D, X):
        s, full = px.shared((4, 128), px.f6e2m3), px.barrier()
        with full.transaction():
            px.tma.gather4(D, [0, 1, 2, 3], 0, s, full)

    bring[1](DENSE, X)


@case
def a_prefetch_of_a_dense_array():
    @px.kernel
    def bring(D, X):
        px.tma.prefetch(D[0:8, 0:128])

    bring[1](DENSE, X)


@case
def a_dense_array_of_odd_bytes():
    @px.kernel
    def look(D, X):
        px.store(X[0, 0], 1.0)

    look[1](px.packed(np.zeros((8, 100), np.uint8), px.f6e2m3, dense=True), X)


@case
def a_dense_spec_of_odd_elements():
    px.spec((8, 126), px.f6e2m3, dense=True)


@case
def padding_of_whole_bytes():
    @px.kernel
    def keep(X):
        px.shared((8, 128), px.f8e4m3, padded=True)
        px.store(X[0, 0], 1.0)

    keep[1](X)


@case
def a_padded_copy_on_hopper():
    @px.kernel
    def bring(P, X):
        s, full = px.shared((8, 128), px.f4e2m1, padded=True), px.barrier()
        with full.transaction():
            px.tma.load(P[0:8, 0:128], s, full)
        full.wait(0)
        px.store(X[0, 0], 1.0)

    px.compile(bring[1], px.spec((64, 128), px.f4e2m1), px.spec((64, 64), px.f32), arch="sm_90a")


@case
def rows_that_no_copy_puts_room_between():
    @px.kernel
    def bring(P, X):
        s, full = px.shared((8, 128), px.f4e2m1, padded=True), px.barrier()
        with full.transaction():
            px.tma.load(P[0:8, 0:128], s, full)
        full.wait(0)
        px.store(X[0, 0], 1.0)

    bring[1](np.zeros((8, 192), ml_dtypes.float4_e2m1fn), X)
