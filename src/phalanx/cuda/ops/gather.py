"""Rows by index in PTX: the four-row instructions where the target has them, copies of single rows elsewhere.

Loads by a tile of indices are issued by all warps of the agent: up to 16 each by one lane, from uniform registers, more
by the lanes that hold the indices. Stores belong to the bulk groups of one thread, so that thread issues them all; the
indices come to it through its warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

from phalanx.cuda.ops.tma import LOOP_FROM, _even_step, _shared_base, leaders_barrier, policy_of, tensor_load, tensor_store
from phalanx.cuda.plan import CopyPath, CopyPlan
from phalanx.cuda.text.by_rank import mask_text
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import Parameter, instruction
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.bounds import start_text
from phalanx.cuda.tiles.index import atom, local_slots
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.ops.gather import RowCopy, TmaGather, TmaGather4, TmaScatter, TmaScatter4, row_views
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView
from phalanx.layouts.rows import FOUR, index_layout, issue_layout, issued_by_warp
from phalanx.layouts.shared import SWIZZLE_MASKS

LANES = 32
NOWHERE = "0x7fffffff"  # a row that no matrix has
_MAP: Parameter = ("const void*", "map")
_POLICY: Parameter = ("unsigned long long", "policy")
_PLACES: tuple[Parameter, ...] = tuple(("int", name) for name in ("column", "r0", "r1", "r2", "r3"))
_AT = "{column}, {r0}, {r1}, {r2}, {r3}"


@cache
def gather4(multicast: bool, hint: bool, pair: bool = False) -> Helper:
    """Builds `cp.async.bulk.tensor` with `tile::gather4`: four rows of a matrix by index, credited to a barrier; in a
    `pair`, to either CTA's."""
    space = "shared::cluster" if multicast or pair else "shared::cta"
    mnemonic = f"cp.async.bulk.tensor.2d.{space}.global.tile::gather4.mbarrier::complete_tx::bytes"
    mnemonic += ".multicast::cluster" * multicast + ".cta_group::2" * pair + ".L2::cache_hint" * hint
    parameters: tuple[Parameter, ...] = (("unsigned", "dst"), _MAP, *_PLACES, ("unsigned", "bar"))
    operands = f"[{{dst}}], [{{map}}, {{{_AT}}}], [{{bar}}]"
    if multicast:
        parameters += (("unsigned short", "ctas"),)
        operands += ", {ctas}"
    if hint:
        parameters += (_POLICY,)
        operands += ", {policy}"
    name = "cp_async_bulk_tensor_2d_gather4" + "_multicast" * multicast + "_pair" * pair + "_cache_hint" * hint
    return instruction(mnemonic, operands, parameters, name=name)


@cache
def scatter4(hint: bool = False) -> Helper:
    """Builds `cp.async.bulk.tensor` with `tile::scatter4`: four rows of a matrix by index, in the current bulk group."""
    mnemonic = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group" + ".L2::cache_hint" * hint
    parameters: tuple[Parameter, ...] = (_MAP, *_PLACES, ("unsigned", "src"), *[_POLICY] * hint)
    operands = f"[{{map}}, {{{_AT}}}], [{{src}}]" + ", {policy}" * hint
    return instruction(mnemonic, operands, parameters, name="cp_async_bulk_tensor_2d_scatter4" + "_cache_hint" * hint)


@emits(TmaGather4)
def emit_gather4(w: Writer, op: TmaGather4) -> None:
    """Writes loads of four rows, which the elected thread issues."""
    rows = [start_text(w, row.offsets[0]) for row in op.rows]
    with w.elected():
        _Gather(w, op).four(rows, "0")


@emits(TmaGather)
def emit_gather(w: Writer, op: TmaGather) -> None:
    """Writes loads of rows by an index tile; each warp issues its share, or the lanes that hold the indices do."""
    tile = w.name(op.src.offsets[0])
    share = issued_by_warp(op.dst.shape[0], op.warps)
    if share is not None:
        _emit_uniform(w, op, tile, share)
        return
    with w.block():
        if op.warps == 1:
            w.line("__syncwarp();  // all that the elected lane did is done")
        gather = _Gather(w, op)
        for group, (slots, lanes) in enumerate(_groups(w, op.dst, op.src.offsets[0], op.warps)):
            with w.block(_share(w, lanes)):
                first = f"{w.lane} * {FOUR}" + (f" + {group * LANES * FOUR}" if group else "")
                gather.four([f"{tile}[{slot}]" for slot in slots], first)


def _emit_uniform(w: Writer, op: TmaGather, tile: str, share: int) -> None:
    """One lane of each warp issues the warp's `share` of copies, back to back, with indices that all its lanes hold.

    The lane is elected here, not where the role begins: so the assembler knows that it is alone, and needs no loop over
    the lanes that might be active.
    """
    rows = op.dst.shape[0]
    slots = local_slots(w.plan.layouts[op.src.offsets[0]], issue_layout(rows, op.warps))
    assert slots is not None, "the indices are not where their copies are issued"
    issuers = -(-rows // share)
    with w.block():
        gather = _Gather(w, op)
        alone = f"{w.use('elect_sync')}()"
        with w.block(f"if ({w.warp} < {issuers} && {alone})" if issuers < op.warps else f"if ({alone})"):
            for start in range(0, min(share, rows), FOUR):
                holders = -(-(rows - start) // share)
                with w.block(f"if ({w.warp} < {holders})") if holders < issuers else nullcontext():
                    first = _sum(_times(w.warp, share) if op.warps > 1 else "0", str(start))
                    gather.four([f"{tile}[{slots[start + i]}]" for i in range(FOUR)], first)


@emits(TmaScatter4)
def emit_scatter4(w: Writer, op: TmaScatter4) -> None:
    """Writes stores of four rows, which the elected thread issues."""
    rows = [start_text(w, row.offsets[0]) for row in op.rows]
    with w.elected():
        _Scatter(w, op).four(rows, "0")


@emits(TmaScatter)
def emit_scatter(w: Writer, op: TmaScatter) -> None:
    """Writes stores of rows by an index tile; the elected lane of the first warp issues them all."""
    tile = w.name(op.dst.offsets[0])
    with _first_warp(w):
        scatter = _Scatter(w, op)
        for group, (slots, lanes) in enumerate(_groups(w, op.src, op.dst.offsets[0], op.warps)):
            with w.block(f"for (int px_q = 0; px_q < {lanes}; ++px_q)"):
                rows = [f"px_r{i}" for i in range(FOUR)]
                for row, slot in zip(rows, slots, strict=True):
                    w.line(f"const int {row} = __shfl_sync(0xffffffffu, {tile}[{slot}], px_q);")
                with w.block(f"if ({w.one})"):
                    scatter.four(rows, f"px_q * {FOUR}" + (f" + {group * LANES * FOUR}" if group else ""))


@contextmanager
def _first_warp(w: Writer) -> Iterator[None]:
    """What the lanes of the agent's first warp do together; the elected thread is one of them."""
    with w.block(f"if ({w.warp} == 0)" if w.agent.warps > 1 else ""):
        yield


def _share(w: Writer, lanes: int) -> str:
    """The condition under which a thread issues copies: every warp takes some of the lanes that hold indices."""
    warps = min(w.agent.warps, lanes)
    terms = [f"{w.lane} < {lanes}"] if lanes < LANES else []
    if warps > 1:
        terms.append(f"{w.lane} % {warps} == {w.warp}")
    elif w.agent.warps > 1:
        terms.append(f"{w.warp} == 0")
    return f"if ({' && '.join(terms)})" if terms else ""


def _groups(w: Writer, shared: SharedView, tile: Value, warps: int) -> list[tuple[tuple[int, ...], int]]:
    """The register slots of four indices, and the lanes that hold some, for every 128 rows."""
    rows = shared.shape[0]
    slots = local_slots(w.plan.layouts[tile], index_layout(rows, warps))
    assert slots is not None, "the indices are not where their copies are issued"
    return [
        (slots[FOUR * group : FOUR * group + FOUR], min(LANES, (rows - start) // FOUR))
        for group, start in enumerate(range(0, rows, LANES * FOUR))
    ]


class _Rows:
    """Four rows of one row copy, in the way that the plan chose."""

    def __init__(self, w: Writer, op: RowCopy) -> None:
        self.w = w
        self.op = op
        views, self.shared = row_views(op)
        self.view = views[0]
        self.plan: CopyPlan = w.plan.copies[op]
        self.array = w.name(self.view.array)
        self.column = self.view.offsets[1]
        self.layout = w.plan.buffers[self.shared.buffer].layout
        self.policy = policy_of(op.cache)
        w.comment(f"{self.plan.path}: {self.plan.reason}")
        if self.plan.path is not CopyPath.BULK_ROWS:
            self.base = _shared_base(w, self.shared)

    @property
    def map(self) -> str:
        assert self.plan.tensor_map is not None
        return f"&{self.w.tensor_map(self.plan.tensor_map)}"

    def four(self, rows: list[str], first: str) -> None:
        """Rows `first` to `first + 3` of the shared tile are the rows `rows` of the matrix."""
        match self.plan.path:
            case CopyPath.FOUR_ROWS:
                address = _sum(self.base, _times(first, self.plan.pitch))
                self.each_box(lambda column, shift: self.at_once(rows, column, _sum(address, shift)))
            case CopyPath.ROWS:
                for i, row in enumerate(rows):
                    with self.inside(row):
                        self.one(row, _sum(self.base, _times(_sum(first, str(i)), self.plan.pitch)))
            case _:
                for i, row in enumerate(rows):
                    with self.w.block():
                        self.run_of(row, _sum(first, str(i)))

    def one(self, row: str, address: str) -> None:
        self.each_box(lambda column, shift: self.single(row, column, _sum(address, shift)))

    def each_box(self, emit: Callable[[str, str], None]) -> None:
        """Calls `emit` with the column and the shared offset of each box of a row; many even ones become a loop."""
        boxes = self.plan.boxes
        step = _even_step(boxes) if len(boxes) >= LOOP_FROM else None
        if step is None:
            for box in boxes:
                emit(_column(self.w, self.column, str(box.offsets[1])), str(box.shared_offset))
            return
        with self.w.block(f"for (int px_i = 0; px_i < {len(boxes)}; ++px_i)"):
            shift = _sum(str(boxes[0].shared_offset), f"px_i * {step.shared_offset}")
            emit(_column(self.w, self.column, f"px_i * {step.offsets[1]}"), shift)

    def run_of(self, row: str, number: str) -> None:
        """One row as plain bulk copies of adjacent bytes; what lies outside the matrix is handled in code."""
        w, layout = self.w, self.layout
        ctype, itemsize = w.ctype(self.view.dtype), self.view.dtype.itemsize
        terms = [
            "0" if _is_box_start(self.shared, axis) else w.name(offset)
            for axis, offset in enumerate(self.shared.offsets)
        ]
        start = _sum(
            str(w.plan.buffers[self.shared.buffer].offset), layout.linear_offset_expression(terms),
            _times(number, self.plan.pitch),
        )
        w.line(f"const unsigned px_at = {start};")
        w.line(f"const int px_row = {row};")
        w.line(f"const int px_size = (unsigned)px_row < (unsigned){self.array}.shape[0] ? {self.array}.shape[1] : 0;")
        columns = self.plan.columns
        mask = SWIZZLE_MASKS[layout.swizzle]

        def emit(column: str, shift: str) -> None:
            at = _sum("px_at", shift)
            if mask:
                at = f"(({at}) ^ ((({at}) >> 3) & {mask}))"
            pointer = f"reinterpret_cast<{ctype}*>({w.smem} + {at})"
            place = f"{self.array}.data + (long long)px_row * {self.array}.stride[0] + {column}"
            self.bulk(pointer, place, column, str(columns))

        assert itemsize * columns % COPY_CHUNK == 0
        self.each_box(emit)

    @contextmanager
    def inside(self, row: str) -> Iterator[None]:
        yield

    def at_once(self, rows: list[str], column: str, address: str) -> None:
        raise NotImplementedError

    def single(self, row: str, column: str, address: str) -> None:
        raise NotImplementedError

    def bulk(self, pointer: str, place: str, column: str, count: str) -> None:
        raise NotImplementedError


class _Gather(_Rows):
    op: TmaGather4 | TmaGather

    def __init__(self, w: Writer, op: TmaGather4 | TmaGather) -> None:
        super().__init__(w, op)
        bar = w.barrier_address(op.bar)
        self.bar = leaders_barrier(w, bar) if op.pair else bar
        self.ctas = [] if op.multicast is None else [mask_text(w, op.multicast)]

    def at_once(self, rows: list[str], column: str, address: str) -> None:
        helper = self.w.use(gather4(bool(self.ctas), bool(self.policy), self.op.pair))
        operands = [address, self.map, column, *rows, self.bar, *self.ctas, *self.policy]
        self.w.line(f"{helper}({', '.join(operands)});")

    def single(self, row: str, column: str, address: str) -> None:
        helper = self.w.use(tensor_load(2, bool(self.ctas), bool(self.policy), self.op.pair))
        operands = [address, self.map, column, row, self.bar, *self.ctas, *self.policy]
        self.w.line(f"{helper}({', '.join(operands)});")

    def bulk(self, pointer: str, place: str, column: str, count: str) -> None:
        helper = self.w.use("bulk_load" + "_cache_hint" * bool(self.policy))
        operands = [pointer, place, column, "px_size", count, self.bar, *self.policy]
        self.w.line(f"{helper}({', '.join(operands)});")


class _Scatter(_Rows):
    op: TmaScatter4 | TmaScatter

    @contextmanager
    def inside(self, row: str) -> Iterator[None]:
        """A store to a negative row faults, and one beyond the matrix does nothing: both are left out."""
        with self.w.block(f"if ((unsigned){row} < (unsigned){self.array}.shape[0])"):
            yield

    def at_once(self, rows: list[str], column: str, address: str) -> None:
        helper = self.w.use(scatter4(bool(self.policy)))
        kept = [f"{row} < 0 ? {NOWHERE} : {row}" for row in rows]
        self.w.line(f"{helper}({', '.join([self.map, column, *kept, address, *self.policy])});")

    def single(self, row: str, column: str, address: str) -> None:
        helper = self.w.use(tensor_store(2, hint=bool(self.policy)))
        self.w.line(f"{helper}({', '.join([self.map, column, row, address, *self.policy])});")

    def bulk(self, pointer: str, place: str, column: str, count: str) -> None:
        helper = self.w.use("bulk_store" + "_cache_hint" * bool(self.policy))
        self.w.line(f"{helper}({', '.join([place, column, 'px_size', count, pointer, *self.policy])});")


# ---------------------------------------------------------------------- operands


def _is_box_start(shared: SharedView, axis: int) -> bool:
    """Whether an offset is part of the boxes' own places: a constant of the matrix, not of the stages before it."""
    return axis >= len(shared.extents) - 2 and isinstance(shared.offsets[axis], Const)


def _column(w: Writer, column: Value, shift: str) -> str:
    if isinstance(column, Const) or shift == "0":
        return _sum(start_text(w, column), shift)
    return f"(int)((unsigned){atom(start_text(w, column))} + {shift})"


def _sum(*terms: str) -> str:
    """A sum of texts, numbers folded."""
    number = sum(int(term) for term in terms if _is_number(term))
    parts = [term for term in terms if not _is_number(term)]
    if number or not parts:
        parts.append(str(number))
    return " + ".join(parts).replace("+ -", "- ")


def _times(text: str, factor: int) -> str:
    if _is_number(text):
        return str(int(text) * factor)
    return f"({text}) * {factor}"


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
