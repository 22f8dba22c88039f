"""Compiling for a GPU: targets, shared memory, descriptors."""

import numpy as np

import phalanx as px
from errors.casebook import case
from support.fake_driver import OnGpu, fake_gpu

SQUARE = px.spec((256, 256), px.f32)


@px.kernel
def tma_copy(X, *, BM=64, BN=64):
    s = px.shared((BM, BN), X.dtype)
    b = px.barrier()
    with b.transaction():
        px.tma.load(X[0:BM, 0:BN], s, b)
    b.wait(0)


@case
def unknown_target():
    px.compile(tma_copy[1], SQUARE, arch="sm_80")


@case
def too_much_shared_memory():
    @px.kernel
    def large(X):
        stages = px.shared((4, 128, 128), px.f32)
        extra = px.shared((64, 64), px.f32)
        full = px.barrier(4)
        with full[0].transaction():
            px.tma.load(X[0:128, 0:128], stages[0], full[0])
        full[0].wait(0)
        px.store(extra, px.load(stages[0])[0:64, 0:64])
        px.store(X[0:64, 0:64], px.load(extra))

    px.compile(large[1], SQUARE)


@case
def copy_of_an_unaligned_array():
    px.compile(tma_copy[1], px.spec((256, 257), px.f32))


@case
def copy_of_a_strided_array():
    x = np.zeros((256, 512), np.float32)[:, ::2]
    px.compile(tma_copy[1], x)


@case
def copy_of_rows_that_are_too_short():
    px.compile(tma_copy[1], SQUARE, BM=64, BN=2)


@case
def copy_into_part_of_a_row():
    @px.kernel
    def part(X, n):
        s = px.shared((64, 64), px.f32)
        b = px.barrier()
        with b.transaction():
            px.tma.load(X[0:64, 0:32], s[0:64, n : n + 32], b)
        b.wait(0)

    px.compile(part[1], SQUARE, 3)


@case
def cluster_that_the_target_lacks():
    @px.kernel(cluster=16)
    def wide(X):
        px.cluster.sync()

    px.compile(wide[16], SQUARE, arch="sm_120a")


@px.kernel(warps=4)
def product(X):
    a = px.shared((64, 64), px.f16)
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, a.T, acc)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(X[0:64, 0:64], acc)


@case
def instruction_that_the_target_lacks():
    px.compile(product[1], SQUARE, arch="sm_100a")


@case
def instruction_that_the_checked_target_lacks():
    px.check(product[1], np.zeros((64, 64), np.float32), arch="sm_100a")


@case
def instruction_that_the_explored_target_lacks():
    px.explore(product[1], np.zeros((64, 64), np.float32), arch="sm_100a")


@case
def instruction_that_the_simulated_target_lacks():
    product[1](np.zeros((64, 64), np.float32), arch="sm_120a")


@case
def cluster_that_the_checked_target_lacks():
    @px.kernel(cluster=16)
    def wide(X):
        px.cluster.sync()

    px.check(wide[16], np.zeros(4, np.float32), arch="sm_120a")


@case
def check_for_an_unknown_target():
    px.check(tma_copy[1], np.zeros((64, 64), np.float32), arch="sm_80")


@case
def exploration_for_an_unknown_target():
    px.explore(tma_copy[1], np.zeros((64, 64), np.float32), arch="hopper")


@case
def launch_for_an_unknown_target():
    tma_copy[1](np.zeros((64, 64), np.float32), arch="sm_80")


@case
def target_that_is_no_name():
    tma_copy[1](np.zeros((64, 64), np.float32), arch=90)


@case
def launch_on_a_gpu_that_is_another_target():
    with fake_gpu():
        tma_copy[1](OnGpu(64, 64), arch="sm_100a")
