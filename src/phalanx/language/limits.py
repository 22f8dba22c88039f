"""How large a kernel, its tiles, its constants and its nesting may be, so that reading one always ends."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from phalanx.errors import Error
from phalanx.ir.ops.control import For, Scope, While
from phalanx.ir.types import TileType
from phalanx.location import Location

if TYPE_CHECKING:
    from phalanx.ir.core import Block, Op
    from phalanx.language.builder import Builder

REGISTER_BYTES = 4 * 65536
"""All registers of an SM: no CTA holds more in tiles, and a tile is held as a whole."""
MAX_ELEMENTS = 131072
"""How many elements a tile has at most, however narrow they are: each thread of the widest CTA has 128 of them."""
MAX_RANK = 16
"""How many axes a tile or a buffer has at most."""
MAX_SHARED_BYTES = 1 << 26
"""How many bytes the buffers of a kernel have at most. No GPU has as much; the simulator is not as strict."""
MAX_WORK = 20_000
"""How many statements and instructions a kernel has at most, with functions inlined and loops over constants unrolled."""
MAX_DEPTH = 100
"""How many expressions and statements stand inside each other at most, in one function."""
MAX_BRANCHES = 90
"""How many branches and loops whose conditions are known at run time stand inside each other, those of functions that are
called there included."""
MAX_LOOPS = 16
"""How many of them are loops, or functions that return early. The simulator writes them as Python, which has 20."""
MAX_BITS = 128
"""How many bits a constant integer has at most: kernels compute with 64, and products of them."""
MAX_LENGTH = 65536
"""How many items a constant tuple or string has at most."""


def check_tiles(ctx: Builder, op: Op) -> None:
    """Refuses an instruction that defines a tile beyond the registers of a CTA."""
    for value in op.defined_values():
        if isinstance(value.type, TileType):
            check_tile(ctx, value.type)


def check_tile(ctx: Builder, tile: TileType) -> None:
    """Refuses a tile with too many axes, or with more elements than a CTA's registers hold."""
    if len(tile.shape) > MAX_RANK:
        ctx.fail(f"a tile has {len(tile.shape)} axes", f"tiles have at most {MAX_RANK}: fold some of them together")
    size = prod(tile.shape)
    if size * tile.dtype.itemsize > REGISTER_BYTES or size > MAX_ELEMENTS:
        ctx.fail(
            f"a tile of {tile} has {size:,} elements of {plural_bytes(tile.dtype.itemsize)}: more than the registers of a "
            "CTA hold",
            f"they are {REGISTER_BYTES:,} bytes, and a tile has at most {MAX_ELEMENTS:,} elements: load and store it in "
            "parts, in a loop, or let more CTAs share the work",
        )


def plural_bytes(count: int) -> str:
    """`1 byte`, `2 bytes`."""
    return "1 byte" if count == 1 else f"{count} bytes"


def check_nesting(body: Block) -> None:
    """Refuses loops and branches that stand inside more of each other than the simulator can write down."""
    waiting: list[tuple[Op, int, int]] = [(op, 0, 0) for op in body.ops]
    while waiting:
        op, branches, loops = waiting.pop()
        blocks = list(op.blocks())
        if blocks:
            branches, loops = branches + 1, loops + isinstance(op, For | While | Scope)
        if loops > MAX_LOOPS:
            raise too_deep("loops and functions that return early", MAX_LOOPS, op.loc)
        if branches > MAX_BRANCHES:
            raise too_deep("branches and loops", MAX_BRANCHES, op.loc)
        waiting += [(inner, branches, loops) for block in blocks for inner in block.ops]


def too_deep(what: str, limit: int, location: Location) -> Error:
    """The error for what stands inside more of its kind than there may be."""
    return Error(
        f"{what} are nested more than {limit} deep",
        location=location,
        remedy="functions are inlined, and each elif stands in the one before: end some before others begin",
    )


def check_constant_size(ctx: Builder, value: object) -> object:
    """Refuses a constant that no kernel has a use for, before more is computed with it."""
    if type(value) is int:
        if value.bit_length() > MAX_BITS:
            ctx.fail(
                f"an integer of {value.bit_length():,} bits",
                "the integers of a kernel have at most 64 bits: check the constants it comes from",
            )
    elif isinstance(value, (str, tuple)) and len(value) > MAX_LENGTH:
        ctx.fail(
            f"a {type(value).__name__ if isinstance(value, tuple) else 'string'} of {len(value):,} items",
            f"constants have at most {MAX_LENGTH:,} items: check what it is made of",
        )
    return value


def check_power(ctx: Builder, base: object, exponent: object) -> None:
    """Refuses what would take long to compute, only to be refused as too large."""
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() > 1:
        if exponent * (base.bit_length() - 1) > MAX_BITS:
            ctx.fail(
                f"'**' gives an integer of more than {MAX_BITS} bits",
                "the integers of a kernel have at most 64 bits: check the constants it comes from",
            )


def check_shift(ctx: Builder, count: object) -> None:
    """Refuses a shift of constants that would make an integer of too many bits."""
    if isinstance(count, int) and count > MAX_BITS:
        ctx.fail(
            f"'<<' by {count} gives an integer of more than {MAX_BITS} bits",
            "the integers of a kernel have at most 64 bits: check the constants it comes from",
        )


def check_length(ctx: Builder, what: str, length: int) -> None:
    """Refuses a sequence of constants that is too long to be written out."""
    if length > MAX_LENGTH:
        ctx.fail(f"{what} of {length:,} items", f"constants have at most {MAX_LENGTH:,} items: use a run-time loop")
