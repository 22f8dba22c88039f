"""Which tile of the output comes when: orders that kernels share. Neighbours in time share rows or columns, and so
L2."""

import phalanx as px


@px.func
def by_rows(t, rows, columns):
    """Row after row."""
    return t // columns, t % columns


@px.func
def grouped(t, rows, columns, group):
    """`group` rows at a time, column by column: the tiles in flight at once form a block of the output."""
    if group == 0:
        return t % rows, t // rows
    first = t // (group * columns) * group
    height = max(1, min(group, rows - first))  # never 0, so that the compiler knows tiles to lie inside
    rest = t % (group * columns)
    return first + rest % height, rest // height
