"""Numbers and parentheses as C++ text."""

from __future__ import annotations

import math

import pytest

from phalanx.cuda.text.literals import atom, bare, literal, plus
from phalanx.ir import types as t


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (5, t.i32, "5"),
        (-5, t.i32, "(-5)"),
        (-(2**31), t.i32, "(-2147483647 - 1)"),
        (2**31, t.i32, "(-2147483647 - 1)"),
        (7, t.i64, "7LL"),
        (-(2**63), t.i64, "(-9223372036854775807LL - 1)"),
        (-1, t.u32, "4294967295u"),
        (1, t.u64, "1ULL"),
        (200, t.u8, "200"),
        (200, t.i8, "(-56)"),
        (True, t.bool_, "true"),
        (0, t.bool_, "false"),
        (2, t.f32, "2.0f"),
        (0.1, t.f32, "0.1f"),
        (-1.5, t.f32, "(-1.5f)"),
        (1e-30, t.f32, "1e-30f"),
        (math.inf, t.f32, "__int_as_float(0x7f800000)"),
        (-math.inf, t.f32, "__int_as_float(0xff800000)"),
        (1e300, t.f32, "__int_as_float(0x7f800000)"),
        (0.1, t.f64, "0.1"),
        (3, t.f64, "3.0"),
        (math.inf, t.f64, "__longlong_as_double(0x7ff0000000000000LL)"),
        (1, t.f16, "(px_f16)0x3c00"),
        (1.0004882821813226, t.f16, "(px_f16)0x3c01"),  # above the middle of two, on it as an f32
        (65519.99999, t.f16, "(px_f16)0x7bff"),
        (65520.0, t.f16, "(px_f16)0x7c00"),
        (1, t.bf16, "(px_bf16)0x3f80"),
        (1, t.f8e4m3, "(px_f8e4m3)0x38"),
        (1, t.f8e5m2, "(px_f8e5m2)0x3c"),
    ],
)
def test_a_number_is_spelled_with_its_type(value: float, dtype: t.DType, text: str) -> None:
    assert literal(value, dtype) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "x"),
        ("12", "12"),
        ("X.shape[0]", "X.shape[0]"),
        ("f(a, b)", "f(a, b)"),
        ("ptx::rank()", "ptx::rank()"),
        ("a + b", "(a + b)"),
        ("-x", "(-x)"),
        ("(a + b)", "(a + b)"),
        ("(a) + (b)", "((a) + (b))"),
        ("f(a) + g(b)", "(f(a) + g(b))"),
        ("(int)x", "((int)x)"),
    ],
)
def test_parentheses_only_where_needed(text: str, expected: str) -> None:
    assert atom(text) == expected


def test_bare_takes_one_pair_that_spans_everything() -> None:
    assert bare("(a + b)") == "a + b"
    assert bare("(a) + (b)") == "(a) + (b)"
    assert bare("x") == "x"


def test_nothing_is_added_for_zero() -> None:
    assert plus("s", 0) == "s"
    assert plus("s", 16) == "s + 16"
