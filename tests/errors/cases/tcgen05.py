"""Blackwell's tensor cores and their memory: shapes, types, places, reach of warps, columns, pairs."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float16)


@case
def a_line_of_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        px.tmem((512,), px.f32)

    kernel[1](X)


@case
def tensor_memory_in_a_loop():
    @px.kernel(warps=4)
    def kernel(X):
        for _ in range(X.shape[0]):
            px.tmem((128, 32), px.f32)

    kernel[1](X)


@case
def reuse_of_shared_memory():
    @px.kernel(warps=4)
    def kernel(X):
        a = px.shared((128, 32), px.f32)
        px.tmem((128, 32), px.f32, reuse=a)

    kernel[1](X)


@case
def six_hundred_columns():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((2, 128, 256), px.f32)
        left = px.tmem((128, 176), px.bf16)
        px.tcgen05.store(acc[0], px.zeros((128, 256), px.f32))
        px.tcgen05.store(left, px.zeros((128, 176), px.bf16))

    kernel[1](X)


@case
def columns_for_two_ctas():
    @px.kernel(warps=4, ctas_per_sm=2)
    def kernel(X):
        acc = px.tmem((128, 512), px.f32)
        px.tcgen05.store(acc, px.zeros((128, 512), px.f32))

    kernel[1](X)


@case
def accumulator_and_operand_in_one():
    @px.kernel(warps=4)
    def kernel(X):
        b, both, acc = px.shared((32, 128), px.f32), px.tmem((128, 128), px.f32), px.tmem((128, 32), px.f32)
        a = px.shared((128, 128), px.f32)
        px.tcgen05.mma(a, a, both, accumulate=False)
        px.tcgen05.mma(both, b.T, acc, accumulate=False)

    kernel[1](X)


@case
def load_of_shared_memory():
    @px.kernel(warps=4)
    def kernel(X):
        a = px.shared((128, 32), px.f32)
        px.tcgen05.load(a)

    kernel[1](X)


@case
def load_of_a_tile():
    @px.kernel(warps=4)
    def kernel(X):
        px.tcgen05.load(px.zeros((128, 32), px.f32))

    kernel[1](X)


@case
def all_stages_at_once():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((2, 128, 32), px.f32)
        px.tcgen05.load(acc)

    kernel[1](X)


@case
def a_transposed_accumulator():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 128), px.f32)
        px.tcgen05.load(acc.T)

    kernel[1](X)


@case
def an_accumulator_elsewhere():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.tcgen05.load(acc.at(1))

    kernel[2](X)


@case
def rows_from_anywhere():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.tcgen05.load(acc[16:48])

    kernel[1](X)


@case
def rows_by_block():
    @px.kernel(warps=4)
    def kernel(X):
        acc, i = px.tmem((128, 32), px.f32), px.block_id(0) * 32
        px.tcgen05.load(acc[i : i + 32])

    kernel[1](X)


@case
def three_quarters_of_the_rows():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.tcgen05.load(acc[0:96])

    kernel[1](X)


@case
def one_warp_for_all_rows():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        with px.warps(0, 1):
            px.tcgen05.load(acc)

    kernel[1](X)


@case
def the_wrong_warp_for_its_rows():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        with px.warps(2, 1):
            px.tcgen05.load(acc[0:32])

    kernel[1](X)


@case
def four_warps_from_the_second_on():
    @px.kernel(warps=5)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        with px.warps(1, 4):
            px.tcgen05.store(acc, px.zeros((128, 32), px.f32))

    kernel[1](X)


@case
def six_warps():
    @px.kernel(warps=6)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.tcgen05.load(acc)

    kernel[1](X)


@case
def a_store_of_another_shape():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.tcgen05.store(acc, px.zeros((128, 64), px.f32))

    kernel[1](X)


@case
def a_store_of_another_type():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.bf16)
        px.tcgen05.store(acc, px.zeros((128, 32), px.f32))

    kernel[1](X)


@case
def ordinary_load_of_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.load(acc)

    kernel[1](X)


@case
def ordinary_store_to_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.store(acc, px.zeros((128, 32), px.f32))

    kernel[1](X)


@case
def an_element_of_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        if acc[0, 0] > 0:
            px.print(1)

    kernel[1](X)


@case
def an_atomic_in_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        acc = px.tmem((128, 32), px.f32)
        px.atomic_add(acc, px.zeros((128, 32), px.f32))

    kernel[1](X)


@case
def rows_of_tensor_memory_by_a_number():
    @px.kernel(warps=4)
    def kernel(X):
        acc, n = px.tmem((128, 32), px.f32), X.shape[0]
        px.tcgen05.load(acc[0:n])

    kernel[1](X)


@case
def a_push_of_tensor_memory():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        acc, s, bar = px.tmem((64, 64), px.f16), px.shared((64, 64), px.f16), px.barrier()
        px.cluster.copy(acc, s, bar, cta=1)

    kernel[2](X)


@case
def both_operands_in_tensor_memory():
    @px.kernel(warps=4)
    def kernel(X):
        acc, t = px.tmem((128, 128), px.f32), px.tmem((128, 128), px.bf16)
        px.tcgen05.mma(t, t, acc)

    kernel[1](X)


@case
def an_operand_in_registers():
    @px.kernel(warps=4)
    def kernel(X):
        b, acc = px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(px.zeros((128, 64), px.bf16), b.T, acc)

    kernel[1](X)


@case
def an_operand_in_global_memory():
    @px.kernel(warps=4)
    def kernel(X):
        a, acc = px.shared((128, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, X[0:64, 0:64], acc)

    kernel[1](X)


@case
def an_operand_of_another_cta():
    @px.kernel(warps=4, cluster=2)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.at(1).T, acc)

    kernel[2](X)


@case
def an_operand_that_is_no_matrix():
    @px.kernel(warps=4)
    def kernel(X):
        a, acc = px.shared((128, 2, 64), px.bf16), px.tmem((128, 128), px.f32)
        px.tcgen05.mma(a[:, 0], a[:, 1].T, acc)

    kernel[1](X)


@case
def an_accumulator_in_registers():
    @px.kernel(warps=4)
    def kernel(X):
        a = px.shared((128, 64), px.bf16)
        px.tcgen05.mma(a, a.T, px.zeros((128, 128), px.f32))

    kernel[1](X)


@case
def depths_that_differ():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((32, 64), px.bf16), px.tmem((128, 32), px.f32)
        px.tcgen05.mma(a, b, acc)

    kernel[1](X)


@case
def an_accumulator_of_another_shape():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((32, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def types_that_do_not_multiply():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.f16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def sums_of_bf16_in_f16():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f16)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def ninety_six_rows():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((96, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((96, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def twelve_columns():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((12, 64), px.bf16), px.tmem((128, 12), px.f32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def forty_columns_of_integers():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.i8), px.shared((40, 64), px.i8), px.tmem((128, 40), px.i32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def a_depth_of_twenty():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 24), px.bf16), px.shared((64, 24), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc)

    kernel[1](X)


@case
def negated_integers():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.i8), px.shared((64, 64), px.i8), px.tmem((128, 64), px.i32)
        px.tcgen05.mma(a, b.T, acc, negate=True)

    kernel[1](X)


@case
def negated_at_run_time():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc, negate=px.block_id(0) == 0)

    kernel[1](X)


@case
def a_tile_that_says_whether_to_accumulate():
    @px.kernel(warps=4)
    def kernel(X):
        a, b, acc = px.shared((128, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((128, 64), px.f32)
        px.tcgen05.mma(a, b.T, acc, accumulate=px.arange(4) > 0)

    kernel[1](X)
