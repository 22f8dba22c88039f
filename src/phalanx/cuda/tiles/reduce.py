"""Reductions along an axis: registers first, then lanes by shuffles, then warps through scratch memory.

Every replica combines the same numbers in the same order, so all of them get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

from phalanx.cuda.text.helper import Helper, find_helper
from phalanx.cuda.text.literals import bare, literal
from phalanx.cuda.text.prelude import device_function
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import binary_text, compute_dtype, highest, lowest, narrow, widen
from phalanx.cuda.tiles.claim import claim_scratch
from phalanx.cuda.tiles.coordinates import Coordinates, none_set, warp_replicas
from phalanx.cuda.tiles.index import SlotTexts, element, is_identity, local, plus, slot_line, slot_loop, times
from phalanx.cuda.tiles.share import flat_coordinate
from phalanx.ir.ops.tile import POSITIONS, Reduce
from phalanx.ir.types import DType, TileType, f32, i32
from phalanx.ir.values import Value
from phalanx.layouts.bits import round_up
from phalanx.layouts.expressions import linear_expression
from phalanx.layouts.registers import AxisBits, RegisterLayout, padded

EVERY_LANE = 5
"""Bits of a lane's number."""
NOWHERE = 2**31 - 1
"""A place behind all others."""


def is_separable(layout: RegisterLayout, axis: int) -> bool:
    """Whether every register, lane and warp bit moves along `axis` alone or not at all along it."""
    try:
        layout.bits_along(axis)
    except ValueError:
        return False
    return True


def reduce_scratch_bytes(op: Reduce, layout: RegisterLayout) -> int:
    """Scratch bytes of a reduction: one partial result per element and warp along the axis, if warps take part."""
    warps = _warp_bits(layout, op.axis)
    if not warps:
        return 0
    elements = 1 << len(warps)
    for extent in _kept_shape(op, layout):
        elements *= extent
    accumulator = _accumulator(op)
    values = elements * accumulator.itemsize
    return round_up(values, 4) + 4 * elements if op.fn in POSITIONS else values  # values, then indices


def _warp_bits(layout: RegisterLayout, axis: int) -> tuple[int, ...]:
    return layout.bits_along(axis).warp


def _kept_shape(op: Reduce, layout: RegisterLayout) -> tuple[int, ...]:
    return padded(layout.shape[: op.axis] + layout.shape[op.axis + 1 :])


def _accumulator(op: Reduce) -> DType:
    """The type in which partial results are kept."""
    if op.fn == "sum":
        return compute_dtype(scalar_dtype(op.result))
    return compute_dtype(scalar_dtype(op.x))


@dataclass
class _Reduction:
    """Names and facts of the reduction being written. `fn` folds the values, also those among which a place is found."""

    w: Writer
    op: Reduce
    layout: RegisterLayout
    bits: AxisBits
    kept: RegisterLayout
    slot_map: tuple[int, ...]
    coordinates: Coordinates
    fn: str
    values: str
    indices: str

    @property
    def dtype(self) -> DType:
        return _accumulator(self.op)

    @property
    def finds_place(self) -> bool:
        return self.op.fn in POSITIONS

    def neutral(self) -> str:
        if self.fn == "sum":
            return literal(0, self.dtype)
        return highest(self.dtype) if self.fn == "min" else lowest(self.dtype)

    def combine(self, a: str, b: str) -> str:
        return binary_text(self.w, "add" if self.fn == "sum" else self.fn, a, b, self.dtype)

    def fold(self, at: str, value: str) -> None:
        """Folds one more value into the partial result at slot text `at`."""
        target = element(self.values, at)
        self.w.line(f"{target} = {self.combine(target, value)};")

    def fold_place(self, at: str, index: str) -> None:
        """Folds one more place of the largest (smallest) value into the first one known."""
        target = element(self.indices, at)
        self.w.line(f"{target} = {binary_text(self.w, 'min', target, index, i32)};")

    def take(self, at: str, value: str, index: str) -> None:
        """Takes another partial result and its place, where it comes before the one at slot text `at`."""
        target, indices = element(self.values, at), element(self.indices, at)
        with self.w.block():
            new_value, new_index = local(self.w, "value"), local(self.w, "index")
            ctype = self.w.ctype(self.dtype)
            self.w.line(f"const {ctype} {new_value} = {value};")
            self.w.line(f"const int {new_index} = {index};")
            symbol = ">" if self.fn == "max" else "<"
            takes = f"{new_value} {symbol} {target} || ({new_value} == {target} && {new_index} < {indices})"
            if self.dtype.is_float:
                takes = f"{self.w.use(f'arg{self.fn}_takes')}({new_value}, {new_index}, {target}, {indices})"
            self.w.line(f"if ({takes}) {target} = {new_value}, {indices} = {new_index};")


def emit_reduce(w: Writer, op: Reduce) -> None:
    """Writes a reduction of a tile along one axis; the result is a tile in the sliced layout, or a scalar."""
    layout = w.plan.layouts[op.x]
    projection = layout.slice(op.axis)
    kept = projection.layout
    scalar = not isinstance(op.result.type, TileType)
    values = w.unique(f"{op.result.name or op.x.name or 't'}_{op.fn}")
    reduction = _Reduction(
        w, op, layout, layout.bits_along(op.axis), kept, projection.register_map, Coordinates(w, layout),
        op.fn.removeprefix("arg"), values, w.unique(f"{values}_at") if op.fn in POSITIONS else "",
    )
    w.line(f"{w.ctype(reduction.dtype)} {values}[{kept.num_registers}];")
    if reduction.finds_place:
        w.line(f"int {reduction.indices}[{kept.num_registers}];")
    with w.block():
        value_at = _fold_registers(reduction)
        _fold_lanes(w, reduction.fn, reduction.dtype, reduction.bits.lane, values, kept.num_registers, reduction.fold)
        if reduction.finds_place:
            _find_places(reduction, value_at)
        if op not in w.plan.partial:
            _fold_warps(reduction)
    source = reduction.indices if reduction.finds_place else values
    _define(w, op.result, source, reduction, scalar)


def _define(w: Writer, result: Value, source: str, reduction: _Reduction, scalar: bool) -> None:
    dtype = scalar_dtype(result)

    def stored(text: str) -> str:
        if reduction.finds_place:
            return text if dtype.name == "i32" else f"({w.ctype(dtype)}){text}"
        return narrow(w, text, dtype)

    if scalar:
        w.define(result, stored(f"{source}[0]"))
        return
    name, i = w.declare_tile(result), local(w, "i")
    slot_line(w, w.registers(result), f"{name}[{i}] = {stored(f'{source}[{i}]')};", i)


def _fold_registers(r: _Reduction) -> Callable[[str], str]:
    """Folds the registers of each thread; gives the text of the value in a register."""
    w, layout, coordinates = r.w, r.layout, r.coordinates
    masked = r.op.axis in coordinates.masked_dims()
    if masked or r.finds_place:
        coordinates.declare(r.op.axis)
    name, source = w.name(r.op.x), scalar_dtype(r.op.x)
    identity = is_identity(r.slot_map) and len(r.slot_map) == r.kept.num_registers

    def value_at(i: str) -> str:
        text = widen(w, element(name, i), source)
        target = r.dtype
        if compute_dtype(source) != target:
            text = f"({w.ctype(target)}){text}"
        if not masked:
            return text
        return f"({coordinates.at(r.op.axis, i)} < {layout.shape[r.op.axis]} ? {text} : {r.neutral()})"

    chains = _Chains.of(r)
    if identity:
        with slot_loop(w, layout.num_registers) as i:
            w.line(f"{element(r.values, i)} = {bare(value_at(i))};")
    elif chains.begins and not masked:
        _fold_in_chains(r, chains, value_at)
    else:
        with slot_loop(w, r.kept.num_registers) as i:
            w.line(f"{element(r.values, i)} = {r.neutral()};")
        with slot_loop(w, layout.num_registers) as i:
            r.fold(SlotTexts(w).at(r.slot_map, i, hint="slot"), value_at(i))
    return value_at


def _find_places(r: _Reduction, value_at: Callable[[str], str]) -> None:
    """The first place of what the warp found: two comparisons an element, and none between places on the way there.

    A NaN is the largest and the smallest: where none was found, none is there. What is beyond the axis has places beyond it.
    """
    w = r.w
    with slot_loop(w, r.kept.num_registers) as i:
        w.line(f"{element(r.indices, i)} = {NOWHERE};")
    with slot_loop(w, r.layout.num_registers) as i:
        at = SlotTexts(w).at(r.slot_map, i, hint="slot")
        value = value_at(i)
        found = f"{value} == {element(r.values, at)}"
        if r.dtype.is_float:
            found += f" || {value} != {value}"
        r.fold_place(at, f"{found} ? {r.coordinates.at(r.op.axis, i)} : {NOWHERE}")
    _fold_lanes(w, "min", i32, r.bits.lane, r.indices, r.kept.num_registers, r.fold_place)


SIDE_BY_SIDE = 4
"""Partial results that a thread works on at a time: an instruction takes about that long, and each needs the one before."""


@dataclass
class _Chains:
    """How registers are dealt to several partial results of one element, which are joined afterwards."""

    count: int
    slot_map: tuple[int, ...]
    begins: int
    """The number of registers, from the first on, that begin a chain."""

    @staticmethod
    def of(r: _Reduction) -> _Chains:
        """As many chains as keep `SIDE_BY_SIDE` partial results busy; one where registers can't be dealt evenly."""
        kept, total = r.kept.num_registers, r.layout.num_registers
        count = SIDE_BY_SIDE // kept if kept < SIDE_BY_SIDE else 1
        if count > 1 and total >= 4 * kept * count:
            seen = [0] * kept
            dealt = []
            for slot in r.slot_map:
                dealt.append(slot + kept * (seen[slot] % count))
                seen[slot] += 1
            if sorted(dealt[: kept * count]) == list(range(kept * count)):
                return _Chains(count, tuple(dealt), kept * count)
        in_order = sorted(r.slot_map[:kept]) == list(range(kept))
        return _Chains(1, r.slot_map, kept if in_order else 0)


def _fold_in_chains(r: _Reduction, chains: _Chains, value_at: Callable[[str], str]) -> None:
    """Several partial results of each element, one behind the other in an array, then one of them. Each begins with its
    first register: nothing is computed with a neutral element."""
    w, kept, parts = r.w, r.kept.num_registers, r.values
    if chains.count > 1:
        parts = w.unique(f"{r.values}_parts")
        w.line(f"{w.ctype(r.dtype)} {parts}[{kept * chains.count}];")

    def folded(i: str) -> str:
        return element(parts, SlotTexts(w).at(chains.slot_map, i, hint="slot"))

    with slot_loop(w, chains.begins) as i:
        w.line(f"{folded(i)} = {value_at(i)};")
    with slot_loop(w, r.layout.num_registers, first=chains.begins) as i:
        target = folded(i)
        w.line(f"{target} = {r.combine(target, value_at(i))};")
    if chains.count == 1:
        return
    with slot_loop(w, kept) as i:
        joined = element(parts, i)
        for chain in range(1, chains.count):
            joined = r.combine(joined, element(parts, plus(i, str(kept * chain))))
        w.line(f"{element(r.values, i)} = {joined};")


def _fold_lanes(
    w: Writer, fn: str, dtype: DType, bits: tuple[int, ...], partial: str, count: int, fold: Callable[[str, str], None]
) -> None:
    """Lanes that differ in one bit along the axis exchange their partial results, bit after bit.

    Of a whole warp a sum, the largest or the smallest is one instruction, unless its numbers are too wide for it.
    """
    whole = _warp_fold(fn, dtype, w.ctype(dtype)) if len(bits) == EVERY_LANE else None
    if whole is not None:
        with slot_loop(w, count) as i:
            target = element(partial, i)
            w.line(f"{target} = {w.use(whole)}({target});")
        return
    for first, last in _runs(bits):
        mask = str(1 << first)
        outer: AbstractContextManager[None] = nullcontext()
        if first != last:
            mask = local(w, "mask")
            w.line("#pragma unroll")
            outer = w.block(f"for (int {mask} = {1 << first}; {mask} <= {1 << last}; {mask} *= 2)")
        shuffle = w.use("shuffle_xor")
        with outer, slot_loop(w, count) as i:
            fold(i, f"{shuffle}({element(partial, i)}, {mask})")


def _runs(bits: tuple[int, ...]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for bit in bits:
        if runs and runs[-1][1] == bit - 1:
            runs[-1] = runs[-1][0], bit
        else:
            runs.append((bit, bit))
    return runs


def _fold_warps(r: _Reduction) -> None:
    """Each warp along the axis writes its partial results; then every thread reads and folds all of them."""
    w, bits = r.w, r.bits.warp
    if not bits:
        return
    count = 1 << len(bits)
    elements = 1
    for extent in padded(r.kept.shape):
        elements *= extent
    ctype = w.ctype(r.dtype)
    scratch = local(w, "partial")
    w.line(f"{ctype}* const {scratch} = reinterpret_cast<{ctype}*>({w.scratch(r.op)});")
    at_scratch = ""
    if r.finds_place:
        at_scratch = local(w, "partial_at")
        start = round_up(count * elements * r.dtype.itemsize, 4)
        w.line(f"int* const {at_scratch} = reinterpret_cast<int*>({w.scratch(r.op)} + {start});")
    coordinates = Coordinates(w, r.kept, "k")
    for dim in range(r.kept.rank):
        coordinates.declare(dim)
    part = local(w, "part")
    w.line(f"const int {part} = {_gather_bits(w.warp, bits, r.layout.linear.in_bits('warp'))};")
    claim_scratch(w, r.op)
    owner = []
    if r.kept.replication.lane_mask:
        owner.append(none_set(w.lane, r.kept.replication.lane_mask, 31))
    if warp_replicas(r.layout):  # they would write the same numbers again
        owner.append(none_set(w.warp, r.layout.replication.warp_mask, r.layout.linear.in_size("warp") - 1))
    with w.block(f"if ({' && '.join(owner)})" if owner else ""), slot_loop(w, r.kept.num_registers) as i:
        place = plus(times(part, str(elements)), flat_coordinate(coordinates, i))
        w.line(f"{scratch}[{place}] = {element(r.values, i)};")
        if r.finds_place:
            w.line(f"{at_scratch}[{place}] = {element(r.indices, i)};")
    w.sync_agent()
    with slot_loop(w, r.kept.num_registers) as i:
        flat = flat_coordinate(coordinates, i)
        w.line(f"{element(r.values, i)} = {scratch}[{flat}];")
        if r.finds_place:
            w.line(f"{element(r.indices, i)} = {at_scratch}[{flat}];")
        j = local(w, "j")
        w.line("#pragma unroll")
        with w.block(f"for (int {j} = 1; {j} < {count}; ++{j})"):
            place = plus(times(j, str(elements)), flat)
            if r.finds_place:
                r.take(i, f"{scratch}[{place}]", f"{at_scratch}[{place}]")
            else:
                r.fold(i, f"{scratch}[{place}]")


def _gather_bits(name: str, bits: tuple[int, ...], total: int) -> str:
    """The number made of some of the `total` bits of a variable, in order."""
    images = [0] * total
    for position, bit in enumerate(bits):
        images[bit] = 1 << position
    return linear_expression([(name, images)])


@cache
def _warp_fold(fn: str, dtype: DType, ctype: str) -> Helper | None:
    """The function that folds a number of each of the 32 lanes, and gives all of them the result: by one `redux.sync`, of
    bools by a vote; None where no instruction does. The largest of floats is not a number if one of them is none."""
    if dtype == f32:
        return find_helper(f"warp_{fn}")
    if dtype.is_float or dtype.bits > 32:
        return None
    if dtype.kind == "bool":
        if fn == "sum":
            return None
        vote = "any" if fn == "max" else "all"
        return device_function(f"warp_{vote}", "bool", (("bool", "x"),), f"return __{vote}_sync(0xffffffffu, x);")
    signed = dtype.kind == "int"
    wide = "int" if signed and fn != "sum" else "unsigned"  # a sum wraps around
    body = f"return ({ctype})__reduce_{'add' if fn == 'sum' else fn}_sync(0xffffffffu, ({wide})x);"
    return device_function(f"warp_{fn}_{dtype.name}", ctype, ((ctype, "x"),), body)
