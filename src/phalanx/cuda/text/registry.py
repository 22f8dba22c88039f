"""The functions that write instructions: one emitter per instruction class, found by `emit_block`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from phalanx.errors import Error
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.tables import Marks

if TYPE_CHECKING:
    from phalanx.cuda.text.writer import Writer

Emitter = Callable[["Writer", Any], None]
F = TypeVar("F", bound=Callable[..., None])

EMITTERS: dict[type[Op], Emitter] = {}
"""Every emitter, by instruction class: comparable with `ir.core.INSTRUCTIONS`."""
EXPRESSIONS = Marks()
"""Instructions whose scalar results may be computed where they are read."""


def emits(*instructions: type[Op], expression: bool = False) -> Callable[[F], F]:
    """Registers the emitter of one or several instruction classes.

    `expression`: the text of the scalar that it defines is an expression without effects, which may as well stand where the
    scalar is read. For the files of `cuda/ops`. Example::

        @emits(BlockId)
        def emit_block_id(w: Writer, op: BlockId) -> None:
            w.define(op.result, f"blockIdx.{'xyz'[op.dim]}")
    """

    def register(function: F) -> F:
        for instruction in instructions:
            if instruction in EMITTERS:
                raise AssertionError(f"{instruction.__name__} has two emitters")
            EMITTERS[instruction] = function
        if expression:
            EXPRESSIONS.add(*instructions)
        return function

    return register


NEVER_EMITTED: dict[type[Op], str] = {}
"""Instructions without an emitter of their own, and why."""


def never_emits(cls: type[Op], why: str) -> None:
    """Says why an instruction has no emitter of its own: a pass replaces it, or another instruction writes it."""
    NEVER_EMITTED[cls] = why


def emitter_of(op: Op) -> Emitter:
    """What writes an instruction; `px.Error` at its line if its family says nothing."""
    found = EMITTERS.get(type(op))
    if found is None:
        raise Error(
            f"nothing writes {op.call} as CUDA: the kernel runs in the simulator alone", location=op.loc,
            remedy=f"this is a mistake in Phalanx, not in the kernel: register what writes {op.mnemonic} with @emits in "
            f"cuda/ops/{op.family}.py",
        )
    return found


def check_emitters(function: Function) -> None:
    """Refuses a kernel with an instruction that nothing writes, before any choice is made for it."""
    for op in function.walk():
        if type(op) not in NEVER_EMITTED:
            emitter_of(op)


PRECEDERS: list[Emitter] = []
"""What families write before instructions of others, as `FOLLOWERS` after them."""


def precedes(function: F) -> F:
    """Registers a function that is called before every instruction is written."""
    PRECEDERS.append(function)
    return function


FOLLOWERS: list[Emitter] = []
"""What families write after instructions of others; each decides by itself whether it has something to add."""


def follows(function: F) -> F:
    """Registers a function that is called after every instruction has been written."""
    FOLLOWERS.append(function)
    return function


def emit_block(w: Writer, block: Block) -> None:
    """Writes every instruction of a block, each after a comment with its source line; its cells are declared first."""
    w.declare_cells(block)
    for op in block.ops:
        emitter = emitter_of(op)
        w.comment_source(op.loc)
        try:
            for preceder in PRECEDERS:
                preceder(w, op)
            with w.reading_lane(op in w.read_again):
                emitter(w, op)
            for follower in FOLLOWERS:
                follower(w, op)
        except Error as error:
            raise error.at(op.loc) from None
