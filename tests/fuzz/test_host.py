"""Batches of kernels on the CPU: one that goes wrong is told with its place, and the others go on."""

from __future__ import annotations

import mmap
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import phalanx as px
from fuzz.host import HostCase, HostResult, run_batch
from phalanx.cuda.module import Module
from support import host_build
from support.host_cuda import COMPILER, MISSING, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)
needs_sanitizers = pytest.mark.usefixtures("sanitizers")


@px.kernel(warps=2)
def twice(X, Y, n, *, N=64):
    s = px.shared((N,), px.i32)
    px.store(s[0:N], px.load(X[0:N]) * n)
    px.sync()
    px.store(Y[0:N], px.load(s[0:N]))


def arrays(n: int = 64) -> list[Any]:
    return [np.arange(n, dtype=np.int32), np.zeros(n, np.int32), 2]


def planted(before: str = "", after: str = "", *, shared: int | None = None) -> Module:
    """The module of `twice` with text before its barrier, and behind it, where threads have been switched."""
    module = module_for(twice, tuple(arrays()))
    assert module.source.count("__syncthreads();") == 1
    source = module.source.replace("__syncthreads();", f"{before} __syncthreads(); {after}")
    return replace(module, source=source, shared_bytes=module.shared_bytes if shared is None else shared)


def case(module: Module, args: list[Any] | None = None, seed: int = 1) -> HostCase:
    return HostCase(module, 1, arrays() if args is None else args, seed)


def is_twice(result: HostResult) -> bool:
    return result.failure is None and np.array_equal(result.args[1], result.args[0] * 2)


PLANTED = {
    "a load beyond an array": (planted("if (X.data[64] == 7) return;"), "heap-buffer-overflow"),
    "a store before an array": (planted(after="Y.data[-1] = 7;"), "overflow|use-after-poison"),
    "a store beyond the shared memory": (planted(after="px_smem[256] = 7;"), "use-after-poison"),
    "a store before the shared memory": (planted(after="px_smem[-1] = 7;"), "use-after-poison"),
    "a local array": (
        planted("int v[4], *p = v;", "for (int i = 0; i < 5; ++i) p[i] = 7;"), "stack-buffer-overflow"
    ),
    "an overflow of signed integers": (planted(after="int v = 0x7fffffff; v += X.shape[0];"), "signed integer overflow"),
    "a shift by the width": (planted(after="unsigned v = 1u << X.shape[0] / 2;"), "shift exponent 32"),
    "a float beyond an integer": (planted(after="float f = 3e9f; int v = (int)f;"), "outside the range of"),
    "a bool that is none": (planted(after="bool* b = (bool*)px_smem + 4; if (*b) return;"), "not a valid value"),
    "a division by zero": (planted(after="int z = X.shape[0] - 64; z = 1 / z;"), "division by zero"),
    "a misaligned access": (planted(after="if (*(long long*)(px_smem + 4) == 7) return;"), "misaligned address"),
    "a misaligned vector": (
        planted(after="uint4 v = *reinterpret_cast<const uint4*>(px_smem + 8);"), "misaligned access of 16 bytes at byte 8"
    ),
    "threads that never meet": (planted(after="if (threadIdx.x) __syncthreads();"), "the threads wait for each other"),
    "a null pointer": (planted(after="*(volatile int*)(size_t)(X.shape[0] - 64) = 7;"), "null pointer|SEGV"),
}  # fmt: skip


@pytest.mark.share(2)
@needs_sanitizers
@pytest.mark.parametrize("half", (0, 1))
def test_sanitizers_see_what_was_planted_and_the_rest_goes_on(half: int) -> None:
    good, chosen = planted(), list(PLANTED.items())[half::2]
    cases = [part for _, (module, _) in chosen for part in (case(module), case(good))]
    results = run_batch([*cases, case(good)], sanitize=True)
    assert all(map(is_twice, results[1::2]))
    assert is_twice(results[-1])
    for result, (name, (_, told)) in zip(results[:-1:2], chosen, strict=True):
        assert result.failure is not None and re.search(told, result.failure), f"{name}: {result.failure}"
    if half == 0:
        assert "kernel-0.cu:" in str(results[0].failure)
        assert "[if (X.data[64] == 7) return; __syncthreads();" in str(results[0].failure)


@pytest.mark.long
def test_a_plain_batch_goes_on_behind_what_fails() -> None:
    bad = {
        "a crash": (planted(after="*(volatile int*)(size_t)(X.shape[0] - 60) = 7;"), "Segmentation|ended by signal 11"),
        "threads that never meet": (planted(after="if (threadIdx.x) __syncthreads();"), "the threads wait for each other"),
        "a text that is none": (planted(after="this is no text;"), "error"),
        "a store beyond the shared memory": (planted(after="px_smem[256] = 7;"), "byte 256 of 256 bytes of shared memory"),
        "a store before the shared memory": (planted(after="px_smem[-1] = 7;"), "byte -1 of 256 bytes of shared memory"),
    }
    good = planted()
    results = run_batch([part for module, _ in bad.values() for part in (case(module), case(good))])
    assert all(map(is_twice, results[1::2]))
    for result, (name, (_, told)) in zip(results[::2], bad.items(), strict=True):
        assert result.failure is not None and re.search(told, result.failure), f"{name}: {result.failure}"


def test_what_has_no_host_version_is_told_apart() -> None:
    unknown = planted()
    source = "namespace ptx {\n\n__device__ void shifts_time() {\n  asm(\"\");\n}\n\n}  // namespace ptx\n" + unknown.source
    results = run_batch([case(replace(unknown, source=source)), case(unknown)])
    assert results[0].unsupported and "shifts_time" in str(results[0].failure)
    assert is_twice(results[1]) and not results[1].unsupported


@px.kernel(warps=1)
def corners(X, Y, *, N=32):
    last = X.shape[0] - N
    px.store(Y[0:N, 0], px.load(X[last : last + N, 0]) + px.load(X[last : last + N, X.shape[1] - 1]))


@pytest.mark.skipif(bool(host_build.RUNNER), reason="arrays of a program of its own go through a file")
def test_sparse_arrays_near_two_to_the_31() -> None:
    """Their base is a mapping of which a few pages are there; rows lie 2^31 - 64 elements apart, or none."""
    rows, columns = 64, 2**31 - 64
    memory = mmap.mmap(-1, rows * columns, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # no reserve
    x = np.frombuffer(memory, np.int8).reshape(rows, columns)
    x[:, 0], x[:, -1] = 3, np.arange(rows) - 40
    same = np.broadcast_to(np.arange(40, dtype=np.int8), (2**31 - 1, 40))
    cases = []
    for source in (x, same):
        args = [source, np.zeros((32, 4), np.int8)]
        cases.append(HostCase(module_for(corners, tuple(args)), 1, args, 1))
    results = run_batch(cases)
    assert [result.failure for result in results] == [None, None]
    assert np.array_equal(cases[0].args[1][:, 0], np.arange(32) - 40 + 32 + 3)
    assert (cases[1].args[1][:, 0] == 39).all()


def test_views_keep_their_base() -> None:
    """Strided, reversed and overlapping views of one array, in a library and in a program."""
    module = None
    for sanitize in (False, host_build.why_not_sanitized() is None):
        base = np.zeros(400, np.int32)
        base[2:130:2] = np.arange(64)
        args = [base[2:130:2], base[399:200:-3][:64], 2]
        module = module_for(twice, tuple(args))
        [result] = run_batch([HostCase(module, 1, args, 1)], sanitize=sanitize)
        assert result.failure is None
        assert np.array_equal(base[399:200:-3][:64], 2 * np.arange(64))
        assert base.sum() == 3 * np.arange(64).sum()
