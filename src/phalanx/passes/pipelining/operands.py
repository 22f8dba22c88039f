"""How the tiles of a ring are used: by products, which read them from the ring, or by registers, which load them first.

Where the consumer waits follows from it: as late as the first use allows, but before anything that may leave the block, so
that a stage that was filled is always taken. A product may stand under a condition, or in a plain loop, of the block that
loads its operand: the stage is given back behind all of that, and on every way that leaves the block before.
"""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.ops.control import For
from phalanx.ir.ops.memory import Load
from phalanx.ir.traits import Product
from phalanx.ir.values import Value
from phalanx.passes.pipelining.blocked import blocked_scales
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.staging import Staged


@frozen
class Origin:
    """A value is the tile of a load, with its axes in the order `perm`."""

    load: Load
    perm: tuple[int, ...]


class Operands:
    """The operands of products that are tiles of rings, and what else reads those tiles."""

    def __init__(self, places: Places, staged: list[Staged], scaled: bool = False) -> None:
        self.places = places
        self.scaled = scaled
        """Whether products with scales of blocks are meant, too: tensor cores read these in the order in which they come."""
        self.by_load = {item.load: item for item in staged}
        self.views: set[Op] = set()
        """Changes of the order of axes that nothing but products reads: they go."""
        for item in staged:
            self._follow(item)

    def product_of(self, op: Op) -> Product | None:
        """What an instruction multiplies, if it is such a product."""
        return op.product or (op.scaled_product if self.scaled else None)

    def scales_of(self, value: object) -> Staged | None:
        """The load whose blocks the scales of a product are."""
        blocked = blocked_scales(value, self.places.makers)
        return None if blocked is None else self.by_load.get(blocked.load)

    def staged_of(self, value: object) -> tuple[Staged, tuple[int, ...]] | None:
        """The load whose tile an operand of a product is, and the order of its axes."""
        if not isinstance(value, Value):
            return None
        perm: tuple[int, ...] | None = None
        while (maker := self.places.makers.get(value)) is not None:
            found = maker.permutation
            if found is None:
                break
            perm = found.perm if perm is None else tuple(found.perm[axis] for axis in perm)
            value = found.x
        load = None if maker is None else maker.tile_load
        item = None if load is None else self.by_load.get(load)
        if item is None:
            return None
        return item, perm if perm is not None else tuple(range(len(item.shape)))

    def reads(self, op: Op) -> list[Staged]:
        """The loads whose tiles a product reads from their rings."""
        return [item for item in self.by_load.values() if op in item.products]

    def _follow(self, item: Staged) -> None:
        places, own = self.places, self.places.index[item.load]
        products: list[Op] = []
        others: list[Op] = []
        self._readers(item, item.load.result, products, others, self.views)
        uses = [place for op in (*products, *others) if (place := places.place_in(item.home, op)) is not None]
        exits = [
            index for index in range(own + 1, len(item.home.ops))
            if any(True for _ in places.exits_from(item.home.ops[index]))
        ]
        item.products, item.in_registers = products, bool(others) or not products
        item.waits_at = min([*uses, *exits], default=own + 1)

    def _readers(
        self, item: Staged, value: Value, products: list[Op], others: list[Op], views: set[Op]
    ) -> bool:
        """Sorts what reads a tile; whether all of it is products that can read the ring."""
        alone = True
        for op in self.places.readers.get(value, ()):
            product, view = self.product_of(op), op.permutation
            if self._is_turned(op, item) and op.defines is not None:
                if self._readers(item, op.defines, products, [], views):
                    views.add(op)
                    continue
            elif product is not None and value in (product.scale_a, product.scale_b) and self.scales_of(value) is item:
                if op not in products:
                    products.append(op)
                continue
            elif view is not None and self._is_inside(op, item) and op.defines is not None:
                if self._readers(item, op.defines, products, [], views):
                    views.add(op)
                    continue
            elif product is not None and value is not product.acc and self._reads_here(op, item):
                if op not in products:
                    products.append(op)
                continue
            others.append(op)
            alone = False
        return alone

    def _is_turned(self, op: Op, item: Staged) -> bool:
        """Whether blocks of scales become rows and columns by an instruction."""
        return self.scaled and len(item.shape) > 2 and (op.reshaped is not None or op.permutation is not None)

    def _reads_here(self, op: Op, item: Staged) -> bool:
        return self._is_inside(op, item) and len(item.shape) == 2

    def _is_inside(self, op: Op, item: Staged) -> bool:
        """Whether an instruction is in the block that loads a tile, or deeper, but in no loop with rings of its own."""
        if self.places.place_in(item.home, op) is None:
            return False
        inner = (outer for outer in self.places.around[op] if outer not in self.places.around[item.load])
        return not any(isinstance(outer, For) and outer.pipelined is not None for outer in inner)
