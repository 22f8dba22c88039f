"""Names that are not there, or stand for something that kernels can't use."""
# ruff: noqa: B007, F821, F841, UP031

import json
import math

import numpy as np

import phalanx as px
from errors.casebook import case

OUT = np.zeros(8, np.float32)
TABLE = [1, 2, 3]
WEIGHTS = np.ones(3)


def plain_helper(x):
    return x + 1


@case
def unknown_name():
    @px.kernel
    def scale(OUT):
        factor = 2.0
        px.store(OUT[0], factr * 3)

    scale[1](OUT)


@case
def unknown_name_without_a_likeness():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], zzzz)

    scale[1](OUT)


@case
def unknown_px_function():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], px.maxium(1.0, 2.0))

    scale[1](OUT)


@case
def unknown_tma_function():
    @px.kernel
    def scale(OUT):
        px.tma.lod(OUT[0:4])

    scale[1](OUT)


@case
def plain_python_function():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], plain_helper(1.0))

    scale[1](OUT)


@case
def captured_list():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], TABLE[0])

    scale[1](OUT)


@case
def captured_array():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], WEIGHTS[0])

    scale[1](OUT)


@case
def numpy_function():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], np.exp(1.0))

    scale[1](OUT)


@case
def numpy_dtype():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0:4], px.zeros((4,), np.float32))

    scale[1](OUT)


@case
def math_function_of_a_run_time_value():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], math.exp(OUT[1]))

    scale[1](OUT)


@case
def function_of_another_module():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], json.loads("1"))

    scale[1](OUT)


@case
def print_instead_of_px_print():
    @px.kernel
    def scale(OUT):
        print("here")

    scale[1](OUT)


@case
def host_function_in_a_kernel():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], px.device().sms)

    scale[1](OUT)


@case
def px_function_outside_a_kernel():
    px.zeros((4, 4), px.f32)


@case
def used_before_assigned():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], total)
        total = 1.0

    scale[1](OUT)


@case
def assigned_in_one_branch():
    @px.kernel
    def scale(OUT):
        if OUT[0] > 0:
            sign = 1.0
        px.store(OUT[0], sign)

    scale[1](OUT)


@case
def assigned_only_in_a_loop():
    @px.kernel
    def scale(OUT):
        for k in range(OUT.shape[0]):
            last = k
        px.store(OUT[0], last)

    scale[1](OUT)


@case
def loop_variable_after_the_loop():
    @px.kernel
    def scale(OUT):
        for k in range(OUT.shape[0]):
            pass
        px.store(OUT[0], k)

    scale[1](OUT)


@case
def unknown_attribute_of_an_array():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], OUT.size)

    scale[1](OUT)


@case
def unknown_attribute_of_a_tile():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0:4], px.load(OUT[0:4]).astype(px.f32))

    scale[1](OUT)


@case
def unknown_method_of_a_barrier():
    @px.kernel
    def scale(OUT):
        b = px.barrier()
        b.signal()

    scale[1](OUT)


@case
def attribute_of_a_number():
    @px.kernel
    def scale(OUT, *, K=3):
        px.store(OUT[0], K.real)

    scale[1](OUT)


@case
def a_name_of_another_language():
    @px.kernel
    def scale(OUT):
        i = px.program_id(0)
        px.store(OUT[i], 1.0)

    scale[1](OUT)


@case
def a_thread_by_its_number():
    @px.kernel
    def scale(OUT):
        px.store(OUT[px.threadIdx.x], 1.0)

    scale[1](OUT)


@case
def a_method_of_arrays():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], px.load(OUT[0:32]).max())

    scale[1](OUT)


@case
def a_method_of_lists():
    @px.kernel
    def scale(OUT):
        items = []
        for i in px.static_range(4):
            items.append(i)
        px.store(OUT[0], items[0])

    scale[1](OUT)


@case
def sum_of_a_tile():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], sum(px.load(OUT[0:32])))

    scale[1](OUT)


@case
def a_kernel_in_a_kernel():
    @px.kernel
    def inner(OUT):
        px.store(OUT[0], 1.0)

    @px.kernel
    def outer(OUT):
        inner[1](OUT)

    outer[1](OUT)


@case
def a_text_that_is_computed_with():
    @px.kernel
    def scale(OUT):
        px.print("the first is %f" % OUT[0])

    scale[1](OUT)
