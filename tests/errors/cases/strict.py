"""Kernels that are strict: notes about lost speed are errors."""

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case

A = np.ones((64, 128), ml_dtypes.bfloat16)
C = np.zeros((64, 64), np.float32)
X = np.ones(256, np.float32)


@px.kernel(warps=4, strict="yes")
def undecided(X):
    px.store(X[0:64], px.load(X[64:128]))


@px.kernel(warps=4, strict=True)
def product(A, B, C, *, M=64, BK=64):
    acc = px.zeros((M, 64), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK)):
        acc = px.dot(px.load(A[0:M, k:k+BK]), px.load(B[0:64, k:k+BK]).T, acc)
    px.store(C[0:M, 0:64], acc)


@px.kernel(warps=4, strict=True)
def plain_product(A, B, C, *, M=64):
    a, b = px.shared((M, 64), A.dtype), px.shared((64, 64), B.dtype)
    px.store(a, px.load(A[0:M, 0:64]))
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.store(C[0:M, 0:64], px.dot(a, b.T))


@px.kernel(warps=4, strict=True)
def two_passes(X, Y, *, OWN_ROLES=False):
    before = px.zeros((64,), px.f32)
    if OWN_ROLES:
        with px.warps(0, 4):
            px.print(X.shape[0])
    for k in px.pipelined(range(0, X.shape[0], 64)):
        before = before + px.load(X[k:k+64])
        px.store(Y[k:k+64], before)


@px.kernel(warps=4, strict=True)
def running(X):
    for k in px.pipelined(range(64, X.shape[0], 64)):
        px.store(X[k:k+64], px.load(X[k:k+64]) + px.load(X[k-64:k]))


@px.kernel(warps=4, cluster=2, strict=True)
def pushed(X):
    mine, its, bar = px.shared((64,), px.f32), px.shared((64,), px.bf16), px.barrier()
    px.store(mine, px.load(X[0:64]))
    px.fence.async_proxy()
    with bar.transaction():
        px.cluster.copy(mine, its, bar, cta=px.cluster.rank() ^ 1)
    bar.wait(0)
    px.store(X[0:64], px.load(its).to(px.f32))


@case
def not_a_flag():
    undecided[1](X)


@case
def mma_sync_where_wgmma_could_run():
    px.compile(product[1], A, A, C, M=32, arch="sm_90a")


@case
def mma_sync_in_a_plain_kernel():
    plain_product[1](A, A, C, M=32)


@case
def mma_sync_where_tcgen05_could_run():
    product[1](A, A, C, M=32, arch="sm_100a")


@case
def a_load_by_threads():
    product[1](np.ones((64, 132), ml_dtypes.bfloat16)[:, 2:130], A, C)


@case
def a_load_that_stays():
    running[1](X)


@case
def a_loop_that_stays():
    two_passes[1](X, np.zeros(256, np.float32), OWN_ROLES=True)


@case
def arguments_that_share_memory():
    two_passes[1](X, X)


@case
def a_push_by_stores():
    px.compile(pushed[2], X, arch="sm_90a")
