"""Arrays that must not share memory if loads are to run ahead: those that are read ahead, against those that are written."""

from __future__ import annotations

from phalanx.ir.core import Function
from phalanx.ir.ops.control import For
from phalanx.ir.values import Param
from phalanx.passes.pipelining.places import written_arrays

Pairs = tuple[tuple[int, int], ...]
"""The numbers of two parameters each: one that is read ahead, and one that is written."""


def watched_pairs(function: Function) -> Pairs:
    """The arguments that a launch looks at: where two of them share memory, loops stay as they are written.

    For `runtime.launch`, of a kernel before all passes. An array that is itself read and written is the passes' business:
    they see it in the text. The runtime's own counters share memory with no argument.
    """
    loops = [op for op in function.walk() if isinstance(op, For) and op.pipelined is not None]
    if not loops:
        return ()
    read: dict[int, None] = {}
    for op in function.walk():  # indices that the producer reads may stand anywhere
        load = op.tile_load
        if load is not None and load.view.space.readable_ahead:
            memory = load.view.memory
            assert isinstance(memory, Param)
            read[memory.index] = None
    written = dict.fromkeys(array.index for op in function.walk() for array in written_arrays(op))
    given = {param.index for param in function.given}
    return tuple((a, b) for a in read for b in written if a != b and given >= {a, b})
