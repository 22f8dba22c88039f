"""The order of causal tiles: who is busiest, and which bands of heads are chosen."""

import heapq
import random
from math import gcd

import pytest

from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.bands import (
    ALIKE,
    blocks_of,
    busiest,
    choose_band,
    least_busiest,
    most_even,
    rounded,
)
from phalanx.kernels.attention.config import AttentionConfig

THREE = AttentionConfig()


def causal(batch, heads, length, dim=128, kv_heads=None):
    return Heads(batch, heads, kv_heads or heads, length, length, dim, dim, "bf16")


def blocks(heads):
    return blocks_of(heads.keys, -(-heads.queries // THREE.rows), THREE)


def longest_first(given, count, band):
    """The blocks of all tiles of `count` heads in their order: band after band, in each the last rows of all heads first."""
    full, rest = divmod(count, band)
    return [each for each in given for _ in range(band)] * full + [each for each in given for _ in range(rest)]


def tile_by_tile(given, count, band, ctas):
    """What the busiest CTA does, where each takes the next tile when it is done with one."""
    busy = [0.0] * ctas
    for each in longest_first(given, count, band):
        heapq.heapreplace(busy, busy[0] + each)
    return max(busy)


def test_the_longest_rows_of_all_heads_of_a_band_go_first():
    tiles = longest_first(blocks(causal(1, 3, 400)), 3, 2)
    assert tiles == [7, 7, 5, 5, 3, 3, 7, 5, 3]  # 400, 208 and 16 keys in blocks of 80, and 2 for each tile


def test_who_is_done_takes_the_next_tile():
    assert busiest((4.0, 3.0, 2.0, 1.0), 1, 1, 2) == 5
    assert busiest((4.0, 3.0, 2.0), 1, 1, 2) == 5
    assert busiest((4.0, 1.0, 1.0, 1.0, 1.0), 1, 1, 2) == 4
    assert busiest((4.0, 1.0), 2, 1, 2) == 5 and busiest((4.0, 1.0), 2, 2, 2) == 5
    assert busiest((1.0, 4.0), 3, 1, 2) == 9
    assert busiest((4.0, 3.0, 2.0), 100, 10, 2, enough=9) == 12, "no further than that it is too much"


def test_who_is_busiest_is_known_without_a_look_at_every_tile():
    rng = random.Random(18)
    for _ in range(200):
        count, ctas = rng.randint(1, 40), rng.choice((1, 5, 66, 132))
        given = blocks_of(rng.randint(1, 6000), rng.randint(1, 30), THREE)
        bands = sorted({-(-count // part) for part in range(1, 9)}, reverse=True)
        wanted = {band: tile_by_tile(given, count, band, ctas) for band in bands}
        assert {band: busiest(given, count, band, ctas) for band in bands} == wanted
        assert least_busiest(given, count, ctas) <= min(wanted.values()) * (1 + 1e-12)


def test_the_most_even_band_is_that_of_looking_at_all():
    rng = random.Random(19)
    for _ in range(60):
        count, rows, keys = rng.randint(1, 64), rng.randint(1, 40), rng.randint(1, 8000)
        config = AttentionConfig(groups=rng.choice((2, 3)), keys=rng.choice((80, 112, 128)))
        given = blocks_of(keys, rows, config)
        bands = tuple(sorted({-(-count // part) for part in range(1, 9)}, reverse=True))
        mean = sum(given) * count / 132
        ends = {band: round(tile_by_tile(given, count, band, 132) / mean, 3) for band in bands}
        assert most_even(keys, rows, config, count, bands, 132) == min(bands, key=lambda band: (ends[band], -band))


def test_lengths_near_each_other_have_one_choice():
    assert [rounded(units) for units in (1, 31, 32, 33, 64, 65, 1000)] == [1, 31, 32, 34, 64, 68, 1024]
    for octave in range(4, 12):
        numbers = {rounded(units) for units in range((1 << octave) + 1, (2 << octave) + 1)}
        assert len(numbers) == ALIKE and 2 << octave in numbers
    assert all(units <= rounded(units) <= units * (1 + 1 / ALIKE) for units in range(1, 5000))


def test_lengths_of_one_sixteenth_are_chosen_for_once():
    rng, differ = random.Random(20), 0
    for _ in range(40):
        batch, heads, units = rng.choice((1, 2, 4)), rng.choice((8, 16)), rng.randint(40, 700)
        config = AttentionConfig(keys=80)  # units of 16 keys
        longest = rounded(units)
        shortest = next(each for each in range(units, 0, -1) if rounded(each - 1) != longest)
        bands = {choose_band(causal(batch, heads, 16 * each), config, 132) for each in (shortest, units, longest)}
        assert len(bands) == 1
        below = choose_band(causal(batch, heads, 16 * (shortest - 1)), config, 132)
        differ += below not in bands
    assert differ, "others may have another"


@pytest.mark.parametrize("sizes", [(4, 16, 4096), (2, 16, 8192), (1, 16, 16384), (8, 16, 2048), (4, 32, 4096, 64)])
def test_no_cta_has_much_more_to_do_than_others(sizes):
    heads = causal(*sizes)
    band, count, given = choose_band(heads, THREE, 132), heads.batch * heads.heads, blocks(heads)
    assert tile_by_tile(given, count, band, 132) < 1.04 * sum(given) * count / 132
    each = heads.keys * 4 * heads.dim
    assert band * each <= 32 << 20 or band <= 33


@pytest.mark.parametrize("config", [THREE, AttentionConfig(keys=128), AttentionConfig(groups=2, keys=112)])
def test_lengths_up_to_a_multiple_have_as_many_blocks(config):
    unit = gcd(config.rows, config.keys)
    for keys in range(1, 700):
        assert blocks_of(keys, 4, config) == blocks_of(-(-keys // unit) * unit, 4, config)


def test_heads_that_share_keys_count_once():
    shared, own = (choose_band(causal(8, 32, 4096, kv_heads=heads), THREE, 132) for heads in (1, 32))
    assert own <= 33 and shared >= 64
    assert choose_band(causal(1, 1, 10), THREE, 1) == 1
    assert choose_band(causal(1, 1000, 1 << 20), THREE, 132) >= 1
