"""Launches that the CUDA driver refuses or the GPU does not survive, on a driver made of Python."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

import phalanx as px
from errors.casebook import case
from phalanx.runtime.device import driver as cuda
from support.fake_driver import FakeLibrary, OnGpu, fake_gpu

X = OnGpu(64)


@px.kernel
def fill(X, value, *, BLOCK=64):
    i = px.block_id(0) * BLOCK
    px.store(X[i : i + BLOCK], value)


@px.kernel
def careful(X):
    px.device_assert(X.shape[0] > 0, "X is empty")
    px.store(X[0], 1.0)


@px.kernel
def add(X, Y):
    px.store(Y[0:64], px.load(X[0:64]) + 1.0)


@case
def too_many_registers_for_a_launch():
    with fake_gpu(cuLaunchKernelEx=[701]):
        fill[1](X, 1.0)


@case
def a_launch_after_a_kernel_that_faulted():
    with fake_gpu() as library:
        fill[1](X, 1.0)
        library.failures["cuLaunchKernelEx"] = [700]
        fill[1](X, 2.0)  # the short way of a repeated launch


@case
def a_scalar_that_does_not_fit_the_second_time():
    with fake_gpu():
        fill[1](X, 1.0)
        fill[1](X, 1e300)


@case
def a_code_that_is_in_no_table():
    with fake_gpu(cuLaunchKernelEx=[777]):
        fill[1](X, 1.0)


@case
def no_memory_for_the_kernel():
    with fake_gpu(cuModuleLoadData=[2]):
        fill[1](X, 1.0)


@case
def a_kernel_for_another_gpu():
    with fake_gpu(cuModuleLoadData=[209]):
        fill[1](X, 1.0)


@case
def a_kernel_that_faults():
    with fake_gpu(cuCtxSynchronize=[719]):
        careful[1](X)


@case
def a_kernel_with_assertions_in_a_capture():
    with fake_gpu(cuCtxSynchronize=[900]):
        careful[1](X)


@case
def arrays_here_and_there():
    with fake_gpu():
        add[1](np.zeros(64, np.float32), X)


@case
def no_driver():
    with patch.object(cuda, "LIBRARY_NAMES", ("libno-such-cuda.so",)):
        cuda.get_driver.cache_clear()
        try:
            fill[1](X, 1.0)
        finally:
            cuda.get_driver.cache_clear()


@case
def no_gpu():
    with fake_gpu(cuInit=[100] * 2):
        fill[1](X, 1.0)


@case
def a_driver_that_is_not_loaded():
    with fake_gpu(cuInit=[999] * 2):
        fill[1](X, 1.0)


@case
def a_driver_without_clusters():
    library = FakeLibrary()
    known = {name: getattr(library, name) for name in cuda.PROTOTYPES if name != "cuLaunchKernelEx"}
    with fake_gpu(SimpleNamespace(**known)):
        fill[1](X, 1.0)


@case
def a_device_that_is_not_there():
    with fake_gpu(cuDeviceGet=[101]):
        px.device(7)
