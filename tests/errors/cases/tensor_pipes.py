"""Stages of pipes that the tensor cores are told to hand on."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 16), np.float16)


@case
def commit_of_a_pipe_without_a_stage():
    @px.kernel(warps=4)
    def product(X):
        pipe = px.pipe(2)
        px.tcgen05.commit(pipe)

    product[1](X)


@case
def commit_of_a_pipe_that_the_role_fills_and_takes():
    @px.kernel(warps=4)
    def product(X):
        pipe = px.pipe(2)
        pipe.acquire()
        pipe.commit()
        pipe.wait()
        px.tcgen05.commit(pipe)

    product[1](X)


@case
def commit_of_a_stage_that_was_handed_on():
    @px.kernel(warps=4)
    def product(X):
        pipe = px.pipe(2)
        pipe.acquire()
        px.tcgen05.commit(pipe)
        px.tcgen05.commit(pipe)

    product[1](X)


@case
def commit_of_a_pipe_with_a_mask():
    @px.kernel(warps=4, cluster=2)
    def product(X):
        pipe = px.pipe(2)
        pipe.acquire()
        px.tcgen05.commit(pipe, multicast=0b11)

    product[2](X)
