"""Blackwell's tensor cores in PTX: allocation, products through descriptors, commits, copies, loads and stores.

One thread gives the tensor cores their work; words that describe operands are made once per instruction of the IR, and
steps along K, M and N are constants added to them. Loads and stores move whole tiles: each warp the lanes that it reaches.
"""

from __future__ import annotations

from functools import cache

from phalanx.cuda.ops.wgmma import continue_in_place, keep, keep_tile
from phalanx.cuda.text.by_rank import mask_text
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.literals import bare
from phalanx.cuda.text.prelude import function_name, instruction
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.facts import facts_of
from phalanx.cuda.tiles.tcgen05_operands import read_operand
from phalanx.cuda.tiles.tensor_views import ADDRESS, accesses_of, address_of
from phalanx.cuda.tiles.wgmma_operands import Problem, first_column, start_problem
from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.ops import tcgen05 as ir
from phalanx.ir.tensor_kinds import Kind
from phalanx.ir.values import Value, constant_of
from phalanx.ir.views import SharedView, in_shared
from phalanx.layouts.mma import SharedOperand
from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tcgen05 import descriptor_of, split_product, tcgen05_operand
from phalanx.layouts.tcgen05_words import InstructionDescriptor
from phalanx.layouts.tensor_access import TensorAccess
from phalanx.layouts.tensor_copy import plan_copy
from phalanx.layouts.tensor_parts import part_of

WAIT_LOADS = instruction("tcgen05.wait::ld.sync.aligned")
WAIT_STORES = instruction("tcgen05.wait::st.sync.aligned")
FENCE_BEFORE = instruction("tcgen05.fence::before_thread_sync")
FENCE_AFTER = instruction("tcgen05.fence::after_thread_sync")


def _group(pair: bool) -> str:
    return f"cta_group::{2 if pair else 1}"


# --- the life of tensor memory ----------------------------------------------------------------------------------------


@emits(ir.TmemAlloc)
def emit_alloc(w: Writer, op: ir.TmemAlloc) -> None:
    """Writes `tcgen05.alloc` and gives up the right to allocate more, by the first warp."""
    group = _group(op.pair)
    alloc = instruction(
        f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32", f"[{{address}}], {op.columns}", (("unsigned", "address"),),
        name=function_name(f"tcgen05.alloc.{group}.{op.columns}"),
    )
    with w.block(f"if ({w.warp_id} == 0)"):
        for buffer in op.buffers:
            w.comment(f"{buffer.name}: {buffer.size_text}")
        w.line(f"{w.use(alloc)}({w.address(op.address.buffer)});")
        w.line(f"{w.use(instruction(f'tcgen05.relinquish_alloc_permit.{group}.sync.aligned'))}();")


@emits(ir.TmemTake)
def emit_take(w: Writer, op: ir.TmemTake) -> None:
    """Reads the address of the tensor memory, in every thread."""
    w.line(f"const unsigned {ADDRESS} = *(volatile unsigned*){w.pointer(op.address.buffer)};")


@emits(ir.TmemFree)
def emit_free(w: Writer, op: ir.TmemFree) -> None:
    """Writes `tcgen05.dealloc`, by the warp that allocated."""
    group = _group(op.pair)
    dealloc = instruction(
        f"tcgen05.dealloc.{group}.sync.aligned.b32", f"{{address}}, {op.columns}", (("unsigned", "address"),),
        name=function_name(f"tcgen05.dealloc.{group}.{op.columns}"),
    )
    with w.block(f"if ({w.warp_id} == 0)"):
        w.line(f"{w.use(dealloc)}({ADDRESS});")


# --- products ---------------------------------------------------------------------------------------------------------


@cache
def product(kind: str, pair: bool, from_tensor: bool, block: int) -> Helper:
    """One `tcgen05.mma`; `block` is the number of elements that share a scale, 0 without scales."""
    scaled = f".block_scale.block{block}" if block else ""
    mnemonic = f"tcgen05.mma.{_group(pair)}.kind::{kind}{scaled}"
    left_type, left = ("unsigned", "[%1]") if from_tensor else ("unsigned long long", "%1")
    parameters = [("unsigned", "d"), (left_type, "a"), ("unsigned long long", "b"), ("unsigned", "word")]
    inputs = ['"r"(d)', f'"{"r" if from_tensor else "l"}"(a)', '"l"(b)', '"r"(word)']
    scales = ""
    if block:
        parameters += [("unsigned", "scale_a"), ("unsigned", "scale_b")]
        inputs += ['"r"(scale_a)', '"r"(scale_b)']
        scales = "[%4], [%5], "
    inputs.append('"r"((unsigned)accumulate)')
    name = function_name(f"tcgen05.mma.{_group(pair)}.{kind}") + f"_block{block}" * bool(block) + "_tmem" * from_tensor
    signature = ", ".join(f"{ctype} {parameter}" for ctype, parameter in (*parameters, ("bool", "accumulate")))
    text = (
        f"__device__ __forceinline__ void {name}(\n    {signature}) {{\n"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{len(inputs) - 1}, 0;\\n"\n'
        f'    "{mnemonic} [%0], {left}, %2, %3, {scales}p; }}"\n'
        f'    :: {", ".join(inputs)} : "memory");\n'
        "}"
    )
    return Helper(name, text)


@emits(ir.Tcgen05Mma)
def emit_mma(w: Writer, op: ir.Tcgen05Mma) -> None:
    """Writes `tcgen05.mma` for each block of rows and columns and each step along K, by the elected thread."""
    kind = op.kind
    right = _operand(w, op, op.b, 0, kind)
    left = _operand(w, op, op.a, 1, kind) if in_shared(op.a) else part_of(op.a)  # type: ignore[arg-type]
    scales = [None if view is None else part_of(view) for view in (op.scale_a, op.scale_b)]
    word = InstructionDescriptor(
        kind.name, op.types[0].name, op.types[1].name, op.acc.dtype.name, 0, 0,
        a_transposed=isinstance(left, SharedOperand) and left.transposed, b_transposed=right.transposed, negate_a=op.negate,
        scale=None if op.scale_a is None else op.scale_a.dtype.name,
    )
    try:
        steps = split_product(
            kind, op.shape, left, right, part_of(op.acc), word, two_cta=op.pair, scale_a=scales[0], scale_b=scales[1],
            block=op.block, a_column=first_column(op.a) if in_shared(op.a) else 0, b_column=first_column(op.b),
        )
    except ValueError as problem:
        raise ir.no_such_product(op, str(problem)) from None
    helper = w.use(product(kind.name, op.pair, not isinstance(left, SharedOperand), op.block))
    with w.elected(), w.block():
        if isinstance(left, SharedOperand):
            assert in_shared(op.a)
            w.line(f"const unsigned long long px_a = {_descriptor(w, op.a, left)};")
        else:
            w.line(f"const unsigned px_a = {address_of(w, op.a)};")  # type: ignore[arg-type]
        w.line(f"const unsigned long long px_b = {_descriptor(w, op.b, right)};")
        w.line(f"const unsigned px_d = {address_of(w, op.acc)};")
        for name, view in (("px_sa", op.scale_a), ("px_sb", op.scale_b)):
            if view is not None:
                w.line(f"const unsigned {name} = {address_of(w, view)};")
        for step in steps:
            factors = [_plus("px_sa", step.scale_a), _plus("px_sb", step.scale_b)] if op.block else []
            use = _accumulate(w, op) if step.first else "true"
            given = [_plus("px_d", step.d), _plus("px_a", step.a), _plus("px_b", step.b), f"{step.word:#x}u"]
            w.line(f"{helper}({', '.join([*given, *factors, use])});")


def _accumulate(w: Writer, op: ir.Tcgen05Mma) -> str:
    constant = constant_of(op.accumulate)
    return bare(w.name(op.accumulate)) if constant is None else str(bool(constant)).lower()


def _plus(name: str, number: int) -> str:
    return f"{name} + {number}" if number else name


def _operand(w: Writer, op: Op, view: SharedView, k_axis: int, kind: Kind) -> SharedOperand:
    """An operand in shared memory; `px.Error` at the instruction if the tensor cores can't read it there."""
    found = read_operand(view, k_axis, kind, w.plan.buffers[view.buffer].layout, facts_of(w))
    if isinstance(found, Problem):
        raise Error(found.what, location=op.loc, kind=found.kind, remedy=found.remedy)
    return found


def _descriptor(w: Writer, view: SharedView, operand: SharedOperand) -> str:
    """The descriptor of a view's first rows and first step along K, as text."""
    extra = operand.layout.linear_offset_expression([w.name(offset) for offset in view.offsets])
    address = " + ".join([w.address(view.buffer), *([extra] if extra != "0" else [])])
    return f"{w.use('tcgen05_descriptor')}({address}, {descriptor_of(operand).fields:#x}ull)"


@emits(ir.Tcgen05Commit)
def emit_commit(w: Writer, op: ir.Tcgen05Commit) -> None:
    """Writes `tcgen05.commit`, by the thread that gave the work."""
    several = op.multicast is not None
    mnemonic = f"tcgen05.commit.{_group(op.pair)}.mbarrier::arrive::one.shared::cluster"
    parameters: tuple[tuple[str, str], ...] = (("unsigned", "bar"),)
    if several:
        parameters += (("unsigned short", "ctas"),)
    helper = instruction(
        mnemonic + ".multicast::cluster" * several + ".b64", "[{bar}]" + ", {ctas}" * several, parameters,
        name=function_name(f"tcgen05.commit.{_group(op.pair)}") + "_multicast" * several,
    )
    given = [w.barrier_address(op.bar)]
    if op.multicast is not None:
        given.append(mask_text(w, op.multicast))
    with w.elected():
        w.line(f"{w.use(helper)}({', '.join(given)});")


@emits(ir.Tcgen05Copy)
def emit_copy(w: Writer, op: ir.Tcgen05Copy) -> None:
    """Writes `tcgen05.cp` for each block that one copy moves, by the elected thread."""
    layout = w.plan.buffers[op.src.buffer].layout
    lead = len(op.src.buffer.shape) - len(op.src.shape)
    narrow = op.src.element.bits if op.src.buffer.padded else None
    part = None
    if len(op.src.shape) == 2:
        _copied_operand(w, op, layout)
        part = (op.src.extents[-2], first_column(op.src), op.src.extents[-1])
    try:
        plan = plan_copy(layout.sub_layout(lead), part_of(op.dst), narrow, part)
    except ValueError as problem:
        raise ir.no_such_copy(op, str(problem)) from None
    extra = layout.linear_offset_expression([w.name(offset) for offset in op.src.offsets])
    address = " + ".join([w.address(op.src.buffer), *([extra] if extra != "0" else [])])
    with w.elected(), w.block():
        fields = plan.descriptor.fields
        w.line(f"const unsigned long long px_s = {w.use('tcgen05_descriptor')}({address}, {fields:#x}ull);")
        w.line(f"const unsigned px_d = {address_of(w, op.dst)};")
        for step in plan.steps:
            widen = "" if plan.expansion is None else f".{plan.expansion.name}"
            helper = instruction(
                f"tcgen05.cp.{_group(op.pair)}.{step.shape.name}{widen}", "[{d}], {s}",
                (("unsigned", "d"), ("unsigned long long", "s")),
            )
            w.line(f"{w.use(helper)}({_plus('px_d', step.target)}, {_plus('px_s', step.source // 16)});")


def _copied_operand(w: Writer, op: ir.Tcgen05Copy, layout: SharedLayout) -> None:
    """Refuses a matrix that begins where the tensor cores can't read it."""
    try:
        operand = tcgen05_operand(layout, transposed=False)
    except ValueError as problem:
        raise ir.no_such_copy(op, str(problem)) from None
    found = start_problem("tcgen05", op.src, operand, facts_of(w))
    if found is not None:
        raise Error(found.what, location=op.loc, kind=found.kind, remedy=found.remedy)


# --- registers --------------------------------------------------------------------------------------------------------


@cache
def move(shape: str, count: int, registers: int, packed: bool, ctype: str, loads: bool) -> Helper:
    """One `tcgen05.ld` or `tcgen05.st` of so many registers."""
    verb, suffix = ("ld", ".pack::16b" * packed) if loads else ("st", ".unpack::16b" * packed)
    mnemonic = f"tcgen05.{verb}.sync.aligned.{shape}.x{count}{suffix}.b32"
    constraint = "f" if ctype == "float" else "r"
    mark = "=" if loads else ""
    first = 0 if loads else 1
    places = ", ".join(f"%{first + n}" for n in range(registers))
    values = ", ".join(f'"{mark}{constraint}"(x[{n}])' for n in range(registers))
    name = function_name(f"tcgen05.{verb}.{shape}.x{count}{suffix}") + f"_{ctype}"
    if loads:
        body = f'asm volatile("{mnemonic} {{{places}}}, [%{registers}];"\n    : {values}\n    : "r"(address));'
        head = f"void {name}({ctype}* x, unsigned address)"
    else:
        body = f'asm volatile("{mnemonic} [%0], {{{places}}};"\n    :: "r"(address), {values} : "memory");'
        head = f"void {name}(unsigned address, const {ctype}* x)"
    return Helper(name, f"__device__ __forceinline__ {head} {{\n  {body}\n}}")


def _way(w: Writer, op: ir.Tcgen05Load | ir.Tcgen05Store, tile: Value) -> TensorAccess:
    """The way that gives the tile the layout which was chosen for it."""
    view = op.src if isinstance(op, ir.Tcgen05Load) else op.dst
    layout = w.plan.layouts[tile]
    return next(way for way in accesses_of(view, op) if way.layout == layout)


@emits(ir.Tcgen05Load)
def emit_load(w: Writer, op: ir.Tcgen05Load) -> None:
    """Writes `tcgen05.ld` for each run of columns; narrow elements are waited for at once, since they are unpacked."""
    way = _way(w, op, op.result)
    dtype = op.result.type.dtype
    name = w.declare_tile(op.result)
    w.comment(f"{way.shape.name}{', packed' * way.packed}: {len(way.steps)} of each warp")
    with w.block():
        w.line(f"const unsigned px_at = {_warp_address(w, op.src, way)};")
        if dtype.bits == 32:
            ctype = w.ctype(dtype)
            for step in way.steps:
                helper = w.use(move(way.shape.name, step.count, step.registers, way.packed, ctype, True))
                w.line(f"{helper}({_plus(name, step.slot)}, {_plus('px_at', step.offset)});")
            return
        words = sum(step.registers for step in way.steps)
        w.line(f"unsigned px_w[{words}];")
        for step in way.steps:
            helper = w.use(move(way.shape.name, step.count, step.registers, way.packed, "unsigned", True))
            w.line(f"{helper}({_plus('px_w', step.slot // way.elements)}, {_plus('px_at', step.offset)});")
        w.line(f"{w.use(WAIT_LOADS)}();")
        w.line(f"{w.use(keep('unsigned', 'r'))}<{words}>(px_w);")
        if way.elements == 1:
            w.line("#pragma unroll")
            w.line(f"for (int px_r = 0; px_r < {words}; ++px_r) {name}[px_r] = ({w.ctype(dtype)})px_w[px_r];")
        else:
            w.line(f"{w.use('unpack_words')}<{words * way.elements}>({name}, px_w);")


@emits(ir.Tcgen05Store)
def emit_store(w: Writer, op: ir.Tcgen05Store) -> None:
    """Writes `tcgen05.st` for each run of columns."""
    way = _way(w, op, op.tile)
    dtype = op.tile.type.dtype
    name = w.name(op.tile)
    w.comment(f"{way.shape.name}{', unpacked' * way.packed}: {len(way.steps)} of each warp")
    with w.block():
        w.line(f"const unsigned px_at = {_warp_address(w, op.dst, way)};")
        if dtype.bits == 32:
            source, ctype, per = name, w.ctype(dtype), 1
        else:
            words = sum(step.registers for step in way.steps)
            w.line(f"unsigned px_w[{words}];")
            if way.elements == 1:
                w.line("#pragma unroll")
                w.line(f"for (int px_r = 0; px_r < {words}; ++px_r) px_w[px_r] = {name}[px_r];")
            else:
                w.line(f"{w.use('pack_words')}<{words * way.elements}>(px_w, {name});")
            source, ctype, per = "px_w", "unsigned", way.elements
        for step in way.steps:
            helper = w.use(move(way.shape.name, step.count, step.registers, way.packed, ctype, False))
            w.line(f"{helper}({_plus('px_at', step.offset)}, {_plus(source, step.slot // per)});")


def _warp_address(w: Writer, view: object, way: TensorAccess) -> str:
    shift = way.warp_expression(w.warp)
    address = address_of(w, view)  # type: ignore[arg-type]
    return address if shift == "0" else f"{address} + {shift}"


@emits(ir.Tcgen05WaitLoads)
def emit_wait_loads(w: Writer, op: ir.Tcgen05WaitLoads) -> None:
    """Writes `tcgen05.wait::ld`; tiles that are read after it can be read no earlier."""
    w.line(f"{w.use(WAIT_LOADS)}();")
    for tile, result in op.updates():
        continue_in_place(w, tile, result)
        if tile.type.dtype.bits > 8:  # bytes were taken out of their words behind a wait of their own
            keep_tile(w, result)


@emits(ir.Tcgen05WaitStores)
def emit_wait_stores(w: Writer, op: ir.Tcgen05WaitStores) -> None:
    """Writes `tcgen05.wait::st`."""
    w.line(f"{w.use(WAIT_STORES)}();")


@emits(ir.Tcgen05FenceBefore)
def emit_fence_before(w: Writer, op: ir.Tcgen05FenceBefore) -> None:
    """Writes `tcgen05.fence::before_thread_sync`, by every thread."""
    w.line(f"{w.use(FENCE_BEFORE)}();")


@emits(ir.Tcgen05FenceAfter)
def emit_fence_after(w: Writer, op: ir.Tcgen05FenceAfter) -> None:
    """Writes `tcgen05.fence::after_thread_sync`, by every thread."""
    w.line(f"{w.use(FENCE_AFTER)}();")

