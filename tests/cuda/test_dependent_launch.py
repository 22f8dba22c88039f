"""Launches that overlap: where the waits and signals stand in the text, and what reaches the launcher."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.ops.control import Roles
from phalanx.ir.types import f32
from support.cuda_text import body, compiles, module_of
from support.front import array, prepared


@px.kernel(warps=4, pdl=True)
def add_one(X, Y, *, BLOCK=1024):
    i = px.block_id(0) * BLOCK
    px.wait_prior()
    x = px.load(X[i : i + BLOCK])
    px.launch_dependents()
    px.store(Y[i : i + BLOCK], x + 1.0)


TYPES = (array(1, f32), array(1, f32))


def test_the_order_of_the_text_is_the_users() -> None:
    compiles(add_one, TYPES)
    text = body(module_of(add_one, TYPES))
    places = [
        text.index(what)
        for what in ("griddepcontrol_wait()", "load_vector", "griddepcontrol_launch_dependents()", "store_vector")
    ]
    assert places == sorted(places)
    assert "warps 4, pdl" in module_of(add_one, TYPES).ir


def test_the_launcher_is_told() -> None:
    specs = (px.spec((4096,), px.f32), px.spec((4096,), px.f32))
    made = px.compile(add_one[4], *specs)
    assert made.pdl
    assert "griddepcontrol.wait;" in made.ptx and "griddepcontrol.launch_dependents;" in made.ptx
    assert px.compile(add_one[4], *specs).pdl, "also from the cache"


@px.kernel(warps=8, pdl=True)
def roles(X, Y, *, N=256):
    s = px.shared((N,), X.dtype)
    full = px.barrier()
    with px.warps(0, 4):
        px.wait_prior()
        with full.transaction():
            px.tma.load(X[0:N], s, full)
    with px.warps(4, 4):
        full.wait(0)
        px.store(Y[0:N], px.load(s))


def test_a_producer_that_waits_is_still_one_warp() -> None:
    function = prepared(roles, TYPES)
    (found,) = [op for op in function.walk() if isinstance(op, Roles)]
    assert [role.running for role in found.regions] == [1, 4]
    compiles(roles, TYPES)


@pytest.mark.parametrize("kernel, grid", [(add_one, 4), (roles, 1)])
def test_in_the_simulator_launches_follow_each_other(kernel, grid: int) -> None:
    x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    kernel[grid](x, y)
    assert (y == x + 1).all() if kernel is add_one else (y[:256] == x[:256]).all()
    assert px.check(kernel[grid], x, y).ok


def test_a_kernel_that_signals_needs_no_pdl_itself() -> None:
    @px.kernel
    def first(X):
        px.launch_dependents()
        px.store(X[0:64], 1.0)

    x = np.zeros(64, np.float32)
    first[1](x)
    assert x.all() and not px.compile(first[1], px.spec((64,), px.f32)).pdl
