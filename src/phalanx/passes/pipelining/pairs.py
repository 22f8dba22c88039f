"""Two CTAs that multiply together: where `tcgen05` has products of pairs, and both CTAs of a pair want one right operand.

Each CTA of the pair has its own rows of the left operand and half of the right one, which the tensor cores of both read:
shared memory holds half as much of it, and a half that several pairs want is fetched in shares and sent to all of them. The
even CTA issues the products of both; the bytes of both complete on its barriers.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.analysis.across_ranks import AcrossRanks
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch, Feature
from phalanx.ir.tensor_kinds import Objection
from phalanx.passes.pipelining.multicast import SHARE_ROWS, Shared, sharing
from phalanx.passes.pipelining.multiplier import Multiplied
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import StagedProduct
from phalanx.passes.pipelining.staging import Staged, Transport

ROWS = 128
"""Rows of a CTA's tile that are a multiple of all lanes of tensor memory."""
PANEL_BYTES = 128
"""Bytes of a row of a half whose rows run along the columns: the widest swizzle."""


@frozen
class Paired:
    """What each rank fetches of a tile for a pair, along one of its axes: `extent` elements from `starts` on, which go to
    `places` of the tile as it is held, in the CTAs of `masks`."""

    axis: int
    extent: int
    starts: tuple[int, ...]
    places: tuple[int, ...]
    masks: tuple[int, ...]

    @property
    def is_sent(self) -> bool:
        """Whether a copy goes to other CTAs."""
        return any(mask != 1 << rank for rank, mask in enumerate(self.masks))


def pair_up(places: Places, forms: Iterable[Multiplied], staged: Iterable[Staged], arch: Arch) -> dict[Staged, Paired]:
    """Makes all products of a kernel those of pairs, if all can be; how their tiles are fetched then."""
    function = places.function
    forms = list(forms)
    found: dict[Staged, Paired] = {}
    if not forms or function.cluster[0] % 2 or not arch.has((Feature.PAIR_COPIES,)):
        return found
    products = {made.op: made for form in forms for made in form.products}
    if any((op.product or op.scaled_product) is not None and op not in products for op in function.walk()):
        return found  # all products of a kernel are pairs' or none is
    values = AcrossRanks(function, places.around)
    loops = {form.loop for form in forms}
    halves: dict[Staged, int] = {}
    for item in (item for item in staged if item.loop in loops):
        mine = [made for made in products.values() if made.op in item.products]
        paired = _paired(places, values, item, mine)
        if paired is None:
            return {}
        found[item], halved = paired
        if halved:
            halves[item] = found[item].axis
    for item, axis in halves.items():
        shape = item.view.shape
        item.held = tuple(extent // 2 if n == axis else extent for n, extent in enumerate(shape))
    for form in forms:
        form.pair = True
    return found


def _paired(
    places: Places, values: AcrossRanks, item: Staged, products: list[StagedProduct]
) -> tuple[Paired, bool] | None:
    """How a tile is fetched, and whether each CTA of a pair has half of it; None where pairs can't multiply it."""
    if item.path is not Transport.COPY:
        return None
    if item.loop.pipelined is None or not item.loop.pipelined.multicast:
        return None
    own = tuple(1 << rank for rank in values.ranks)
    if any(item in (made.scales or ()) for made in products):
        return _shares(own, 0, item.view.shape[0], halved=False)  # of all columns, in both CTAs
    answer = sharing(places, values, item)
    masks = answer.masks if isinstance(answer, Shared) else own
    both = [bool(mask >> (rank ^ 1) & 1) for rank, mask in enumerate(masks)]
    if any(both) != all(both):
        return None
    sides = {"b" if made.b == side else "a" for made in products for side in (made.a, made.b) if _is(side, item)}
    if sides != ({"b"} if all(both) else {"a"}) or any(_is(made.a, item) and _is(made.b, item) for made in products):
        return None
    if not all(both):
        return _shares(masks, 0, item.view.shape[0], halved=False)
    for made in products:
        axis = _columns_axis(made)
        if axis is None or axis != _columns_axis(products[0]):
            return None
    axis = _columns_axis(products[0])
    assert axis is not None
    if axis == len(item.view.shape) - 1 and item.view.dtype.nbytes(item.view.shape[axis] // 2) % PANEL_BYTES:
        return None
    alike = tuple(sum(1 << other for other in values.ranks if mask >> other & 1 and (other ^ rank) & 1 == 0)
                  for rank, mask in enumerate(masks))  # fmt: skip
    return _shares(alike, axis, item.view.shape[axis], halved=True)


def _is(side: object, item: Staged) -> bool:
    return isinstance(side, tuple) and side[0] is item


def _columns_axis(made: StagedProduct) -> int | None:
    """The axis of the right operand's tile that has the product's columns, if a pair can do the product."""
    assert isinstance(made.a, tuple) and isinstance(made.b, tuple)
    (left, rows), (_, order) = made.a, made.b
    if made.kind is None or left.view.shape[rows[0]] % ROWS:
        return None
    return None if isinstance(made.shape_of(made.kind, pair=True), Objection) else order[1]


def _shares(masks: tuple[int, ...], axis: int, extent: int, *, halved: bool) -> tuple[Paired, bool] | None:
    """The share of each rank, which it sends to all of its mask."""
    counts = {mask.bit_count() for mask in masks}
    held = extent // 2 if halved else extent
    if len(counts) > 1 or ((held < extent or max(counts) > 1) and held % (max(counts) * SHARE_ROWS)):
        return None
    share = held // max(counts)
    numbers = [(mask & (1 << rank) - 1).bit_count() for rank, mask in enumerate(masks)]
    places = tuple(number * share for number in numbers)
    starts = tuple(place + (held if halved and rank % 2 else 0) for rank, place in enumerate(places))
    return Paired(axis, share, starts, places, masks), halved
