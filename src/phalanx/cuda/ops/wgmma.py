"""Hopper's tensor cores in PTX: one `wgmma.mma_async` per 64 rows and 32 bytes of K, and the groups around them.

Accumulators are updated in place: a product's result has the registers of the tile it adds to. Operands in shared
memory are found by descriptors whose address is computed once per instruction of the IR; steps along K and M are
constants added to it.
"""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.literals import bare
from phalanx.cuda.text.prelude import device_function, instruction
from phalanx.cuda.text.registry import emits, follows
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles import helpers as h
from phalanx.cuda.tiles.facts import facts_of
from phalanx.cuda.tiles.finished import finish, finished_before
from phalanx.cuda.tiles.wgmma_operands import first_column, is_transposed, operand_problem
from phalanx.errors import Error
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.core import Op
from phalanx.ir.engines import TENSOR_CORES
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.ops.wgmma import ROWS, STEP_BYTES, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from phalanx.ir.values import Value, constant_of
from phalanx.ir.views import SharedView
from phalanx.layouts.mma import Operand, shared_operand, wgmma_accumulator

NAMES = {
    "bf16": "bf16", "f16": "f16", "f32": "tf32", "f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "u8": "u8",
}
FENCE = instruction("wgmma.fence.sync.aligned")
COMMIT = instruction("wgmma.commit_group.sync.aligned")

DESCRIPTOR = device_function(
    "wgmma_descriptor",
    "unsigned long long",
    (("unsigned", "address"), ("unsigned long long", "fields")),
    "// bits 0-13: address / 16; 16-29 and 32-45: byte offsets / 16; 62-63: swizzle\n"
    "return fields | (address & 0x3ffff) >> 4;",
)


def wait_group(n: int) -> Helper:
    """Builds `wgmma.wait_group`: at most `n` groups are unfinished then."""
    return instruction(f"wgmma.wait_group.sync.aligned {n}", name=f"wgmma_wait_group_{n}")


@cache
def keep(ctype: str, constraint: str) -> Helper:
    """Nothing at run time: what reads these registers can't move before this point."""
    return Helper(
        f"keep_{ctype}",
        "template <int N>\n"
        f"__device__ __forceinline__ void keep_{ctype}({ctype}* x) {{\n"
        "  #pragma unroll\n"
        f'  for (int i = 0; i < N; ++i) asm volatile("" : "+{constraint}"(x[i]));\n'
        "}",
    )


@cache
def product(
    n: int, a: str, b: str, d: str, registers: bool, negate: bool, trans_a: bool, trans_b: bool
) -> Helper:
    """One instruction: 64 rows, `n` columns, 32 bytes of K. `a`, `b` and `d` are element types by name; two f16
    accumulators share a register."""
    item = {"bf16": 2, "f16": 2, "f32": 4}.get(a, 1)
    integer, packed = d == "i32", d == "f16"
    kind = "s32" if integer else d
    mnemonic = f"wgmma.mma_async.sync.aligned.m64n{n}k{STEP_BYTES // item}.{kind}.{NAMES[a]}.{NAMES[b]}"
    count = n // 4 if packed else n // 2
    operands = ", ".join(f"%{i}" for i in range(count))
    next_operand = count
    inputs = []
    if registers:
        places = ", ".join(f"%{count + i}" for i in range(4))
        left = f"{{{places}}}"
        inputs += [f'"r"(a[{i}])' for i in range(4)]
        next_operand += 4
    else:
        left = f"%{next_operand}"
        inputs.append('"l"(a)')
        next_operand += 1
    right, condition = f"%{next_operand}", f"%{next_operand + 1}"
    inputs += ['"l"(b)', '"r"((int)accumulate)']
    flags = ["p"]
    if not integer:
        flags += ["-1" if negate else "1", "1"]
    if item == 2:
        flags += ([] if registers else [str(int(trans_a))]) + [str(int(trans_b))]
    ctype, constraint = {"i32": ("int", "r"), "f16": ("px_f16", "r")}.get(d, ("float", "f"))
    outputs = ", ".join(f'"+{constraint}"({"w" if packed else "d"}[{i}])' for i in range(count))
    words = "  unsigned* const w = reinterpret_cast<unsigned*>(d);\n" if packed else ""
    left_type = "const unsigned*" if registers else "unsigned long long"
    suffix = "_registers" * registers + "_negated" * negate + "_ta" * trans_a + "_tb" * trans_b
    name = f"wgmma_m64n{n}k{STEP_BYTES // item}_{kind}_{NAMES[a]}_{NAMES[b]}{suffix}"
    text = (
        f"__device__ __forceinline__ void {name}({ctype}* d, {left_type} a, unsigned long long b, bool accumulate) {{\n"
        f"{words}"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, {condition}, 0;\\n"\n'
        f'    "{mnemonic} {{{operands}}}, {left}, {right}, {", ".join(flags)}; }}"\n'
        f"    : {outputs}\n"
        f"    : {', '.join(inputs)});\n"
        "}"
    )
    return Helper(name, text)


@follows
def hold_new_accumulator(w: Writer, op: Op) -> None:
    """A tile that a product begins with is made where it was written: no later, between products in flight."""
    if op.defines in w.accumulators and op.computes and not op.effects().accumulations:
        keep_tile(w, op.defines)


@emits(WgmmaFence)
def emit_fence(w: Writer, op: WgmmaFence) -> None:
    """Writes `wgmma.fence`, by every warp; a product right behind it that has its own, after its operands, needs no more."""
    follower = w.next_op(op)
    if not (isinstance(follower, Wgmma) and _has_own_fence(w, follower)):
        w.line(f"{w.use(FENCE)}();")


def _has_own_fence(w: Writer, op: Wgmma) -> bool:
    """Whether registers are written where the product stands: its left operand's, or those that it adds to."""
    copied = w.cells.aliases.get(op.result) is not op.acc
    return copied or isinstance(op.a, Value) or _is_made_here(w, op)


def _is_made_here(w: Writer, op: Wgmma) -> bool:
    """Whether it begins with a tile that comes neither from another product nor from a cell."""
    return not isinstance(w.definitions.get(op.acc), Wgmma | WgmmaWait | ReadVar)


@emits(WgmmaCommit)
def emit_commit(w: Writer, op: WgmmaCommit) -> None:
    """Writes `wgmma.commit_group`, by every warp."""
    w.line(f"{w.use(COMMIT)}();")


@emits(WgmmaWait)
def emit_wait(w: Writer, op: WgmmaWait) -> None:
    """Writes `wgmma.wait_group`; accumulators that are read after it can be read no earlier, and arithmetic that was written
    while products were at work is over before it."""
    finish(w, finished_before(w, op, TENSOR_CORES))
    w.line(f"{w.use(wait_group(op.n))}();")
    for acc, result in op.updates():
        continue_in_place(w, acc, result)
        if (_is_used(w, result) if op.n == 0 else _is_read(w, result)):
            keep_tile(w, result)


def keep_tile(w: Writer, tile: Value) -> None:
    """Nothing at run time: what reads the registers of a tile can't move before this point."""
    dtype, name = tile.type.dtype, w.name(tile)
    if dtype.bits == 16:
        w.line(f"{w.use(keep('unsigned', 'r'))}<{w.registers(tile) // 2}>(reinterpret_cast<unsigned*>({name}));")
        return
    helper = keep(w.ctype(dtype), "r") if dtype.is_integer else keep("float", "f")
    w.line(f"{w.use(helper)}<{w.registers(tile)}>({name});")


def _is_used(w: Writer, result: Value) -> bool:
    """Whether anything but further waits uses the tile: one whose elements have all been read is held no longer."""
    return any(
        not isinstance(op, WgmmaWait) or any(old is result and _is_used(w, new) for old, new in op.updates())
        for op in w.readers(result)
    )


def _is_read(w: Writer, result: Value) -> bool:
    """Whether something other than the tensor cores uses the tile as it is after a wait."""
    for op in w.readers(result):
        if isinstance(op, Assign | WgmmaWait):
            continue
        if not (isinstance(op, Wgmma) and op.acc is result):
            return True
    return False


def continue_in_place(w: Writer, old: Value, new: Value) -> bool:
    """Makes `new` the next version of `old`; True if that took a copy."""
    if w.cells.aliases.get(new) is old:
        return False
    name = w.declare_tile(new)
    w.line("#pragma unroll")
    w.line(f"for (int px_r = 0; px_r < {w.registers(new)}; ++px_r) {name}[px_r] = {w.name(old)}[px_r];")
    return True


@emits(Wgmma)
def emit_wgmma(w: Writer, op: Wgmma) -> None:
    """Writes `wgmma.mma_async` for each block of 64 rows and each step along K, on descriptors of shared memory."""
    m, n, k = op.shape
    assert w.plan.layouts[op.result] == wgmma_accumulator(m, n, op.warps, op.along)
    copied = continue_in_place(w, op.acc, op.result)
    groups = op.warps // WARPGROUP
    by_rows, by_columns = (groups, 1) if op.along == "m" else (1, groups)
    width = n // by_columns
    tiles, steps = m // (ROWS * by_rows), k * op.b.dtype.itemsize // STEP_BYTES
    acc = w.name(op.result)
    right = _operand(w, op, op.b, 0)
    with w.block():
        if not isinstance(op.a, Value):
            left = _operand(w, op, op.a, 1)
            w.line(f"const unsigned long long px_a = {_descriptor(w, op.a, left, ROWS if by_rows > 1 else 0)};")
        else:
            left = None
            _pack_registers(w, op.a)
        w.line(f"const unsigned long long px_b = {_descriptor(w, op.b, right, width if by_columns > 1 else 0)};")
        if copied or _is_made_here(w, op):
            keep_tile(w, op.result)  # else the compiler may put off what makes it until after the first instruction
        if _has_own_fence(w, op):
            w.line(f"{w.use(FENCE)}();")
        helper = w.use(
            product(
                width, op.a_dtype.name, op.b.dtype.name, op.result.type.dtype.name, left is None, op.negate,
                left is not None and left.transposed, right.transposed,
            )
        )
        a_column = 0 if isinstance(op.a, Value) else first_column(op.a)
        b_column = first_column(op.b)
        for step in range(steps):
            for tile in range(tiles):
                d = f"{acc} + {tile * width // 2}" if tile else acc
                if left is None:
                    at = 4 * (tile * steps + step)
                    a = f"px_a + {at}" if at else "px_a"
                else:
                    row = left.row_offset(ROWS * by_rows * tile, a_column)
                    a = _plus("px_a", row + left.step_offset(step, a_column))
                b = _plus("px_b", right.step_offset(step, b_column))
                w.line(f"{helper}({d}, {a}, {b}, {_accumulate(w, op) if step == 0 else 'true'});")


def _accumulate(w: Writer, op: Wgmma) -> str:
    constant = constant_of(op.accumulate)
    return bare(w.name(op.accumulate)) if constant is None else str(bool(constant)).lower()


def _plus(descriptor: str, offset: int) -> str:
    return f"{descriptor} + {offset >> 4}" if offset else descriptor


def _operand(w: Writer, op: Wgmma, view: SharedView, k_axis: int) -> Operand:
    layout = w.plan.buffers[view.buffer].layout
    problem = operand_problem(view, k_axis, layout, facts_of(w))
    if problem is not None:
        raise Error(problem.what, location=op.loc, kind=problem.kind, remedy=problem.remedy)
    return shared_operand(layout, is_transposed(view, k_axis))


def _pack_registers(w: Writer, tile: Value) -> None:
    item = tile.type.dtype.itemsize
    count = w.registers(tile) * item // 4
    w.line(f"unsigned px_a[{count}];")
    w.line(f"{w.use(h.PACK_WORDS)}<{w.registers(tile)}>(px_a, {w.name(tile)});")


def _descriptor(w: Writer, view: SharedView, operand: Operand, share: int) -> str:
    """The descriptor of a view's first rows and first step along K, as text; if the warpgroups share its rows (of M or
    N), `share` of them each, that of the warpgroup's own."""
    layout = operand.layout
    extra = layout.linear_offset_expression([w.name(offset) for offset in view.offsets])
    terms = [w.address(view.buffer)] + ([extra] if extra != "0" else [])
    if share:
        terms.append(_share_offset(f"{w.warp} / {WARPGROUP}", operand, share))
    return f"{w.use(DESCRIPTOR)}({' + '.join(terms)}, {operand.high_word:#x}ull)"


def _share_offset(group: str, operand: Operand, share: int) -> str:
    """Bytes to the rows of warpgroup `group`; several of them may have parts of one panel."""
    panel = operand.layout.panel_columns
    if not operand.transposed or share >= panel:
        return f"{group} * {operand.row_offset(share)}"
    per_panel = panel // share
    return f"{group} / {per_panel} * {operand.row_offset(panel)} + {group} % {per_panel} * {operand.row_offset(share)}"
