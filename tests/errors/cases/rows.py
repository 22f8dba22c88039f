"""Mistakes in calls of the library's copies of rows by index."""

import ml_dtypes
import numpy as np

from errors.casebook import case
from phalanx.kernels.gather import embedding, gather_rows, scatter_add_rows, scatter_rows
from phalanx.kernels.kv_cache import kv_compact

X, OUT = np.zeros((10, 64), np.float32), np.zeros((20, 64), np.float32)
ROWS = np.arange(10)
CACHE, KEEP = np.zeros((2, 8, 4, 8), ml_dtypes.bfloat16), np.array([[0, 3], [1, 2]])


@case
def rows_of_three_axes():
    gather_rows(X[None], ROWS)


@case
def rows_by_a_list():
    gather_rows(X, [1, 2])


@case
def rows_by_floats():
    gather_rows(X, np.array([1.0, 2.0]))


@case
def rows_by_a_matrix_of_indices():
    gather_rows(X, ROWS[None])


@case
def rows_into_another_type():
    gather_rows(X, ROWS, out=np.zeros((10, 64), np.float16))


@case
def rows_into_another_shape():
    gather_rows(X, ROWS, out=OUT)


@case
def rows_into_a_read_only_array():
    scatter_rows(X, ROWS, np.broadcast_to(OUT[0], (20, 64)))


@case
def rows_without_an_index_each():
    scatter_rows(X, ROWS[:3], OUT)


@case
def rows_of_another_width():
    scatter_rows(X[:, :32], ROWS, OUT)


@case
def sums_of_f64():
    scatter_add_rows(X.astype(np.float64), ROWS, OUT.astype(np.float64))


@case
def embedding_by_floats():
    embedding(X, X)


@case
def tokens_of_other_sequences():
    kv_compact(CACHE, KEEP[:1])


@case
def tokens_of_a_matrix():
    kv_compact(CACHE[0, 0], KEEP)


@case
def tokens_that_move_back():
    kv_compact(CACHE, KEEP[:, ::-1], inplace=True)


@case
def tokens_that_start_anywhere_in_place():
    kv_compact(np.zeros((2, 8, 3), np.float32), KEEP, inplace=True)


@case
def pages_of_other_sequences():
    kv_compact(CACHE, KEEP, pages=np.zeros((3, 4), int))
