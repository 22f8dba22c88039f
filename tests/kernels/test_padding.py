"""Copies with rows that begin at multiples of 16 bytes: of any array, clean, right as text, repeated as launches."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.kernels import padding
from phalanx.kernels.padding import pad_rows, pad_tiles, padded_copies, padded_copy
from support.fake_driver import encode_described
from support.fake_torch import fake_torch_gpu
from support.host_cuda import COMPILER, MISSING
from support.library_launches import launches

DTYPES = (ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
SHAPES = ((5, 17), (300, 33), (40, 1001), (3, 7, 1), (2, 9, 515), (1, 2000), (2, 3, 5, 37))


def apart(x: np.ndarray) -> np.ndarray:
    made = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    made[..., :-3] = x
    return made[..., :-3]


def turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def later(x: np.ndarray) -> np.ndarray:
    """The same in memory that begins behind a multiple of 16 bytes."""
    made = np.zeros(x.size + 1, x.dtype)
    made[1:] = x.ravel()
    return made[1:].reshape(x.shape)


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a run": lambda x: x, "rows apart": apart, "turned": turned, "later": later, "backwards": lambda x: x[::-1].copy()[::-1],
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
}  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.random.default_rng(shape).integers(-8, 9, shape).astype(np.float32).astype(dtype)


@pytest.mark.share(9)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_copy_is_the_same_and_begins_at_multiples(dtype: Any, shape: tuple[int, ...], form: str) -> None:
    x = numbers(shape, dtype)
    y = padded_copy(FORMS[form](x))
    assert y.dtype == x.dtype and np.array_equal(y.astype(np.float32), x.astype(np.float32))
    assert y.ctypes.data % 16 == 0 and not any(step % 16 for step in y.strides[:-1])


@pytest.mark.parametrize(
    ("form", "kernel"), [("a run", "pad_rows"), ("rows apart", "pad_tiles"), ("turned", "pad_tiles"), ("backwards", None)]
)
def test_who_copies(form: str, kernel: str | None) -> None:
    """Kernels, unless an array goes backwards."""
    with launches((padding, "pad_rows"), (padding, "pad_tiles")) as found:
        padded_copy(FORMS[form](numbers((40, 33), np.float32)))
    assert [each.kernel.name for each in found] == ([] if kernel is None else [kernel])
    for each in found:
        each.check().raise_if_found()


@pytest.mark.parametrize("shape", [(2, 65536 * 64), (65536, 1, 3)], ids=str)
def test_grids_have_as_many_ctas_as_there_are(shape: tuple[int, ...]) -> None:
    """Two axes of a grid end at 65,535; such arrays with gaps are copied without a kernel."""
    with launches((padding, "pad_tiles")) as found:
        made = padded_copy(np.broadcast_to(np.float32(3), (*shape[:-1], shape[-1] + 3)).copy()[..., :-3])
    assert not found and made.shape == shape and (made == 3).all()


@pytest.mark.parametrize("shapes", [((40, 33), (7, 1001)), ((300, 17), (3, 5, 9)), ((1, 3), (1, 3))], ids=str)
def test_two_runs_are_one_launch(shapes: Any) -> None:
    x, y = numbers(shapes[0], np.float32), numbers(shapes[1], ml_dtypes.bfloat16)
    with launches((padding, "pad_rows")) as found:
        copies = padded_copies(x, y)
    (launch,) = found
    launch.check().raise_if_found()
    assert all(np.array_equal(copy, given) for copy, given in zip(copies, (x, y)))
    if COMPILER is not None:
        launch.arguments[1][...] = launch.arguments[5][...] = 0
        launch.on_host("sm_90a")
        assert all(np.array_equal(copy, given) for copy, given in zip(copies, (x, y)))


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("form", ("a run", "rows apart", "turned"))
@pytest.mark.parametrize(("dtype", "shape"), list(zip(DTYPES, SHAPES)), ids=str)
def test_the_text_copies_the_same(dtype: Any, shape: tuple[int, ...], form: str) -> None:
    x = numbers(shape, dtype)
    with launches((padding, "pad_rows"), (padding, "pad_tiles")) as found:
        y = padded_copy(FORMS[form](x))
    for each in found:  # of four axes that lie apart, none
        each.arguments[1][...] = 0
        each.on_host("sm_90a")
    assert np.array_equal(y.astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize("arch", ("sm_90a", "sm_100a"))
@pytest.mark.parametrize("dtype", (px.bf16, px.f8e4m3, px.f32))
def test_rows_are_read_in_vectors(dtype: Any, arch: str) -> None:
    run, rows = px.spec((1001 * 64,), dtype), px.spec((64, 1008), dtype)
    assert px.compile(pad_rows[10], run, rows, 1001, 5, run, rows, 1001, arch=arch).spills == 0
    made = px.compile(pad_rows[10], run, rows, 1001, None, None, None, None, arch=arch)
    assert made.spills == 0 and "load_shifted<" in made.source and re.search(r"st(\.global)?\.v4", made.ptx)
    x, y = px.spec((2, 1001, 64), dtype), px.spec((2, 64, 1008), dtype)
    assert px.compile(pad_tiles[1, 16, 2], x, y, arch=arch, TURNED=True).spills == 0


def test_products_with_copies_are_repeated_as_launches() -> None:
    """A call that comes again runs no Python of the library; a new size takes a plan."""
    with fake_torch_gpu() as torch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = []
        torch.driver.functions["cuLaunchKernelEx"] = lambda *_: (started.append(1) and 0) or 0
        torch.driver.functions["cuTensorMapEncodeTiled"] = encode_described
        calls = [torch.empty((m, 257), torch.bfloat16) for m in (512, 520, 528, 536)]
        w = torch.empty((512, 257), torch.bfloat16)
        for x in calls:
            before = len(started)
            for _ in range(3):
                px.kernels.matmul(x, w.T)
            assert len(started) - before == 6  # the copies and a product, three times
        assert len(px.kernels.matmul.remembered) == 4 and False not in px.kernels.matmul.remembered.values()
        assert not [why for plan in px.kernels.matmul.memory.plans.values() for why in plan.why]
