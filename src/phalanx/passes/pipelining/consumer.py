"""The role that computes: the kernel's body with its staged loads taken from their rings.

Registers load a tile right behind the wait, and the stage is given back at once. Products read it from the ring: it is given
back when they are over, which is known a step later where they stay in flight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from phalanx.ir.core import Block, Op, map_blocks
from phalanx.ir.ops.control import For
from phalanx.ir.ops.memory import FenceAsyncProxy, Load
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.tile import Empty
from phalanx.ir.ops.wgmma import Wgmma, WgmmaCommit, WgmmaWait
from phalanx.ir.types import BOOL, ScalarType
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView, in_shared
from phalanx.location import Location
from phalanx.passes.pipelining.ahead import Fetch, fetch_ahead
from phalanx.passes.pipelining.alternated import Alternated
from phalanx.passes.pipelining.epilogue import Leaving, all_gone, leave
from phalanx.passes.pipelining.issued import Issued
from phalanx.passes.pipelining.multiplier import bring_out
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.overlap import Overlaps
from phalanx.passes.pipelining.parts import PartWriter
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.products import Flight, Products, Side, StagedProduct, runs
from phalanx.passes.pipelining.rings import ZERO, Ring
from phalanx.passes.pipelining.rotated import Rotated
from phalanx.passes.pipelining.staging import Staged
from phalanx.passes.rank_code import LoopCode
from phalanx.passes.resident_accumulators import Residence

FENCE = "what threads copied is seen by the tensor cores"


class Consumer:
    """Writes the role."""

    def __init__(
        self, places: Places, rings: list[Ring], operands: Operands, products: Products, overlaps: Overlaps,
        leaving: list[Leaving], fetchers: dict[For, Fetch], issued: Issued,
    ) -> None:
        self.places = places
        self.operands = operands
        self.products = products
        self.kept = products.kept
        self.flights = overlaps.flights
        self.rotations = overlaps.rotations
        self.alternations = overlaps.alternations
        self.fetchers = fetchers
        self.multiplied = issued.forms
        """Loops whose products another role issues."""
        self.parts_at = {parts.at: parts for parts in issued.in_parts}
        self.in_parts = {parts.form.loop for parts in issued.in_parts}
        self.leaving = {item.op: item for item in leaving}
        self.ring_of: dict[Staged, Ring] = {item: ring for ring in rings for item in ring.loads}
        self.waits: dict[tuple[Block, int], list[Ring]] = {}
        self.flying = {op: flight for flight in self.flights.values() for op in flight.products}
        self.staged: set[Op] = {item.load for item in self.ring_of}
        self.stages: dict[Ring, Value] = {}
        self.raw: dict[Value, Value] = {}
        """Accumulators in flight, by what they will be after the wait."""
        surely = [flight for flight in self.flights.values() if flight.began is None]
        homes = [home for flight in surely for home in flight.residences if home.start is not None]
        elsewhere = [home for form in issued.forms.values() for home in form.homes]
        self.starts = {home.start: home for home in homes}
        """Sums that begin as zeros, by the write of these: the first product of a loop adds to nothing instead. Not where a
        `break` may come before that."""
        self.begins = {min(home.products, key=places.order.__getitem__): home for home in homes}
        self.unused = {
            home.zeros for home in (*homes, *elsewhere) if home.zeros is not None and home.zeros.defines is not None
            and {*places.readers.get(home.zeros.defines, ())} <= self.starts.keys() | {home.start for home in elsewhere}
        } | {home.start for home in elsewhere} | {op for parts in issued.in_parts for op in parts.gone}
        self.first_read: dict[Op, list[Ring]] = {}
        self.last_read: dict[Op, list[Ring]] = {}
        """The stages that are given back, by the instruction of the loads' block behind which nothing reads them. Tiles that
        stay over loops are waited for before the first that does."""
        self.left_at: dict[Op, list[Ring]] = {}
        """The stages that are given back by whoever leaves the block before that."""
        for ring in self.kept.rings.values():
            (item,) = ring.loads
            self.staged.add(item.load)
            self.first_read.setdefault(item.home.ops[item.waits_at], []).append(ring)
            self.last_read.setdefault(item.home.ops[self.kept.end_of(item)], []).append(ring)
        for ring in rings:
            self._place_ring(ring)

    def _place_ring(self, ring: Ring) -> None:
        """Where a ring is waited for, and given back if its products are over in their step."""
        home, places = ring.loads[0].home, self.places
        at = min(item.waits_at for item in ring.loads)
        self.waits.setdefault((home, at), []).append(ring)
        readers = {op for item in ring.loads for op in item.products}
        if not readers:
            return
        last = max(place for op in readers if (place := places.place_in(home, op)) is not None)
        if not readers & self.flying.keys():
            self.last_read.setdefault(home.ops[last], []).append(ring)
        for op in home.ops[at : last + 1]:
            for leaving in places.exits_from(op):
                self.left_at.setdefault(leaving, []).append(ring)

    def block(self, block: Block) -> Block:
        """What the role runs in the place of a block."""
        out: list[Op] = []
        for index, op in enumerate((*block.ops, None)):
            for ring in self.waits.get((block, index), ()):
                out += self.take(ring)
            if op is None:
                break
            for ring in self.first_read.get(op, ()):
                out += self.take(ring)
            if op in self.operands.views or op in self.kept.views or op in self.staged or self._is_for_places(op):
                continue
            if op in self.parts_at:
                out += PartWriter(self.places, self.parts_at[op], self.leaving).ops()
            if op in self.unused:
                continue
            out += self.give_back(self.left_at.get(op, ()), op.loc)
            if op in self.starts:
                out += self.nothing(self.starts[op])
                continue
            if op in self.kept.buffers:
                out += self.kept.store(op)
                continue
            if op in self.products.found:
                out += self.product(self.products.found[op])
            elif isinstance(op, For) and op.pipelined is not None:
                out += self.loop(op)
            elif op in self.leaving:
                out += leave(self.leaving[op])
            else:
                out.append(map_blocks(op, self.block))
                if any(item.loop is op for item in self.leaving.values()):
                    out.append(all_gone(op))
            if op not in self.rotations:  # these give back what they can themselves
                out += self.give_back(self.last_read.get(op, ()), op.loc)
        return Block(tuple(out))

    def nothing(self, home: Residence) -> list[Op]:
        """Writes arbitrary contents into a sum in the place of zeros: the first product overwrites them."""
        assert home.start is not None
        code = LoopCode(home.start.loc)
        empty = Value(home.var.type, home.var.name)
        code.ops.append(Empty(empty, loc=code.loc))
        code.assign(home.var, empty)
        return code.ops

    def give_back(self, rings: Iterable[Ring], loc: Location) -> list[Op]:
        """Gives the current stages of some rings back to the role that fills them."""
        code = LoopCode(loc)
        for ring in rings:
            ring.release(code, self.stages[ring])
        return code.ops

    def _is_for_places(self, op: Op) -> bool:
        """Whether a load only says where staged ones read: the producer has it."""
        readers = self.places.readers.get(op.tile_load.result, []) if op.tile_load is not None else []
        alone = any(outer in self.fetchers for reader in readers for outer in self.places.around[reader])
        return bool(readers) and self.staged.issuperset(readers) and not alone

    def take(self, ring: Ring) -> list[Op]:
        """Waits for a stage; what registers need of it is loaded, and then nobody else reads it but products."""
        code = LoopCode(ring.loads[0].load.loc)
        stage = self.stages[ring] = ring.take(code)
        if ring.flows and any(self._reads_itself(op) for item in ring.loads for op in item.products):
            code.ops.append(FenceAsyncProxy("cta", FENCE, loc=code.loc))  # the threads that wrote it could not put one
        for item in ring.loads:
            if item.in_registers:
                fill = Const(0, ScalarType(item.view.dtype))  # nothing is outside the stage
                code.ops.append(Load(ring.tile(item, stage), fill, item.load.result, loc=item.load.loc))
        if not any(item.products for item in ring.loads):
            ring.release(code, stage)
        return code.ops

    def _reads_itself(self, op: Op) -> bool:
        """Whether the tensor cores read the operands of a product from shared memory, not threads for them."""
        return op in self.products.found and self.products.found[op].along is not None

    # Products.

    def side(self, side: Side) -> SharedView | Value:
        """An operand, where it lies."""
        if not isinstance(side, tuple):
            return side
        item, perm = side
        ring = self.ring_of[item]
        tile = ring.tile(item, self.stages[ring])
        return tile.replaced(kept=tuple(tile.kept[axis] for axis in perm))

    def product(self, made: StagedProduct) -> list[Op]:
        """A product that reads rings: in flight, or over when the next instruction begins."""
        op, what = made.op, made.what
        code = LoopCode(op.loc)
        a, b = self.side(made.a), self.side(made.b)
        warps = self.places.function.warps
        if made.along is None:
            code.ops.append(Mma(a, b, what.acc, warps, what.result, loc=op.loc))
            return code.ops
        assert in_shared(b)
        acc = what.acc
        if acc is None:
            acc = Value(what.result.type, what.result.name)
            code.ops.append(Empty(acc, loc=op.loc))
        raw = Value(what.result.type, what.result.name)
        adds: Value = Const(what.acc is not None, BOOL)
        flight = self.flying.get(op)
        if op in self.begins:
            assert flight is not None
            adds = code.compare("ne", flight.loop.index, flight.loop.start, "later")
        acc = self.raw.get(acc, acc)
        code.ops.append(Wgmma(a, b, acc, adds, warps, raw, along=made.along, fused=flight is None, loc=op.loc))
        if flight is None:
            code.ops += [WgmmaCommit(loc=op.loc), WgmmaWait(0, (raw,), (what.result,), loc=op.loc)]
            return code.ops
        self.raw[what.result] = raw
        if op is flight.products[-1]:
            self._end_of_step(code, flight)
        return code.ops

    # Loops whose products stay in flight.

    def loop(self, loop: For) -> list[Op]:
        """A loop that runs ahead, as a plain one."""
        if loop in self.in_parts:
            return []
        if loop in self.multiplied:
            return bring_out(self.multiplied[loop], self.places.function.warps)
        if loop in self.rotations:
            return Rotated(self, self.rotations[loop]).ops()
        if loop in self.alternations:
            return Alternated(self, self.alternations[loop]).ops()
        flight = self.flights.get(loop)
        body = self.block(loop.body)
        plain = dataclasses.replace(loop, pipelined=None, body=body)
        first: list[Op] = []
        if loop in self.fetchers:
            stages = next(ring.stages for item, ring in self.ring_of.items() if item.loop is loop)
            first, plain = fetch_ahead(plain, stages - 1, self.fetchers[loop], late=flight is not None)
        if flight is None:
            return [*first, plain]
        before, after = LoopCode(loop.loc), LoopCode(loop.loc)
        before.ops += first
        for ring in self.rings_of(flight):
            before.assign(ring.last, ZERO)
        old = [after.read(cell) for cell in flight.cells]
        new = [Value(cell.type, cell.name) for cell in flight.cells]
        after.ops.append(WgmmaWait(0, tuple(old), tuple(new), loc=loop.loc))
        for cell, value in zip(flight.cells, new, strict=True):
            after.assign(cell, value)
        give_back = LoopCode(loop.loc)
        for ring in self.rings_of(flight):
            ring.release(give_back, give_back.read(ring.last))
        if flight.began is not None:
            before.assign(flight.began, Const(False, BOOL))
            after.branch(after.read(flight.began), give_back)
        elif (ran := runs(loop, before)) is None:
            after.ops += give_back.ops
        else:
            after.branch(ran, give_back)
            zeros = self._zeros(flight)
            if zeros is not None:
                before.branch(ran, LoopCode(loop.loc), zeros)
        return [*before.ops, plain, *after.ops]

    def _zeros(self, flight: Flight) -> LoopCode | None:
        """Writes zeros into a loop's sums, for when it has no iterations; None where no sum begins as zeros."""
        code = LoopCode(flight.loop.loc)
        for home in flight.residences:
            if home.zeros is not None:
                zeros = Value(home.var.type, home.var.name)
                code.ops.append(dataclasses.replace(home.zeros, result=zeros))  # type: ignore[call-arg]
                code.assign(home.var, zeros)
        return code if code.ops else None

    def rings_of(self, flight: Flight) -> list[Ring]:
        """The rings that products in flight read."""
        loads = (item for item in self.ring_of if any(op in flight.products for op in item.products))
        return list(dict.fromkeys(self.ring_of[item] for item in loads))

    def _end_of_step(self, code: LoopCode, flight: Flight) -> None:
        """The products of the step before are over: what they read is given back."""
        code.ops.append(WgmmaCommit(loc=code.loc))
        ends = self._ends(flight)
        code.ops.append(WgmmaWait(1, tuple(self.raw[end] for end in ends), tuple(ends), loc=code.loc))
        give_back = LoopCode(code.loc)
        for ring in self.rings_of(flight):
            ring.release(give_back, give_back.read(ring.last))
        later = code.compare("ne", flight.loop.index, flight.loop.start, "later")
        code.branch(later, give_back)
        for ring in self.rings_of(flight):
            code.assign(ring.last, self.stages[ring])
        if flight.began is not None:
            code.assign(flight.began, Const(True, BOOL))
        for end in ends:
            del self.raw[end]

    def _ends(self, flight: Flight) -> list[Value]:
        """Results that no other product of the step goes on with."""
        whats = [self.products.found[op].what for op in flight.products]
        taken = {what.acc for what in whats}
        return [what.result for what in whats if what.result not in taken]
