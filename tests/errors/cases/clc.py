"""Cluster launch control: the result and its place, bytes, targets, exits."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.int32)


@case
def result_of_another_shape():
    @px.kernel
    def ask(X):
        result, full = px.shared((8,), px.i32), px.barrier()
        px.clc.try_cancel(result, full)

    ask[1](X)


@case
def result_of_another_type():
    @px.kernel
    def ask(X):
        result, full = px.shared((4,), px.f32), px.barrier()
        px.clc.try_cancel(result, full)

    ask[1](X)


@case
def result_in_global_memory():
    @px.kernel
    def ask(X):
        full = px.barrier()
        px.clc.try_cancel(X[0:4], full)

    ask[1](X)


@case
def result_that_is_a_column():
    @px.kernel
    def ask(X):
        results, full = px.shared((4, 4), px.i32), px.barrier()
        px.clc.try_cancel(results[:, 0], full)

    ask[1](X)


@case
def result_that_begins_anywhere():
    @px.kernel
    def ask(X):
        results, full = px.shared((64,), px.i32), px.barrier()
        i = px.block_id(0)
        px.clc.try_cancel(results[i : i + 4], full)

    ask[1](X)


@case
def result_in_rows_of_24_bytes():
    @px.kernel
    def ask(X):
        results = px.shared((8, 6), px.i32)
        granted, block = px.clc.query(results[1, 0:4])
        px.store(X[block], px.where(granted, 1, 0))

    ask[1](X)


@case
def result_of_another_cta():
    @px.kernel(cluster=2)
    def ask(X):
        result = px.shared((4,), px.i32)
        granted, block = px.clc.query(result.at(0))
        px.store(X[block], px.where(granted, 1, 0))

    ask[2](X)


@case
def request_without_a_barrier():
    @px.kernel
    def ask(X):
        result = px.shared((4,), px.i32)
        px.clc.try_cancel(result, 0)

    ask[1](X)


@case
def bytes_in_one_cta_of_two():
    @px.kernel(cluster=2)
    def ask(X):
        result, full = px.shared((4,), px.i32), px.barrier()
        if px.cluster.rank() == 0:
            with full.transaction():
                px.clc.try_cancel(result, full)
            full.wait(0)

    ask[2](X)


@case
def exit_without_a_sync():
    @px.kernel(cluster=2, exit_sync=False)
    def ask(X):
        result, full = px.shared((4,), px.i32), px.barrier()
        with full.transaction():
            px.clc.try_cancel(result, full)
        full.wait(0)

    ask[2](X)


@px.kernel(cluster=lambda CTAS: CTAS)
def once(X, *, CTAS=1):
    result, full = px.shared((4,), px.i32), px.barrier()
    with full.transaction():
        px.clc.try_cancel(result, full)
    full.wait(0)
    granted, block = px.clc.query(result)
    px.store(X[px.block_id(0)], px.where(granted, block, 0))


@case
def target_without_it():
    px.compile(once[1], px.spec((64,), px.i32))


@case
def target_without_it_in_clusters():
    px.check(once[2], X, CTAS=2, arch="sm_90a")


@case
def called_outside_a_kernel():
    px.clc.query(X)
