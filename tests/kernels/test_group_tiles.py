"""The table of a grouped product's tiles."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.kernels.products.group_tiles import ENTRIES, most_tiles, planned


def test_every_tile_knows_its_group_its_first_row_and_where_the_group_ends() -> None:
    table = planned(np.array([150, 0, 70, 128]), np.zeros(1), 348, 4, 128)
    assert table[:, :4].tolist() == [[0, 0, 2, 3], [0, 128, 150, 220], [150, 150, 220, 348], [4] * 4]
    assert (table[3] == 4).all()


@pytest.mark.parametrize("sizes", [[0, 0, 0], [1, 1, 1], [128, 256, 0], [4096], [1] * 40, [700, 129, 3, 0, 64]], ids=str)
@pytest.mark.parametrize("height", [64, 128, 256])
def test_the_table_covers_every_row_once(sizes: list[int], height: int) -> None:
    rows = sum(sizes) + 5  # some behind the last group
    table = planned(np.array(sizes, np.int32), np.zeros(1), rows, len(sizes), height)
    tiles = int(table[3, 0])
    assert tiles <= most_tiles(rows, len(sizes), height) <= table.shape[1] and table.shape[1] % ENTRIES == 0
    owners = np.full(rows, -1)
    for group, first, end in table[:3, :tiles].T:
        assert (owners[first : min(first + height, end)] == -1).all()
        owners[first : min(first + height, end)] = group
    assert owners.tolist() == [*np.repeat(np.arange(len(sizes)), sizes), *[-1] * 5]
