"""The order of causal tiles: who is busiest, and which bands of heads are chosen."""

from math import gcd

import numpy as np
import pytest

from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.bands import blocks_of, busiest, choose_band, longest_first
from phalanx.kernels.attention.config import AttentionConfig

THREE = AttentionConfig()


def causal(batch, heads, length, dim=128, kv_heads=None):
    return Heads(batch, heads, kv_heads or heads, length, length, dim, dim, "bf16")


def blocks(heads):
    return blocks_of(heads.keys, -(-heads.queries // THREE.rows), THREE)


def test_the_longest_rows_of_all_heads_of_a_band_go_first():
    tiles = longest_first(blocks(causal(1, 3, 400)), 3, 2)
    assert list(tiles) == [7, 7, 5, 5, 3, 3, 7, 5, 3]  # 400, 208 and 16 keys in blocks of 80, and 2 for each tile


def test_who_is_done_takes_the_next_tile():
    assert busiest(np.array([4.0, 3, 2, 1]), 2) == 1.0
    assert busiest(np.array([4.0, 3, 2]), 2) == pytest.approx(5 / 4.5)
    assert busiest(np.array([4.0, 1, 1, 1, 1]), 2) == 1.0


@pytest.mark.parametrize("sizes", [(4, 16, 4096), (2, 16, 8192), (1, 16, 16384), (8, 16, 2048), (4, 32, 4096, 64)])
def test_no_cta_has_much_more_to_do_than_others(sizes):
    heads = causal(*sizes)
    band = choose_band(heads, THREE, 132)
    assert busiest(longest_first(blocks(heads), heads.batch * heads.heads, band), 132) < 1.04
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
