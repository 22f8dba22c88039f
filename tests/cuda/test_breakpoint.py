"""`px.breakpoint` leaves no trace in what is compiled, checked and launched."""

from __future__ import annotations

import re

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import generate
from phalanx.ir.archs import arch_of
from phalanx.runtime.launch.specialise import read_arguments, specialise


@px.kernel(warps=4)
def products(X, Y, n, *, STOPS=True):
    s = px.shared((64, 64), px.f16)
    acc = px.zeros((64, 64), px.f32)
    for i in px.pipelined(range(4)):
        x = px.load(X[0:64, i * 64 : i * 64 + 64])
        acc = px.dot(x, x.T, acc)
        if STOPS:
            px.breakpoint(px.max(px.max(x, 1), 0) > 3)
            px.breakpoint(acc > 3.0)
    px.store(s, acc.to(px.f16))
    with px.warps(0, 2):
        if STOPS:
            px.breakpoint()
            px.breakpoint(px.load(s[0:2]) > 1.0)
            px.breakpoint(px.load(X[n // 7, 0]) * 2 == 1)
    px.store(Y[0:64, 0:64], acc)


@px.kernel(warps=1)
def rows(X, n, *, STOPS=True):
    k = 0
    while k < n:
        if STOPS:
            px.breakpoint(k == 3)
        px.store(X[k, 0:32], px.zeros((32,), px.f32))
        k += 1


CASES = {
    "products": (products, (px.spec((64, 256), px.f16), px.spec((64, 64), px.f32), 4)),
    "rows": (rows, (px.spec((8, 32), px.f32), 8)),
}


def text_of(name: str, arch: str, **constants: bool) -> str:
    """The CUDA text of a case, compiled for nobody."""
    kernel, args = CASES[name]
    made = specialise(kernel, read_arguments(kernel, args), kernel.bind_constants(constants))
    return generate(lower(made.prepared_for(arch_of(arch)), arch_of(arch))).source


def code(text: str) -> list[str]:
    """The text without the comments that quote the user's lines."""
    return [line for line in text.splitlines() if not re.match(r"\s*//", line)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_the_text_is_the_same_without_it(name: str, arch: str) -> None:
    assert code(text_of(name, arch, STOPS=True)) == code(text_of(name, arch, STOPS=False))


def test_launches_and_checks_do_not_see_it() -> None:
    """A condition may read what nobody wrote: no finding, since nobody but a session reads it."""

    @px.kernel(warps=1)
    def kernel(X):
        s = px.shared((32,), px.f32)
        px.breakpoint(px.load(s) > 1.0)
        px.store(X[0:32], px.zeros((32,), px.f32))

    x = np.ones(32, np.float32)
    assert px.check(kernel[1], x).ok
    kernel[1](x)
    assert not x.any()


def test_a_session_has_the_kernel_with_it() -> None:
    values = rows.bind_constants({})
    made = specialise(rows, read_arguments(rows, (np.zeros((8, 32), np.float32), 8)), values)
    assert not any(op.stops for op in made.prepared.walk())
    assert any(op.stops for op in made.with_stops.prepared.walk())
    plain = specialise(rows, read_arguments(rows, (np.zeros((8, 32), np.float32), 8)), {**values, "STOPS": False})
    assert plain.with_stops is plain


def test_text_that_is_written_with_it_has_nothing_in_its_place() -> None:
    """Whoever compiles IR as it was read meets an instruction that writes nothing."""
    from cuda.test_control import I32, array, body, module_of

    assert "printf" not in body(module_of(rows, (array(2), I32)))
