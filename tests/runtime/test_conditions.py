"""What a plan compares, as text: it holds for the sizes for which all guards turn out as they did."""

from __future__ import annotations

import random
from typing import Any

import pytest

from phalanx.runtime.planning.compiled_ways import _conditions as conditions
from phalanx.runtime.symbolic.expressions import Expression, combined, constant, symbol
from phalanx.runtime.symbolic.numbers import Guard

NAMES = {"s0": (0, 2**31 - 1), "s1": (0, 2**31 - 1), "t0": (-(2**62), 2**62), "t1": (-(2**62), 2**62), "p0": (0, 2**64)}
NUMBERS = (0, 1, 2, 8, 12, 16, 64, 4096, 2**31 - 1, 2**39 - 1, 2**39, 2**40)


def drawn(rng: random.Random) -> Expression:
    name = rng.choice(list(NAMES))
    found = symbol(name, *NAMES[name])
    return combined("*", found, constant(rng.choice((2, 4, 3)))) if rng.random() < 0.6 else found


def drawn_guard(rng: random.Random, values: dict[str, int]) -> Guard:
    left, right = drawn(rng), constant(0)
    kind = rng.choice(("multiple", "forward", "positive", "below", "equal", "same", "other"))
    sign = "=="
    if kind == "multiple":
        left = combined("%", left, constant(rng.choice((16, 8, 12))))
    elif kind in ("forward", "positive"):
        left, right, sign = constant(0), left, "<=" if kind == "forward" else "<"
    elif kind == "below":
        right, sign = constant(rng.choice((2**40, 2**16, 1000))), "<"
    elif kind == "same":
        name = rng.choice("st")
        left, right = (symbol(f"{name}{number}", *NAMES[f"{name}0"]) for number in rng.choice(((0, 1), (1, 0))))
    elif kind == "other":
        right, sign = drawn(rng), rng.choice(("==", "<", "<="))
    a, b = left.at(values), right.at(values)
    return Guard(left, sign, right, {"==": a == b, "<": a < b, "<=": a <= b}[sign])


def drawn_values(rng: random.Random) -> dict[str, int]:
    values = {}
    for name, (low, high) in NAMES.items():
        number = rng.choice(NUMBERS) * rng.choice((1, 1, 1, -1))
        values[name] = min(max(number, low), high)
    for name, other in (("s1", "s0"), ("t1", "t0")):
        if rng.random() < 0.6:
            values[name] = values[other]
    return values


def holds(guard: Guard, values: dict[str, int]) -> bool:
    a, b = guard.left.at(values), guard.right.at(values)
    return {"==": a == b, "<": a < b, "<=": a <= b}[guard.sign] == guard.outcome


@pytest.mark.parametrize("seed", range(60))
def test_texts_hold_where_all_guards_do(seed: int) -> None:
    rng = random.Random(seed)
    example = drawn_values(rng)
    guards = [drawn_guard(rng, example) for _ in range(rng.randint(1, 8))]
    text = " and ".join(conditions(guards))
    assert eval(text, {}, example)
    for _ in range(300):
        values, other = dict(example), drawn_values(rng)
        for names in (("s0", "s1"), ("t0", "t1"), ("p0",)):
            if rng.random() < 0.6:
                values |= {name: other[name] for name in names if rng.random() < 0.8}
        assert bool(eval(text, {}, values)) == all(holds(guard, values) for guard in guards), (text, values)


def strides(*names: str) -> list[Any]:
    """What is asked of the strides of an array of 16-bit elements that copies go along."""
    guards = []
    for name in names:
        step = combined("*", symbol(name, -(2**62), 2**62), constant(2))
        guards += [
            Guard(combined("%", step, constant(16)), "==", constant(0), True),
            Guard(constant(0), "<=", step, True),
            Guard(step, "<", constant(2**40), True),
        ]
    return guards


def test_strides_are_compared_together() -> None:
    assert conditions(strides("t0", "t1", "t2")) == [
        "not ((t0 * 2) | (t1 * 2) | (t2 * 2)) & 15", f"0 <= ((t0 * 2) | (t1 * 2) | (t2 * 2)) < {2**40}"
    ]


def test_a_bound_of_what_may_be_below_zero_stays_alone() -> None:
    limit = Guard(symbol("t0", -(2**62), 2**62), "<", constant(64), True)
    assert conditions([limit]) == ["(t0 < 64)"]
