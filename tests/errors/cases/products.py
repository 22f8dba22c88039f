"""Mistakes in calls of the library's products."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case
from phalanx.kernels.products.grouped import grouped_matmul
from phalanx.kernels.products.moe import moe_gather_matmul, moe_matmul, moe_matmul_scatter
from phalanx.kernels.products.split_k import split_k_matmul

A = np.zeros((4, 64), ml_dtypes.bfloat16)
B = np.zeros((64, 32), ml_dtypes.bfloat16)
X = np.zeros((100, 64), ml_dtypes.bfloat16)
W = np.zeros((3, 32, 64), ml_dtypes.bfloat16)
ROWS = np.arange(100, dtype=np.int32)


@case
def few_rows_of_another_length():
    split_k_matmul(A, B.T)


@case
def few_rows_of_another_type():
    split_k_matmul(A, B.astype(np.float16))


@case
def few_rows_in_f32():
    split_k_matmul(A.astype(np.float32), B)


@case
def too_many_rows():
    split_k_matmul(np.zeros((513, 64), A.dtype), B)


@case
def no_columns():
    split_k_matmul(A[:, :0], B[:0])


@case
def unknown_activation():
    split_k_matmul(A, B, activation="tanh")


@case
def bias_of_another_length():
    split_k_matmul(A, B, np.zeros(31, np.float32))


@case
def result_of_another_shape():
    split_k_matmul(A, B, out=np.zeros((4, 31), A.dtype))


@case
def result_of_another_type():
    split_k_matmul(A, B, out=np.zeros((4, 32), np.float16))


@case
def groups_without_weights():
    grouped_matmul(X, W[0], [50, 50])


@case
def groups_of_another_type():
    grouped_matmul(X, W.astype(np.float16), [50, 50, 0])


@case
def groups_listed_for_other_weights():
    grouped_matmul(X, W, [50, 50])


@case
def groups_of_negative_size():
    grouped_matmul(X, W, [50, -1, 51])


@case
def groups_with_more_rows_than_there_are():
    grouped_matmul(X, W, [50, 50, 1])


@case
def group_sizes_of_another_shape():
    grouped_matmul(X, W, np.zeros(2, np.int32))


@case
def group_sizes_in_f32():
    grouped_matmul(X, W, np.zeros(3, np.float32))


@case
def groups_with_an_unknown_activation():
    grouped_matmul(X, W, [50, 50, 0], activation="tanh")


@case
def groups_with_one_bias():
    grouped_matmul(X, W, [50, 50, 0], bias=np.zeros(32, np.float32))


@case
def groups_without_columns():
    grouped_matmul(X[:, :0], W[..., :0], [50, 50, 0])


@case
def groups_of_odd_columns():
    grouped_matmul(X[:, :-1].copy(), W[..., :-1].copy(), [50, 50, 0])


@case
def groups_with_weights_of_odd_rows():
    grouped_matmul(X, W[:, :31].copy(), [50, 50, 0])


@case
def experts_with_a_matrix_of_indices():
    moe_gather_matmul(X, ROWS[None], W, [50, 50, 0])


@case
def experts_into_another_shape():
    moe_gather_matmul(X, ROWS, W, [50, 50, 0], out=np.zeros((99, 32), X.dtype))


@case
def experts_into_integers():
    moe_matmul(X, W, [50, 50, 0], out=np.zeros((100, 32), np.int32))


@case
def experts_with_an_unknown_option():
    moe_matmul(X, W, [50, 50, 0], BLOCK=64)


@case
def experts_with_weights_for_other_rows():
    moe_matmul_scatter(X, W, [50, 50, 0], ROWS, np.ones(3, np.float32), np.zeros((100, 32), np.float32))


@case
def experts_with_indices_for_other_rows():
    moe_matmul_scatter(X, W, [50, 50, 0], ROWS[:-1], np.ones(99, np.float32), np.zeros((100, 32), np.float32))


@case
def experts_into_sums_of_other_columns():
    moe_matmul_scatter(X, W, [50, 50, 0], ROWS, np.ones(100, np.float32), np.zeros((100, 31), np.float32))


@case
def groups_into_another_shape():
    grouped_matmul(X, W, [50, 50, 0], out=np.zeros((100, 31), X.dtype))


@case
def axes_permuted_twice():
    @px.kernel
    def turn(X):
        px.load(X[0:4, 0:64]).permute(0, 0)

    turn[1](X)
