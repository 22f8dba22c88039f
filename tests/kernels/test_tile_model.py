"""What the model of tiles counts: lines that several CTAs ask for, and parts of an epilogue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phalanx.kernels.products.matmul_config import best_tiles, choose, microseconds, suited
from phalanx.kernels.products.matmul_cuts import Problem, complete
from phalanx.kernels.products.tile_model import costs_of, predicted_tiles, tabled
from phalanx.runtime.device.devices import device

CARD = device()
PROBLEM = Problem(512, 1536, 7168)


@pytest.mark.parametrize("swapped", [False, True])
def test_lines_that_many_ask_for_count_less_unless_they_are_shared(swapped: bool) -> None:
    configs = [complete(PROBLEM, 64, 64, 1, cluster, swapped) for cluster in ((1, 1), (1, 2), (2, 1), (2, 2))]
    # L2 is the only limit.
    costs = replace(costs_of(PROBLEM), l2_rate=1.0, l2_rate_alone=1.0, read_together=0.0)
    table = tabled(configs, CARD, costs)
    before = predicted_tiles(table, PROBLEM, CARD, costs)
    alone, rows, columns, both = predicted_tiles(table, PROBLEM, CARD, replace(costs, read_together=0.2)) / before
    assert both == 1.0
    assert alone < min(rows, columns) < max(rows, columns) < 1.0


def test_lines_of_one_tile_count_in_full() -> None:
    problem = Problem(64, 64, 7168)
    costs = replace(costs_of(problem), l2_rate=1.0, l2_rate_alone=1.0)
    table = tabled([complete(problem, 64, 64, 1, (1, 1))], CARD, costs)
    one, other = (
        predicted_tiles(table, problem, CARD, replace(costs, read_together=exponent)) for exponent in (0.0, 0.5)
    )
    assert np.array_equal(one, other)


def test_each_further_part_of_an_epilogue() -> None:
    costs = replace(costs_of(PROBLEM), further_part=100)
    plain = complete(PROBLEM, 128, 128, 2, (1, 1))
    ending = tabled([replace(plain, parts=parts) for parts in (1, 2, 3, 4)], CARD, costs).ending
    assert np.diff(ending).tolist() == [100, 100, 100]


def test_neighbours_ask_for_the_same_rows_where_all_run_at_once_and_share_columns() -> None:
    few, many = Problem(904, 1216, 9744), Problem(8192, 8192, 1024)
    for cluster, problem, group in (
        ((4, 1), few, 1), ((2, 1), few, 1), ((1, 4), few, 8), ((2, 2), few, 8), ((4, 1), many, 8),
    ):  # fmt: skip
        config = replace(complete(problem, 64, 160, 1, cluster, True), group=8)
        assert suited(config, problem, CARD).group == group


def test_tiles_that_end_within_lines_of_the_result_take_longer_along_a_short_k() -> None:
    """8 x 768 x 1856 x 128 takes 11.6 us in tiles of 256 x 88, and 8.7 in ones of 192 x 96 of the transposed product."""
    widths = (88, False), (96, False), (128, False), (88, True), (96, True)
    for k, part in ((128, 0.75), (256, 0.5), (512, 0.0), (4096, 0.0)):
        problem = Problem(768, 1856, k, batch=8)
        costs = replace(costs_of(problem), broken_lines=0.2, turned_tiles=0.04, uneven_steps=8)
        configs = [complete(problem, 256, width, 2, (1, 2), swapped) for width, swapped in widths]
        took = predicted_tiles(tabled(configs, CARD, costs), problem, CARD, costs)
        even = replace(costs, uneven_steps=0)
        without = predicted_tiles(tabled(configs, CARD, even), problem, CARD, even)
        assert took / without == pytest.approx([1 + part * longer for longer in (0.2, 0.2, 0.0, 0.04, 0.04)])
    chosen = choose(Problem(768, 1856, 128, batch=8))
    assert chosen.swapped or chosen.bn % 64 == 0


def test_a_choice_counts_results_outside_but_the_microseconds_that_it_gives_do_not() -> None:
    problem = Problem(272, 2776, 1664, by_k=(False, True))
    costs = costs_of(problem)
    configs = [complete(problem, 64, width, 1, (1, 4)) for width in (120, 176)]
    assert [round(config.covered(problem), 2) for config in configs] == [1.22, 1.19]
    table = tabled(configs, CARD, costs)
    counted = predicted_tiles(table, problem, CARD, replace(costs, wasted=0.5))
    assert counted / predicted_tiles(table, problem, CARD, replace(costs, wasted=0.0)) == pytest.approx(
        [1 + 0.5 * (config.covered(problem) - 1) for config in configs]
    )
    chosen, took = best_tiles(problem, CARD)
    alone, behind_others, behind_one_like_it = took
    assert behind_one_like_it == pytest.approx(microseconds(problem, chosen, CARD)) and chosen.split == 1
    assert behind_others == pytest.approx(microseconds(problem, chosen, CARD, found=0.0)) and alone > behind_others
    assert chosen.covered(problem) < 1.1


def test_rows_that_begin_at_no_line_arrive_late_at_all_that_share_them() -> None:
    """Four CTAs that share 256 rows of the transposed product fetch as many bytes as four that share 96 columns, but each
    gets four times as many rows, in two pieces each: 66 x 5832 x 3000 takes 19 us so, and 15 in the others."""
    problem = Problem(66, 5832, 3000, by_k=(True, False))
    costs = costs_of(problem)
    table = tabled([complete(problem, *tile, True) for tile in ((256, 24, 2, (1, 4)), (64, 96, 1, (4, 1)))], CARD, costs)
    rows, columns = predicted_tiles(table, problem, CARD, costs)
    at_once = predicted_tiles(table, problem, CARD, replace(costs, delivered_rate=1e6))
    assert columns < 0.95 * rows
    assert at_once[0] < 0.95 * rows and at_once[1] > 0.96 * columns


def test_lines_that_pieces_share_are_put_together_less_often() -> None:
    """448 x 2048 x 7168 in tiles of 64 x 112 takes 19.7 us, in two parts of K of 128 x 112 22.1: the 112 rows of A that 32
    CTAs read cost L2 little. Not so along a K of 7176, whose rows begin at no line."""
    costs = costs_of(Problem(448, 2048, 7168))
    each = costs, replace(costs, read_together=1e-9), replace(costs, read_together_broken=1e-9)
    for k, counts in ((7168, 1), (7176, 2)):
        problem = Problem(448, 2048, k)
        table = tabled([complete(problem, 64, 112, 1, (1, 2), True)], CARD, costs)
        took = [float(predicted_tiles(table, problem, CARD, these)[0]) for these in each]
        assert took[counts] > 1.02 * took[0] and took[3 - counts] == took[0]
    assert costs.read_together_broken < costs.read_together


def test_large_products_are_not_cut_into_tiles_of_few_columns() -> None:
    """Tiles of 256 x 112 read and fetch more for as many results as others: 238 us where the 256 x 176 takes 204."""
    chosen = choose(Problem(4928, 2112, 7168, by_k=(True, False)), CARD)
    assert chosen.bn > 112
