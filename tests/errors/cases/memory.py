"""Atomics, shared memory by index, assumptions."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)


@case
def atomic_cas_of_floats():
    @px.kernel
    def take(X):
        px.atomic_cas(X[0:8, 0:8], 0.0, 1.0)

    take[1](X)


@case
def atomic_max_with_a_tile_of_another_shape():
    @px.kernel
    def peak(X):
        px.atomic_max(X[0:8, 0:8], px.zeros((8, 4)))

    peak[1](X)


@case
def atomic_exch_of_a_value():
    @px.kernel
    def swap(X):
        x = px.load(X[0, 0])
        px.atomic_exch(x, 1.0)

    swap[1](X)


@case
def assumption_that_is_never_true():
    @px.kernel
    def trust(X, *, N=-1):
        px.assume(N >= 0)

    trust[1](X)


@case
def assumption_that_is_no_condition():
    @px.kernel
    def trust(X):
        px.assume(X[0:8, 0:8])

    trust[1](X)


@case
def assumption_that_is_false_in_a_run():
    @px.kernel
    def trust(X, m):
        px.assume(m >= 0)
        px.store(X[m : m + 8, 0:8], 1.0)

    trust[1](X, -8)


@case
def pipe_releases_what_it_never_took():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        with px.warps(0, 1):
            pipe.wait()
            pipe.release()
            pipe.release()

    run[1](X)


@case
def pipe_waits_for_more_stages_than_it_has():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        for _ in px.static_range(3):
            pipe.wait()

    run[1](X)


@case
def pipe_left_with_two_stages_taken():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        with px.warps(0, 1):
            pipe.wait()
            pipe.wait()

    run[1](X)


@case
def pipe_block_with_another_stage_in_hand():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        pipe.wait()
        with pipe.consume() as stage:
            px.print(stage)

    run[1](X)
