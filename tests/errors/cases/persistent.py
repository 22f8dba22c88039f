"""Tiles dealt to clusters, and grids that are left to the compiler."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@case
def a_float_of_tiles():
    @px.kernel
    def bad(X):
        for t in px.persistent(3.5):
            px.store(X[t], 1.0)

    bad[1](X)


@case
def an_unknown_schedule():
    @px.kernel
    def bad(X):
        for t in px.persistent(8, schedule="dynamic"):
            px.store(X[t], 1.0)

    bad[1](X)


@case
def cluster_launch_control():
    @px.kernel
    def bad(X):
        for t in px.persistent(8, schedule="clc"):
            px.store(X[t], 1.0)

    bad[1](X)


@px.kernel
def undealt(X):
    px.store(X[px.block_id(0)], 1.0)


@case
def a_grid_for_the_compiler_without_tiles():
    undealt[px.auto](X)


@case
def a_grid_with_bounds():
    undealt[px.auto(least=3)](X)
