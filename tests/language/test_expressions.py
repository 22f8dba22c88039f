"""Operators, comparisons, conditional expressions, tuples, strings and Python's functions in kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import phalanx as px


def run(kernel: Any, *values: Any, slots: int = 4, dtype: Any = np.int32, **constants: Any) -> list[Any]:
    out = np.full(slots, 55, dtype)
    kernel[1](out, *values, **constants)
    return out.tolist()


@pytest.mark.parametrize("a", [-7, -1, 0, 5])
@pytest.mark.parametrize("b", [-3, 2])
def test_division_floors(a: int, b: int) -> None:
    @px.kernel
    def divide(OUT, a, b, *, B):
        px.store(OUT[0], a // b)
        px.store(OUT[1], a % b)
        px.store(OUT[2], a // B)
        px.store(OUT[3], a % B)

    assert run(divide, a, b, B=b) == [a // b, a % b, a // b, a % b]


def test_true_division_gives_float() -> None:
    @px.kernel
    def divide(OUT, a, b):
        px.store(OUT[0], a / b)

    assert run(divide, 7, 2, slots=1, dtype=np.float32) == [3.5]


def test_chained_comparisons() -> None:
    @px.kernel
    def inside(OUT, n):
        px.store(OUT[0], 1 if 0 < n <= 4 else 0)
        px.store(OUT[1], 1 if 0 < n < 3 != n else 0)
        px.store(OUT[2], (0 <= 3 < 5) + (n == n == 2))

    for n in (-1, 0, 2, 3, 4, 5):
        assert run(inside, n)[:3] == [0 < n <= 4, 0 < n < 3 != n, 1 + (n == 2)]


def test_boolean_operators_on_scalars_and_constants() -> None:
    @px.kernel
    def logic(OUT, n, *, FLAG, NAME=None):
        px.store(OUT[0], (n > 1 and n < 5) + 0)
        px.store(OUT[1], (n > 1 or FLAG) + 0)
        px.store(OUT[2], (not n) + 2 * (not FLAG))
        px.store(OUT[3], ((FLAG and NAME is None and n > 3) or n == 0) + 0)

    for n in (0, 3, 4, 9):
        for flag in (False, True):
            want = [1 < n < 5, n > 1 or flag, (not n) + 2 * (not flag), (flag and n > 3) or n == 0]
            assert run(logic, n, FLAG=flag) == [int(w) for w in want]


def test_constants_short_circuit() -> None:
    """The right side would be an error, were it read."""

    @px.kernel
    def logic(OUT, *, SIZE=0):
        safe = SIZE != 0 and 10 // SIZE > 1
        value = 3 if SIZE == 0 else undefined_name  # noqa: F821
        px.store(OUT[0], (safe or SIZE == 0) + value)

    assert run(logic, slots=1) == [4]


def test_only_the_chosen_side_has_its_effect() -> None:
    @px.func
    def note(OUT, slot, value):
        px.store(OUT[slot], value)
        return value

    @px.kernel(warps=1)
    def chosen(OUT, n):
        x = note(OUT, 0, 1) if n > 2 else note(OUT, 1, 2)
        both = n > 2 and note(OUT, 2, 3) > 0
        px.store(OUT[3], x + 10 * both)

    assert run(chosen, 5) == [1, 55, 3, 11]
    assert run(chosen, 1) == [55, 2, 55, 2]


def test_a_conditional_expression_reads_shared_memory_only_where_asked() -> None:
    @px.kernel(warps=1)
    def guarded(OUT, n):
        s = px.shared((4,), px.i32)
        px.store(s, px.arange(4) * 10)
        px.sync()
        px.store(OUT[0], s[n] if n < 4 else -1)

    assert run(guarded, 2, slots=1) == [20]
    assert run(guarded, 9, slots=1) == [-1]


def test_conditional_expressions_of_tuples_and_mixed_types() -> None:
    @px.kernel
    def chosen(OUT, n):
        a, b = (1, n) if n > 2 else (n, 2)
        c = 1.5 if n > 2 else 0
        px.store(OUT[0], a)
        px.store(OUT[1], b)
        px.store(OUT[2], c)

    assert run(chosen, 4, slots=3, dtype=np.float32) == [1, 4, 1.5]
    assert run(chosen, 1, slots=3, dtype=np.float32) == [1, 2, 0]


def test_tuples() -> None:
    @px.kernel
    def tuples(OUT, n, *, SHAPE):
        rows, (columns, depth) = SHAPE
        pair = (n, rows) + (columns,)  # noqa: RUF005
        pair = pair * 2
        a, b = pair[-1], pair[1:3][0]
        a, b = b, a
        px.store(OUT[0], a + depth)
        px.store(OUT[1], b)
        px.store(OUT[2], len(pair))
        px.store(OUT[3], ((n, 2) == (3, 2)) + ((1, 2) != (1, 2, 3)) * 10 + (n in (1, 3)) * 100)

    assert run(tuples, 3, SHAPE=(4, (5, 6))) == [10, 5, 6, 111]
    assert run(tuples, 2, SHAPE=(4, (5, 6)))[3] == 10


def test_augmented_assignment() -> None:
    @px.kernel
    def steps(OUT, n):
        x = n
        x += 3
        x *= 2
        x -= 1
        x //= 3
        y = x
        y %= 4
        y <<= 2
        y |= 1
        y ^= 5
        y &= 0xFF
        z = n
        z **= 3
        px.store(OUT[0], x)
        px.store(OUT[1], y)
        px.store(OUT[2], z)

    x = ((10 + 3) * 2 - 1) // 3
    assert run(steps, 10)[:3] == [x, ((x % 4) << 2 | 1) ^ 5, 1000]


def test_unary_operators() -> None:
    @px.kernel
    def unary(OUT, n):
        px.store(OUT[0], -n)
        px.store(OUT[1], +n)
        px.store(OUT[2], ~n)
        px.store(OUT[3], -(n > 2) + 5 * (~(n > 2)) + 10 * (not n))

    assert run(unary, 6) == [-6, 6, ~6, -1]
    assert run(unary, 0) == [0, 0, -1, 15]


def test_unsigned_complement_keeps_its_type() -> None:
    @px.kernel
    def flip(X, Y):
        px.store(Y[0:4], ~px.load(X[0:4]))

    x, y = np.array([0, 1, 200, 255], np.uint8), np.zeros(4, np.uint8)
    flip[1](x, y)
    assert y.tolist() == [255, 254, 55, 0]


def test_python_functions() -> None:
    @px.kernel
    def calls(OUT, n):
        px.store(OUT[0], min(n, 3) + max(1, n, 2) * 10 + abs(n) * 100)
        px.store(OUT[1], sum((n, 2, 3)) + len(OUT.shape) * 10 + int(3.9))
        px.store(OUT[2], int(n * 1.5))
        total = 0
        for k, w in enumerate((4, 5)):
            total += k * w
        for a, b in zip((1, 2), (n, 3)):
            total += a * b
        px.store(OUT[3], total + round(2.6) + math.ceil(math.sqrt(17)))

    assert run(calls, 5) == [3 + 50 + 500, 10 + 10 + 3, 7, 5 + 5 + 6 + 3 + 5]


def test_cdiv_in_kernels_and_outside() -> None:
    @px.kernel
    def tiles(OUT, n):
        px.store(OUT[0], px.cdiv(n, 4))
        px.store(OUT[1], px.cdiv(9, 4))

    assert px.cdiv(9, 4) == 3
    for n in (-5, 0, 1, 8, 2**31 - 1):
        assert run(tiles, n, slots=2) == [-(-n // 4), 3]


def test_strings_and_format_in_assertions() -> None:
    @px.kernel
    def checked(OUT, *, BM=64):
        assert BM % 16 == 0, f"BM is {BM:>5} ({px.f32!s})"
        px.store(OUT[0], 1)

    assert run(checked, slots=1) == [1]
    with pytest.raises(px.Error, match=r"assertion failed: BM is    20 \(f32\)"):
        run(checked, BM=20)


def test_print_shows_values(capfd: pytest.CaptureFixture[str]) -> None:
    @px.kernel(warps=1)
    def shown(OUT, n):
        px.print("n =", n, px.f32, 2 + 3, None)
        px.store(OUT[0], n)

    run(shown, 7)
    assert capfd.readouterr().out == "block (0, 0, 0), all warps: n = 7 f32 5 None\n"


def test_names_hold_the_value_an_element_had() -> None:
    @px.kernel(warps=1)
    def old(OUT, n):
        before = OUT[0]
        px.store(OUT[0], n)
        px.store(OUT[1], before)
        px.store(OUT[2], OUT[0] + before)

    assert run(old, 7)[:3] == [7, 55, 62]


def test_permute_orders_the_axes() -> None:
    @px.kernel
    def turn(X, Y):
        x = px.load(X[0:2, 0:12]).reshape(2, 3, 4)
        px.store(Y[0:4, 0:6], x.permute(2, 0, 1).reshape(4, 6))
        px.store(Y[4:6, 0:6], x.permute((0, 1, 2)).reshape(4, 6)[0:2])

    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    y = np.zeros((6, 6), np.float32)
    turn[1](x, y)
    assert np.array_equal(y[:4], x.reshape(2, 3, 4).transpose(2, 0, 1).reshape(4, 6))
    assert np.array_equal(y[4:], x.reshape(4, 6)[:2])
