"""Numbers that remember how they came about: their values, bounds and texts agree, and guards say when a way is the same."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import phalanx as px
from phalanx.runtime.symbolic.choices import chosen_at_example, not_chosen_in_exports
from phalanx.runtime.symbolic.expressions import symbol
from phalanx.runtime.symbolic.numbers import Number, Trace, Undecided, expression_of, tracing
from phalanx.runtime.symbolic.reals import Real

NAMES = ("m", "n", "k")


def numbers(trace: Trace) -> list[Any]:
    return [Number(trace, symbol(name), trace.values[name]) for name in NAMES]


def traced(**values: int) -> Trace:
    return Trace(values, values)


def combine(rng: random.Random, pool: list[Any]) -> Any:
    """A number made of others by one operation, or None where that has no result."""
    a, b, c = rng.choice(pool), rng.choice(pool), rng.randint(1, 300)
    made = [
        lambda: a + b, lambda: a - b, lambda: a * c, lambda: a // c, lambda: a % c, lambda: px.cdiv(a, c), lambda: -a,
        lambda: c - a, lambda: a * b, lambda: math.ceil(a / c), lambda: max(a, b), lambda: min(a, c), lambda: abs(a),
        lambda: divmod(a, c)[1], lambda: a & 15, lambda: (a * c) // c,
    ]  # fmt: skip
    return rng.choice(made)()


@pytest.mark.parametrize("seed", range(30))
def test_values_texts_and_bounds_agree(seed: int) -> None:
    rng = random.Random(seed)
    values = {name: rng.choice((0, 1, 7, 64, 4096, 131071)) for name in NAMES}
    trace = Trace(values, values)
    same = random.Random(seed + 1000)
    with tracing(trace):
        pool: list[Any] = numbers(trace)
        for _ in range(25):
            pool.append(combine(same, pool))
    plain: list[Any] = [values[name] for name in NAMES]
    same = random.Random(seed + 1000)
    for _ in range(25):
        plain.append(combine(same, plain))
    for number, value in zip(pool, plain, strict=True):
        expression = expression_of(number)
        assert (number.value if isinstance(number, Number) else number) == value
        assert expression.at(values) == value == eval(expression.text, {}, values)
        assert expression.low <= value <= expression.high
        assert expression.multiple == 0 or value % expression.multiple == 0


def way(m: Any, n: Any, k: Any) -> list[Any]:
    """Something with many branches, and all numbers that it makes."""
    made = [px.cdiv(m, 64) * n]
    if m > n and n % 8 == 0:
        made.append(min(m // 4, 132))
    elif k != 0:
        made.append(max(m - n, k) * 2)
    for limit in (1, 16, 100):
        if m * k <= limit * n:
            made.append(limit + k % 32)
            break
    if k >= 1:
        made.append(m // k)
    return made


def test_guards_say_where_the_way_is_the_same() -> None:
    rng = random.Random(3)
    taken = 0
    for _ in range(200):
        trace = traced(**{name: rng.choice((0, 1, 8, 24, 100, 4096)) for name in NAMES})
        with tracing(trace):
            found = way(*numbers(trace))
        for _ in range(20):
            other = {name: rng.choice((0, 1, 2, 8, 16, 25, 100, 4000)) for name in NAMES}
            if all(eval(guard.text, {}, other) is guard.outcome for guard in trace.guards):
                taken += 1
                assert [expression_of(each).at(other) for each in found] == way(*(other[name] for name in NAMES))
    assert taken > 300  # the guards leave other sizes as well


def test_what_settles_a_number() -> None:
    trace = traced(m=7)
    with tracing(trace):
        (m,) = [Number(trace, symbol("m"), 7)]
        assert list(range(m)) == [0, 1, 2, 3, 4, 5, 6]
        with pytest.raises(Undecided, match="m is looked up in a table"):
            {7: "seven"}.get(m)
        with pytest.raises(Undecided, match="division by"):
            100 // (m - 7)
    assert [(guard.text, guard.outcome, guard.settled) for guard in trace.guards] == [("(m == 7)", True, True)]
    assert hash(m) == hash(7)  # outside of a trace it is no more than its value


def test_choices_are_the_examples() -> None:
    asked: list[int] = []

    @chosen_at_example
    def choose(size: int) -> int:
        asked.append(size)
        return 2 if size > 100 else 1

    trace = Trace({"m": 5}, {"m": 4096})
    with tracing(trace):
        m = Number(trace, symbol("m"), 5)
        assert choose(m * 2) == 2
        assert not_chosen_in_exports(choose)(m) is None
    assert asked == [8192] and not trace.guards
    assert choose(5) == 1


def test_numbers_with_a_fraction() -> None:
    trace = Trace({"scale": 0.3}, {"scale": 0.3})
    with tracing(trace):
        scale = Real.named(trace, "scale")
        made = 1 / (scale * 1.4426950408889634 - 0.25)
        assert scale > 0 and scale != 1.0
        with pytest.raises(Undecided, match="is asked for its value"):
            math.sqrt(scale)
    assert made.value == 1 / (0.3 * 1.4426950408889634 - 0.25) == made.expression.at({"scale": 0.3})
    assert made.expression.c() == "((0x1.0000000000000p+0) / ((g->scale * (0x1.71547652b82fep+0)) - (0x1.0000000000000p-2)))"
    assert [(guard.text, guard.outcome) for guard in trace.guards] == [("(0.0 < scale)", True), ("(scale == 1.0)", False)]
