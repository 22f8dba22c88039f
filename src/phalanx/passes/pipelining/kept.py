"""Operands that do not change over a loop: tiles that products of its steps read stay in shared memory, not in registers.

A tile that is loaded before a loop, and that nothing but products of such loops reads, has a buffer of its own. Registers
are left for what changes, and `wgmma` can read it on either side. The producer fetches it where the copy engine can: into
a ring of one stage, which comes back behind the loop, so that the next tile's is on its way while this one's result
leaves. Else the threads that compute store it where they load it.
"""

from __future__ import annotations

from phalanx.ir.core import Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.memory import FenceAsyncProxy, Store
from phalanx.ir.types import I32, TileType
from phalanx.ir.values import Const, Param, Value
from phalanx.ir.views import SharedBuffer, SharedView, in_global
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.rings import Ring
from phalanx.passes.pipelining.staging import Staged, Transport
from phalanx.passes.rank_code import fresh_name

FENCE = "what threads wrote is seen by the tensor cores"


class Kept:
    """The loads whose tiles stay in shared memory, with their buffers."""

    def __init__(self, places: Places, loops: list[For], taken: set[str]) -> None:
        self.places = places
        self.loops = set(loops)
        self.buffers: dict[Op, SharedBuffer] = {}
        self.rings: dict[Op, Ring] = {}
        """The rings of loads that the producer fetches."""
        self.views: set[Op] = set()
        """Changes of the order of axes that only such products read: they go."""
        for op in places.order:
            load = op.tile_load
            if load is None or not in_global(load.view) or not isinstance(load.result.type, TileType):
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
        zero = Const(0, I32)
        if maker is not None and (ring := self.rings.get(maker)) is not None:
            tile = ring.tile(ring.loads[0], zero)
            return tile.replaced(kept=tuple(tile.kept[axis] for axis in perm))
        buffer = None if maker is None else self.buffers.get(maker)
        if buffer is None:
            return None
        return SharedView(buffer, (zero, zero), buffer.shape, perm)

    def readers_of(self, op: Op) -> list[Op]:
        """The products that read the tile of a load."""
        found: list[Op] = []
        values = [op.tile_load.result] if op.tile_load is not None else []
        while values:
            for reader in self.places.readers.get(values.pop(), ()):
                if reader.product is not None:
                    found.append(reader)
                elif reader.defines is not None:
                    values.append(reader.defines)
        return found

    def candidates(self, apart: set[For]) -> list[Staged]:
        """The loads that a producer may fetch, each with its products; not of loops `apart`, which have none."""
        found = []
        for op in self.buffers:
            load, home, readers = op.tile_load, self.places.home[op], self.readers_of(op)
            assert load is not None and in_global(load.view)
            loops = [outer for reader in readers for outer in self.places.around[reader] if outer in self.loops]
            if apart.intersection(loops):
                continue
            item = Staged(load, load.view, loops[0], home, Transport.COPY, None, readers)
            item.waits_at = min(self._place(item, reader) for reader in readers)
            between = home.ops[self.places.index[op] + 1 : self.end_of(item) + 1]
            if not any(True for inner in between for _ in self.places.exits_from(inner)):  # who leaves gives nothing back
                found.append(item)
        return found

    def _place(self, item: Staged, reader: Op) -> int:
        place = self.places.place_in(item.home, reader)
        assert place is not None
        return place

    def end_of(self, item: Staged) -> int:
        """Behind which instruction of its block nothing reads a tile any more."""
        return max(self._place(item, reader) for reader in item.products)

    def fetch(self, item: Staged, ring: Ring) -> None:
        """From now on the producer fetches a tile."""
        del self.buffers[item.load]
        self.rings[item.load] = ring

    def store(self, op: Op) -> list[Op]:
        """What stands in the place of a load: its tile goes to its buffer."""
        load, buffer = op.tile_load, self.buffers[op]
        assert load is not None
        zero = Const(0, I32)
        whole = SharedView(buffer, (zero, zero), buffer.shape, (0, 1))
        return [op, Store(whole, load.result, loc=op.loc), FenceAsyncProxy("cta", FENCE, loc=op.loc)]
