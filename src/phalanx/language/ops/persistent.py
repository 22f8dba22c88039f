"""`px.persistent`: the tiles of a problem, dealt to the clusters that are there."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.core import Note
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import DrawnTiles, KernelObject, RunTimeRange, describe
from phalanx.language.ops.groups import GroupedTiles, check_groups, tiles_of_all
from phalanx.language.ranges import RangeObject
from phalanx.language.values import require_index

SCHEDULES = ("static", "counter", "clc")
_BY_DEFAULT = (
    'px.persistent: schedule="static", cluster c of C takes the tiles c, c + C, c + 2 C ... (the default: it needs no '
    "memory, and no role waits to be told a tile)"
)


@frozen
class TilesObject(KernelObject):
    """`px.persistent(n, schedule="counter")`, or "clc": a loop over it draws its tiles one by one."""

    tiles: DrawnTiles
    kind_name = "tiles that are dealt one by one"

    def iterations(self) -> DrawnTiles:
        """A loop that draws."""
        return self.tiles

    def held(self) -> tuple[Value, ...]:
        """The number of tiles, where a run knows it."""
        return (self.tiles.n,) if isinstance(self.tiles.n, Value) else ()


@builtin("persistent")
def persistent(
    ctx: Builder, n: object = None, schedule: object = None, groups: object = None, tile: object = None
) -> RangeObject | TilesObject | GroupedTiles:
    """The tiles 0 to `n` - 1, dealt to the clusters of the grid: all CTAs and roles of a cluster see the same sequence.

    Any agent; any GPU (without clusters, CTAs take their place), "clc" sm_100 and up. `n` may be known at run time only.
    However many clusters there are, every tile is somebody's; ``kernel[px.auto]`` launches as many as fit.
    ``schedule="static"``: cluster c of C takes the tiles c, c + C, c + 2 C ..., as
    ``range(px.cluster.id(), n, px.cluster.count())``. ``"counter"``: a cluster that is done takes the next tile that nobody
    has, by PTX ``atom.global.add`` on a word that the runtime owns; for tiles that take unequal time. ``"clc"``: the grid
    has a cluster for each tile, and a cluster that is done takes over one that has not started, by PTX
    ``clusterlaunchcontrol.try_cancel``. The first of the concurrent roles that run the loop draws or asks, ahead of its own
    work, and the others and the other CTAs are told through shared memory and mbarriers; nothing leaves such a loop before
    its end. None leaves the choice to the compiler, which takes "static" and says so in the notes.

    `groups`: an array of offsets, i32 or i64, in ascending order: group g has the rows from ``groups[g]`` up to
    ``groups[g + 1]``. The tiles are `tile` rows of one group each, `n` beside each other (one without it). The loop has two
    variables: the row that a tile begins with, and what ``g.index``, ``g.column`` (0 to `n` - 1) and ``g.rows`` say of it.
    A slice ``t : t + tile`` may go on into the next group; ``g.rows`` has the rows of this one alone, to store to.
    Example: ``for t, g in px.persistent(px.cdiv(N, BN), groups=STARTS, tile=BM): ...``;
    ``for t in px.persistent(rows * columns): ...`` without groups.
    """
    if groups is None and tile is not None:
        ctx.fail("tile= of px.persistent without groups=", "it is the rows of a tile of groups: leave it out")
    if groups is None:
        return _dealt(ctx, _number(ctx, n), schedule)
    offsets, size = check_groups(ctx, groups, tile)
    if schedule == "clc":
        ctx.fail(
            'schedule="clc" of px.persistent with groups=',
            'the grid would need a cluster for each tile, and only a run knows how many there are: take "counter"',
        )
    beside = 1 if n is None else _number(ctx, n)
    total = ctx.inline(tiles_of_all, (offsets, size, beside), {})
    dealt = _dealt(ctx, _number(ctx, total), schedule)
    return GroupedTiles(offsets, size, beside, dealt.iterations())


def _number(ctx: Builder, n: object) -> int | Value:
    return require_index(ctx, "the number of tiles of px.persistent", n, "e.g. px.cdiv(M, BM) * px.cdiv(N, BN)")


def _dealt(ctx: Builder, tiles: int | Value, schedule: object) -> RangeObject | TilesObject:
    """A loop over a number of tiles, dealt by a schedule."""
    if schedule is not None and schedule not in SCHEDULES:
        ctx.fail(
            f"schedule= of px.persistent is {describe(schedule)}",
            f"it is None or {' or '.join(repr(name) for name in SCHEDULES)}",
        )
    if isinstance(schedule, str) and schedule != "static":
        return TilesObject(DrawnTiles(tiles, schedule))
    if schedule is None:
        ctx.notes.append(Note(_BY_DEFAULT, ctx.loc))
    free = schedule is None
    return RangeObject(RunTimeRange(ctx.cluster_id(None), tiles, ctx.cluster_count(), dealt=True, unordered=free))
