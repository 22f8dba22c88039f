"""px.dot with block scales: what its scales and operands have to be."""

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), ml_dtypes.float8_e4m3fn)


def product(
    a=(64, 64), b=(64, 64), scale_a=(64, 2), scale_b=(64, 2), types=(px.f8e4m3, px.f8e4m3, px.f8e8m0, px.f8e8m0),
    acc=(64, 64), acc_type=px.f32, transposed=True,
):
    @px.kernel(warps=4)
    def kernel(X, *, A, B, SA, SB, TYPES, ACC, KIND, T):
        left, right = px.shared(A, TYPES[0]), px.shared(B, TYPES[1])
        scales = px.shared(SA, TYPES[2]), px.shared(SB, TYPES[3])
        px.dot(left, right.T if T else right, px.zeros(ACC, KIND), scale_a=scales[0], scale_b=scales[1])

    kernel[1](X, A=a, B=b, SA=scale_a, SB=scale_b, TYPES=types, ACC=acc, KIND=acc_type, T=transposed)


@case
def scales_of_one_operand():
    @px.kernel(warps=4)
    def kernel(X):
        a, scales = px.shared((64, 64), px.f8e4m3), px.shared((64, 2), px.f8e8m0)
        px.dot(a, a.T, scale_a=scales)

    kernel[1](X)


@case
def scales_with_stages():
    product(scale_a=(2, 64, 2))


@case
def operands_of_different_depth():
    product(b=(64, 32))


@case
def as_many_scales_for_both():
    product(scale_b=(64, 1))


@case
def scales_of_two_types():
    product(types=(px.f8e4m3, px.f8e4m3, px.f8e8m0, px.f8e4m3))


@case
def scales_of_a_type_that_there_is_not():
    product(types=(px.f8e4m3, px.f8e4m3, px.f8e4m3, px.f8e4m3))


@case
def scales_of_wide_operands():
    product(types=(px.bf16, px.bf16, px.f8e8m0, px.f8e8m0))


@case
def four_bits_beside_eight():
    product(types=(px.f4e2m1, px.f8e4m3, px.f8e8m0, px.f8e8m0))


@case
def four_bits_along_the_columns():
    product(types=(px.f4e2m1, px.f4e2m1, px.f8e8m0, px.f8e8m0), transposed=False)


@case
def four_bits_in_registers():
    @px.kernel(warps=4)
    def kernel(X):
        a, scales = px.shared((64, 64), px.f4e2m1), px.shared((64, 2), px.f8e8m0)
        px.dot(px.load(a), a.T, scale_a=scales, scale_b=scales)

    kernel[1](X)


@case
def rows_that_are_no_multiple():
    product(a=(24, 64), scale_a=(24, 2), acc=(24, 64))


@case
def an_accumulator_of_halves():
    product(acc_type=px.f16)


@case
def a_target_without_them():
    @px.kernel(warps=4)
    def kernel(X):
        a, scales = px.shared((64, 64), px.f8e4m3), px.shared((64, 2), px.f8e8m0)
        px.dot(a, a.T, scale_a=scales, scale_b=scales)

    px.compile(kernel[1], px.spec((64, 64), px.f8e4m3), arch="sm_100a")
