"""What is too large or too deep to be read, and runs that do not end."""

import math
import os
from unittest.mock import patch

import numpy as np

import phalanx as px
from errors.casebook import case
from phalanx.language import builder

X = np.zeros((64,), np.float32)
I = np.zeros((64,), np.int32)
LARGE = 10**400


@case
def tile_beyond_the_registers():
    @px.kernel
    def large(X):
        px.store(X[0:64], px.zeros((4194304,))[0:64])

    large[1](X)


@case
def tile_beyond_all_memory():
    @px.kernel
    def large(X):
        px.print(px.load(X[0 : 2**40]))

    large[1](X)


@case
def broadcast_beyond_the_registers():
    @px.kernel
    def large(X):
        px.print(px.zeros((4096, 1)) + px.zeros((1, 4096)))

    large[1](X)


@case
def tile_of_many_axes():
    @px.kernel
    def axes(X):
        px.store(X[0:1], px.zeros((1,) * 70).reshape(1))

    axes[1](X)


@case
def shared_beyond_any_gpu():
    @px.kernel
    def large(X):
        s = px.shared((2**40,), px.f32)
        px.store(s[0:4], 0)

    large[1](X)


@case
def pipe_of_too_many_stages():
    @px.kernel
    def stages(X):
        pipe = px.pipe(2**40)
        pipe.acquire()

    stages[1](X)


@case
def barriers_that_do_not_fit_together():
    @px.kernel
    def many(X):
        a = px.barrier(20000)
        b = px.barrier(20000)
        a[0].arrive()
        b[0].arrive()

    many[1](X)


@case
def power_of_many_bits():
    @px.kernel
    def power(X):
        px.store(X[0:4], 10**400)

    power[1](X)


@case
def shift_of_many_bits():
    @px.kernel
    def shift(X):
        px.store(X[1 << 100000 : 4], 0)

    shift[1](X)


@case
def captured_number_of_many_bits():
    @px.kernel
    def captured(X):
        px.store(X[0:4], LARGE)

    captured[1](X)


@case
def index_of_more_than_64_bits():
    @px.kernel
    def far(X):
        px.store(X[2**100], 0)

    far[1](X)


@case
def tuple_of_too_many_items():
    @px.kernel
    def long(X):
        px.store(X[0], len((0,) * 10**9))

    long[1](X)


@case
def string_that_doubles():
    @px.kernel
    def doubles(X):
        text = "x"
        for _ in px.static_range(40):
            text = text + text
        px.print(text)

    doubles[1](X)


@case
def sum_of_a_long_range():
    @px.kernel
    def long(X):
        px.store(X[0], sum(range(10**12)))

    long[1](X)


@case
def factorial_of_a_large_number():
    @px.kernel
    def large(X):
        px.store(X[0], math.factorial(10**7))

    large[1](X)


@case
def format_of_a_large_width():
    @px.kernel
    def wide(X):
        px.print(f"{5:1000000000}")

    wide[1](X)


@case
def unary_operators_without_end():
    @px.kernel
    def deep(I, n):
        px.store(I[0], ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~n)

    deep[1](I, 1)


@px.func
def f0(x):
    return x + 1


@px.func
def f1(x):
    return f0(x) + f0(x) + f0(x) + f0(x)


@px.func
def f2(x):
    return f1(x) + f1(x) + f1(x) + f1(x)


@px.func
def f3(x):
    return f2(x) + f2(x) + f2(x) + f2(x)


@px.func
def f4(x):
    return f3(x) + f3(x) + f3(x) + f3(x)


@px.func
def f5(x):
    return f4(x) + f4(x) + f4(x) + f4(x)


@px.func
def f6(x):
    return f5(x) + f5(x) + f5(x) + f5(x)


@px.func
def f7(x):
    return f6(x) + f6(x) + f6(x) + f6(x)


@case
def functions_that_multiply():
    @px.kernel
    def levels(I, n):
        px.store(I[0], f7(n))

    with patch.object(builder, "MAX_WORK", 2000):
        levels[1](I, 1)


@case
def loops_that_multiply():
    @px.kernel
    def unrolled(X):
        for _ in px.static_range(4096):
            for _ in px.static_range(4096):
                pass

    with patch.object(builder, "MAX_WORK", 2000):
        unrolled[1](X)


@case
def loop_without_end():
    @px.kernel
    def endless(I, n):
        i = n
        while i < 10:
            i = i * 1
        px.store(I[0], i)

    with patch.dict(os.environ, PHALANX_STEPS="1000"):
        endless[1](I, 1)


@case
def grid_beyond_the_budget():
    @px.kernel
    def plain(X):
        px.store(X[0], 1)

    plain[2**31 - 1](X)


@case
def step_of_zero_at_run_time():
    @px.kernel
    def still(I, n):
        for i in range(0, 10, n):
            px.store(I[i], i)

    still[1](I, 0)


@case
def element_divided_by_zero():
    @px.kernel
    def divide(I):
        px.store(I[0:64], 7 // px.load(I[0:64]))

    divide[1](np.arange(64, dtype=np.int32))


@case
def scalar_divided_by_zero():
    @px.kernel
    def divide(I, n):
        px.store(I[0], 7 % n)

    divide[1](I, 0)
