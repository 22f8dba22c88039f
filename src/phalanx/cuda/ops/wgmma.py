"""Hopper's tensor cores in PTX: one `wgmma.mma_async` per 64 rows and 32 bytes of K, and the groups around them.

Accumulators are updated in place: a product's result has the registers of the tile it adds to. Operands in shared
memory are found by descriptors whose address is computed once per instruction of the IR; steps along K and M are
constants added to it. Where a loop multiplies by the same run-time place in every turn (the queries of an attention), its
descriptors are made before the loop, and kept in uniform registers: the compiler would add up each of them in every turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from phalanx.cuda.text.cautions import mark, products_of
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.literals import bare
from phalanx.cuda.text.prelude import instruction
from phalanx.cuda.text.registry import emits, follows, precedes
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.facts import facts_of
from phalanx.cuda.tiles.finished import finish, finished_before
from phalanx.cuda.tiles.index import slot_line
from phalanx.cuda.tiles.wgmma_operands import first_column, is_transposed, operand_problem
from phalanx.errors import Error
from phalanx.ir.archs import WARPGROUP
from phalanx.ir.core import Op
from phalanx.ir.engines import TENSOR_CORES
from phalanx.ir.ops.control import Assign, For, ReadVar, While
from phalanx.ir.ops.wgmma import ROWS, STEP_BYTES, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from phalanx.ir.types import TileType
from phalanx.ir.values import Value, constant_of
from phalanx.ir.views import SharedView
from phalanx.layouts.mma import SharedOperand, shared_operand, wgmma_accumulator

NAMES = {
    "bf16": "bf16", "f16": "f16", "f32": "tf32", "f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "u8": "u8",
}
FENCE = instruction("wgmma.fence.sync.aligned")
COMMIT = instruction("wgmma.commit_group.sync.aligned")

MOST_HELD = 8
"""Descriptors that are held over a loop, two uniform registers each; of these there are 63."""


@cache
def closed_after(ctype: str, constraint: str) -> Helper:
    """The number `never`, known no earlier than what is in an accumulator: so not before the wait for its products."""
    return Helper(
        f"closed_after_{ctype}",
        f"__device__ __forceinline__ unsigned closed_after_{ctype}({ctype} x, unsigned never) {{\n"
        "  unsigned closed;\n"
        '  asm volatile("{ .reg .b32 bits; mov.b32 bits, %1; and.b32 %0, bits, %2; }"\n'
        f'    : "=r"(closed) : "{constraint}"(x), "r"(never));\n'
        "  return closed;\n"
        "}",
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
    n: int, a: str, b: str, d: str, registers: bool, negate: bool, trans_a: bool, trans_b: bool,
    steps: int = 1, listed_a: bool = False, listed_b: bool = False, fenced: bool = False,
) -> Helper:
    """One instruction: 64 rows, `n` columns, 32 bytes of K. `a`, `b` and `d` are element types by name; two f16
    accumulators share a register.

    With `steps` as many instructions in one statement, all but the first of which add to what is there: NVVM takes 15 to
    20 ms for a statement with 50 to 100 registers, however many instructions are in it. Such a statement adds up its
    descriptors itself, from the first and the distances to the others, which are arguments of the template; or it reads them
    from a list (`listed_a`, `listed_b`). Each has a register of its own: so ptxas makes of them what it makes of statements
    of one instruction each. `fenced`: it begins with a `wgmma.fence`, so that what the compiler copies for the statement
    comes before that.
    """
    item = {"bf16": 2, "f16": 2, "f32": 4}.get(a, 1)
    integer, packed = d == "i32", d == "f16"
    kind = "s32" if integer else d
    mnemonic = f"wgmma.mma_async.sync.aligned.m64n{n}k{STEP_BYTES // item}.{kind}.{NAMES[a]}.{NAMES[b]}"
    count = n // 4 if packed else n // 2
    operands = ", ".join(f"%{i}" for i in range(count))
    flags = []
    if not integer:
        flags += ["-1" if negate else "1", "1"]
    if item == 2:
        flags += ([] if registers else [str(int(trans_a))]) + [str(int(trans_b))]
    inputs: list[str] = []

    def operand(constraint: str, text: str) -> str:
        inputs.append(f'"{constraint}"({text})')
        return f"%{count + len(inputs) - 1}"

    distances: list[str] = []  # arguments of the template
    declared = [".reg .pred p;"] if steps == 1 else [".reg .pred p, more;"]
    added: list[str] = [""] * steps  # what comes before each instruction

    def descriptors(name: str, listed: bool) -> list[str]:
        if listed:
            return [operand("l", f"{name}[{step}]") for step in range(steps)]
        first = operand("l", name)
        if steps > 1:
            declared.append(f".reg .b64 {name}<{steps}>;")
        for step in range(1, steps):
            distances.append(f"{name}{step}")
            added[step] += f"add.s64 {name}{step}, {first}, {operand('n', f'{name}{step}')}; "
        return [first, *(f"{name}{step}" for step in range(1, steps))]

    if registers:
        left = [f"{{{', '.join(operand('r', f'a[{4 * step + i}]') for i in range(4))}}}" for step in range(steps)]
    else:
        left = descriptors("a", listed_a)
    right = descriptors("b", listed_b)
    begin = f"{{ {' '.join(declared)} setp.ne.b32 p, {operand('r', '(int)accumulate')}, 0;"
    begin += " setp.eq.b32 more, 0, 0;" * (steps > 1) + " wgmma.fence.sync.aligned;" * fenced
    instructions = [
        f"{added[step]}{mnemonic} {{{operands}}}, {left[step]}, {right[step]}, "
        f"{', '.join(['more' if step else 'p', *flags])};"
        for step in range(steps)
    ]
    ctype, constraint = {"i32": ("int", "r"), "f16": ("px_f16", "r")}.get(d, ("float", "f"))
    outputs = ", ".join(f'"+{constraint}"({"w" if packed else "d"}[{i}])' for i in range(count))
    words = "  unsigned* const w = reinterpret_cast<unsigned*>(d);\n" if packed else ""
    names = ("registers", registers), ("negated", negate), ("ta", trans_a), ("tb", trans_b), (f"x{steps}", steps > 1)
    last = ("listed_a", listed_a), ("listed_b", listed_b), ("fenced", fenced)
    suffix = "".join(f"_{name}" for name, given in (*names, *last) if given)
    name = f"wgmma_m64n{n}k{STEP_BYTES // item}_{kind}_{NAMES[a]}_{NAMES[b]}{suffix}"
    statement = "\\n\"\n    \"".join([begin, *instructions])
    given = [
        "const unsigned* a" if registers else f"{'const unsigned long long*' if listed_a else 'unsigned long long'} a",
        f"{'const unsigned long long*' if listed_b else 'unsigned long long'} b",
    ]
    text = (
        (f"template <{', '.join(f'int {distance}' for distance in distances)}>\n" if distances else "")
        + f"__device__ __forceinline__ void {name}({ctype}* d, {', '.join(given)}, bool accumulate) {{\n"
        f"{words}"
        f'  asm volatile("{statement} }}"\n'
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
    if w.plan.careful and isinstance(op, Assign) and w.cells.source(op.value) is not w.cells.source(op.var):
        if w.cells.source(op.var) in {w.cells.source(acc) for acc in w.accumulators}:
            keep_tile(w, op.var)  # else each way from here on may have registers of its own for it


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
    slot_line(w, w.registers(new), f"{name}[px_r] = {w.name(old)}[px_r];", "px_r")
    return True


@emits(Wgmma)
def emit_wgmma(w: Writer, op: Wgmma) -> None:
    """Writes `wgmma.mma_async` for each block of 64 rows and each step along K, on descriptors of shared memory."""
    m, n, _ = op.shape
    assert w.plan.layouts[op.result] == wgmma_accumulator(m, n, op.warps, op.along)
    copied = continue_in_place(w, op.acc, op.result)
    width = _width(op)
    acc = w.name(op.result)
    right, left = _right(w, op), _left(w, op)
    with w.block():
        a_at, px_a = None if left is None else _places(w, left, "px_a"), ""
        if a_at is None:
            px_a = _pack_registers(w, op)
        b_at = _places(w, right, "px_b")
        if copied or _is_made_here(w, op):
            keep_tile(w, op.result)  # else the compiler may put off what makes it until after the first instruction
        tiles, steps = _tiles(op), _steps(op)
        at_once = steps if tiles == 1 else 1  # blocks of rows take turns with each step
        lists = at_once > 1
        fenced = left is None and steps == at_once  # what is copied for a statement of its own comes before the fence, too
        if _has_own_fence(w, op) and not fenced:
            w.line(f"{w.use(FENCE)}();")
        if w.plan.careful:
            w.line(mark(products_of(w.plan.function).index(op)))
        helper = w.use(
            product(
                width, op.a_dtype.name, op.b.dtype.name, op.result.type.dtype.name, left is None, op.negate,
                left is not None and left.operand.transposed, right.operand.transposed, at_once,
                lists and a_at is not None and a_at.listed, lists and b_at.listed, fenced or w.plan.careful,
            )
        )
        if lists:
            distances = [*(a_at.distances if a_at is not None else ()), *b_at.distances]
            given = f"<{', '.join(map(str, distances))}>" if distances else ""
            w.line(f"{helper}{given}({acc}, {a_at.all if a_at else px_a}, {b_at.all}, {_accumulate(w, op)});")
            return
        for step in range(steps):
            for tile in range(tiles):
                d = f"{acc} + {tile * width // 2}" if tile else acc
                at = 4 * (tile * steps + step)
                a = a_at.at(step * tiles + tile) if a_at is not None else f"{px_a} + {at}" if at else px_a
                w.line(f"{helper}({d}, {a}, {b_at.at(step)}, {_accumulate(w, op) if step == 0 else 'true'});")


def _accumulate(w: Writer, op: Wgmma) -> str:
    constant = constant_of(op.accumulate)
    return bare(w.name(op.accumulate)) if constant is None else str(bool(constant)).lower()


def _groups_along(op: Wgmma, axis: str) -> int:
    """The warpgroups that share the rows ("m") or the columns ("n") of a product."""
    return op.warps // WARPGROUP if op.along == axis else 1


def _width(op: Wgmma) -> int:
    """The columns of one instruction."""
    return op.shape[1] // _groups_along(op, "n")


def _tiles(op: Wgmma) -> int:
    """The blocks of 64 rows that a warpgroup multiplies."""
    return op.shape[0] // (ROWS * _groups_along(op, "m"))


def _steps(op: Wgmma) -> int:
    """The steps along K."""
    return op.shape[2] * op.b.dtype.itemsize // STEP_BYTES


# --- operands in shared memory ----------------------------------------------------------------------------------------


class Shared(NamedTuple):
    """An operand in shared memory: what begins where, and the bytes from there to what each instruction reads.

    `share`: the rows of M or N that each warpgroup has of it, 0 where all read the same.
    """

    view: SharedView
    operand: SharedOperand
    share: int
    offsets: tuple[int, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for operands whose descriptors are the same."""
        starts = [offset if (number := constant_of(offset)) is None else number for offset in self.view.offsets]
        return (self.view.buffer, *starts, self.operand.transposed, self.share, self.offsets)


def _left(w: Writer, op: Wgmma) -> Shared | None:
    """The left operand: by steps, and in each by blocks of rows; None where it is a register tile."""
    view = op.a_view
    if view is None:
        return None
    operand, column, groups = _operand(w, op, view, 1), first_column(view), _groups_along(op, "m")
    offsets = tuple(
        operand.row_offset(ROWS * groups * tile, column) + operand.step_offset(step, column)
        for step in range(_steps(op)) for tile in range(_tiles(op))
    )
    return Shared(view, operand, ROWS if groups > 1 else 0, offsets)


def _right(w: Writer, op: Wgmma) -> Shared:
    """The right operand, by steps."""
    operand, column = _operand(w, op, op.b, 0), first_column(op.b)
    offsets = tuple(operand.step_offset(step, column) for step in range(_steps(op)))
    return Shared(op.b, operand, _width(op) if _groups_along(op, "n") > 1 else 0, offsets)


_HELD: WeakKeyDictionary[Writer, dict[Op, dict[tuple[object, ...], str]]] = WeakKeyDictionary()
"""The arrays of descriptors that are held over each of the loops being written."""


def _held(w: Writer, shared: Shared) -> str | None:
    """The array that holds the descriptors of an operand, where one does."""
    return next((held[shared.key] for held in _HELD.get(w, {}).values() if shared.key in held), None)


class OperandDescriptors(NamedTuple):
    """The descriptors of an operand, as text: `name` is a list of them, or what `offsets` are added to."""

    name: str
    listed: bool
    offsets: tuple[int, ...]

    def at(self, number: int) -> str:
        """One of them."""
        return f"{self.name}[{number}]" if self.listed else _plus(self.name, self.offsets[number])

    @property
    def all(self) -> str:
        """What a statement with all steps gets: the list, or the first one."""
        return self.name if self.listed else self.at(0)

    @property
    def distances(self) -> tuple[int, ...]:
        """From the first descriptor to each of the others, as such a statement adds them; none to those of a list."""
        return () if self.listed else tuple((offset - self.offsets[0]) >> 4 for offset in self.offsets[1:])


def _places(w: Writer, shared: Shared, name: str) -> OperandDescriptors:
    """The descriptors of an operand: those that are held, or steps from one that is made here."""
    held = _held(w, shared)
    if held is not None:
        return OperandDescriptors(held, True, shared.offsets)
    w.line(f"const unsigned long long {name} = {_descriptor(w, shared)};")
    return OperandDescriptors(name, False, shared.offsets)


@precedes
def hold_operands(w: Writer, op: Op) -> None:
    """Before a loop: the descriptors of what its products read at the same run-time place in every turn."""
    if not isinstance(op, For | While):
        return
    held = _HELD.setdefault(w, {}).setdefault(op, {})
    changing = {value for block in op.blocks() for inner in block.walk() for value in inner.defined_values()}
    changing.update(op.defined_values())
    room = MOST_HELD
    for product in _own_products(op):
        for shared in (_right(w, product), _left(w, product)):
            if shared is None:
                continue
            starts = [offset for offset in shared.view.offsets if constant_of(offset) is None]
            size = len(shared.offsets)
            if not starts or size > room or any(start in changing for start in starts) or _held(w, shared) is not None:
                continue
            room -= size
            first, name = (w.unique(f"{shared.view.buffer.name}_{what}") for what in ("first", "steps"))
            w.line(f"const unsigned long long {first} = {_descriptor(w, shared)};  // the same in every turn")
            steps = ", ".join(_plus(first, offset) for offset in shared.offsets)
            w.line(f"unsigned long long {name}[{size}] = {{{steps}}};")
            w.line(f"{w.use('hold_descriptors')}<{size}>({name});")
            held[shared.key] = name


@follows
def let_operands_go(w: Writer, op: Op) -> None:
    """Behind a loop nobody needs its descriptors."""
    _HELD.get(w, {}).pop(op, None)


def _own_products(loop: Op) -> Iterator[Wgmma]:
    """The products of a loop that are in no loop inside it."""
    for block in loop.blocks():
        for op in block.ops:
            if isinstance(op, Wgmma):
                yield op
            elif not isinstance(op, For | While):
                yield from _own_products(op)


def _plus(descriptor: str, offset: int) -> str:
    return f"{descriptor} + {offset >> 4}" if offset else descriptor


def _operand(w: Writer, op: Wgmma, view: SharedView, k_axis: int) -> SharedOperand:
    layout = w.plan.buffers[view.buffer].layout
    problem = operand_problem(view, k_axis, layout, facts_of(w))
    if problem is not None:
        raise Error(problem.what, location=op.loc, kind=problem.kind, remedy=problem.remedy)
    return shared_operand(layout, is_transposed(view, k_axis))


def _words(w: Writer, op: Wgmma) -> int:
    """The registers of the left operand, where that is a tile."""
    assert isinstance(op.a, Value) and isinstance(op.a.type, TileType)
    return w.registers(op.a) * op.a.type.dtype.itemsize // 4


def _pack_registers(w: Writer, op: Wgmma) -> str:
    """Writes the left operand as words; returns the array that the product reads."""
    tile, count = op.a, _words(w, op)
    assert isinstance(tile, Value)
    w.line(f"unsigned px_a[{count}];")
    w.line(f"{w.use('pack_words')}<{w.registers(tile)}>(px_a, {w.name(tile)});")
    own = _own_registers(w, op)
    if own is None:
        return "px_a"
    w.line(f"{w.use('take_registers')}<{count}>({own}, px_a, {_closed(w, op)});")
    return own


def _closed(w: Writer, op: Wgmma) -> str:
    """A zero that no compiler knows, nor where it can be helped before the products that came before are over."""
    if not w.plan.own_registers[op].idle:
        return w.never
    dtype, name = op.result.type.dtype, w.name(op.result)
    if dtype.bits == 16:
        return f"{w.use(closed_after('unsigned', 'r'))}(*reinterpret_cast<unsigned*>({name}), {w.never})"
    ctype, constraint = ("int", "r") if dtype.is_integer else ("float", "f")
    return f"{w.use(closed_after(ctype, constraint))}({name}[0], {w.never})"


_OWN: WeakKeyDictionary[Writer, dict[Op, str]] = WeakKeyDictionary()
"""The arrays of products that have registers of their own."""


def _own_registers(w: Writer, op: Wgmma) -> str | None:
    return _OWN.get(w, {}).get(op)


@precedes
def declare_own_registers(w: Writer, op: Op) -> None:
    """Before a loop: registers for the left operands of products that are still at work when a turn of it begins."""
    for product, registers in w.plan.own_registers.items():
        if registers.loop is op and isinstance(product, Wgmma):
            count = _words(w, product)
            name = _OWN.setdefault(w, {})[product] = w.unique("own")
            w.line(f"unsigned {name}[{count}];")
            slot_line(w, count, f"{name}[px_r] = 0;", "px_r")


def _descriptor(w: Writer, shared: Shared) -> str:
    """The descriptor of an operand's first rows and first step along K, as text; if the warpgroups share its rows, that of
    the warpgroup's own."""
    view, operand = shared.view, shared.operand
    layout = operand.layout
    extra = layout.linear_offset_expression([w.name(offset) for offset in view.offsets])
    terms = [w.address(view.buffer)] + ([extra] if extra != "0" else [])
    if shared.share:
        terms.append(_share_offset(f"{w.warp} / {WARPGROUP}", operand, shared.share))
    return f"{w.use('wgmma_descriptor')}({' + '.join(terms)}, {operand.high_word:#x}ull)"


def _share_offset(group: str, operand: SharedOperand, share: int) -> str:
    """Bytes to the rows of warpgroup `group`; several of them may have parts of one panel."""
    panel = operand.layout.panel_columns
    if not operand.transposed or share >= panel:
        return f"{group} * {operand.row_offset(share)}"
    per_panel = panel // share
    return f"{group} / {per_panel} * {operand.row_offset(panel)} + {group} % {per_panel} * {operand.row_offset(share)}"
