"""Statements, loops and branches."""
# ruff: noqa: SIM105

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@case
def try_statement():
    @px.kernel
    def step(X):
        try:
            px.store(X[0], 1.0)
        except ValueError:
            pass

    step[1](X)


@case
def import_statement():
    @px.kernel
    def step(X):
        import math

        px.store(X[0], math.pi)

    step[1](X)


@case
def function_inside_a_kernel():
    @px.kernel
    def step(X):
        def double(x):
            return 2 * x

        px.store(X[0], double(1.0))

    step[1](X)


@case
def for_else():
    @px.kernel
    def step(X):
        for k in range(4):
            px.store(X[k], 1.0)
        else:
            px.store(X[0], 2.0)

    step[1](X)


@case
def kernel_returns_a_value():
    @px.kernel
    def step(X):
        return px.load(X[0:4])

    step[1](X)


@case
def assertion_is_false():
    @px.kernel
    def step(X, *, BM=48):
        assert BM % 32 == 0, f"BM = {BM} is not a multiple of 32"
        px.store(X[0], 1.0)

    step[1](X)


@case
def assertion_at_run_time():
    @px.kernel
    def step(X):
        assert X[0] > 0
        px.store(X[0], 1.0)

    step[1](X)


@case
def device_assert_is_false_at_compile_time():
    @px.kernel
    def step(X, *, BM=48):
        px.device_assert(BM == 64, "BM is wrong")

    step[1](X)


@case
def device_assert_fails():
    @px.kernel(warps=1)
    def step(X):
        px.device_assert(px.load(X[0:8]) > 0, "values must be positive")

    step[1](X)


@case
def loop_over_an_array():
    @px.kernel
    def step(X):
        for x in X:
            px.store(X[0], x)

    step[1](X)


@case
def range_of_floats():
    @px.kernel
    def step(X):
        for k in range(2.5):
            px.store(X[k], 1.0)

    step[1](X)


@case
def range_with_step_zero():
    @px.kernel
    def step(X, *, STEP=0):
        for k in range(0, 8, STEP):
            px.store(X[k], 1.0)

    step[1](X)


@case
def static_range_of_a_run_time_value():
    @px.kernel
    def step(X):
        for k in px.static_range(X.shape[0]):
            px.store(X[k], 1.0)

    step[1](X)


@case
def loop_changes_a_type():
    @px.kernel
    def step(X):
        total = px.block_id(0)
        for k in range(X.shape[0]):
            total = total + X[k]
        px.store(X[0], total)

    step[1](X)


@case
def loop_changes_a_shape():
    @px.kernel
    def step(X):
        acc = px.zeros((4,), px.f32)
        for k in range(X.shape[0]):
            acc = acc + px.load(X[k : k + 8]).reshape(2, 4)
        px.store(X[0:4], acc)

    step[1](X)


@case
def loop_carries_a_view():
    @px.kernel
    def step(X):
        view = X[0:4]
        for k in range(X.shape[0]):
            px.store(view, 1.0)
            view = X[k : k + 8]

    step[1](X)


@case
def loop_changes_the_form_of_a_tuple():
    @px.kernel
    def step(X):
        pair = (0, 1)
        for k in range(X.shape[0]):
            pair = (k, k, pair[0])

    step[1](X)


@case
def break_leaves_another_form():
    @px.kernel
    def step(X):
        pair = (0, 1)
        for k in range(X.shape[0]):
            pair = (pair[1], k)
            if k == 3:
                pair = 5
                break
        px.store(X[0], pair)

    step[1](X)


@case
def unroll_of_a_number():
    @px.kernel
    def step(X):
        for k in px.unroll(4, 4):
            px.store(X[k], 1.0)

    step[1](X)


@case
def unroll_by_a_run_time_number():
    @px.kernel
    def step(X):
        for k in px.unroll(range(4), X.shape[0]):
            px.store(X[k], 1.0)

    step[1](X)


@case
def branches_give_different_types():
    @px.kernel
    def step(X):
        if X[0] > 0:
            y = X[1]
        else:
            y = px.block_id(0)
        px.store(X[0], y)

    step[1](X)


@case
def branches_give_different_buffers():
    @px.kernel
    def step(X):
        a = px.shared((4,), px.f32)
        b = px.shared((4,), px.f32)
        if X[0] > 0:
            s = a
        else:
            s = b
        px.store(s, 1.0)

    step[1](X)


@case
def branches_give_different_structs():
    @px.struct
    class Tile:
        m: int

    @px.kernel
    def step(X):
        t = Tile(1)
        u = Tile(2)
        if X[0] > 0:
            t = u
        px.store(X[0], t.m)

    step[1](X)


@case
def return_leaves_a_transaction():
    @px.kernel
    def step(X):
        s = px.shared((64,), px.f32)
        b = px.barrier()
        with b.transaction():
            if X[0] > 0:
                return
            px.tma.load(X[0:64], s, b)
        b.wait(0)

    step[1](X)


@case
def with_something_else():
    @px.kernel
    def step(X):
        with px.barrier():
            px.store(X[0], 1.0)

    step[1](X)


@case
def unrolling_too_much():
    @px.kernel
    def step(X):
        for k in px.static_range(100000):
            px.store(X[k], 1.0)

    step[1](X)


@case
def unrolling_without_end():
    @px.kernel
    def step(X):
        for k in px.static_range(2**70):
            px.store(X[k], 1.0)

    step[1](X)


@case
def raise_statement():
    @px.kernel
    def raises(X):
        if X.shape[0] > 4:
            raise ValueError("too long")

    raises[1](X)


@case
def global_statement():
    @px.kernel
    def counts(X):
        global COUNT
        COUNT = 1
        px.store(X[0], COUNT)

    counts[1](X)


@case
def del_statement():
    @px.kernel
    def deletes(X):
        y = px.load(X[0])
        del y

    deletes[1](X)


@case
def match_statement():
    @px.kernel
    def matches(X):
        match X.shape[0]:
            case 4:
                px.store(X[0], 1.0)

    matches[1](X)
