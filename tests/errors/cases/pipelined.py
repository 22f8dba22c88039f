"""Loops that pipeline themselves, and what has no place in them."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.kernel
def pipelined(X, n, *, CASE=""):
    bar = px.barrier(1, count=1)
    if CASE == "items":
        for _ in px.pipelined(8):
            pass
    if CASE == "tiles":
        for _ in px.pipelined(px.persistent(8)):
            pass
    if CASE == "unrolled":
        for _ in px.pipelined(px.unroll(range(n), 2)):
            pass
    if CASE == "stages":
        for _ in px.pipelined(range(n), stages=1):
            pass
    if CASE == "stages at run time":
        for _ in px.pipelined(range(n), stages=n):
            pass
    if CASE == "producer":
        for _ in px.pipelined(range(n), producer=n):
            pass
    for k in px.pipelined(range(n)):
        x = px.load(X[k : k + 8])
        if CASE == "while":
            while k < n:
                x = x + 1.0
        if CASE == "return":
            if k == 3:
                return
        if CASE == "break":
            if px.max(x, 0) > 3.0:
                break
        if CASE == "barrier":
            bar.arrive()
        if CASE == "sync":
            px.sync()
        if CASE == "role":
            with px.warps(0, 1):
                px.print(k)
        if CASE == "transaction":
            with bar.transaction():
                pass
        if CASE == "inner":
            for _ in px.pipelined(range(n)):
                pass
        px.store(X[k : k + 8], x)


@case
def over_a_number():
    pipelined[1](X, 4, CASE="items")


@case
def over_tiles_that_are_dealt():
    pipelined[1](X, 4, CASE="tiles")


@case
def over_an_unrolled_range():
    pipelined[1](X, 4, CASE="unrolled")


@case
def one_stage():
    pipelined[1](X, 4, CASE="stages")


@case
def stages_that_a_run_knows():
    pipelined[1](X, 4, CASE="stages at run time")


@case
def a_producer_that_a_run_knows():
    pipelined[1](X, 4, CASE="producer")


@case
def a_while_inside():
    pipelined[1](X, 4, CASE="while")


@case
def a_return_inside():
    pipelined[1](X, 4, CASE="return")


@case
def a_break_inside():
    pipelined[1](X, 4, CASE="break")


@case
def a_break_without_a_producer():
    @px.kernel(warps=4)
    def bad(X, Y, n):
        total = px.zeros((32,), px.f32)
        for k in px.pipelined(range(0, X.shape[0], 32), producer=False):
            if k > n:
                break
            total = total + px.load(X[k : k + 32])
        px.store(Y[0:32], total)

    bad[1](np.zeros(64, np.float32), np.zeros(32, np.float32), 8)


@case
def a_barrier_inside():
    pipelined[1](X, 4, CASE="barrier")


@case
def a_sync_inside():
    pipelined[1](X, 4, CASE="sync")


@case
def a_role_inside():
    pipelined[1](X, 4, CASE="role")


@case
def a_transaction_inside():
    pipelined[1](X, 4, CASE="transaction")


@case
def one_inside_another():
    pipelined[1](X, 4, CASE="inner")


@case
def a_switch_that_is_no_truth():
    px.check(pipelined[1], X, 4, pipelined="no")


@case
def rings_that_do_not_fit():
    @px.kernel(warps=4)
    def bad(X, Y):
        total, more = px.zeros((256, 128), px.f32), px.zeros((256, 64), px.f32)
        for k in px.pipelined(range(0, X.shape[0], 256)):
            total = total + px.load(X[k : k + 256, 0:128])
        for k in px.pipelined(range(0, X.shape[0], 256)):
            more = more + px.load(X[k : k + 256, 0:64])
        px.store(Y[0:256, 0:128], total)
        px.store(Y[0:256, 0:64], more)

    bad[1](np.zeros((512, 128), np.float32), np.zeros((512, 128), np.float32))
