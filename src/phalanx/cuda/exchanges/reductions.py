"""`cluster.reduce` in PTX: `st.async` into the inboxes of the peers, one mbarrier wait, a fold in a fixed order.

`passes/reductions.py` says why two turns of inboxes are enough.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from math import prod

from phalanx.cuda.exchanges.exchange import Signals, Turn
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import binary_text, cast_text, highest, lowest
from phalanx.cuda.tiles.coordinates import owner_conditions
from phalanx.cuda.tiles.index import element, local, plus, slot_loop, times
from phalanx.cuda.tiles.shared_access import Offsets
from phalanx.ir.ops.cluster import INBOX_STEP, ClusterReduce
from phalanx.ir.types import DType, TileType, f32, i32, u32
from phalanx.layouts.banks import best_vector
from phalanx.layouts.shared import SharedLayout

FEW = 16
"""Up to so many partial results are read by every thread; more are shared out over the lanes."""
UNROLLED = 32
"""As many elements of a tile are folded without a loop."""


def wire_dtype(dtype: DType) -> DType:
    """The type in which elements travel and are combined."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.is_float else u32 if dtype.kind == "uint" else i32


class Reduction:
    """Names and facts of the reduction being written."""

    def __init__(self, w: Writer, op: ClusterReduce, signals: Signals) -> None:
        assert op.slots is not None and op.barrier is not None
        self.w = w
        self.op = op
        self.signals = signals
        self.rank = signals.rank
        self.size = w.plan.function.cluster_size
        self.dtype = scalar_dtype(op.x)
        self.wire = wire_dtype(self.dtype)
        self.ctype = w.ctype(self.wire)
        self.by_warp = op in w.plan.partial
        self.half = op.slots.shape[1]
        self.values = w.agent.warps if self.by_warp else prod(op.x.type.shape)  # type: ignore[union-attr]
        self.stride = -(-self.values * self.wire.itemsize // INBOX_STEP) * INBOX_STEP
        if not isinstance(op.x.type, TileType):
            self.stride = self.values * self.wire.itemsize  # scalars lie side by side

    # ------------------------------------------------------------------ the whole

    def emit(self) -> None:
        """Writes the whole reduction: what each CTA sends, the wait, and how the parts are combined."""
        w, op = self.w, self.op
        tile = isinstance(op.x.type, TileType)
        if tile:
            result = w.declare_tile(op.result)
        else:
            result = w.name(op.result)
            w.line(f"{w.ctype(self.dtype)} {result};")
        turn = Turn(w, op)
        bar, inbox = turn.bar, turn.inbox
        with w.block():
            w.comment(self._reason())
            turn.begin(by_warp=self.by_warp, expected=self._expected(), signals=self.signals)
            (self._send_tile if tile else self._send_scalar)(bar, inbox)
            turn.wait(self.signals)
            if op.cta is None:
                self._fold(result)
            else:
                with w.block(f"if ({self.rank} == {w.name(op.cta)})", footer="} else {"):
                    self._fold(result)
                    w.sync_agent("the inbox has been read")
                    self._thank(bar, inbox)
                with w.indent():
                    self._keep(result)
                w.line("}")
            turn.end()

    def _reason(self) -> str:
        who = "each warp sends its partial result" if self.by_warp else "st.async"
        where = "every CTA" if self.op.cta is None else "one CTA"
        return f"{self.op.fn} over the cluster: {who} to {where}"

    def _expected(self) -> str:
        everything = self.size * self.values * self.wire.itemsize
        if self.op.cta is None:
            return str(everything)
        return f"{self.rank} == {self.w.name(self.op.cta)} ? {everything} : 4"

    # ------------------------------------------------------------------ sending

    def _send_scalar(self, bar: str, inbox: str) -> None:
        """One lane per receiver; every warp its own partial result, or the first warp the value that all know."""
        w, op = self.w, self.op
        value, mine = local(w, "value"), times(self.rank, str(self.stride))
        if self.by_warp:
            mine = plus(mine, times(w.warp, str(self.wire.itemsize)))
            condition = f"{w.lane} < {self.size}"
        else:
            first = "" if w.agent.warps == 1 else f"{w.warp} == 0 && "
            condition = first + (f"{w.lane} < {self.size}" if op.cta is None else f"{w.lane} == 0")
        receiver = w.lane if op.cta is None else w.name(op.cta)
        with w.block(f"if ({condition})"):
            w.line(f"const {self.ctype} {value} = {self._widened(w.name(op.x))};")
            target = f"{w.use('mapa_shared_cluster')}({plus(inbox, mine)}, {receiver})"
            w.line(f"{w.use('st_async')}<1>({target}, &{value}, {w.use('mapa_shared_cluster')}({bar}, {receiver}));")

    def _send_tile(self, bar: str, inbox: str) -> None:
        """The threads that own elements send them, to one peer after the other, each CTA beginning with itself."""
        w, op = self.w, self.op
        layout = w.plan.layouts[op.x]
        offsets, vector = self._places()
        owner = owner_conditions(w, layout)
        with w.block(f"if ({' && '.join(owner)})" if owner else ""):
            start = offsets.declare()
            mine, own = local(w, "mine"), times(self.rank, str(self.stride))
            w.line(f"const unsigned {mine} = {plus(inbox, own, times(start, str(self.wire.itemsize)))};")
            peers: AbstractContextManager[None] = nullcontext()
            receiver = w.name(op.cta) if op.cta is not None else local(w, "peer")
            if op.cta is None:
                step = local(w, "step")
                peers = w.block(f"for (int {step} = 0; {step} < {self.size}; ++{step})")
            with peers:
                if op.cta is None:
                    w.line(f"const int {receiver} = ({self.rank} + {step}) % {self.size};")
                there, signal = local(w, "there"), local(w, "there_bar")
                w.line(f"const unsigned {there} = {w.use('mapa_shared_cluster')}({mine}, {receiver});")
                w.line(f"const unsigned {signal} = {w.use('mapa_shared_cluster')}({bar}, {receiver});")
                with slot_loop(w, layout.num_registers, vector, scope=True) as i:
                    piece = local(w, "piece")
                    values = [self._widened(element(w.name(op.x), plus(i, str(n)))) for n in range(vector)]
                    w.line(f"const {self.ctype} {piece}[{vector}] = {{{', '.join(values)}}};")
                    place = plus(there, times(offsets.at(i, vector), str(self.wire.itemsize)))
                    send = f"{w.use('st_async')}<{vector}>({place}, {piece}, {signal});"
                    alive = " && ".join(offsets.coordinates.alive(i, vector))
                    w.line(f"if ({alive}) {send}" if alive else send)

    def _thank(self, bar: str, inbox: str) -> None:
        """The receiver's turn is over: the senders may go on."""
        w = self.w
        first = "" if w.agent.warps == 1 else f"{w.warp} == 0 && "
        with w.block(f"if ({first}{w.lane} < {self.size} && {w.lane} != {self.rank})"):
            word = local(w, "thanks")
            w.line(f"const unsigned {word} = 0;")
            target = f"{w.use('mapa_shared_cluster')}({plus(inbox, str(self.half - INBOX_STEP))}, {w.lane})"
            w.line(f"{w.use('st_async')}<1>({target}, &{word}, {w.use('mapa_shared_cluster')}({bar}, {w.lane}));")

    # ------------------------------------------------------------------ receiving

    def _combine(self, a: str, b: str) -> str:
        return binary_text(self.w, "add" if self.op.fn == "sum" else self.op.fn, a, b, self.wire)

    def _widened(self, text: str) -> str:
        return cast_text(self.w, text, self.dtype, self.wire)

    def _narrowed(self, text: str) -> str:
        return cast_text(self.w, text, self.wire, self.dtype)

    def _fold(self, result: str) -> None:
        if isinstance(self.op.x.type, TileType):
            self._fold_tile(result)
        elif self.size * self.values <= FEW:
            self._fold_scalars(result)
        else:
            self._fold_by_lanes(result)

    def _fold_scalars(self, result: str) -> None:
        """Every thread reads all of them, as wide as they lie."""
        w = self.w
        count = self.size * self.values
        vector = INBOX_STEP // self.wire.itemsize
        while count % vector:
            vector //= 2
        parts, total = local(w, "parts"), local(w, "total")
        pointer = f"reinterpret_cast<const {self.ctype}*>({local(w, 'received')})"
        w.line(f"{self.ctype} {parts}[{count}];")
        with slot_loop(w, count, vector) as i:
            w.line(f"{w.use('load_vector')}<{vector}>({plus(parts, i)}, {plus(pointer, i)});")
        w.line(f"{self.ctype} {total} = {parts}[0];")
        j = local(w, "j")
        w.line("#pragma unroll")
        w.line(f"for (int {j} = 1; {j} < {count}; ++{j}) {total} = {self._combine(total, f'{parts}[{j}]')};")
        w.line(f"{result} = {self._narrowed(total)};")

    def _fold_by_lanes(self, result: str) -> None:
        """The lanes of each warp share the partial results and fold them by shuffles: the same order in every warp."""
        w = self.w
        count = self.size * self.values
        neutral = {"sum": f"({self.ctype})0", "max": lowest(self.wire), "min": highest(self.wire)}[self.op.fn]
        total, j = local(w, "total"), local(w, "j")
        pointer = f"reinterpret_cast<const {self.ctype}*>({local(w, 'received')})"
        w.line(f"{self.ctype} {total} = {neutral};")
        w.line("#pragma unroll")
        with w.block(f"for (int {j} = 0; {j} < {count}; {j} += 32)"):
            at = f"{j} + {w.lane}"
            inside = "" if count % 32 == 0 else f"if ({at} < {count}) "
            w.line(f"{inside}{total} = {self._combine(total, f'({pointer})[{at}]')};")
        mask = local(w, "mask")
        w.line("#pragma unroll")
        shuffled = f"{w.use('shuffle_xor')}({total}, {mask})"
        w.line(f"for (int {mask} = 16; {mask} > 0; {mask} /= 2) {total} = {self._combine(total, shuffled)};")
        w.line(f"{result} = {self._narrowed(total)};")

    def _places(self) -> tuple[Offsets, int]:
        """Where a thread's elements lie in an inbox: in row-major order, `vector` of them side by side."""
        layout = self.w.plan.layouts[self.op.x]
        shared = SharedLayout(layout.shape, self.wire.itemsize)
        axes = tuple(range(layout.rank))
        vector = min(best_vector(layout, shared, 0, axes), INBOX_STEP // self.wire.itemsize)
        return Offsets(self.w, layout, shared, axes, (0,) * layout.rank), vector

    def _fold_tile(self, result: str) -> None:
        """Every thread reads its elements from one inbox after the other."""
        w = self.w
        layout = w.plan.layouts[self.op.x]
        slots = layout.num_registers
        offsets, vector = self._places()
        total, source, peer = local(w, "total"), local(w, "source"), local(w, "peer")
        w.line(f"{self.ctype} {total}[{slots}];")
        start = offsets.declare()
        w.line("#pragma unroll" if slots * self.size <= UNROLLED else "#pragma unroll 1")
        with w.block(f"for (int {peer} = 0; {peer} < {self.size}; ++{peer})"):
            where = plus(local(w, "received"), times(peer, str(self.stride)))
            begin = f"reinterpret_cast<const {self.ctype}*>({where})"
            w.line(f"const {self.ctype}* const {source} = {plus(begin, start)};")
            with slot_loop(w, slots, vector, scope=True) as i:
                piece, n = local(w, "piece"), local(w, "n")
                w.line(f"{self.ctype} {piece}[{vector}];")
                read = f"{w.use('load_vector')}<{vector}>({piece}, {plus(source, offsets.at(i, vector))});"
                alive = " && ".join(offsets.coordinates.alive(i, vector))
                w.line(f"if ({alive}) {read}" if alive else read)
                w.line("#pragma unroll")
                target, new = element(total, plus(i, n)), f"{piece}[{n}]"
                folded = self._combine(target, new)
                w.line(f"for (int {n} = 0; {n} < {vector}; ++{n}) {target} = {peer} == 0 ? {new} : {folded};")
        with slot_loop(w, slots) as i:
            w.line(f"{element(result, i)} = {self._narrowed(element(total, i))};")

    def _keep(self, result: str) -> None:
        w, op = self.w, self.op
        if not isinstance(op.x.type, TileType):
            w.line(f"{result} = {w.name(op.x)};")
            return
        with slot_loop(w, w.plan.layouts[op.x].num_registers) as i:
            w.line(f"{element(result, i)} = {element(w.name(op.x), i)};")
