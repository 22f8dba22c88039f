"""Full attention whose last turns are shared out in blocks of keys, so that no SM is idle; and the kernel that joins.

All tiles of full attention are equally long. Where the last turn has tiles for a few CTAs only, the others would wait
for it: with 1,376 tiles on 132 SMs, 11 turns do the work of 10.4. So the tiles of the last one to two turns are laid
end to end, block of keys after block, and every CTA gets the same number of blocks. A share is at least a tile long, so
that a tile is cut at most once, between neighbours: each leaves the result of its blocks alone, in f32, and the
logarithms of its sums, and `join_parts` weighs the two against each other. On an H200 it costs more than it saves so
far: `AttentionConfig.share` asks for it.
"""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2, LOG2E


@px.func
def share_of(place, count, tiles, blocks):
    """(turns of whole tiles, first block and end of CTA `place`'s share of the blocks of the tiles behind them)."""
    turns = px.maximum(tiles // count - 1, 0)
    rest = (tiles - turns * count) * blocks
    each, extra = rest // count, rest % count
    begin = each * place + px.minimum(place, extra)
    return turns, begin, begin + each + px.where(place < extra, 1, 0)


@px.kernel(warps=4, pdl=True)
def join_parts(O, LSE, PARTS, LOGS, keys, *, ROWS, KEYS, WIDE, HEIGHT=64):
    """Joins the two parts of a tile that was cut; the grid is (CTAs of the launch before - 1, ROWS // HEIGHT)."""
    cut, top = px.block_id(0) + 1, px.block_id(1) * HEIGHT
    wait_for_prior_launch()
    blocks, rows = px.cdiv(keys, KEYS), px.cdiv(O.shape[2], ROWS)
    turns, begin, _ = share_of(cut, px.num_blocks(0) + 1, rows * O.shape[1] * O.shape[0], blocks)
    if begin % blocks != 0:
        tile = turns * (px.num_blocks(0) + 1) + begin // blocks
        head, row = tile // rows, tile % rows * ROWS + top
        batch, head = head // O.shape[1], head % O.shape[1]
        first, second = px.load(LOGS[cut, 0, top : top + HEIGHT]), px.load(LOGS[cut, 1, top : top + HEIGHT])
        largest = px.maximum(first, second)
        one, other = px.exp2((first - largest) * LOG2E), px.exp2((second - largest) * LOG2E)
        total = one + other
        result = px.load(PARTS[cut, 0, top : top + HEIGHT, 0:WIDE]) * (one / total).reshape(HEIGHT, 1)
        result = result + px.load(PARTS[cut, 1, top : top + HEIGHT, 0:WIDE]) * (other / total).reshape(HEIGHT, 1)
        px.store(O[batch, head, row : row + HEIGHT, 0:WIDE], result.to(O.dtype))
        if LSE is not None:
            px.store(LSE[batch, head, row : row + HEIGHT], largest + px.log2(total) * LN2)
