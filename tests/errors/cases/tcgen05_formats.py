"""Formats of Blackwell's tensor cores: types below 8 bits, block scales, what copies between them."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float16)


@case
def six_bits_without_a_byte():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.f8e4m3), px.shared((64, 64), px.f6e2m3), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def four_bits_padded_for_a_product_that_packs_them():
    @px.kernel(warps=4)
    def kernel(X):
        a, b = px.shared((128, 128), px.f4e2m1, padded=True), px.shared((64, 128), px.f4e2m1)
        acc, sa, sb = px.tmem((128, 64), px.f32), px.tmem((128, 4), px.f8e8m0), px.tmem((64, 4), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=sa, scale_b=sb)

    kernel[1](X)


@case
def four_bits_in_tensor_memory_without_a_byte():
    @px.kernel(warps=4)
    def kernel(X):
        a, b = px.tmem((128, 64), px.f4e2m1), px.shared((64, 64), px.f8e4m3)
        px.tcgen05.mma(a, b.T, px.tmem((128, 64), px.f32))

    kernel[1](X)


@case
def six_bits_in_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        px.tmem((128, 64), px.f6e3m2)

    kernel[1](X)


@case
def padded_tensor_memory_of_bytes():
    @px.kernel(warps=4)
    def kernel(X):
        px.tmem((128, 64), px.f8e4m3, padded=True)

    kernel[1](X)


@case
def a_copy_that_would_pad():
    @px.kernel(warps=4)
    def kernel(X):
        px.tcgen05.copy(px.shared((128, 128), px.f4e2m1), px.tmem((128, 128), px.f4e2m1, padded=True))

    kernel[1](X)


@case
def threads_at_six_bits_in_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        px.tcgen05.load(px.tmem((128, 64), px.f6e3m2, padded=True))

    kernel[1](X)


@case
def scales_of_one_operand():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        s = px.tmem((128, 4), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=s)

    kernel[1](X)


@case
def scales_of_bf16():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        sa, sb = px.tmem((128, 2), px.f8e8m0), px.tmem((64, 2), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=sa, scale_b=sb)

    kernel[1](X)


@case
def scales_of_other_rows():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.f8e4m3), px.shared((64, 64), px.f8e4m3), px.tmem((128, 64), px.f32)
        s = px.tmem((128, 2), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=s, scale_b=s)

    kernel[1](X)


@case
def scales_of_two_types():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.f8e4m3), px.shared((64, 64), px.f8e4m3), px.tmem((128, 64), px.f32)
        sa, sb = px.tmem((128, 2), px.f8e8m0), px.tmem((64, 2), px.f8e4m3)
        px.tcgen05.mma(a, b.T, acc, scale_a=sa, scale_b=sb)

    kernel[1](X)


@case
def scales_for_sixteen_of_fp8():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.f8e4m3), px.shared((64, 64), px.f8e4m3), px.tmem((128, 64), px.f32)
        sa, sb = px.tmem((128, 4), px.f8e8m0), px.tmem((64, 4), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=sa, scale_b=sb)

    kernel[1](X)


@case
def a_scaled_product_of_64_rows():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((64, 64), px.f8e4m3), px.shared((64, 64), px.f8e4m3), px.tmem((64, 64), px.f32)
        s = px.tmem((64, 2), px.f8e8m0)
        px.tcgen05.mma(a, b.T, acc, scale_a=s, scale_b=s)

    kernel[1](X)


@case
def a_copy_that_would_convert():
    @px.kernel(warps=4)
    def kernel(X):
        s, t = px.shared((128, 32), px.bf16), px.tmem((128, 32), px.f32)
        px.tcgen05.copy(s, t)

    kernel[1](X)


@case
def scales_in_plain_order():
    @px.kernel(warps=4)
    def kernel(X):
        s, t = px.shared((4, 128), px.f8e8m0), px.tmem((128, 4), px.f8e8m0)
        px.tcgen05.copy(s, t)

    kernel[1](X)


@case
def a_copy_from_global_memory():
    @px.kernel(warps=4)
    def kernel(X):
        t = px.tmem((64, 64), px.f16)
        px.tcgen05.copy(X[0:64, 0:64], t)

    kernel[1](X)


@case
def scales_in_rows():
    @px.kernel(warps=4)
    def scales():
        px.tcgen05.copy(px.shared((128, 32), px.f8e8m0), px.tmem((128, 32), px.f8e8m0))

    scales[1]()


@case
def scales_of_nvfp4_in_rows():
    @px.kernel(warps=4)
    def scales():
        px.tcgen05.copy(px.shared((128, 8), px.f8e4m3), px.tmem((128, 8), px.f8e4m3))

    scales[1]()


@case
def a_copy_of_narrow_rows():
    @px.kernel(warps=4)
    def kernel(X):
        px.tcgen05.copy(px.shared((128, 24), px.bf16), px.tmem((128, 24), px.bf16))

    kernel[1](X)


@case
def a_copy_of_a_strided_matrix():
    @px.kernel(warps=4)
    def kernel(X):
        s = px.shared((128, 2, 32), px.bf16)
        px.tcgen05.copy(s[:, 0], px.tmem((128, 32), px.bf16))

    kernel[1](X)
