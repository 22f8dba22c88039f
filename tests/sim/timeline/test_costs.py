"""Every instruction says what it costs, or why it takes no time of its own."""

from __future__ import annotations

import pytest

import phalanx.sim.timeline.ops  # noqa: F401
from phalanx.ir import types as ty
from phalanx.ir.core import INSTRUCTIONS
from phalanx.ir.ops.tile import Unary
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.machines.rates import CARDS, Rates, rates_of
from phalanx.sim.timeline.costs import COSTS, FREE, NOTHING, cost_of
from phalanx.sim.timeline.products import product_cycles

OURS = [cls for cls in INSTRUCTIONS if cls.__module__.startswith("phalanx.")]


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.mnemonic)
def test_every_instruction_has_a_cost_or_says_why_not(cls: type) -> None:
    assert (cls in COSTS) != (cls in FREE), f"{cls.__name__}: @cost or free() in sim/timeline/ops/{cls.__module__}"
    family = cls.__module__.rpartition(".")[2]
    if cls in COSTS:
        assert COSTS[cls].__module__ == f"phalanx.sim.timeline.ops.{family}"
    else:
        assert FREE[cls]


@pytest.mark.parametrize("card", sorted(set(CARDS.values())))
def test_rates_are_positive_and_say_where_they_come_from(card: str) -> None:
    rates = rates_of(card)
    assert rates.source and all(
        getattr(rates, name) > 0 for name, kind in Rates.__annotations__.items() if kind in ("int", "float")
    )


def unary(fn: str, rows: int) -> Unary:
    tile = TileType((rows, 64), ty.f32)
    return Unary(fn, Value(tile), Value(tile))


def test_arithmetic_costs_what_its_elements_do() -> None:
    h200 = rates_of("h200")
    one, two = (cost_of(unary("neg", rows), 4, h200) for rows in (64, 128))
    assert two.issue == 2 * one.issue == 64
    assert one.special == 0 < cost_of(unary("exp2", 64), 4, h200).special
    assert cost_of(unary("neg", 64), 8, h200).issue == one.issue / 2


def test_narrow_products_go_faster() -> None:
    h200 = rates_of("h200")
    wide, narrow = (product_cycles(64, 128, 64, itemsize, h200) for itemsize in (2, 1))
    assert wide == 2 * narrow
    assert NOTHING.issue == 0
