"""Low tiles at the end of full attention: all queries are someone's, once, and no CTA has much more to do than others."""

import importlib

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.heights import (
    CHOSEN,
    MOST_HEADS,
    TENTHS,
    TURNS,
    UNITS,
    Heights,
    choose_heights,
    first_to_end,
    heights_for,
    least,
    longest,
    low_lots,
)
from phalanx.kernels.attention.scores import Reach
from phalanx.kernels.attention.tiles import Tiles
from support.attention_cases import heads
from support.host_cuda import COMPILER, MISSING
from support.library_launches import launches

forward = importlib.import_module("phalanx.kernels.attention.forward")
THREE = AttentionConfig()


def full(batch, count, length, dim=128):
    return Heads(batch, count, count, length, length, dim, dim, "bf16")


@px.kernel(warps=1)
def all_tiles(OUT, queries, heads, whole, more, low, first, second, *, GROUPS):
    reach, plan = Reach(queries, queries, None, None), (whole, more, low, first, second)
    tiles = Tiles(None, None, queries, queries, heads, 2, 1, reach, plan, GROUPS, 64 * GROUPS)
    for t in px.persistent(tiles.count(), schedule="static"):
        tiles.seek(t)
        px.store(OUT[t, 0], tiles.batch)
        px.store(OUT[t, 1], tiles.head)
        px.store(OUT[t, 2], tiles.row)
        px.store(OUT[t, 3], tiles.groups)


@pytest.mark.parametrize("queries, count, ctas, groups", [(1000, 3, 7, 3), (300, 2, 5, 2), (64, 3, 4, 3)])
def test_all_queries_are_done_once(queries, count, ctas, groups):
    given = Heads(2, count, count, queries, queries, 64, 64, "bf16")
    plans = {choose_heights(given, AttentionConfig(groups=groups), ctas)}
    rows = -(-queries // 64)
    for tiles in range(0, 2 * count * (rows // groups) + 1, 5):
        plans.add(heights_for(2 * count, rows, groups, tiles, 1 + tiles % groups))
    for plan in plans:
        out = np.full((plan.count(2 * count) + 3, 4), -1, np.int32)
        all_tiles[ctas](out, queries, count, plan.whole, plan.more, plan.low, plan.first, plan.second, GROUPS=groups)
        done = np.zeros((2, count, rows), int)
        for batch, head, row, high in out[:-3]:
            assert 1 <= high <= groups and row % 64 == 0
            done[batch, head, row // 64 : row // 64 + high] += 1
            assert row // 64 + high <= rows
        assert (out[-3:] == -1).all()
        assert (done == 1).all(), plan


def times(plan, count, rows, groups):
    """How long each tile of a plan takes, in tenths, in the order in which they are dealt."""

    def behind(rest, tiles):
        return [TENTHS[groups][min(plan.low, rest - piece * plan.low) - 1] for piece in range(tiles)]

    rest = rows - plan.whole * groups
    low = behind(rest, plan.first) * (count - plan.more) + behind(rest - groups, plan.second) * plan.more
    return [10] * (count * plan.whole + plan.more) + low


def last_end(plan, count, rows, groups, ctas):
    """When the last CTA ends that gets its tiles in turn."""
    given = times(plan, count, rows, groups)
    return max(sum(given[cta::ctas]) for cta in range(ctas))


def test_the_plan_that_ends_first():
    rng = np.random.default_rng(15)
    for _ in range(300):
        groups, ctas = int(rng.integers(1, 4)), int(rng.choice([1, 7, 66, 132]))
        count, rows = int(rng.integers(1, 40)), int(rng.integers(1, 40))
        most = count * (rows // groups)
        numbers = {most, *(turn * ctas for turn in range(max(0, most // ctas - TURNS), most // ctas + 1))}
        plans, ends = [], {}
        for tiles in numbers:
            for low in range(1, groups + 1):
                plan, lots = heights_for(count, rows, groups, tiles, low), low_lots(count, rows, groups, tiles, low)
                ends[plan] = last_end(plan, count, rows, groups, ctas)
                assert longest(lots, tiles, ctas) == ends[plan] >= least(lots, tiles, UNITS[groups], ctas)
                plans.append(plan)
        first = min(plans, key=lambda plan: (ends[plan], plan.count(count), -plan.whole))
        heads = Heads(1, count, count, 64 * rows, 64 * rows, 64, 64, "bf16")
        assert choose_heights(heads, AttentionConfig(groups=groups), ctas) == first


def test_the_second_length_of_a_window_decides_for_all():
    asked = []

    def noted(all_of_them):
        asked.append([rows for _, rows, _, _ in all_of_them])
        return [first_to_end(*each) for each in all_of_them]

    choices = type(CHOSEN)(noted)
    for rows in (9, 9, 14, 12, 16, 17, 3):
        assert choices.find((8, rows, 3, 132)) == first_to_end(8, rows, 3, 132)
    assert asked == [[9], [*range(9, 17)], [17], [3]]
    assert choices.find((16, 12, 3, 132)) == first_to_end(16, 12, 3, 132), "other heads are decided for on their own"
    for rows in (2, 3, 4):
        assert choices.find((MOST_HEADS + 1, rows, 3, 132)) == first_to_end(MOST_HEADS + 1, rows, 3, 132)
    assert asked[4:] == [[12], [2], [3], [4]]


@pytest.mark.parametrize("heads, rows", [(3000, 5), (2000, 2), (700, 40)])
def test_plans_of_many_heads(heads, rows):
    for tiles in {heads * (rows // 3), heads * (rows // 3) // 132 * 132}:
        for low in (1, 2, 3):
            plan, lots = heights_for(heads, rows, 3, tiles, low), low_lots(heads, rows, 3, tiles, low)
            assert longest(lots, tiles, 132) == last_end(plan, heads, rows, 3, 132) >= least(lots, tiles, 2, 132)


@pytest.mark.parametrize("sizes", [(4, 16, 4096), (1, 16, 16384), (8, 16, 2048), (2, 16, 8192), (4, 32, 4096), (1, 1, 10)])
def test_the_last_turn_is_short(sizes):
    given = full(*sizes)
    count, rows = given.batch * given.heads, -(-given.queries // 64)
    plan = choose_heights(given, THREE, 132)
    took = last_end(plan, count, rows, 3, 132) / 10
    assert len(times(plan, count, rows, 3)) == plan.count(count)
    assert took <= -(-count * -(-rows // 3) // 132)
    if count * rows > 1000:
        assert took < 1.05 * count * rows / 3 / 132


def test_choices():
    assert choose_heights(full(4, 16, 4096), THREE, 132) == Heights(20, 40, 2, 2, 1)
    assert choose_heights(full(1, 1, 192), THREE, 132).count(1) == 3  # three CTAs of one warpgroup


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize(
    "groups, length, count", [(2, 200, 5), pytest.param(3, 260, 3, marks=pytest.mark.long)]
)  # a CTA has three tiles and more: places for Q come again
def test_low_tiles_are_right_and_checked_clean(groups, length, count):
    rng = np.random.default_rng(0)
    q, k, v = (heads(rng, 1, count, n, 64) for n in (length, 70, 70))
    with launches((forward, "attention_tiles")) as found:
        y = forward.attention(q, k, v, config=AttentionConfig(groups=groups, keys=64))
    whole = forward.attention(q, k, v, config=AttentionConfig(groups=1, keys=64))
    assert np.array_equal(y, whole)  # a group does the same in a low tile as in a full one
    report = found[0].check()
    assert report.ok, report
    found[0].on_host("sm_90a")
