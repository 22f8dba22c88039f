"""Helpers and structs."""
# ruff: noqa: B006

import functools

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.func
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


@px.func
def row(X, m, BN):
    return X[m, 0:BN]


@px.func
def two_rows(X, m, BN):
    return row(X, m, BN), row(X, m + 1, BN)


@px.struct
class Tile:
    m: int
    n: int = 4

    def move(self, by):
        self.m += by


@case
def recursion():
    @px.kernel
    def use(X):
        px.store(X[0], factorial(3))

    use[1](X)


@case
def mistake_inside_an_inlined_call():
    @px.kernel
    def use(X):
        a, b = two_rows(X, 0, 8)
        px.store(a, px.load(b))

    use[1](X)


@case
def missing_argument_of_a_helper():
    @px.kernel
    def use(X):
        px.store(X[0], row(X, 1))

    use[1](X)


@case
def result_on_some_paths_only():
    @px.func
    def sign(x):
        if x > 0:
            return 1

    @px.kernel
    def use(X):
        px.store(X[0], sign(X[1]))

    use[1](X)


@case
def results_of_different_types():
    @px.func
    def pick(x):
        if x > 0:
            return x
        return px.block_id(0)

    @px.kernel
    def use(X):
        px.store(X[0], pick(X[1]))

    use[1](X)


@case
def missing_field():
    @px.kernel
    def use(X):
        t = Tile(n=3)
        px.store(X[0], t.m)

    use[1](X)


@case
def unknown_field_in_a_constructor():
    @px.kernel
    def use(X):
        t = Tile(1, k=3)
        px.store(X[0], t.m)

    use[1](X)


@case
def assignment_to_an_unknown_field():
    @px.kernel
    def use(X):
        t = Tile(1)
        t.k = 3

    use[1](X)


@case
def unknown_attribute_of_a_struct():
    @px.kernel
    def use(X):
        t = Tile(1)
        px.store(X[0], t.area())

    use[1](X)


@case
def attribute_of_a_tile_assigned():
    @px.kernel
    def use(X):
        x = px.load(X[0:4])
        x.name = 3

    use[1](X)


@case
def struct_without_fields():
    @px.struct
    class Empty:
        pass


@case
def struct_with_its_own_init():
    @px.struct
    class Tile:
        m: int

        def __init__(self, m):
            self.m = m


@case
def struct_default_that_is_no_constant():
    @px.struct
    class Tile:
        m: object = object()


@case
def ring_of_a_run_time_size():
    @px.kernel
    def use(X, n):
        r = px.ring(n)
        px.store(X[0], r.stage)

    use[1](X, 3)


@case
def func_on_something_else():
    px.func(3)


@case
def helper_default_that_is_no_constant():
    @px.func
    def scale(x, table=[1, 2]):
        return x

    @px.kernel
    def use(X):
        px.store(X[0], scale(X[1]))

    use[1](X)


@case
def a_type_as_a_decorator():
    @px.f32
    def copied(X):
        px.store(X[0:64], px.load(X[0:64]))


@case
def a_helper_as_a_decorator():
    @row
    def copied(X):
        px.store(X[0:64], px.load(X[0:64]))


@case
def a_kernel_above_another_decorator():
    def timed(function):
        @functools.wraps(function)
        def measured(*args):
            return function(*args)

        return measured

    @px.kernel
    @timed
    def scale(OUT):
        px.store(OUT[0], 1.0)


@case
def a_method():
    class Model:
        @px.kernel
        def scale(self, OUT):
            px.store(OUT[0], 1.0)


@case
def an_argument_of_the_decorator_that_is_misspelt():
    @px.kernel(warp=4)
    def scale(OUT):
        px.store(OUT[0], 1.0)


@case
def an_argument_of_the_decorator_that_is_none():
    @px.kernel(BLOCK=64)
    def scale(OUT):
        px.store(OUT[0], 1.0)
