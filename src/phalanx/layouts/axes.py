"""Who holds the bits of a coordinate: what must be known to combine the elements along an axis in order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from phalanx.layouts.bits import log2
from phalanx.layouts.registers import RegisterLayout


@dataclass(frozen=True)
class Run:
    """Neighbouring bits of a coordinate that registers, lanes or warps (`kind`) hold, from `position` up.

    `bits` are those of the register's, lane's or warp's number, from the lowest bit of the coordinate to the highest.
    """

    kind: str
    position: int
    bits: tuple[int, ...]

    @property
    def mask(self) -> int:
        """The bits as a mask."""
        return sum(1 << bit for bit in self.bits)

    @property
    def count(self) -> int:
        """Into how many blocks this run of bits splits what is above it."""
        return 1 << len(self.bits)


def axis_order(layout: RegisterLayout, axis: int) -> list[tuple[str, int]]:
    """Who holds each bit of the coordinate along `axis`, from low to high, e.g. ("lane", 3); ValueError if shared."""
    layout.bits_along(axis)
    order: list[tuple[str, int]] = []
    for position in range(log2(layout.linear.shape[axis])):
        holders = [
            (name, bit)
            for name, images in layout.linear.bases
            for bit, image in enumerate(images)
            if image[axis] >> position & 1
        ]
        if len(holders) != 1 or layout.linear.basis(holders[0][0])[holders[0][1]][axis] != 1 << position:
            raise ValueError(f"bit {position} along axis {axis} is not held by one register, lane or warp bit")
        order.append(holders[0])
    return order


@lru_cache(maxsize=1024)
def runs_along(layout: RegisterLayout, axis: int) -> tuple[Run, ...]:
    """The bits along `axis` from low to high, in runs of one kind; ValueError if one of them is shared.

    Example: a tile of 1024 elements in four warps, four neighbours in a thread: registers from 0, lanes from 2, warps
    from 7, registers from 9.
    """
    order = axis_order(layout, axis)
    runs = []
    for kind, group in groupby(range(len(order)), key=lambda position: order[position][0]):
        positions = list(group)
        runs.append(Run(kind, positions[0], tuple(order[position][1] for position in positions)))
    return tuple(runs)


def is_ordered(layout: RegisterLayout, axis: int) -> bool:
    """Whether the elements along `axis` can be combined in order in this layout."""
    try:
        runs_along(layout, axis)
    except ValueError:
        return False
    return True


def families(keys: list[int], run: Run) -> dict[int, list[int]]:
    """Registers (by a number whose lower bits along the axis are 0) that one run of register bits brings together.

    The number without those bits -> the numbers with them, in the order of the axis. Registers that hold no element
    are not there.
    """
    found: dict[int, list[int]] = {}
    for key in keys:
        found.setdefault(key & ~run.mask, []).append(key)
    rank = {1 << bit: 1 << place for place, bit in enumerate(run.bits)}
    for members in found.values():
        members.sort(key=lambda key: sum(weight for bit, weight in rank.items() if key & bit))
    return found


def exchanged(layout: RegisterLayout, axis: int) -> list[tuple[Run, int]]:
    """The runs that lanes and warps hold, each with the number of a thread's blocks that go through it."""
    blocks: set[int] = set(layout.live_registers())
    found = []
    for run in runs_along(layout, axis):
        if run.kind == "register":
            blocks = {key & ~run.mask for key in blocks}
        else:
            found.append((run, len(blocks)))
    return found
