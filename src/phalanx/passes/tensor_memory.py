"""Tensor memory is planned and allocated once: columns for every buffer, the address for all threads, release at the end."""

from __future__ import annotations

import dataclasses

from phalanx.errors import Error, columns_text
from phalanx.ir.core import Block, Function, Op, rewrite, substitute
from phalanx.ir.effects import Use
from phalanx.ir.memory import Storage, memory_owner, pieces
from phalanx.ir.ops.control import Sync
from phalanx.ir.ops.tcgen05 import TmemAlloc, TmemFree, TmemTake
from phalanx.ir.tensor_memory import CELL_BITS, COLUMNS, allocation, columns_of
from phalanx.ir.types import u32
from phalanx.ir.values import Const
from phalanx.ir.views import Buffer, SharedBuffer, SharedView, TensorBuffer, TensorView, in_tensor
from phalanx.location import Location

ALIGNMENT = 4
"""Columns: copies into tensor memory begin at a multiple of 128 bits."""
ROOMY = 32
"""Columns at whose multiples larger buffers begin."""

PADDED_BITS = 8
"""The container of a narrower element in a padded buffer."""

TAKE = "the address of the tensor memory is there before it is used"
END = "nobody uses the tensor memory any more"
_PLACED = (Use.ACCUMULATOR, Use.OPERAND, Use.SCALE)


def allocate_tensor_memory(function: Function) -> Function:
    """Plans all tensor memory, and puts its allocation and release into the kernel, at its start and behind its exit sync.

    For `passes.pipeline`, after the syncs of start and end are in place. A buffer with two incompatible uses and too many
    columns are `px.Error`s that name the lines.
    """
    declared = tuple(buffer for buffer in function.buffers if isinstance(buffer, TensorBuffer))
    if not declared:
        return function
    refuse_mixed_pairs(function)
    mapping, total = plan_columns(function, declared)
    buffers = tuple(mapping[buffer] for buffer in declared)
    body = rewrite(function.body, lambda op: [substitute(op, mapping)])
    loc, pair = buffers[0].loc, buffers[0].pair
    word = SharedBuffer("tmem_address", (1,), u32, loc)
    address = SharedView(word, (Const(0),), (1,), (0,))
    alloc, take = TmemAlloc(total, address, buffers, pair, loc=loc), TmemTake(address, loc=loc)
    views = tuple(
        TensorView(buffer, (Const(0),) * len(buffer.shape), buffer.shape, tuple(range(len(buffer.shape))))
        for buffer in buffers
    )
    ops = body.ops
    ready = next((n for n, op in enumerate(ops) if _all_threads_meet(op)), None)
    if ready is None or any(_touches(op) for op in ops[:ready]):
        start: tuple[Op, ...] = (alloc, Sync(TAKE, loc=loc), take, *ops)
    else:
        start = (alloc, *ops[: ready + 1], take, *ops[ready + 1 :])
    met = bool(ops) and _all_threads_meet(ops[-1]) and ready != len(ops) - 1
    end = (*(() if met else (Sync(END, loc=loc),)), TmemFree(total, views, pair, loc=loc))
    kept = tuple(mapping.get(buffer, buffer) for buffer in function.buffers)
    return dataclasses.replace(function, buffers=(*kept, word), body=Block((*start, *end)))


def _all_threads_meet(op: Op) -> bool:
    """Whether an instruction outside roles lets all threads of the CTA come there before one goes on."""
    return any(meeting.waits for meeting in op.effects().rendezvous)


def _touches(op: Op) -> bool:
    inside = (inner for block in op.blocks() for inner in block.walk())
    return any(in_tensor(access.region) for part in (op, *inside) for access in part.effects().accesses)


def refuse_mixed_pairs(function: Function) -> None:
    """Refuses a kernel in which some instructions are a pair's and others one CTA's: the hardware has no such kernels."""
    first: dict[bool, Op] = {}
    for op in function.walk():
        if op.pairing is not None:
            first.setdefault(op.pairing, op)
    if len(first) == 2:
        single, paired = first[False], first[True]
        error = Error(
            f"{single.call} works for one CTA here, {paired.call} at {paired.loc.short} for a pair",
            location=single.loc, kind="pair",
            remedy="all tcgen05 instructions of a kernel are a pair's or none is: give two_cta=True to all of them",
        )
        error.other = paired.loc
        raise error


# --- columns ----------------------------------------------------------------------------------------------------------


def plan_columns(
    function: Function, buffers: tuple[TensorBuffer, ...]
) -> tuple[dict[Buffer, TensorBuffer], int]:
    """What each buffer becomes: with its use and its columns; and the columns that are allocated in all.

    Buffers that take over another's memory begin where that begins.
    """
    pair = any(op.pairing for op in function.walk())
    placed: dict[Buffer, TensorBuffer] = {}
    for buffer in buffers:
        purpose = _use_of(function, buffer)
        bits = CELL_BITS
        if purpose is Use.OPERAND:
            bits = PADDED_BITS if buffer.padded else buffer.dtype.bits
        known = dataclasses.replace(buffer, purpose=purpose, pair=pair, bits=bits)
        placed[buffer] = dataclasses.replace(known, columns=columns_of(known))
    sizes: dict[Storage, int] = {buffer: placed[buffer].columns for buffer in buffers}
    wanted = pieces(buffers, sizes, {buffer: _alignment(sizes[buffer]) for buffer in buffers})
    starts: dict[Storage, int] = {}
    end = 0
    for piece in sorted(wanted, key=lambda piece: -piece.alignment):
        start = -(-end // piece.alignment) * piece.alignment
        starts |= {item: start + offset for item, offset in piece.offsets.items()}
        end = start + piece.nbytes
    total = allocation(end)
    if total * function.ctas_per_sm > COLUMNS:
        raise _too_many(function, [placed[buffer] for buffer in buffers], total, end)
    final: dict[Buffer, TensorBuffer] = {}
    for buffer in buffers:  # what is taken over was declared before
        reuse = buffer.reuse if not isinstance(buffer.reuse, TensorBuffer) else final[buffer.reuse]
        final[buffer] = dataclasses.replace(placed[buffer], column=starts[buffer], reuse=reuse)
    return final, total


def _alignment(columns: int) -> int:
    return max(ALIGNMENT, min(ROOMY, columns & -columns))


def _use_of(function: Function, buffer: TensorBuffer) -> Use:
    """What the tensor cores use a buffer for; without them, what its elements' size suggests."""
    found: dict[Use, Location] = {}
    for op in function.walk():
        for access in op.effects().accesses:
            if access.region.memory is buffer and access.use in _PLACED:
                found.setdefault(access.use, op.loc)
    if len(found) > 1:
        (first, one), (second, other), *_ = found.items()
        raise Error(
            f"'{buffer.name}' is the {second.value} of a product here and the {first.value} of one at {one.short}",
            location=other,
            remedy="the tensor cores lay the two out differently: use two buffers, one with reuse= of the other if they "
            "may share columns",
        )
    return next(iter(found), Use.ACCUMULATOR if buffer.dtype.bits == 32 else Use.OPERAND)


def _too_many(function: Function, buffers: list[TensorBuffer], total: int, end: int) -> Error:
    rows = [("name", "what", "columns", "declared at")]
    for buffer in buffers:
        owner = memory_owner(buffer)
        shared = "" if buffer is owner else f" (in {owner.name})"
        assert buffer.purpose is not None
        what = f"{buffer.purpose.value} {buffer.dtype}{list(buffer.shape)}"
        rows.append((buffer.name + shared, what, str(buffer.columns), buffer.loc.short))
    rows.append(("total", "a power of two", str(total), ""))
    crowd = function.ctas_per_sm
    each = f" for each of {crowd} CTAs" if crowd > 1 else ""
    return Error(
        f"{function.name} needs {end} columns of tensor memory{each}; an SM has {COLUMNS}",
        location=max(buffers, key=lambda buffer: buffer.columns).loc, details=columns_text(rows, numbers=(2,)),
        remedy="use fewer stages or narrower accumulators, or let a buffer reuse= the columns of another",
    )
