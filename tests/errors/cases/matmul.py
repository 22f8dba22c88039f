"""Products of the library: operands, what follows them, and configurations by hand."""

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case
from phalanx.kernels.products.matmul import MatmulConfig, SplitConfig

A, B = np.zeros((64, 32), ml_dtypes.bfloat16), np.zeros((32, 48), ml_dtypes.bfloat16)
NARROW = np.zeros((64, 32), ml_dtypes.float8_e4m3fn)


@case
def product_of_a_list():
    px.kernels.matmul([[1.0]], B)


@case
def product_of_f32():
    px.kernels.matmul(A.astype(np.float32), B)


@case
def product_of_two_types():
    px.kernels.matmul(A, B.astype(np.float16))


@case
def product_of_8_and_16_bits():
    px.kernels.matmul(NARROW, B)


@case
def product_of_unequal_k():
    px.kernels.matmul(A, B.T)


@case
def product_of_batches_that_do_not_broadcast():
    px.kernels.matmul(np.stack([A] * 3), np.stack([B] * 2))


@case
def product_with_no_axes():
    px.kernels.matmul(A, np.zeros((), A.dtype))


@case
def product_with_an_unknown_activation():
    px.kernels.matmul(A, B, activation="swish")


@case
def product_with_a_short_bias():
    px.kernels.matmul(A, B, np.zeros(64, np.float32))


@case
def product_into_another_shape():
    px.kernels.matmul(A, B, out=np.zeros((48, 64), np.float32))


@case
def product_into_integers():
    px.kernels.matmul(A, B, out=np.zeros((64, 48), np.int32))


@case
def product_into_two_types():
    px.kernels.matmul(A, B, out=np.zeros((64, 48), np.float32), out_dtype=px.bf16)


@case
def product_of_an_unknown_type():
    px.kernels.matmul(A, B, out_dtype=px.i32)


@case
def product_with_a_scale_of_another_size():
    px.kernels.matmul(A, B, scale_a=np.zeros((48, 1), np.float32))


@case
def product_with_a_scale_of_bf16():
    px.kernels.matmul(A, B, scale_b=np.zeros(1, ml_dtypes.bfloat16))


@case
def product_with_rows_of_no_warpgroup():
    px.kernels.matmul(A, B, config=MatmulConfig(bm=96))


@case
def product_with_too_many_results():
    px.kernels.matmul(A, B, config=MatmulConfig(bm=256, bn=256))


@case
def product_with_stages_of_half_a_row():
    px.kernels.matmul(A, B, config=MatmulConfig(bk=32))


@case
def product_with_uneven_parts():
    px.kernels.matmul(A, B, config=MatmulConfig(parts=3))


@case
def product_with_one_stage():
    px.kernels.matmul(A, B, config=MatmulConfig(stages=1))


@case
def product_that_three_share_across_k():
    x = np.zeros((64, 64), A.dtype)
    px.kernels.matmul(x.T, x, config=MatmulConfig(bm=128, bn=64, parts=1, cluster=(1, 3)))


@case
def product_that_streams_neither_operand():
    px.kernels.matmul(A, B, config=MatmulConfig(bm=64, bn=64, groups=1, parts=1, streamed="weights"))


@case
def product_into_a_read_only_array():
    px.kernels.matmul(A, B, out=np.broadcast_to(np.zeros(48, A.dtype), (64, 48)))


@case
def product_into_elements_in_one_place():
    row = np.zeros(48, A.dtype)
    px.kernels.matmul(A, B, out=np.lib.stride_tricks.as_strided(row, (64, 48), (0, 2)))


@case
def product_into_its_operand():
    x = np.zeros((64, 64), A.dtype)
    px.kernels.matmul(x, np.zeros_like(x), out=x)


@case
def product_with_a_scale_in_words():
    px.kernels.matmul(A, B, scale_a="2")


@case
def product_with_a_dict():
    px.kernels.matmul(A, B, config={"bm": 64})


@case
def product_with_more_stages_than_fit():
    px.kernels.matmul(A, B, config=MatmulConfig(stages=20))


@case
def product_swapped_with_a_residual():
    px.kernels.matmul(A, B, np.zeros((64, 48), A.dtype), config=MatmulConfig(64, 24, parts=1, groups=1, swapped=True))


@case
def product_with_a_word_as_configuration():
    px.kernels.matmul(A, B, config="fast")


@case
def product_of_a_batch_that_is_split():
    px.kernels.matmul(np.stack([A, A]), np.stack([B, B]), config=SplitConfig(64, 64, 1, 3, groups=1))


@case
def product_tuned_without_a_gpu():
    px.kernels.matmul(A, B, config="tune")
