"""Register tiles: shapes, element types, axes."""

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)
HALF = np.zeros((64, 64), np.float16)
FP8 = np.zeros((64, 64), ml_dtypes.float8_e4m3fn)
BYTES = np.zeros((64, 64), np.int8)


@case
def shapes_do_not_broadcast():
    @px.kernel
    def add(X):
        a = px.load(X[0:16, 0:8])
        b = px.load(X[0:16, 0:4])
        px.store(X[0:16, 0:8], a + b)

    add[1](X)


@case
def fp8_arithmetic():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:8], x + x)

    add[1](FP8)


@case
def fp8_and_a_number():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:8], x * 2)

    add[1](FP8)


@case
def fp8_sum():
    @px.kernel
    def add(X):
        px.store(X[0, 0], px.sum(px.load(X[0:8, 0:8])))

    add[1](FP8)


@case
def exp_of_integers():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], px.exp(px.load(X[0:8, 0:8])))

    add[1](BYTES)


@case
def store_of_another_shape():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:16], px.load(X[0:8, 0:8]))

    add[1](X)


@case
def store_of_a_wider_type():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8]).to(px.f32)
        px.store(X[0:8, 0:8], x + 1)

    add[1](HALF)


@case
def store_of_no_value():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], X[8:16, 0:8])

    add[1](X)


@case
def store_to_a_tile():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8])
        px.store(x, 0.0)

    add[1](X)


@case
def store_to_a_name_of_an_element():
    @px.kernel
    def add(X):
        corner = X[0, 0]
        px.store(corner, 1.0)

    add[1](X)


@case
def load_of_an_array():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], px.load(X))

    add[1](X)


@case
def fill_is_a_tile():
    @px.kernel
    def add(X):
        zero = px.zeros((8, 8))
        px.store(X[0:8, 0:8], px.load(X[0:8, 0:8], fill=zero))

    add[1](X)


@case
def atomic_add_of_int8():
    @px.kernel
    def add(X):
        px.atomic_add(X[0:8, 0:8], 1)

    add[1](BYTES)


@case
def reshape_of_another_size():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0, 0:32], x.reshape(32))

    add[1](X)


@case
def axis_that_is_not_there():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0, 0:8], px.sum(x, axis=2))

    add[1](X)


@case
def sum_of_a_view():
    @px.kernel
    def add(X):
        px.store(X[0, 0:8], px.sum(X[0:8, 0:8], axis=0))

    add[1](X)


@case
def argmax_without_an_axis():
    @px.kernel
    def add(X):
        px.store(X[0, 0], px.argmax(px.load(X[0:8, 0:8]), None))

    add[1](X)


@case
def shape_known_at_run_time():
    @px.kernel
    def add(X, n):
        px.store(X[0:8, 0:8], px.zeros((8, n), px.f32))

    add[1](X, 8)


@case
def shape_of_size_zero():
    @px.kernel
    def add(X, *, BN=0):
        px.store(X[0:8, 0:8], px.zeros((8, BN), px.f32))

    add[1](X)


@case
def dtype_is_missing():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], px.full((8, 8), 0, "f32"))

    add[1](X)


@case
def condition_of_where_is_not_bool():
    @px.kernel
    def add(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:8], px.where(x, x, 0.0))

    add[1](X)


@case
def transpose_of_a_scalar():
    @px.kernel
    def add(X):
        px.store(X[0, 0], px.block_id(0).T)

    add[1](X)


@case
def conversion_to_something_else():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], px.load(X[0:8, 0:8]).to(float))

    add[1](X)


@case
def tanh_of_integers():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], px.tanh(px.load(X[0:8, 0:8]), approx=True))

    add[1](BYTES)


@case
def tanh_with_an_error():
    @px.kernel
    def add(X):
        px.store(X[0:8, 0:8], px.tanh(px.load(X[0:8, 0:8]), approx=1e-3))

    add[1](X)


@case
def keeps_a_view():
    @px.kernel
    def scale(X):
        x = px.keep(X[0:8, 0:8])
        px.store(X[0:8, 0:8], px.load(x) * 2)

    scale[1](X)
