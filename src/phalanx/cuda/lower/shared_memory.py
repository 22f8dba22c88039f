"""Where everything in shared memory lies: buffers, the scratch of layout conversions, barriers.

Buffers come first, those with the strictest alignment before the others, so that little is lost to padding; then one
scratch area per agent; barriers last. What shares memory (`ir/memory.py`) is one piece of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.cuda.plan import Placement, Scratch
from phalanx.errors import Error, columns_text
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.memory import Piece, Storage, memory_owner, pieces
from phalanx.ir.ops.control import Role, Roles
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.layouts import SharedLayout

BARRIER_ALIGNMENT = 8
BUFFER_ALIGNMENT = 16
SCRATCH_ALIGNMENT = 128

Warps = tuple[int, int, int]
"""Who runs an instruction: the first warp, the warps of one copy, the copies."""


@frozen
class MemoryPlan:
    """Byte offsets in dynamic shared memory, and its size."""

    buffers: Mapping[SharedBuffer, Placement]
    barriers: Mapping[BarrierArray, int]
    scratch: Mapping[Op, Scratch]
    nbytes: int


def plan_memory(
    function: Function, arch: Arch | None, layouts: Mapping[SharedBuffer, SharedLayout], scratch: Mapping[Op, int]
) -> MemoryPlan:
    """Places all shared memory of a kernel; `scratch` has the bytes that an instruction needs for itself.

    Instructions of one agent run one after the other and share an area; different agents may run at the same time.
    `px.Error` with a table of who uses how much if the target does not have it (`arch` None: nobody asks).
    """
    sizes: dict[Storage, int] = {}
    aligns: dict[Storage, int] = {}
    for buffer in function.shared_buffers:
        sizes[buffer] = layouts[buffer].nbytes
        aligns[buffer] = max(layouts[buffer].alignment, BUFFER_ALIGNMENT)
    for barrier in function.barriers:
        sizes[barrier] = barrier.nbytes
        aligns[barrier] = BARRIER_ALIGNMENT
    wanted = pieces(sizes, sizes, aligns)
    offsets: dict[Storage, int] = {}
    position = 0

    def place(piece: Piece) -> None:
        nonlocal position
        start = _round_up(position, piece.alignment)
        offsets.update({item: start + offset for item, offset in piece.offsets.items()})
        position = start + piece.nbytes

    for piece in sorted(wanted, key=lambda piece: -piece.alignment):  # stable: declaration order among equals
        if piece.alignment > BARRIER_ALIGNMENT:
            place(piece)
    areas: dict[Warps, Scratch] = {}
    agents = agents_of(function, scratch)
    for agent in sorted(set(agents.values())):
        size = max(scratch[op] for op in agents if agents[op] == agent)
        if size:
            start = _round_up(position, SCRATCH_ALIGNMENT)
            copies = agent[2]
            step = size if copies == 1 else _round_up(size, SCRATCH_ALIGNMENT)
            areas[agent] = Scratch(start, step)
            position = start + copies * step
    for piece in wanted:
        if piece.alignment == BARRIER_ALIGNMENT:
            place(piece)
    total = _round_up(position, 16)
    if arch is not None and total > arch.shared_limit:
        raise _too_much(function, arch, sizes, areas, total)
    return MemoryPlan(
        {item: Placement(offsets[item], layouts[item]) for item in offsets if isinstance(item, SharedBuffer)},
        {item: offset for item, offset in offsets.items() if isinstance(item, BarrierArray)},
        {op: areas[agents[op]] for op in agents if agents[op] in areas},
        total,
    )


def agents_of(function: Function, wanted: Mapping[Op, int]) -> dict[Op, Warps]:
    """The warps that run each of the wanted instructions."""
    found: dict[Op, Warps] = {}

    def visit(block: Block, agent: Warps) -> None:
        for op in block.ops:
            if op in wanted:
                found[op] = agent
            regions = op.regions if isinstance(op, Roles) else (op,) if isinstance(op, Role) else ()
            for region in regions:
                visit(region.body, (region.first, region.count, region.copies))
            if not regions:
                for inner in op.blocks():
                    visit(inner, agent)

    visit(function.body, (0, function.warps, 1))
    return found


def _too_much(
    function: Function,
    arch: Arch,
    sizes: Mapping[Storage, int],
    areas: Mapping[Warps, Scratch],
    total: int,
) -> Error:
    order = {item: n for n, item in enumerate(sizes)}
    rows = [("name", "what", "bytes", "declared at")]
    for item in sorted(sizes, key=lambda item: order[memory_owner(item)]):
        if isinstance(item, BarrierArray):
            what = f"{item.n} barrier{'s' * (item.n > 1)}"
        else:
            what = f"{item.dtype}{list(item.shape)}"
        owner = memory_owner(item)
        shared = "" if item is owner else f" (in {owner.name})"
        rows.append((item.name + shared, what, f"{sizes[item]:,}", item.loc.short))
    for (first, count, copies), area in areas.items():
        for start in range(first, first + copies * count, count):
            rows.append(("scratch", f"of warps {start} to {start + count - 1}", f"{area.step:,}", ""))
    rows.append(("total", "with alignment", f"{total:,}", ""))
    largest = max(sizes, key=lambda item: sizes[item], default=None)
    return Error(
        f"{function.name} needs {total:,} bytes of shared memory; a CTA on {arch} has {arch.shared_limit:,}",
        location=function.loc if largest is None else largest.loc,
        details=columns_text(rows, numbers=(2,)),
        remedy="use fewer stages or smaller tiles, or a narrower dtype; buffers share memory by themselves where one is "
        "over before the other begins: not in one loop, nor in roles that run side by side, with its copies waited for "
        "(reuse= says so where the compiler can't see it)",
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
