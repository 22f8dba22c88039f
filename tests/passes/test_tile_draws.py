"""Loops whose tiles a counter deals, written out: who draws, who is told, and what it costs the others."""

from __future__ import annotations

import re
from typing import Any

import pytest

import phalanx as px
from phalanx.ir.core import Function, Op
from phalanx.ir.effects import Mode, Span
from phalanx.ir.ops.control import Role, Roles
from phalanx.ir.printer import text
from phalanx.ir.types import ScalarType, i32
from support.front import array, prepared


@px.kernel(warps=12, cluster=lambda CTAS: CTAS)
def product_like(X, Y, n, *, CTAS=2):
    """A producer with a warpgroup of its own, which multicasts, and two consumers."""
    stages, pipe = px.shared((2, 64, 64), X.dtype), px.pipe(2)
    with px.warps(0, 4, regs=40):
        for t in px.persistent(n, schedule="counter"):
            with pipe.produce() as s:
                px.cluster.load(X[t * 64 : t * 64 + 64, 0:64], stages[s], pipe.full[s], ctas=(1 << CTAS) - 1)
    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232):
            for t in px.persistent(n, schedule="counter"):
                with pipe.consume() as s:
                    half = px.load(stages[s][32 * c : 32 * c + 32])
                    px.store(Y[px.cluster.rank(), t * 64 + 32 * c : t * 64 + 32 * c + 32, 0:64], half)


def function_of(ctas: int) -> Function:
    return prepared(product_like, (array(2), array(3), ScalarType(i32)), CTAS=ctas)


def agents(function: Function) -> dict[str, list[Op]]:
    (roles,) = (op for op in function.walk() if isinstance(op, Roles))
    return {role.name: list(role.body.walk()) for role in roles.regions}


def draws(ops: list[Op], function: Function) -> int:
    own = function.params[-1]
    return sum(access.mode is Mode.ATOMIC and access.region.memory is own for op in ops for access in op.effects().accesses)


@pytest.mark.parametrize("ctas", [1, 2])
def test_the_first_role_draws_and_tells_the_others(ctas: int) -> None:
    function = function_of(ctas)
    assert function.counters == 1 and function.params[-1].name == "tile_counters" and len(function.given) == 3
    by_role = agents(function)
    assert [draws(ops, function) for ops in by_role.values()] == [2, 0, 0]  # one draws, and sets the counter back
    counts = {op.barrier.name: op.counts for op in function.walk() if op.effects().lifecycle}  # type: ignore[attr-defined]
    assert counts["tiles_full"] == ((1, 1),) * ctas
    told = 2 * ctas + (ctas - 1)  # two consumers in each CTA, and the producers of the others
    assert counts["tiles_empty"] == ((told, told), *((1, 1),) * (ctas - 1))


def test_a_producer_that_draws_still_runs_in_one_warp() -> None:
    (roles,) = (op for op in function_of(1).walk() if isinstance(op, Roles))
    assert [role.active for role in roles.regions] == [1, None, None]


def test_what_is_drawn_makes_no_signal_one_of_the_cluster() -> None:
    """The counter is shared by all clusters, but who draws which tile follows from no order between CTAs."""
    effects = [op.effects() for op in function_of(2).walk()]
    signals = [signal for e in effects for signal in (*e.arrivals, *e.waits)]
    assert signals and all(signal.scope is Span.CTA for signal in signals)


@px.kernel(warps=4)
def alone(X, n):
    for t in px.persistent(n, schedule="counter"):
        px.store(X[t * 64 : t * 64 + 64, 0:64], 1.0)


def test_a_loop_of_all_warps_needs_no_barriers() -> None:
    function = prepared(alone, (array(2), ScalarType(i32)))
    assert not function.barriers and not function.buffers and function.counters == 1


def test_the_listing() -> None:
    """The whole of it: the first tile is the cluster's, and who draws the last one sets the counter back."""
    listed = text(prepared(alone, (array(2), ScalarType(i32))))
    body = [re.sub(r" +//.*| at line \d+", "", line) for line in listed.splitlines()]
    assert body[body.index("{") :] == [
        "{",
        "  %cluster: i32 = cluster.id",
        "  $next_tile: i32 = %cluster",
        "  while {",
        "    %next_tile: i32 = $next_tile",
        "    %t: i32 = and %next_tile, 2147483647",
        "    %0: bool = lt %t, %n",
        "    end unless %0",
        "    sync  (compiler: tile_counters was updated before tile_counters is updated)",
        "    %drawn: i32 = atomic_add tile_counters[0], 1",
        "    %1: i32 = sub %n, 1",
        "    %last: bool = eq %drawn, %1",
        "    if %last {",
        "      sync  (compiler: tile_counters was updated before tile_counters is updated)",
        "      atomic_exch tile_counters[0], 0",
        "    }",
        "    %clusters: i32 = cluster.count",
        "    %2: i32 = add %drawn, %clusters",
        "    $next_tile = %2",
        "    %3: i32 = mul %t, 64",
        "    %4: f32[64, 64] = full 1.0",
        "    store X[%3:+64, 0:64], %4",
        "  }",
        "}",
    ]


def test_names_of_the_users_are_left_alone() -> None:
    @px.kernel(warps=2)
    def named(tile_counters):
        tiles = px.shared((4,), px.f32)
        tiles_full = px.barrier()
        tiles_full.arrive()
        px.store(tiles, 0.0)
        with px.warps(0, 1):
            for t in px.persistent(3, schedule="counter"):
                px.store(tile_counters[t], 1.0)
        with px.warps(1, 1):
            for t in px.persistent(3, schedule="counter"):
                px.store(tile_counters[8 + t], px.max(px.load(tiles), 0))

    function = prepared(named, (array(1),))
    assert [buffer.name for buffer in function.buffers] == ["tiles", "tiles_1"]
    assert [barrier.name for barrier in function.barriers] == ["tiles_full", "tiles_full_1", "tiles_empty"]
    assert "kernel named(tile_counters: global f32[?], tile_counters.1: global i32[?])" in text(function)


def regions(function: Function) -> list[Role]:
    return [role for op in function.walk() if isinstance(op, Roles) for role in op.regions]


def test_roles_without_the_loop_take_no_part() -> None:
    @px.kernel(warps=3)
    def some(X: Any):
        with px.warps(0, 1):
            for t in px.persistent(3, schedule="counter"):
                px.store(X[0, t], 1.0)
        with px.warps(1, 1):
            px.store(X[1, 0], 1.0)
        with px.warps(2, 1):
            for t in px.persistent(3, schedule="counter"):
                px.store(X[2, t], 1.0)

    function = prepared(some, (array(2),))
    waits = [sum(bool(op.effects().waits) for op in role.body.walk()) for role in regions(function)]
    assert waits == [1, 0, 1]
