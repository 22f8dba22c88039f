"""The host harness itself: numbers of 16 bits by their bits, and accesses that a GPU would trap on."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support import host_build
from support.host_cuda import COMPILER, MISSING, HostFailure, launch, module_for, run_on_host

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

CONVERSIONS = r"""
static float px_e4m3_value(unsigned char x) { return px_e4m3[x]; }
static float px_e5m2_value(unsigned char x) { return px_e5m2[x]; }
#define EACH(name, T, S, f) extern "C" void name(const S* x, T* y, int n) { for (int i = 0; i < n; ++i) y[i] = f(x[i]); }
EACH(widen_f16, float, unsigned short, px_half_value)
EACH(widen_bf16, float, unsigned short, px_bfloat_value)
EACH(narrow_f16, unsigned short, float, px_half_of)
EACH(widen_f8e4m3, float, unsigned char, px_e4m3_value)
EACH(widen_f8e5m2, float, unsigned char, px_e5m2_value)
EACH(narrow_f8e4m3, unsigned char, float, px_e4m3_of)
EACH(narrow_f8e5m2, unsigned char, float, px_e5m2_of)
EACH(narrow_bf16, unsigned short, float, px_bfloat_of)
"""
DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def call(function: str, source: np.ndarray, result: np.ndarray) -> np.ndarray:
    library = host_build.library('#include "machine.h"\n' + CONVERSIONS)
    library[function](ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(result.ctypes.data), source.size)
    return result


in_process = pytest.mark.skipif(bool(host_build.RUNNER), reason="a library of another architecture can't be loaded")


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Bit by bit, zeros' signs too; of a number that is none only that it is none."""
    return (got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")) | (np.isnan(got) & np.isnan(want))


def floats() -> np.ndarray:
    """Random bits, every number of 16 bits, the middle between each two of them, and their neighbours."""
    rng = np.random.default_rng(0)
    numbers = [rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)]
    for dtype in DTYPES.values():
        exact = np.arange(0x7C00 if dtype == np.float16 else 0x7F80, dtype=np.uint16).view(dtype).astype(np.float64)
        middles = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2]).astype(np.float32)
        middles = np.concatenate([np.nextafter(middles, np.float32(side)) for side in (-np.inf, np.inf)] + [middles])
        numbers += [middles, -middles]
    return np.concatenate([*numbers, np.float32([np.inf, -np.inf, np.nan, 65519.996, 65520, 65536, 1e-45, 2**-25])])


@in_process
@pytest.mark.parametrize("name", DTYPES)
def test_every_number_of_sixteen_bits_is_widened_as_numpy_does(name: str) -> None:
    every = np.arange(65536, dtype=np.uint16)
    got = call(f"widen_{name}", every, np.zeros(65536, np.float32))
    with np.errstate(invalid="ignore"):
        assert same(got, every.view(DTYPES[name]).astype(np.float32)).all()


@in_process
@pytest.mark.parametrize("name", DTYPES)
def test_floats_are_narrowed_as_numpy_does(name: str) -> None:
    numbers = floats()
    got = call(f"narrow_{name}", numbers, np.zeros(numbers.size, np.uint16)).view(DTYPES[name])
    with np.errstate(all="ignore"):
        want = numbers.astype(DTYPES[name])
    assert numbers[~same(got, want)].tolist() == []


FP8 = {"f8e4m3": (ml_dtypes.float8_e4m3fn, 448), "f8e5m2": (ml_dtypes.float8_e5m2, 57344)}


@in_process
@pytest.mark.parametrize("name", FP8)
def test_floats_of_eight_bits(name: str) -> None:
    """Saturating, as PTX converts: the largest number stands for all beyond it."""
    dtype, largest = FP8[name]
    every = np.arange(256, dtype=np.uint8)
    assert same(call(f"widen_{name}", every, np.zeros(256, np.float32)), every.view(dtype).astype(np.float32)).all()
    numbers = floats()[::50].copy()
    got = call(f"narrow_{name}", numbers, np.zeros(numbers.size, np.uint8)).view(dtype)
    with np.errstate(all="ignore"):
        want = np.clip(numbers, -largest, largest).astype(dtype)
    assert numbers[~same(got, want)].tolist() == []


@px.kernel(warps=1)
def one_after_the_other(X, Y, *, N=64):
    for i in range(N):
        px.atomic_add(Y[0], X[i])


@pytest.mark.parametrize("name", DTYPES)
def test_atomic_sums_of_halves_round_each_time(name: str) -> None:
    x = (np.random.default_rng(1).standard_normal(64) * 300).astype(DTYPES[name])
    got = np.ones(1, DTYPES[name])
    run_on_host(one_after_the_other, 1, x, got)
    want = np.ones(1, DTYPES[name])
    for value in x:
        want[0] = want[0] + value
    assert same(got, want).all()


@px.kernel(warps=1)
def doubles(X, Y, *, N=1024):
    px.store(Y[0:N], px.load(X[0:N]) * 2)


@px.kernel(warps=1)
def doubles_once(X, Y, *, N=1024):
    px.store(Y[0:N], px.load(X[0:N], once=True) * 2, once=True)


def test_loads_and_stores_of_what_is_used_once() -> None:
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    module = run_on_host(doubles_once, 1, x, y)
    assert "load_vector_once" in module.source and "store_vector_once" in module.source
    assert np.array_equal(y, x * 2)


@pytest.mark.parametrize("kernel, call", [(doubles, "ptx::load_vector<4>"), (doubles_once, "ptx::load_vector_once<4>")])
def test_a_misaligned_load_is_reported_with_its_place(kernel, call: str) -> None:
    """The text was written for arrays at multiples of 16 bytes; it is given one that is not."""
    x, y = np.zeros(1028, np.float32), np.zeros(1024, np.float32)
    module = module_for(kernel, (x[:1024], y))
    with pytest.raises(HostFailure, match=r"thread \d+ of CTA \(0, 0, 0\): misaligned access of 16 bytes at byte \d+ of "
                                          r"argument 0, at .*" + call):
        launch(module, 1, [x[1:1025], y], 1)


@pytest.mark.parametrize("kernel, call", [(doubles, "ptx::store_vector<4>"), (doubles_once, "ptx::store_vector_once<4>")])
def test_a_misaligned_store_is_reported_with_its_place(kernel, call: str) -> None:
    x, y = np.zeros(1024, np.float32), np.zeros(1028, np.float32)
    module = module_for(kernel, (x, y[:1024]))
    with pytest.raises(HostFailure, match=r"misaligned access of 16 bytes at byte \d+ of argument 1, at .*" + call):
        launch(module, 1, [x, y[1:1025]], 1)


@px.kernel(warps=1)
def through_shared(X, Y, *, N=128):
    s = px.shared((N,), px.f32)
    px.store(s[0:N], px.load(X[0:N]))
    px.sync()
    px.store(Y[0:N], px.load(s[0:N]) + 1)


def test_a_misaligned_shared_buffer_is_reported() -> None:
    x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
    module = run_on_host(through_shared, 1, x, y)
    assert y[0] == 1
    assert "reinterpret_cast<float*>(px_smem)" in module.source
    moved = module.source.replace("reinterpret_cast<float*>(px_smem)", "reinterpret_cast<float*>(px_smem + 8)")
    with pytest.raises(HostFailure, match=r"misaligned access of 16 bytes at byte \d+ of shared memory, at ptx::store"):
        launch(type(module)(**{**module.__dict__, "source": moved}), 1, [x, y], 1)


def test_the_header_is_read_once_and_a_compiler_that_does_not_take_it_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_build, "folder", lambda: tmp_path)
    flags = ("-O0", "-shared", "-fPIC", *host_build.PLAIN)
    host_build.made('#include "machine.h"\nint first;', ".so", flags, None)
    (read,) = tmp_path.glob("*.h.gch")
    written = read.stat().st_ino
    host_build.made('#include "machine.h"\nint second;', ".so", flags, None)
    assert [path.stat().st_ino for path in tmp_path.glob("*.h.gch")] == [written]
    read.write_bytes(b"nothing that a compiler knows")
    host_build.made('#include "machine.h"\nint third;', ".so", flags, None)
    assert len(list(tmp_path.glob("*.so"))) == 3


def test_compiled_kernels_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.so").write_bytes(bytes(100))
        os.utime(tmp_path / f"{n}.so", (1e9 + n, 1e9 + n))
    (tmp_path / "young.so").write_bytes(bytes(100))
    host_build.make_room(tmp_path, 350)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4.so", "5.so", "young.so"]
    host_build.make_room(tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["young.so"]


@pytest.mark.parametrize("taken", ["a file", "a link", "without rights"])
def test_a_folder_of_someone_else_is_not_used(taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(host_build.os, "getuid", lambda: 12345) if taken == "without rights" else None
    place = tmp_path / f"phalanx-host-tests-{os.getuid()}"
    if taken == "a file":
        place.write_text("")
    elif taken == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    found = host_build.folder.__wrapped__()
    assert found != place and found.is_dir() and found.parent == tmp_path
