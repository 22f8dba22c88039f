"""Mistakes with breakpoints and sessions."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.ones(64, np.float32)


@px.kernel(warps=1)
def fine(X):
    px.store(X[0:32], px.load(X[32:64]))


@case
def breakpoint_on_a_view():
    @px.kernel(warps=1)
    def kernel(X):
        s = px.shared((32,), px.f32)
        px.breakpoint(s)

    kernel[1](X)


@case
def breakpoint_on_text():
    @px.kernel(warps=1)
    def kernel(X):
        px.breakpoint("here")

    kernel[1](X)


@case
def breakpoint_outside_a_kernel():
    px.breakpoint()


@case
def print_of_a_barrier():
    @px.kernel(warps=1)
    def kernel(X):
        full = px.barrier()
        px.print("full", full)

    kernel[1](X)


@case
def debugging_without_a_grid():
    px.debug(fine, X)


@case
def debugging_under_an_unknown_schedule():
    px.debug(fine[1], X, schedule="fast")


@case
def debugging_a_description():
    px.debug(fine[1], px.spec((64,), px.f32))


@case
def debugging_a_grid_of_nothing():
    px.debug(fine[0], X)
