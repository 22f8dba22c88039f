"""Words of Triton, TileLang, CuTe, Numba and CUDA: each is answered with ours."""
# ruff: noqa: F821, F841

import types

import numpy as np

import phalanx as px
from errors.casebook import case

OUT = np.zeros(8, np.float32)
triton = types.ModuleType("triton.language")
triton.dot = lambda a, b: None


@case
def program_id():
    @px.kernel
    def scale(OUT):
        px.store(OUT[px.program_id(0)], 1.0)

    scale[1](OUT)


@case
def program_id_of_triton():
    @px.kernel
    def scale(OUT):
        px.store(OUT[tl.program_id(0)], 1.0)

    scale[1](OUT)


@case
def an_imported_language():
    @px.kernel
    def scale(OUT):
        triton.dot(OUT, OUT)

    scale[1](OUT)


@case
def threads_of_cuda():
    @px.kernel
    def scale(OUT):
        px.store(OUT[blockDim.x + threadIdx.x], 1.0)

    scale[1](OUT)


@case
def syncthreads_of_cuda():
    @px.kernel
    def scale(OUT):
        __syncthreads()

    scale[1](OUT)


@case
def a_copy_of_tilelang():
    @px.kernel
    def scale(OUT):
        T.copy(OUT, OUT)

    scale[1](OUT)


@case
def a_layout_of_cute():
    @px.kernel
    def scale(OUT):
        tile = cute.local_tile(OUT, (8,), (0,))

    scale[1](OUT)


@case
def a_name_that_we_have_too():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0], tl.math.exp2(1.0))

    scale[1](OUT)


@case
def a_word_that_the_table_lacks():
    @px.kernel
    def scale(OUT):
        tl.unheard_of(OUT)

    scale[1](OUT)


@case
def sort():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0:8], px.sort(px.load(OUT[0:8])))

    scale[1](OUT)


@case
def a_type_of_triton():
    @px.kernel
    def scale(OUT):
        px.store(OUT[0:8], px.zeros((8,), px.float32))

    scale[1](OUT)
