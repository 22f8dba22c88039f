"""Candidates: px.choose."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.kernel(warps=1, cluster=lambda CTAS: CTAS)
def wide(X, *, BM=px.choose(32, 64), CTAS=px.choose(2, 4)):
    s = px.shared((BM, 4096), px.f32)
    px.store(s, px.zeros((BM, 4096), px.f32))
    px.store(X[0:BM], px.load(s[:, 0]))


@px.kernel
def fill(X, *, BM=64, BN=1):
    px.store(X[0:BM], px.zeros((BM,), px.f32))


@case
def no_combination_fits():
    wide[lambda CTAS: 2](X)


@case
def a_choice_of_one():
    fill[1](X, BM=px.choose(64))


@case
def a_choice_of_none():
    fill[1](X, BM=px.choose())


@case
def a_choice_of_a_list():
    fill[1](X, BM=px.choose([32, 64]))


@case
def a_choice_without_order():
    fill[1](X, BM=px.choose({32, 64}))


@case
def a_choice_with_a_value_twice():
    fill[1](X, BM=px.choose(32, 64, 32))


@case
def a_choice_within_a_choice():
    fill[1](X, BM=px.choose(32, px.choose(64, 128)))


@case
def too_many_combinations():
    fill[1](X, BM=px.choose(*range(1, 101)), BN=px.choose(*range(100)))


@case
def a_choice_as_a_grid():
    fill[px.choose(1, 2)](X)


@case
def a_parameter_that_the_decorator_leaves_open():
    @px.kernel(cluster=px.choose(1, 2))
    def clustered(X, *, cluster=1):
        px.store(X[0], float(cluster))


@case
def checked_in_another_way():
    px.check(fill[1], X, choices="some")


@case
def no_combination_can_be_checked():
    px.check(wide[lambda CTAS: 3], X, choices="all")
