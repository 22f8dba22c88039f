"""Expressions that kernels do not have, or that do not apply to what they are given."""
# ruff: noqa: E731

import numpy as np

import phalanx as px
from errors.casebook import case

OUT = np.zeros(8, np.float32)
INTS = np.zeros(8, np.int32)


@case
def lambda_expression():
    @px.kernel
    def compute(OUT):
        double = lambda x: 2 * x
        px.store(OUT[0], double(1.0))

    compute[1](OUT)


@case
def list_comprehension():
    @px.kernel
    def compute(OUT):
        parts = [px.load(OUT[k]) for k in range(4)]
        px.store(OUT[0], parts[0])

    compute[1](OUT)


@case
def assignment_expression():
    @px.kernel
    def compute(OUT):
        if (x := OUT[0]) > 1:
            px.store(OUT[0], x)

    compute[1](OUT)


@case
def dictionary():
    @px.kernel
    def compute(OUT):
        options = {"a": 1}
        px.store(OUT[0], options)

    compute[1](OUT)


@case
def matrix_product():
    @px.kernel
    def compute(OUT):
        x = px.load(OUT[0:4])
        px.store(OUT[0], x @ x)

    compute[1](OUT)


@case
def arithmetic_on_an_array():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0:4], OUT + 1)

    compute[1](OUT)


@case
def arithmetic_on_a_view():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0:4], OUT[0:4] * 2)

    compute[1](OUT)


@case
def arithmetic_on_a_string():
    @px.kernel
    def compute(OUT, *, NAME="n"):
        px.store(OUT[0], OUT[0] + NAME)

    compute[1](OUT)


@case
def bits_of_a_float():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0], OUT[0] & 3)

    compute[1](OUT)


@case
def constant_division_by_zero():
    @px.kernel
    def compute(OUT, *, N=0):
        px.store(OUT[0], 64 // N)

    compute[1](OUT)


@case
def division_of_a_scalar_by_zero():
    @px.kernel
    def compute(OUT, *, N=0):
        px.store(OUT[0], OUT[0] % N)

    compute[1](INTS)


@case
def logarithm_of_a_negative_constant():
    @px.kernel
    def compute(OUT, *, N=-1.0):
        px.store(OUT[0], px.log(N))

    compute[1](OUT)


@case
def number_that_does_not_fit():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0:4], 3.5)

    compute[1](INTS)


@case
def condition_is_a_tile():
    @px.kernel
    def compute(OUT):
        if px.load(OUT[0:4]) > 0:
            px.store(OUT[0], 1.0)

    compute[1](OUT)


@case
def condition_is_a_buffer():
    @px.kernel
    def compute(OUT):
        s = px.shared((4,), px.f32)
        while s:
            px.store(OUT[0], 1.0)

    compute[1](OUT)


@case
def and_of_tiles():
    @px.kernel
    def compute(OUT):
        x = px.load(OUT[0:4])
        px.store(OUT[0:4], (x > 0 and x < 1) * 1.0)

    compute[1](OUT)


@case
def not_of_a_tile():
    @px.kernel
    def compute(OUT):
        x = px.load(OUT[0:4])
        px.store(OUT[0:4], (not x) * 1.0)

    compute[1](OUT)


@case
def comparison_by_identity():
    @px.kernel
    def compute(OUT):
        if OUT[0] is OUT[1]:
            px.store(OUT[0], 1.0)

    compute[1](OUT)


@case
def f_string_of_a_run_time_value():
    @px.kernel
    def compute(OUT):
        k = px.block_id(0)
        px.print(f"k = {k}")

    compute[1](OUT)


@case
def power_with_a_run_time_exponent():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0], 2.0 ** OUT[1])

    compute[1](OUT)


@case
def index_of_a_number():
    @px.kernel
    def compute(OUT, *, N=3):
        px.store(OUT[0], N[0])

    compute[1](OUT)


@case
def tuple_indexed_at_run_time():
    @px.kernel
    def compute(OUT):
        sizes = (1, 2, 3)
        px.store(OUT[0], sizes[px.block_id(0)])

    compute[1](OUT)


@case
def tuple_index_outside():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0], OUT.shape[1])

    compute[1](OUT)


@case
def unpacking_the_wrong_number():
    @px.kernel
    def compute(OUT):
        m, n = OUT.shape
        px.store(OUT[0], m + n)

    compute[1](OUT)


@case
def unpacking_a_tile():
    @px.kernel
    def compute(OUT):
        a, b = px.load(OUT[0:2])
        px.store(OUT[0], a + b)

    compute[1](OUT)


@case
def assignment_to_memory():
    @px.kernel
    def compute(OUT):
        OUT[0] = 1.0

    compute[1](OUT)


@case
def assignment_to_a_part_of_a_tile():
    @px.kernel
    def compute(OUT):
        x = px.zeros((4, 8), px.f32)
        x[:, 0] = px.load(OUT[0:4])

    compute[1](OUT)


@case
def calling_a_number():
    @px.kernel
    def compute(OUT, *, N=3):
        px.store(OUT[0], N(2))

    compute[1](OUT)


@case
def min_of_tiles():
    @px.kernel
    def compute(OUT):
        x = px.load(OUT[0:4])
        px.store(OUT[0:4], min(x, 2.0))

    compute[1](OUT)


@case
def wrong_arguments_of_a_px_function():
    @px.kernel
    def compute(OUT):
        px.store(OUT[0])

    compute[1](OUT)


@case
def unknown_keyword_of_a_px_function():
    @px.kernel
    def compute(OUT):
        x = px.load(OUT[0:4], mask=True)
        px.store(OUT[0:4], x)

    compute[1](OUT)
