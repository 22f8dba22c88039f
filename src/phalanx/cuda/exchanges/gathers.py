"""`cluster.gather` in PTX: records into the inboxes of all CTAs, one wait, and every warp reads what it needs.

Where a warp has lanes to spare, each of them sends to another CTA: with one element a warp, one `st.async` in all.
"""

from __future__ import annotations

from math import prod

from phalanx.cuda.exchanges.exchange import Signals, Turn
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.coordinates import none_set, owner_conditions, warp_replicas
from phalanx.cuda.tiles.index import element, local, plus, slot_loop, times
from phalanx.cuda.tiles.shared_access import Offsets
from phalanx.ir.ops.cluster import ClusterGather
from phalanx.ir.types import TileType
from phalanx.layouts.banks import best_vector
from phalanx.layouts.registers import LANES, RegisterLayout
from phalanx.layouts.shared import SharedLayout

WORD = 4
EVERY_LANE = LANES - 1


class Gather:
    """Names and facts of the gather being written."""

    def __init__(self, w: Writer, op: ClusterGather, signals: Signals) -> None:
        self.w = w
        self.op = op
        self.signals = signals
        self.turn = Turn(w, op)
        self.size = self.turn.size
        self.count = prod(op.shape)
        self.ctype = w.ctype(scalar_dtype(op.xs[0]))
        self.layout: RegisterLayout | None = None
        if isinstance(op.xs[0].type, TileType):
            self.layout = w.plan.layouts[op.xs[0]]
        self.to_lanes = self.layout is not None and self.layout.replication.lane_mask == EVERY_LANE

    def emit(self) -> None:
        """Writes the whole gather: what each CTA sends, the wait, and how the values are read."""
        w, op, turn = self.w, self.op, self.turn
        for result in op.results:
            w.declare_tile(result)
        with w.block():
            whence = "shared memory" if op.barrier is None else "st.async to every CTA"
            w.comment(f"what {'all warps' if op.barrier is None else 'all CTAs of the cluster'} hold: {whence}")
            expected = str(self.size * op.sent_bytes())
            turn.begin(by_warp=self._every_warp_sends(), expected=expected, signals=self.signals)
            self._send()
            turn.wait(self.signals)
            for record in range(len(op.records)):
                self._read(record)
            turn.end()

    def _every_warp_sends(self) -> bool:
        layout = self.layout
        if layout is None or warp_replicas(layout):
            return self.w.agent.warps == 1
        return bool(layout.alive.any(axis=(0, 1)).all())

    def _members(self, record: int) -> range:
        """The numbers of the `xs` in a record."""
        first = sum(self.op.records[:record])
        return range(first, first + self.op.records[record])

    def _start(self, record: int) -> int:
        """Where the records of that kind begin in the inboxes: those of rank 0, then of rank 1."""
        return self.size * self.count * sum(map(self.op.record_bytes, range(record)))

    # ------------------------------------------------------------------ sending

    def _send(self) -> None:
        """The owners of elements, each to every CTA: by as many lanes, or to one after the other."""
        w, layout = self.w, self.layout
        conditions: list[str]
        if layout is None:
            conditions = [] if w.agent.warps == 1 else [f"{w.warp} == 0"]
            conditions.append(f"{w.lane} < {self.size}" if self.size > 1 else f"{w.lane} == 0")
        elif self.to_lanes:
            conditions = [f"{w.lane} < {self.size}" if self.size > 1 else f"{w.lane} == 0"]
            if warp_replicas(layout):
                conditions.append(none_set(w.warp, layout.replication.warp_mask, layout.linear.in_size("warp") - 1))
        else:
            conditions = owner_conditions(w, layout)
        with w.block(f"if ({' && '.join(conditions)})" if conditions else ""):
            if self.size == 1:
                self._send_to(None)
            elif layout is None or self.to_lanes:
                self._send_to(w.lane)
            else:
                step, peer = local(w, "step"), local(w, "peer")
                with w.block(f"for (int {step} = 0; {step} < {self.size}; ++{step})"):
                    w.line(f"const int {peer} = ({self.signals.rank} + {step}) % {self.size};")
                    self._send_to(peer)

    def _send_to(self, receiver: str | None) -> None:
        """All records of this thread to one CTA; None: this one, by plain stores."""
        w, turn = self.w, self.turn
        there, signal = local(w, "there"), local(w, "there_bar")
        if receiver is None:
            w.line(f"unsigned char* const {there} = {turn.place};")
        else:
            w.line(f"const unsigned {there} = {w.use('mapa_shared_cluster')}({turn.inbox}, {receiver});")
            w.line(f"const unsigned {signal} = {w.use('mapa_shared_cluster')}({turn.bar}, {receiver});")
        for record in range(len(self.op.records)):
            size = self.op.record_bytes(record)
            start = str(self._start(record))
            own = "0" if receiver is None else times(self.signals.rank, str(self.count * size))
            if self.layout is None:
                with w.block():
                    self._store(record, "0", 1, plus(there, start, own), receiver)
                continue
            shared = SharedLayout(self.layout.shape, size)
            axes = tuple(range(self.layout.rank))
            offsets = Offsets(w, self.layout, shared, axes, (0,) * self.layout.rank)
            vector = self._vector(self.layout, shared, size)
            with w.block():
                first = offsets.declare()
                with slot_loop(w, self.layout.num_registers, vector, scope=True) as i:
                    place = plus(there, start, own, times(plus(first, offsets.at(i, vector)), str(size)))
                    alive = " && ".join(offsets.coordinates.alive(i, vector))
                    with w.block(f"if ({alive})" if alive else ""):
                        self._store(record, i, vector, place, receiver)

    def _vector(self, layout: RegisterLayout, shared: SharedLayout, size: int) -> int:
        """Neighbours that travel by one store: only records of one word do."""
        if size != WORD:
            return 1
        vector = best_vector(layout, shared, 0, tuple(range(layout.rank)))
        while self.count % vector:
            vector //= 2
        return vector

    def _store(self, record: int, i: str, vector: int, place: str, receiver: str | None) -> None:
        """One record, or `vector` of one word."""
        w, op = self.w, self.op
        tile = self.layout is not None
        if vector > 1:
            names = [w.name(op.xs[self._members(record)[0]])] * vector
            values = [element(name, plus(i, str(n))) for n, name in enumerate(names)]
        else:
            names = [w.name(op.xs[member]) for member in self._members(record)]
            values = [element(name, i) if tile else name for name in names]
        width = max(vector, self.op.record_bytes(record) // WORD)
        values += values[-1:] * (width - len(values))
        words = local(w, "words")
        w.line(f"const {self.ctype} {words}[{width}] = {{{', '.join(values)}}};")
        if receiver is None:
            w.line(f"{w.use('store_vector')}<{width}>(reinterpret_cast<{self.ctype}*>({place}), {words});")
        else:
            w.line(f"{w.use('st_async')}<{width}>({place}, {words}, {local(w, 'there_bar')});")

    # ------------------------------------------------------------------ receiving

    def _read(self, record: int) -> None:
        """The elements of this thread's part of the results, neighbours by one access."""
        w, op = self.w, self.op
        members = self._members(record)
        size = op.record_bytes(record)
        results = [op.results[member] for member in members]
        layout = w.plan.layouts[results[0]]
        shared = SharedLayout(layout.shape, size)
        axes = tuple(range(layout.rank))
        vector = best_vector(layout, shared, 0, axes)
        offsets = Offsets(w, layout, shared, axes, (0,) * layout.rank)
        words = size // WORD
        source, piece = local(w, "source"), local(w, "words")
        with w.block():
            start = offsets.declare()
            where = plus(self.turn.received, str(self._start(record)), times(start, str(size)))
            w.line(f"const {self.ctype}* const {source} = reinterpret_cast<const {self.ctype}*>({where});")
            with slot_loop(w, layout.num_registers, vector, scope=True) as i:
                w.line(f"{self.ctype} {piece}[{vector * words}];")
                place = plus(source, times(offsets.at(i, vector), str(words)))
                read = f"{w.use('load_vector')}<{vector * words}>({piece}, {place});"
                alive = " && ".join(offsets.coordinates.alive(i, vector))
                w.line(f"if ({alive}) {read}" if alive else read)
                for n in range(vector):
                    for word, result in enumerate(results):
                        target = element(w.name(result), plus(i, str(n)))
                        w.line(f"{target} = {piece}[{n * words + word}];")
