"""Products of the tensor cores: types, shapes, places of the operands."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float16)


@case
def accumulator_of_another_type():
    @px.kernel(warps=4)
    def product(X):
        a = px.shared((64, 64), px.bf16)
        acc = px.zeros((64, 64), px.f16)
        px.wgmma(a, a.T, acc)

    product[1](X)


@case
def accumulator_that_f16_may_have():
    @px.kernel(warps=4)
    def product(X):
        a = px.shared((64, 64), px.f16)
        acc = px.zeros((64, 64), px.bf16)
        acc = px.dot(a, a.T, acc)

    product[1](X)


@case
def columns_that_integers_can_not_have():
    @px.kernel(warps=4)
    def product(X):
        a, b = px.shared((64, 64), px.i8), px.shared((40, 64), px.i8)
        acc = px.zeros((64, 40), px.i32)
        px.wgmma(a, b.T, acc)

    product[1](X)


@case
def value_of_a_product_in_flight():
    @px.kernel(warps=4)
    def product(X):
        a = px.shared((64, 64), px.f16)
        acc = px.zeros((64, 64), px.f32)
        acc = px.wgmma(a, a.T, acc)

    product[1](X)


@case
def slice_across_panels():
    @px.kernel(warps=4)
    def product(X):
        a, b = px.shared((64, 64), px.f16), px.shared((64, 128), px.f16)
        full = px.barrier()
        with full.transaction():
            px.tma.load(X[0:64, 0:64], a, full)
            px.tma.load(X[0:64, 0:128], b, full)
        full.wait(0)
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(a, b[:, 32:96], acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.store(X[0:64, 0:64], acc.to(px.f16))

    px.compile(product[1], px.spec((64, 128), px.f16))


@case
def columns_of_no_swizzle():
    @px.kernel(warps=4)
    def product(X):
        a, b = px.shared((64, 64), px.f16), px.shared((64, 24), px.f16)
        full = px.barrier()
        with full.transaction():
            px.tma.load(X[0:64, 0:64], a, full)
            px.tma.load(X[0:64, 0:24], b, full)
        full.wait(0)
        acc = px.zeros((64, 24), px.f32)
        px.wgmma(a, b, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.store(X[0:64, 0:24], acc.to(px.f16))

    px.compile(product[1], px.spec((64, 64), px.f16))


@case
def warpgroups_along_k():
    @px.kernel(warps=8)
    def product(X):
        a = px.shared((64, 64), px.f16)
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(a, a.T, acc, along="k")

    product[1](X)


@case
def columns_that_warpgroups_can_not_share():
    @px.kernel(warps=8)
    def product(X):
        a = px.shared((64, 64), px.f16)
        b = px.shared((96, 64), px.f16)
        acc = px.zeros((64, 96), px.f32)
        px.wgmma(a, b.T, acc, along="n")

    product[1](X)


@case
def dot_of_a_tile_that_nothing_takes():
    @px.kernel(warps=2)
    def product(X):
        a = px.shared((20, 64), px.f16)
        b = px.shared((64, 64), px.f16)
        px.store(X[0:20, 0:64], px.dot(a, b.T).to(px.f16))

    product[1](X)


@case
def dot_of_a_global_view():
    @px.kernel(warps=2)
    def product(X):
        px.store(X[0:64, 0:64], px.dot(X[0:64, 0:64], X[0:64, 0:64]).to(px.f16))

    product[1](X)


@case
def dot_of_types_that_do_not_go_together():
    @px.kernel(warps=2)
    def product(X):
        a = px.shared((64, 64), px.f16)
        b = px.shared((64, 64), px.bf16)
        px.store(X[0:64, 0:64], px.dot(a, b.T).to(px.f16))

    product[1](X)


@case
def one_accumulator_spread_in_two_ways():
    @px.kernel(warps=8)
    def product(X):
        a = px.shared((128, 64), px.f16)
        px.store(a, px.load(X[0:128, 0:64]))
        px.fence.async_proxy()
        acc = px.dot(a, a.T)
        acc = px.dot(a, a.T, acc, along="n")
        px.store(X[0:128, 0:128], acc.to(px.f16))

    px.compile(product[1], X)
