"""What persistent rungs share: which tile of the output a block is, and how roles learn of the next one."""

import phalanx as px


@px.func
def grouped(t, rows, columns, group):
    """Tile number `t` as row and column: `group` rows at a time, column by column, so that the tiles in flight at once form
    a block of the output and share L2."""
    tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down
    band = tile // px.u32(group * columns)
    rest = tile - band * px.u32(group * columns)
    height = min(px.u32(group), px.u32(rows) - band * group)
    column = rest // height
    return px.i32(band * group + rest - column * height), px.i32(column)


@px.func
def ask(tiles, answers):
    """The role that asks the hardware for blocks of the grid that have not started, until there are none. It is ahead of
    the others by the stages of the pipe, and learns of a refusal as they do."""
    more = True
    while more:
        with tiles.produce() as s:  # every role of every CTA has read the answer that was here
            px.clc.try_cancel(answers[s], tiles.full[s])
        more, _ = next_block(tiles, answers)


@px.func
def next_block(tiles, answers):
    """Whether there is one, and which: the answer, given back as soon as it is read."""
    with tiles.consume() as s:
        more, block = px.clc.query(answers[s])
    return more, block
