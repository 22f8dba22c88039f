"""`@px.func`, `@px.struct`, `px.ring`: inlining, references, copies."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px


def run(kernel: Any, *values: int, slots: int = 4, **constants: Any) -> list[int]:
    out = np.full(slots, -99, np.int32)
    kernel[1](out, *values, **constants)
    return out.tolist()


@px.func
def scaled(x, factor=3, *, plus=0):
    return x * factor + plus


@px.struct
class Tile:
    m: int
    n: int = 7

    def move(self, by, twice=False):
        self.m += by
        if twice:
            self.m += by
        return self.m

    def area(self):
        return self.m * self.n


@px.struct
class Pair:
    first: Tile
    second: Tile


def test_defaults_and_keywords() -> None:
    @px.kernel
    def calls(OUT, n):
        px.store(OUT[0], scaled(n))
        px.store(OUT[1], scaled(n, 2))
        px.store(OUT[2], scaled(plus=1, x=n, factor=5))
        px.store(OUT[3], scaled(n, plus=n))

    assert run(calls, 4) == [12, 8, 21, 16]


def test_several_results_and_star_arguments() -> None:
    @px.func
    def split(t, n):
        return t // n, t % n

    @px.func
    def total(*parts):
        s = 0
        for p in parts:
            s += p
        return s

    @px.kernel
    def calls(OUT, n):
        q, r = split(n, 4)
        px.store(OUT[0], q)
        px.store(OUT[1], r)
        px.store(OUT[2], total(q, r, *(1, 2)))
        first, *rest = (1, n, 3)
        px.store(OUT[3], first + len(rest) * 10 + rest[0] * 100)

    assert run(calls, 11) == [2, 3, 8, 1121]


def test_a_func_is_a_python_function_outside_kernels() -> None:
    assert scaled(5, plus=1) == 16


def test_structs_are_passed_by_reference() -> None:
    @px.func
    def shift(tile, by):
        tile.m += by

    @px.kernel
    def moves(OUT, n):
        t = Tile(n)
        u = t
        shift(t, 5)
        px.store(OUT[0], u.m)
        px.store(OUT[1], t.move(1, twice=True))
        px.store(OUT[2], u.area())
        px.store(OUT[3], Tile(n=2, m=3).area())

    assert run(moves, 1) == [6, 8, 56, 6]


def test_structs_of_structs() -> None:
    @px.kernel
    def nested(OUT, n):
        p = Pair(Tile(n), Tile(2, 2))
        p.first.move(10)
        q = p.second
        q.n = 9
        px.store(OUT[0], p.first.m)
        px.store(OUT[1], p.second.n)
        p.first = q
        p.first.m = 77
        px.store(OUT[2], q.m)

    assert run(nested, 1)[:3] == [11, 9, 77]


def test_fields_changed_under_run_time_conditions() -> None:
    @px.kernel
    def branch(OUT, n):
        t = Tile(0, 0)
        if n > 3:
            t.m = n
        else:
            t.n = n
        for _ in range(n):
            t.move(1)
            if t.m > 8:
                break
        px.store(OUT[0], t.m)
        px.store(OUT[1], t.n)

    assert run(branch, 2)[:2] == [2, 2]
    assert run(branch, 6)[:2] == [9, 0]


def test_early_returns_merge_fields_and_results() -> None:
    @px.func
    def settle(tile, n):
        if n > 10:
            tile.m = 100
            return n
        tile.n = 50
        if n > 5:
            return tile.n
        tile.m += 1
        return tile.m

    @px.kernel
    def calls(OUT, n):
        t = Tile(n)
        px.store(OUT[0], settle(t, n))
        px.store(OUT[1], t.m)
        px.store(OUT[2], t.n)

    assert run(calls, 12)[:3] == [12, 100, 7]
    assert run(calls, 7)[:3] == [50, 7, 50]
    assert run(calls, 3)[:3] == [4, 4, 50]


def test_a_function_returns_one_of_two_new_structs() -> None:
    @px.func
    def choose(n):
        if n > 2:
            return Tile(n, 1)
        t = Tile(0, n)
        return t

    @px.kernel
    def calls(OUT, n):
        t = choose(n)
        alias = t
        alias.m += 1
        px.store(OUT[0], t.m)
        px.store(OUT[1], t.n)

    assert run(calls, 5)[:2] == [6, 1]
    assert run(calls, 2)[:2] == [1, 2]


def test_inherited_structs() -> None:
    @px.struct
    class Wide(Tile):
        k: int = 4

        def area(self):
            return self.m * self.n * self.k

    @px.kernel
    def volume(OUT, n):
        w = Wide(n, 2)
        w.move(1)
        px.store(OUT[0], w.area())

    assert run(volume, 3)[0] == 32


def test_a_struct_is_a_dataclass_outside_kernels() -> None:
    t = Tile(3)
    assert t.move(2) == 5 and t.area() == 35


def test_functions_passed_as_constants_and_arguments() -> None:
    @px.func
    def square(x):
        return x * x

    @px.func
    def apply(fn, x):
        return fn(x)

    @px.kernel
    def calls(OUT, n, *, ACT):
        px.store(OUT[0], ACT(n))
        px.store(OUT[1], apply(square, n))

    assert run(calls, 5, ACT=square)[:2] == [25, 25]
    assert run(calls, 5, ACT=scaled)[:2] == [15, 25]


def test_inlining_does_not_leak_names() -> None:
    @px.func
    def inner(x):
        y = x + 1
        return y

    @px.kernel
    def calls(OUT, n):
        y = 5
        z = inner(n)
        px.store(OUT[0], y)
        px.store(OUT[1], z)

    assert run(calls, 1)[:2] == [5, 2]


def test_a_function_that_stores_through_a_view() -> None:
    @px.func
    def bump(slot, by):
        px.store(slot, slot + by)

    @px.kernel
    def calls(OUT, n):
        bump(OUT[1], n)
        bump(OUT[1], n)

    assert run(calls, 30)[1] == -39
