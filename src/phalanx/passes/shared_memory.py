"""Where everything in shared memory lies: buffers, the scratch of layout conversions, barriers.

Buffers come first, those with the strictest alignment before the others, so that little is lost to padding; then one
scratch area per agent; barriers last. What takes over another's memory (`reuse=`) has its offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.cuda.plan import Placement
from phalanx.errors import Error
from phalanx.ir.archs import Arch
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Role
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.layouts import SharedLayout

Item = SharedBuffer | BarrierArray
BARRIER_ALIGNMENT = 8
BUFFER_ALIGNMENT = 16
SCRATCH_ALIGNMENT = 128


@dataclass(frozen=True)
class MemoryPlan:
    """Byte offsets in dynamic shared memory, and its size."""

    buffers: Mapping[SharedBuffer, Placement]
    barriers: Mapping[BarrierArray, int]
    scratch: Mapping[Op, int]
    nbytes: int


def plan_memory(
    function: Function, arch: Arch, layouts: Mapping[SharedBuffer, SharedLayout], scratch: Mapping[Op, int]
) -> MemoryPlan:
    """Places all shared memory of a kernel; `scratch` has the bytes that an instruction needs for itself.

    Instructions of one agent run one after the other and share an area; different agents may run at the same time.
    `px.Error` with a table of who uses how much if the target does not have it.
    """
    groups: dict[Item, list[Item]] = {}
    sizes: dict[Item, int] = {}
    aligns: dict[Item, int] = {}
    for buffer in function.buffers:
        groups.setdefault(owner(buffer), []).append(buffer)
        sizes[buffer] = layouts[buffer].nbytes
        aligns[buffer] = max(layouts[buffer].alignment, BUFFER_ALIGNMENT)
    for barrier in function.barriers:
        groups.setdefault(owner(barrier), []).append(barrier)
        sizes[barrier] = barrier.nbytes
        aligns[barrier] = BARRIER_ALIGNMENT

    def alignment(root: Item) -> int:
        return max(aligns[item] for item in groups[root])

    offsets: dict[Item, int] = {}
    position = 0
    for root in sorted(groups, key=lambda root: -alignment(root)):  # stable: declaration order among equals
        if alignment(root) > BARRIER_ALIGNMENT:
            position = _place(groups[root], alignment(root), sizes, position, offsets)
    areas: dict[tuple[int, int], tuple[int, int]] = {}
    agents = agents_of(function, scratch)
    for agent in sorted(set(agents.values())):
        size = max(scratch[op] for op in agents if agents[op] == agent)
        if size:
            start = _round_up(position, SCRATCH_ALIGNMENT)
            areas[agent] = start, size
            position = start + size
    for root in groups:
        if alignment(root) == BARRIER_ALIGNMENT:
            position = _place(groups[root], BARRIER_ALIGNMENT, sizes, position, offsets)
    total = _round_up(position, 16)
    if total > arch.shared_limit:
        raise _too_much(function, arch, groups, sizes, areas, total)
    return MemoryPlan(
        {item: Placement(offsets[item], layouts[item]) for item in offsets if isinstance(item, SharedBuffer)},
        {item: offset for item, offset in offsets.items() if isinstance(item, BarrierArray)},
        {op: areas[agents[op]][0] for op in agents if agents[op] in areas},
        total,
    )


def owner(item: Item) -> Item:
    """The buffer or barrier array whose memory an item finally takes over, or itself."""
    while item.reuse is not None:
        item = item.reuse
    return item


def _place(
    group: list[Item], alignment: int, sizes: Mapping[Item, int], position: int, offsets: dict[Item, int]
) -> int:
    start = _round_up(position, alignment)
    for item in group:
        offsets[item] = start
    return start + max(sizes[item] for item in group)


def agents_of(function: Function, wanted: Mapping[Op, int]) -> dict[Op, tuple[int, int]]:
    """The warps (first, count) that run each of the wanted instructions."""
    found: dict[Op, tuple[int, int]] = {}

    def visit(block: Block, agent: tuple[int, int]) -> None:
        for op in block.ops:
            if op in wanted:
                found[op] = agent
            regions = getattr(op, "regions", (op,) if isinstance(op, Role) else ())
            for region in regions:
                visit(region.body, (region.first, region.count))
            if not regions:
                for inner in op.blocks():
                    visit(inner, agent)

    visit(function.body, (0, function.warps))
    return found


def _too_much(
    function: Function,
    arch: Arch,
    groups: Mapping[Item, list[Item]],
    sizes: Mapping[Item, int],
    areas: Mapping[tuple[int, int], tuple[int, int]],
    total: int,
) -> Error:
    rows = [("name", "what", "bytes", "declared at")]
    for root, group in groups.items():
        for item in group:
            if isinstance(item, SharedBuffer):
                what = f"{item.dtype}{list(item.shape)}"
            else:
                what = f"{item.n} barrier{'s' * (item.n > 1)}"
            shared = "" if item is root else f" (in {root.name})"
            rows.append((item.name + shared, what, f"{sizes[item]:,}", item.loc.short))
    for (first, count), (_, size) in areas.items():
        rows.append(("scratch", f"of warps {first} to {first + count - 1}", f"{size:,}", ""))
    rows.append(("total", "with alignment", f"{total:,}", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    table = "\n".join(
        "  ".join(
            cell.rjust(width) if column == 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    largest = max((item for group in groups.values() for item in group), key=lambda item: sizes[item], default=None)
    return Error(
        f"{function.name} needs {total:,} bytes of shared memory; a CTA on {arch} has {arch.shared_limit:,}",
        location=function.loc if largest is None else largest.loc,
        details=table,
        remedy="use fewer stages or smaller tiles, a narrower dtype, "
        "or reuse= for buffers that are never live together",
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
