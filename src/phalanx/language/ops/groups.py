"""`px.persistent(groups=...)`: tiles of sets of rows that lie one behind the other, each of one set alone.

The functions without a builder are code of kernels, inlined where such a loop is read. How many tiles there are follows
from the offsets, many at a time; which set a tile is of, from a walk along them: a cluster is dealt ascending numbers, so
that it goes through the sets once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from phalanx.frozen import frozen
from phalanx.ir.types import ArrayType, i32, i64
from phalanx.ir.values import Param, Value
from phalanx.language.builder import Builder
from phalanx.language.objects import DrawnTiles, KernelObject, MappedTiles, Numeric, RunTimeRange, attribute, describe
from phalanx.language.ops.memory import load
from phalanx.language.ops.tile import arange, minimum, sum_, where
from phalanx.language.requirements import is_constant_integer
from phalanx.language.structs import StructClass, new_struct

CHUNK = 128
"""Offsets that are looked at together to count all tiles."""
BAND = 8
"""Tiles of rows that take turns over the tiles beside them, so that those in flight share what they read."""

WALK = StructClass("walk", ("index", "first", "last", "before", "height"), {}, {})
"""Where a loop is: a set, its rows, how many tiles come before it, and how many tiles of rows it has."""


def tiles_of_all(offsets, tile, beside):  # type: ignore[no-untyped-def]
    """The number of tiles of all sets."""
    groups, total = offsets.shape[0] - 1, 0
    for first in range(0, groups, CHUNK):
        begins, ends = load(offsets[first : first + CHUNK]).to(i32), load(offsets[first + 1 : first + 1 + CHUNK]).to(i32)
        total = total + sum_(where(first + arange(CHUNK) < groups, (ends - begins + (tile - 1)) // tile, 0), 0)
    return total * beside


def first_row(offsets):  # type: ignore[no-untyped-def]
    """Where the first set begins."""
    return offsets[0].to(i32)


def go_to(walk, number, offsets, tile, beside):  # type: ignore[no-untyped-def]
    """Goes on to the set that the tile of a number is of."""
    while number >= walk.before + walk.height * beside:
        walk.before = walk.before + walk.height * beside
        walk.index = walk.index + 1
        walk.first = walk.last
        walk.last = offsets[walk.index + 1].to(i32)
        walk.height = (walk.last - walk.first + (tile - 1)) // tile


def place_in(walk, number, tile, beside):  # type: ignore[no-untyped-def]
    """The first row of a tile of the set, and which of the tiles beside each other it is."""
    place = number - walk.before
    band = place // (BAND * beside)
    inside = place - band * (BAND * beside)
    height = minimum(BAND, walk.height - band * BAND)
    column = inside // height
    return walk.first + (band * BAND + inside - column * height) * tile, column


def rows_of(begin, end, tile):  # type: ignore[no-untyped-def]
    """The rows of a tile that are of its set; -1, which is outside of every array, for those behind it."""
    rows = begin + arange(tile)
    return where(rows < end, rows, -1)


@frozen
class GroupTile(KernelObject):
    """What a loop over tiles of groups says of a tile besides where it begins."""

    group: Numeric
    beside: Numeric
    begin: Numeric
    end: Numeric
    size: int
    kind_name = "a tile of a group"

    @attribute
    def index(self, ctx: Builder) -> Numeric:
        """The number of the group."""
        return self.group

    @attribute
    def column(self, ctx: Builder) -> Numeric:
        """The number of the tile among those beside each other that `px.persistent` was asked for; 0 where it was not."""
        return self.beside

    @attribute
    def rows(self, ctx: Builder) -> object:
        """The rows of the tile that are of the group, as an index tile; -1 for those behind the group's end."""
        return ctx.inline(rows_of, (self.begin, self.end, self.size), {})

    def held(self) -> Iterable[Value]:
        """The numbers that only a run knows."""
        return [part for part in (self.group, self.beside, self.begin, self.end) if isinstance(part, Value)]


@frozen
class GroupedTiles(KernelObject):
    """`px.persistent(groups=offsets, tile=BM)`: a loop over it names where a tile begins, and its `GroupTile`."""

    offsets: Param
    size: int
    beside: Numeric
    tiles: RunTimeRange | DrawnTiles
    kind_name = "tiles of groups"

    def iterations(self) -> MappedTiles:
        """A loop that begins at the first group, whenever it begins."""
        return MappedTiles(self.tiles, self.begin)

    def begin(self, ctx: Builder) -> Callable[[Value], tuple[object, ...]]:
        """How a loop that begins here finds what a tile is, from its number."""
        first = ctx.inline(first_row, (self.offsets,), {})
        fields = {"index": -1, "first": first, "last": first, "before": 0, "height": 0}
        walk = new_struct(ctx, WALK, fields)

        def tile_at(number: Value) -> tuple[object, ...]:
            ctx.inline(go_to, (walk, number, self.offsets, self.size, self.beside), {})
            place = ctx.inline(place_in, (walk, number, self.size, self.beside), {})
            assert isinstance(place, tuple)
            row, column = place
            index, end = (walk.member(ctx, name) for name in ("index", "last"))
            return row, GroupTile(index, column, row, end, self.size)  # type: ignore[arg-type]

        return tile_at

    def held(self) -> Iterable[Value]:
        """The numbers that only a run knows."""
        if isinstance(self.tiles, DrawnTiles):
            parts: tuple[object, ...] = (self.tiles.n,)
        else:
            parts = (self.tiles.start, self.tiles.stop, self.tiles.step)
        return [part for part in (*parts, self.beside) if isinstance(part, Value)]


def check_groups(ctx: Builder, groups: object, tile: object) -> tuple[Param, int]:
    """The offsets and the rows of a tile, as users gave them."""
    kind = groups.type if isinstance(groups, Param) else None
    if not isinstance(kind, ArrayType) or kind.rank != 1 or kind.dtype not in (i32, i64):
        ctx.fail(
            f"groups= of px.persistent is {describe(groups)}",
            "it is an array of one axis of px.i32 or px.i64: where each group begins, and behind the last one where it ends",
        )
    if not is_constant_integer(tile) or tile < 1:
        ctx.fail(
            f"tile= of px.persistent with groups= is {describe(tile)}",
            "it is the rows of a tile, a positive constant: px.persistent(groups=STARTS, tile=BM)",
        )
    assert isinstance(groups, Param)
    return groups, tile
