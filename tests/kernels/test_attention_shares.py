"""Shares of the last tiles of full attention: all blocks are someone's, and no tile is cut twice."""

import importlib

import numpy as np
import pytest

import phalanx as px
from attention_cases import heads
from library_launches import launches
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.scores import Reach
from phalanx.kernels.attention.tiles import Tiles

forward = importlib.import_module("phalanx.kernels.attention.forward")


@px.kernel(warps=1)
def all_turns(OUT, queries, keys, heads, *, TURNS, ROWS=64, KEYS=32):
    tiles = Tiles(None, None, queries, keys, heads, 1, 1, Reach(queries, keys, None, None), ROWS, KEYS, True)
    for turn in px.static_range(TURNS):
        number, _, _, part = tiles.shared(turn)
        tiles.seek(turn)
        px.store(OUT[px.block_id(0), turn, 0], px.where(tiles.live, number, -1))
        px.store(OUT[px.block_id(0), turn, 1], tiles.low)
        px.store(OUT[px.block_id(0), turn, 2], tiles.high)
        px.store(OUT[px.block_id(0), turn, 3], part)


@pytest.mark.parametrize("queries, keys, count, ctas", [(100, 150, 3, 4), (64, 96, 9, 4), (640, 33, 2, 7), (128, 500, 2, 4)])
def test_every_block_is_done_once(queries, keys, count, ctas):
    turns = 8
    out = np.zeros((ctas, turns, 4), np.int32)
    all_turns[ctas](out, queries, keys, count, TURNS=turns)
    tiles, blocks = -(-queries // 64) * count, -(-keys // 32)
    done = np.zeros((tiles, blocks), int)
    work = []
    for cta in range(ctas):
        mine = [turn for turn in out[cta] if turn[0] >= 0]
        assert all(turn[0] < 0 for turn in out[cta][len(mine) :])
        work.append(sum(high - low for _, low, high, _ in mine))
        for number, low, high, part in mine:
            done[number, low:high] += 1
            assert part == (1 if high < blocks else 2 if low > 0 else 0)
    assert (done == 1).all()
    assert max(work) - min(work) <= 1


def test_what_is_cut_is_checked_clean():
    rng = np.random.default_rng(0)
    q, k, v = (heads(rng, 1, 3, n, 64) for n in (100, 150, 150))
    names = ((forward, "attention_tiles"), (forward, "join_parts"))
    with launches(*names) as found:
        forward.attention(q, k, v, lse=True, config=AttentionConfig(groups=1, keys=32, share=True))
    assert len(found) == 2
    for launch in found:
        report = launch.check()
        assert report.ok, report
