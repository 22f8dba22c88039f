"""`mma.sync`: one instruction per 16 x 8 block and 32 (or 16) bytes of K, operands and accumulator in registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from phalanx.cuda.ops.wgmma import NAMES, continue_in_place
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer
from phalanx.ir.ops.mma import COLUMNS, LEAST_STEP_BYTES, ROWS, SCALED_STEP_BYTES, Mma, MmaScaled
from phalanx.ir.ops.wgmma import STEP_BYTES
from phalanx.ir.tensor_kinds import Kind, kind_of
from phalanx.ir.values import Value
from phalanx.layouts.fragments import mma_accumulator, mma_spread


@cache
def block_product(a: str, b: str, d: str, step_bytes: int) -> Helper:
    """One instruction: 16 rows, 8 columns, `step_bytes` of K. `a`, `b` and `d` are element types by name.

    Volatile, so that no compiler moves it to where its result is used: all lanes of the warp must run it together.
    """
    item = {"bf16": 2, "f16": 2, "f32": 4}.get(a, 1)
    kind = {"i32": "s32"}.get(d, d)
    shape = f"m{ROWS}n{COLUMNS}k{step_bytes // item}"
    ctype, constraint, count = {"i32": ("int", "r", 4), "f16": ("px_f16", "r", 2)}.get(d, ("float", "f", 4))
    lefts, rights = step_bytes // 8, step_bytes // 16
    target = "w" if d == "f16" else "d"
    numbers = iter(range(16))

    def places(many: int) -> str:
        return "{" + ", ".join(f"%{next(numbers)}" for _ in range(many)) + "}"

    sums, left, right = places(count), places(lefts), places(rights)
    outputs = ", ".join(f'"+{constraint}"({target}[{i}])' for i in range(count))
    inputs = ", ".join([f'"r"(a[{i}])' for i in range(lefts)] + [f'"r"(b[{i}])' for i in range(rights)])
    name = f"mma_{shape}_{kind}_{NAMES[a]}_{NAMES[b]}"
    words = "  unsigned* const w = reinterpret_cast<unsigned*>(d);\n" if d == "f16" else ""
    mnemonic = f"mma.sync.aligned.{shape}.row.col.{kind}.{NAMES[a]}.{NAMES[b]}.{kind}"
    return Helper(
        name,
        f"__device__ __forceinline__ void {name}({ctype}* d, const unsigned* a, const unsigned* b) {{\n"
        f"{words}"
        f'  asm volatile("{mnemonic} {sums}, {left}, {right}, {sums};"\n'
        f"               : {outputs} : {inputs});\n"
        "}",
    )


@emits(Mma)
def emit_mma(w: Writer, op: Mma) -> None:
    """Writes `mma.sync`, step by step along K, on operands that are packed into words first."""
    m, n, k = op.shape
    assert isinstance(op.a, Value) and isinstance(op.b, Value), "operands are loaded by instructions of their own"
    assert w.plan.layouts[op.result] == mma_accumulator(m, n, op.warps)
    a_dtype, b_dtype = op.dtypes
    item = a_dtype.itemsize
    name = _accumulator(w, op)
    with w.block():
        pitches = []  # 16-byte steps of K in all that a tile holds
        for tile, text in ((op.a, "px_a"), (op.b, "px_b")):
            count = w.registers(tile) * item // 4
            w.line(f"unsigned {text}[{count}];")
            w.line(f"{w.use('pack_words')}<{w.registers(tile)}>({text}, {w.name(tile)});")
            pitches.append(tile.type.shape[1 if tile is op.a else 0] * item // LEAST_STEP_BYTES)  # type: ignore[union-attr]
        high, wide = mma_spread(m, n, op.warps)
        rows, columns = m // (ROWS * high), n // (COLUMNS * wide)
        assert w.registers(op.result) == 4 * rows * columns
        done = 0
        while done < k:
            width = STEP_BYTES if (k - done) * item >= STEP_BYTES else LEAST_STEP_BYTES
            turns = (k - done) * item // width
            helper = w.use(block_product(a_dtype.name, b_dtype.name, op.result.type.dtype.name, width))
            firsts = [(start + done) * item // LEAST_STEP_BYTES for start in op.starts]
            with _loop(w, "px_k", turns) as step, _loop(w, "px_m", rows) as row, _loop(w, "px_n", columns) as column:
                steps = [_sum(str(first), _times(step, width // LEAST_STEP_BYTES)) for first in firsts]
                block = _sum(_times(row, columns), column)
                left = _sum("px_a", _times(_sum(_times(row, pitches[0]), steps[0]), 2))
                right = _sum("px_b", _sum(_times(column, pitches[1]), steps[1]))
                w.line(f"{helper}({_sum(name, _times(block, 4))}, {left}, {right});")
            done += turns * width // item


SCALE_NAMES = {"f8e8m0": "ue8m0", "f8e4m3": "ue4m3"}
NARROW_NAMES = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "f4e2m1": "e2m1"}


@cache
def scaled_product(kind: str, a: str, b: str, scale: str, count: int) -> Helper:
    """One block-scaled instruction: 16 rows, 8 columns, 32 bytes of K, `count` scales a row. Types are those of PTX.

    Of the scales, byte-id and thread-id are 0: the scales begin in the lowest byte, of the first lanes of each four.
    """
    shape = f"m{ROWS}n{COLUMNS}k{SCALED_STEP_BYTES * (2 if a == 'e2m1' else 1)}"
    name = f"mma_{shape}_{kind}_{count}x_{a}_{b}_{scale}"
    mnemonic = f"mma.sync.aligned.{shape}.row.col.kind::{kind}.block_scale.scale_vec::{count}X.f32.{a}.{b}.f32.{scale}"
    sums, left, right = "{%0, %1, %2, %3}", "{%4, %5, %6, %7}", "{%8, %9}"
    return Helper(
        name,
        f"__device__ __forceinline__ void {name}(float* d, const unsigned* a, const unsigned* b, unsigned sa, unsigned sb) "
        "{\n"
        f'  asm volatile("{mnemonic} {sums}, {left}, {right}, {sums}, %10, {{0, 0}}, %11, {{0, 0}};"\n'
        '               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])\n'
        '               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa), "r"(sb));\n'
        "}",
    )


@cache
def scale_word(count: int) -> Helper:
    """The scales of one instruction in the low bytes of a word, the first one lowest."""
    bytes_ = " | ".join(f"(unsigned)s[{i}]" + (f" << {8 * i}" if i else "") for i in range(count))
    name = f"scale_word_{count}"
    return Helper(
        name, f"__device__ __forceinline__ unsigned {name}(const unsigned char* s) {{\n  return {bytes_};\n}}"
    )


@emits(MmaScaled)
def emit_mma_scaled(w: Writer, op: MmaScaled) -> None:
    """Writes block-scaled `mma.sync`, step by step along K, on operands that are packed into words first."""
    m, n, k = op.shape
    tiles = (op.a, op.b, op.scale_a, op.scale_b)
    a, b, scale_a, scale_b = (tile for tile in tiles if isinstance(tile, Value))  # loaded by instructions of their own
    kind = kind_of(*op.elements, op.scale, op.block)
    assert isinstance(kind, Kind)
    count = op.scales_per_step
    types = [NARROW_NAMES[dtype.name] for dtype in op.elements]
    name = _accumulator(w, op)
    with w.block():
        for tile, text in ((a, "px_a"), (b, "px_b")):
            w.line(f"unsigned {text}[{w.registers(tile) // 4}];")
            w.line(f"{w.use('pack_words')}<{w.registers(tile)}>({text}, {w.name(tile)});")
        depths = [tile.type.shape[axis] // LEAST_STEP_BYTES for tile, axis in ((a, 1), (b, 0))]  # type: ignore[union-attr]
        pitch = scale_a.type.shape[1]  # type: ignore[union-attr]
        high, wide = mma_spread(m, n, op.warps)
        rows, columns = m // (ROWS * high), n // (COLUMNS * wide)
        helper = w.use(scaled_product(kind.name, *types, SCALE_NAMES[op.scale.name], count))
        word = w.use(scale_word(count))
        firsts = [start // LEAST_STEP_BYTES for start in op.starts[:2]]
        with (
            _loop(w, "px_k", k // SCALED_STEP_BYTES) as step,
            _loop(w, "px_m", rows) as row,
            _loop(w, "px_n", columns) as column,
        ):
            steps = [_sum(str(first), _times(step, SCALED_STEP_BYTES // LEAST_STEP_BYTES)) for first in firsts]
            left = _sum("px_a", _times(_sum(_times(row, depths[0]), steps[0]), 2))
            right = _sum("px_b", _sum(_times(column, depths[1]), steps[1]))
            first = _sum(str(op.starts[2]), _times(step, count))
            lines = ((scale_a, row), (scale_b, column))
            scales = [f"{word}({_sum(w.name(tile), _times(line, pitch), first)})" for tile, line in lines]
            block = _times(_sum(_times(row, columns), column), 4)
            w.line(f"{helper}({_sum(name, block)}, {left}, {right}, {', '.join(scales)});")


def _accumulator(w: Writer, op: Mma | MmaScaled) -> str:
    """The result's registers, with what is added to in them."""
    if op.acc is not None:
        continue_in_place(w, op.acc, op.result)
        return w.name(op.result)
    name = w.declare_tile(op.result)
    w.line("#pragma unroll")
    w.line(f"for (int px_r = 0; px_r < {w.registers(op.result)}; ++px_r) {name}[px_r] = 0;")
    return name


@contextmanager
def _loop(w: Writer, name: str, turns: int) -> Iterator[str]:
    """An unrolled loop, or nothing around a single turn."""
    if turns == 1:
        yield "0"
        return
    w.line("#pragma unroll")
    with w.block(f"for (int {name} = 0; {name} < {turns}; ++{name})"):
        yield name


def _sum(*terms: str) -> str:
    return " + ".join(term for term in terms if term != "0") or "0"


def _times(text: str, factor: int) -> str:
    if text == "0" or factor == 1:
        return text
    return f"{factor} * {f'({text})' if ' + ' in text else text}"
