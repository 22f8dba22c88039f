"""The kernels of the page on tensor cores run, are right and compile to what it says."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.doc_pages import Page


@pytest.fixture(scope="module")
def kernels(page: Page, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return page.names(tmp_path_factory.mktemp("page"), "import phalanx as px\n\n")


@pytest.mark.parametrize(
    "name, shape, instruction",
    [
        ("in_steps", (64, 64, 128), "wgmma.mma_async"), ("small", (32, 16, 64), "mma.sync"),
        ("wide", (64, 256, 64), "wgmma.mma_async"), ("plain", (128, 128, 96), "wgmma.mma_async"),
    ],
)  # fmt: skip
def test_products(kernels: dict[str, Any], name: str, shape: tuple[int, int, int], instruction: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((extent, k), np.float32).astype(ml_dtypes.bfloat16) for extent in (m, n))
    c = np.zeros((m, n), np.float32)
    launch = kernels[name][1]
    launch(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)
    assert px.check(launch, a, b, c).ok
    made = px.compile(launch, a, b, c)
    assert instruction in made.ptx and made.spills == 0
    assert any("px.dot runs as mma.sync" in note for note in made.notes) == (name == "small")


def test_overlapping_launches(kernels: dict[str, Any]) -> None:
    x, y = np.arange(2048, dtype=np.float32), np.zeros(2048, np.float32)
    kernels["add_one"][2](x, y)
    assert (y == x + 1).all()
    assert not px.check(kernels["add_one"][2], x, y).notes


def test_the_note_on_an_early_read_is_the_pages(page: Page, kernels: dict[str, Any]) -> None:
    w, x = np.full(2048, 3, np.float32), np.arange(2048, dtype=np.float32)
    y = np.zeros_like(x)
    kernels["scale"][2](w, x, y)
    assert (y == 3 * x).all()
    report = px.check(kernels["scale"][2], w, x, y)
    shown = re.findall(r"^note: scale\.py:4: (.*)$", page.text, re.MULTILINE)
    assert report.ok and [note.split(": ", 1)[1] for note in report.notes] == shown
