"""Numbers by rank: the choice, and the instructions that make it."""

from __future__ import annotations

import pytest

from phalanx.analysis.by_rank import ByRank
from phalanx.analysis.ranks import per_rank
from phalanx.ir.core import Block, Function
from phalanx.ir.values import Value
from phalanx.location import NOWHERE
from phalanx.passes.rank_code import RankCode


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, ByRank(0)),
        ({0: 7}, ByRank(7)),
        ({1: 7, 3: 7}, ByRank(7)),
        ({0: 8, 1: 4, 2: 4, 3: 4}, ByRank(4, ((0b1, 8),))),
        ({0: 1, 1: 2, 2: 1, 3: 2, 4: 1}, ByRank(1, ((0b1010, 2),))),
        ({0: 1, 1: 2, 2: 3}, ByRank(1, ((0b10, 2), (0b100, 3)))),
    ],
)
def test_the_commonest_number_is_the_last_choice(numbers: dict[int, int], expected: ByRank) -> None:
    assert ByRank.of(numbers) == expected


def seen(code: RankCode, value: Value, cluster: tuple[int, int, int]) -> list[float | int | None]:
    """What the value is in each rank of a cluster."""
    function = Function("k", (), (), 4, cluster, True, (), (), Block(tuple(code.ops)))
    return list(per_rank(function, value))


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("numbers", [[5, 5, 5, 5], [5, 6, 5, 5], [1, 2, 3, 4], [9, 2, 9, 2]])
def test_every_rank_gets_its_number(numbers: list[int], masks: bool) -> None:
    code = RankCode(NOWHERE)
    value = code.chosen(dict(enumerate(numbers)), "n", masks=masks)
    assert seen(code, value, (4, 1, 1)) == numbers


@pytest.mark.parametrize("numbers", [[3, 3, 3, 3], [0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 3, 2], [15, 0, 7, 9]])
def test_every_rank_gets_its_position(numbers: list[int]) -> None:
    code = RankCode(NOWHERE)
    function = Function("k", (), (), 4, (2, 2, 1), True, (), (), Block())
    value = code.position(function, dict(enumerate(numbers)))
    assert seen(code, value, (2, 2, 1)) == numbers


@pytest.mark.parametrize("mask", [0b1, 0b100, 0b1010, 0b1111])
def test_a_rank_knows_whether_it_is_in_a_mask(mask: int) -> None:
    code = RankCode(NOWHERE)
    value = code.among(mask)
    assert [bool(found) for found in seen(code, value, (4, 1, 1))] == [bool(mask >> rank & 1) for rank in range(4)]
