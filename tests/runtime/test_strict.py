"""Strict kernels: what is a note elsewhere is refused, by whoever prepares the kernel; what is fast is not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.ir.archs import arch_of
from phalanx.kernels.rowwise import column_sums
from phalanx.language.kernel import Kernel, is_strict
from phalanx.runtime.compiled import program_key
from phalanx.runtime.launch.specialise import read_arguments, specialise

A = np.ones((64, 128), ml_dtypes.bfloat16)
SLOW = "px.dot runs as mma.sync: M = 32 rows over 1 warpgroup; kernel 'product' is strict"



def made(**flags):
    """The kernel anew: what one of them remembers the others do not."""

    def product(A, B, C, *, M=64, BK=64):
        acc = px.zeros((M, 64), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK)):
            acc = px.dot(px.load(A[0:M, k:k+BK]), px.load(B[0:64, k:k+BK]).T, acc)
        px.store(C[0:M, 0:64], acc)

    return px.kernel(warps=4, **flags)(product)


def result():
    return np.zeros((64, 64), np.float32)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_what_is_fast_is_not_refused(arch: str) -> None:
    kernel, c = made(strict=True), result()
    kernel[1](A, A, c, arch=arch)
    assert (c == 128).all()
    assert px.check(kernel[1], A, A, c, arch=arch).ok
    assert px.compile(kernel[1], A, A, c, arch=arch).cubin


def test_a_launch_a_check_and_a_compilation_refuse_what_is_slow() -> None:
    kernel = made(strict=True)
    with pytest.raises(px.Error) as launched:
        kernel[1](A, A, result(), M=32)
    with pytest.raises(px.Error) as compiled:
        px.compile(kernel[1], A, A, result(), arch="sm_90a", M=32)
    with pytest.raises(px.Error) as checked:
        px.check(kernel[1], A, A, result(), M=32)
    assert launched.value.message == compiled.value.message == checked.value.message == SLOW


def test_a_target_without_the_faster_instruction_loses_nothing() -> None:
    c = result()
    made(strict=True)[1](A, A, c, M=32, arch="sm_120a")
    assert (c[:32] == 128).all()


def test_a_warp_multiplies_as_it_can() -> None:
    """A role that is no warpgroup has no other instruction."""

    def narrow(A, B, C):
        with px.warps(0, 1):
            px.store(C[0:16, 0:64], px.dot(px.load(A[0:16, 0:64]), px.load(B[0:64, 0:64]).T))

    c = result()
    px.kernel(warps=4, strict=True)(narrow)[1](A, A, c)
    assert (c[:16] == 64).all()


def test_the_environment_makes_kernels_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, free = made(), made(strict=False)
    kernel[1](A, A, result(), M=32)
    monkeypatch.setenv("PHALANX_STRICT", "1")
    with pytest.raises(px.Error, match="is strict"):
        kernel[1](A, A, result(), M=32)
    free[1](A, A, result(), M=32)
    monkeypatch.setenv("PHALANX_STRICT", "0")
    kernel[1](A, A, result(), M=32)


def test_the_library_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernels have chosen their instructions for their sizes."""
    monkeypatch.setenv("PHALANX_STRICT", "1")
    found = [item for item in vars(column_sums).values() if isinstance(item, Kernel)]
    assert found and not any(map(is_strict, found)) and is_strict(made())


def test_strictness_is_part_of_the_key() -> None:
    keys = set()
    for flag in (True, False):
        kernel = made(strict=flag)
        arguments = read_arguments(kernel, (A, A, result()))
        function = specialise(kernel, arguments, kernel.bind_constants({})).prepared
        keys.add(program_key(function, arch_of("sm_90a"), "a compiler"))
    assert len(keys) == 2


def test_a_kernel_that_no_gpu_takes_runs_in_the_simulator() -> None:
    """What the compiler would refuse anyway is no loss of speed."""

    def large(X, Y):
        buffer = px.shared((100_000,), px.f32)
        px.store(buffer[0:64], px.load(X[0:64]))
        px.store(Y[0:64], px.load(buffer[0:64]))

    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    px.kernel(warps=4, strict=True)(large)[1](x, y)
    assert (y == 1).all()
