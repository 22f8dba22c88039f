"""Mistakes with px.trace."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.kernel(warps=4)
def ones(X):
    px.store(X[0:64], 1.0)


@px.kernel(warps=1)
def meeting(X, N):
    px.atomic_add(N[0], 1)
    while px.atomic_load(N[0]) < 133:
        pass
    px.store(X[0:64], 1.0)


@px.kernel(warps=1)
def stuck(X):
    bar = px.barrier(count=2, checked=False)
    bar.arrive()
    bar.wait(0)
    px.store(X[0:64], 1.0)


@case
def trace_without_a_grid():
    px.trace(ones, X)


@case
def trace_of_an_empty_grid():
    px.trace(ones[0], X)


@case
def trace_of_a_deadlock():
    px.trace(stuck[1], X)


@case
def clusters_that_wait_for_others():
    px.trace(meeting[133], X, np.zeros(1, np.int32))


@case
def trace_saved_under_another_ending():
    px.trace(ones[1], X).save("trace.txt")


@case
def timelines_saved_under_another_ending():
    made = px.trace(ones[1], X)
    made.compare(made).save("both.json")


@case
def real_trace_of_host_arrays():
    px.trace(ones[1], X, on="gpu")


@case
def trace_on_something_else():
    px.trace(ones[1], X, on="cpu")


@case
def trace_of_no_sample():
    px.trace(ones[1], X, sample=0)
