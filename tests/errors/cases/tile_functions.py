"""Mistakes with the functions of tiles beyond arithmetic: truth, fused products, bits, new axes, folds, scans, top k."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)
N = np.zeros((64, 64), np.int32)


@case
def any_of_a_view():
    @px.kernel
    def look(X):
        if px.any(X[0:8, 0:8]):
            px.store(X[0, 0], 1.0)

    look[1](X)


@case
def argmin_without_an_axis():
    @px.kernel
    def look(X):
        px.store(X[0, 0], px.argmin(px.load(X[0:8, 0:8]), None))

    look[1](X)


@case
def fma_of_integers():
    @px.kernel
    def multiply(N):
        n = px.load(N[0:8, 0:8])
        px.store(N[0:8, 0:8], px.fma(n, n, 1))

    multiply[1](N)


@case
def fma_of_bare_numbers():
    @px.kernel
    def multiply(X):
        px.store(X[0, 0], px.fma(2.0, 3.0, 1.0))

    multiply[1](X)


@case
def ones_to_skip_of_integers():
    @px.kernel
    def scale(N):
        n = px.load(N[0:8, 0:8])
        px.store(N[0:8, 0:8], px.multiply(n, 2, skip_ones=True))

    scale[1](N)


@case
def ones_to_skip_in_a_larger_tile():
    @px.kernel
    def scale(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:8], px.multiply(px.max(x, 1, keepdims=True), x, skip_ones=True))

    scale[1](X)


@case
def ones_to_skip_of_a_wider_type():
    @px.kernel
    def scale(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:8], px.multiply(x.to(px.f16), x, skip_ones=True).to(px.f32))

    scale[1](X)


@case
def whether_to_skip_ones_at_run_time():
    @px.kernel
    def scale(X, n):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:8], px.multiply(x, 2.0, skip_ones=n > 3))

    scale[1](X, 4)


@case
def isnan_of_integers():
    @px.kernel
    def look(X, N):
        px.store(X[0:8, 0:8], px.where(px.isnan(px.load(N[0:8, 0:8])), 1.0, 0.0))

    look[1](X, N)


@case
def round_of_integers():
    @px.kernel
    def look(N):
        px.store(N[0:8, 0:8], px.round(px.load(N[0:8, 0:8])))

    look[1](N)


@case
def bitcast_to_another_size():
    @px.kernel
    def look(X):
        px.store(X[0:8, 0:8], px.bitcast(px.load(X[0:8, 0:8]), px.f16).to(px.f32))

    look[1](X)


@case
def bitcast_of_bools():
    @px.kernel
    def look(X):
        px.store(X[0:8, 0:8], px.bitcast(px.load(X[0:8, 0:8]) > 0, px.u8).to(px.f32))

    look[1](X)


@case
def bitcast_of_a_view():
    @px.kernel
    def look(X):
        px.store(X[0:8, 0:8], px.bitcast(X[0:8, 0:8], px.i32).to(px.f32))

    look[1](X)


@case
def single_element_of_a_tile():
    @px.kernel
    def look(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0:8, 0:1], x[:, 0, None])

    look[1](X)


# --- folds and scans by a function


@px.func
def larger(a, b):
    return px.maximum(a, b)


@px.func
def compares(a, b):
    return a > b


@px.func
def forgets(a, b):
    return a[0] + b[0]


@px.func
def branches(a, b):
    if a > b:
        return a
    return b


@px.func
def waits(a, b):
    px.sync()
    return a + b


@px.func
def makes_a_tile(a, b):
    return px.sum(px.full((8,), a, px.f32)) + b


@case
def fold_by_a_plain_function():
    def plain(a, b):
        return a + b

    @px.kernel
    def fold(X):
        px.store(X[0, 0:8], px.reduce(px.load(X[0:8, 0:8]), 0, plain))

    fold[1](X)


@case
def fold_by_a_lambda():
    @px.kernel
    def fold(X):
        px.store(X[0, 0:8], px.reduce(px.load(X[0:8, 0:8]), 0, lambda a, b: a + b))

    fold[1](X)


@case
def fold_of_a_view():
    @px.kernel
    def fold(X):
        px.store(X[0, 0:8], px.reduce(X[0:8, 0:8], 0, larger))

    fold[1](X)


@case
def fold_that_returns_a_bool():
    @px.kernel
    def fold(X):
        px.store(X[0, 0:8], px.reduce(px.load(X[0:8, 0:8]), 0, compares))

    fold[1](X)


@case
def fold_that_returns_one_of_two():
    @px.kernel
    def fold(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0, 0:8], px.reduce((x, x), 0, forgets)[0])

    fold[1](X)


@case
def fold_with_a_branch():
    @px.kernel
    def fold(X):
        px.store(X[0, 0:8], px.reduce(px.load(X[0:8, 0:8]), 0, branches))

    fold[1](X)


@case
def scan_with_a_barrier():
    @px.kernel
    def fold(X):
        px.store(X[0:8, 0:8], px.scan(px.load(X[0:8, 0:8]), 0, waits))

    fold[1](X)


@case
def scan_that_makes_a_tile():
    @px.kernel
    def fold(X):
        px.store(X[0:8, 0:8], px.scan(px.load(X[0:8, 0:8]), 0, makes_a_tile))

    fold[1](X)


@case
def fold_of_two_shapes():
    @px.kernel
    def fold(X):
        x = px.load(X[0:8, 0:8])
        px.store(X[0, 0:8], px.reduce((x, px.load(X[0, 0:8])), 0, forgets)[0])

    fold[1](X)


@case
def scan_without_an_axis():
    @px.kernel
    def fold(X):
        px.store(X[0:8, 0:8], px.scan(px.load(X[0:8, 0:8]), None, larger))

    fold[1](X)


@case
def fold_with_too_many_parameters():
    @px.func
    def three(a, b, c):
        return a + b + c

    @px.kernel
    def fold(X):
        px.store(X[0, 0:8], px.reduce(px.load(X[0:8, 0:8]), 0, three))

    fold[1](X)


# --- the largest k


@case
def more_than_there_are():
    @px.kernel
    def choose(X):
        px.store(X[0:8, 0:9], px.topk(px.load(X[0:8, 0:8]), 9, 1)[0])

    choose[1](X)


@case
def k_known_at_run_time():
    @px.kernel
    def choose(X, k):
        px.store(X[0:8, 0:4], px.topk(px.load(X[0:8, 0:8]), k, 1)[0])

    choose[1](X, 4)


@case
def largest_of_a_view():
    @px.kernel
    def choose(X):
        px.store(X[0:8, 0:2], px.topk(X[0:8, 0:8], 2, 1)[0])

    choose[1](X)


@case
def largest_of_fp8():
    @px.kernel
    def choose(X):
        px.store(X[0:8, 0:2], px.topk(px.load(X[0:8, 0:8]).to(px.f8e4m3), 2, 1)[0].to(px.f32))

    choose[1](X)
