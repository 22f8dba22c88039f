"""Operands that do not change over a loop: tiles that products of its steps read stay in shared memory, not in registers.

A tile that is loaded before a loop, and that nothing but products of such loops reads, is stored into a buffer of its own
where it is loaded. Registers are left for what changes, and `wgmma` can read it on either side.
"""

from __future__ import annotations

from phalanx.ir.core import Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.memory import FenceAsyncProxy, Store
from phalanx.ir.spaces import GLOBAL
from phalanx.ir.types import I32, TileType
from phalanx.ir.values import Const, Param, Value
from phalanx.ir.views import SharedBuffer, SharedView
from phalanx.passes.pipelining.places import Places
from phalanx.passes.rank_code import fresh_name

FENCE = "what threads wrote is seen by the tensor cores"


class Kept:
    """The loads whose tiles stay in shared memory, with their buffers."""

    def __init__(self, places: Places, loops: list[For], taken: set[str]) -> None:
        self.places = places
        self.loops = set(loops)
        self.buffers: dict[Op, SharedBuffer] = {}
        self.views: set[Op] = set()
        """Changes of the order of axes that only such products read: they go."""
        for op in places.order:
            load = op.tile_load
            if load is None or load.view.space is not GLOBAL or not isinstance(load.result.type, TileType):
                continue
            views: set[Op] = set()
            if len(load.view.shape) == 2 and not load.view.dtype.bits % 8 and self._is_kept(op, load.result, views):
                memory = load.view.memory
                assert isinstance(memory, Param)
                name = fresh_name(f"{load.result.name or memory.name}_kept", taken)
                self.buffers[op] = SharedBuffer(name, load.view.shape, load.view.dtype, load.loc)
                self.views |= views

    def _is_kept(self, load: Op, value: Value, views: set[Op]) -> bool:
        """Whether nothing but products of loops that do not hold the load reads its tile."""
        readers = self.places.readers.get(value, [])
        for op in readers:
            product = op.product
            if op.permutation is not None and op.defines is not None:
                if not self._is_kept(load, op.defines, views):
                    return False
                views.add(op)
            elif product is None or value is product.acc:
                return False
            else:
                loops = self.loops.intersection(self.places.around[op])
                if not loops or loops & set(self.places.around[load]):
                    return False
        return bool(readers)

    def view_of(self, value: object) -> SharedView | None:
        """Where an operand of a product lies, if it is such a tile."""
        if not isinstance(value, Value):
            return None
        perm = (0, 1)
        while (maker := self.places.makers.get(value)) is not None and (found := maker.permutation) is not None:
            perm = (found.perm[perm[0]], found.perm[perm[1]])
            value = found.x
        buffer = None if maker is None else self.buffers.get(maker)
        if buffer is None:
            return None
        zero = Const(0, I32)
        return SharedView(buffer, (zero, zero), buffer.shape, perm)

    def store(self, op: Op) -> list[Op]:
        """What stands in the place of a load: its tile goes to its buffer."""
        load, buffer = op.tile_load, self.buffers[op]
        assert load is not None
        zero = Const(0, I32)
        whole = SharedView(buffer, (zero, zero), buffer.shape, (0, 1))
        return [op, Store(whole, load.result, loc=op.loc), FenceAsyncProxy("cta", FENCE, loc=op.loc)]
