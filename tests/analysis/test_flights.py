"""Which products may be in flight where, on kernels read from their source."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.analysis.flights import find_flights
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.wgmma import Wgmma
from phalanx.runtime.launch.dispatch import read_arguments
from phalanx.runtime.launch.specialise import specialise

A, B, C = px.spec((64, 640), px.bf16), px.spec((64, 64), px.bf16), px.spec((64, 64), px.f32)


def function_of(kernel: Any, *given: Any) -> Function:
    arguments = read_arguments(kernel, given)
    return specialise(kernel, arguments, kernel.bind_constants({})).prepared_for(arch_of("sm_90a"))


def before(function: Function, mnemonic: str) -> list[set[tuple[int, int]]]:
    """What is in flight before each instruction of that name: the number of a product, and the commits since."""
    flights = find_flights(function)
    products: list[Op] = [op for op in function.walk() if isinstance(op, Wgmma)]
    return [
        {(products.index(flight.op), flight.commits) for flight in flights[op]}
        for op in function.walk() if op.mnemonic == mnemonic
    ]


@px.kernel(warps=4)
def leaves_one(A, B, C, n):
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    for i in range(n):
        a = px.load(A[0:64, i * 64 : i * 64 + 64])
        px.wgmma(a, b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(1)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc)


def test_a_wait_for_all_but_one_leaves_the_last_turn_in_flight() -> None:
    function = function_of(leaves_one, A, B, C, 10)
    assert before(function, "wgmma") == [{(0, 1)}]
    assert before(function, "wgmma.commit") == [{(0, 0)}]
    assert before(function, "wgmma.wait") == [{(0, 1)}, {(0, 1)}]


@px.kernel(warps=4)
def two_groups(A, B, C, n):
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    acc = px.zeros((64, 64), px.f32)
    other = px.zeros((64, 64), px.f32)
    px.wgmma(b, b.T, acc)
    px.wgmma_commit()
    if n > 3:
        px.wgmma(b, b.T, other)
    px.wgmma_commit()
    px.wgmma_wait(1)
    px.wgmma_wait(0)
    px.store(C[0:64, 0:64], acc + other)


def test_ways_that_meet_leave_what_either_has_left() -> None:
    function = function_of(two_groups, A, B, C, 10)
    assert before(function, "wgmma.wait") == [{(0, 2), (1, 1)}, {(1, 1)}]


@px.kernel(warps=8)
def two_roles(A, B, C, n):
    b = px.shared((64, 64), px.bf16)
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    with px.warps(0, 4):
        acc = px.zeros((64, 64), px.f32)
        px.wgmma(b, b.T, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.store(C[0:64, 0:64], acc)
    with px.warps(4, 4):
        px.wgmma_wait(0)


def test_a_role_has_groups_of_its_own() -> None:
    assert before(function_of(two_roles, A, B, C, 10), "wgmma.wait") == [{(0, 1)}, set()]
