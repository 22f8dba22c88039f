"""Tiles that take many times the registers of a thread: they stay in memory, and the compiler is done soon."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.cuda import nvrtc
from phalanx.runtime import compiled


@px.kernel(warps=1)
def swapped(X, Y, *, N):
    """Three tiles are alive at the same time: of i64, each takes 2 N registers."""
    x, y = px.load(X[0:32, 0:N]), px.load(Y[0:32, 0:N])
    px.sync()
    z = px.load(X[32:64, 0:N])
    px.sync()
    px.store(Y[0:32, 0:N], x)
    px.store(X[0:32, 0:N], y)
    px.store(Y[32:64, 0:N], z)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The options that NVRTC was asked with, nothing being in the cache."""
    seen: list[tuple[str, ...]] = []
    compile_cuda = nvrtc.compile_cuda

    def noting(source: str, arch: str, *, name: str, options: tuple[str, ...] = ()) -> Any:
        seen.append(options)
        return compile_cuda(source, arch, name=name, options=options)

    empty = type("Empty", (), {"load": lambda self, key: None, "store": lambda self, *parts: None})()
    monkeypatch.setattr(nvrtc, "compile_cuda", noting)
    monkeypatch.setattr(compiled, "disk_cache", lambda: empty)
    return seen


def test_tiles_that_can_not_be_in_registers_stay_in_memory(asked: list[tuple[str, ...]]) -> None:
    x = px.spec((64, 160), px.i64)
    made = px.compile(swapped[1], x, x, N=160, arch="sm_90a")
    assert asked[0] == compiled.IN_MEMORY
    assert made.spills >= 3 * 160 * 8
    assert any("registers are spilled; most registers of a thread" in note for note in made.notes)
    assert len(made.cubin) < 100_000 or len(asked) == 2, "an NVRTC that does not know how is asked again"


def test_tiles_that_are_too_large_by_less_are_spilled(asked: list[tuple[str, ...]]) -> None:
    x = px.spec((64, 64), px.i64)
    px.compile(swapped[1], x, x, N=64, arch="sm_90a")
    assert asked == [()]


def test_an_nvrtc_without_that_option_is_asked_without_it(
    asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "IN_MEMORY", ("--no-such-option",))
    monkeypatch.setattr(compiled, "TIMES_TOO_MANY", 0)
    x = px.spec((64, 2), px.i64)
    assert px.compile(swapped[1], x, x, N=2, arch="sm_90a").spills == 0
    assert asked == [("--no-such-option",), ()]
