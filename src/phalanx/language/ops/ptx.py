"""`px.ptx`: an instruction that the language has no name for, written as PTX, on every element."""

from __future__ import annotations

import re
from collections.abc import Callable

from phalanx.ir.ops.tile import InlinePtx
from phalanx.ir.types import DType
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import HostFunction, KernelObject, Numeric, describe, plural
from phalanx.language.operators import broadcast, cast, dtype_of, is_tile, make_type, require_numeric
from phalanx.language.requirements import is_constant_integer

PACKED_BITS = {16: "16-bit", 32: "32-bit"}
"""Elements of which two go into one register, of 32 or 64 bits."""

_MEMORY = (
    "ld ldu st atom red cp prefetch prefetchu multimem tex tld4 txq suld sust sured ldmatrix stmatrix discard applypriority"
)
_JUMPS = "bra brx call ret exit trap brkpt"
_THREADS = (
    "bar barrier mbarrier shfl vote match redux elect activemask fence membar nanosleep griddepcontrol setmaxnreg mma wmma "
    "wgmma movmatrix tcgen05 clusterlaunchcontrol mapa getctarank isspacep cvta createpolicy tensormap pmevent"
)
_STACK = "alloca stacksave stackrestore"
_REFUSED = {
    **dict.fromkeys(_STACK.split(), ("moves the stack of a thread", "a result is an output, and lives in registers")),
    **dict.fromkeys(_MEMORY.split(), ("touches memory", "px.load and px.store do")),
    **dict.fromkeys(_JUMPS.split(), ("goes elsewhere", "if, for and while do; @p before an instruction is fine")),
    **dict.fromkeys(_THREADS.split(), ("is a matter of several threads, or of more than registers", "the language has it")),
}
"""Instructions that are no function of an element, and what has their place."""


@builtin("ptx")
def ptx(
    ctx: Builder, text: object, inputs: object, out: object, sim: object = None, pack: object = 1
) -> Value | tuple[Value, ...]:
    """What PTX makes of each element of its inputs: for instructions that the language has no name for.

    Any agent; the GPUs that have the instruction; the PTX in `text`, as ``asm`` that may be moved, repeated or left out
    (not volatile). ``$0`` is the first output, the inputs follow behind the outputs; a tuple of dtypes as `out` gives as
    many results. `inputs` are a tuple of tiles, scalars and numbers, which broadcast; bare numbers take the type that the
    others have. Registers are ``h`` for elements of 16 bits, ``r`` for 32 and for 8 (in the low bits), ``l`` for 64, ``f``
    and ``d`` for f32 and f64. With ``pack=2`` two elements of 16 or of 32 bits are in one register of twice as many, as
    ``add.bf16x2`` wants them. No memory, no jumps, no other threads. `sim`, a NumPy function of the inputs, element by
    element, is what the simulator computes; without it the kernel does not run there.
    Example: ``y = px.ptx("ex2.approx.ftz.f32 $0, $1;", (x,), px.f32, sim=np.exp2)``.
    """
    types = _outputs(ctx, out)
    values = _inputs(ctx, inputs)
    said = _text(ctx, text, len(types), len(values))
    width = _packing(ctx, pack, types, values)
    shape, tiles = broadcast(ctx, *values) if values else (), any(map(is_tile, values))
    results = tuple(Value(make_type(shape, dtype, tiles)) for dtype in types)
    ctx.emit(InlinePtx(said, values, results, width, sim=_function(ctx, sim), loc=ctx.loc))
    return results if isinstance(out, tuple) else results[0]


def _outputs(ctx: Builder, out: object) -> tuple[DType, ...]:
    types = out if isinstance(out, tuple) else (out,)
    for dtype in types:
        if not isinstance(dtype, DType):
            ctx.fail(f"out of px.ptx is a px dtype or a tuple of them, not {describe(dtype)}", "e.g. px.f32")
    if not types:
        ctx.fail("px.ptx gives nothing", "name the element type of what it computes: out=px.f32")
    return types  # type: ignore[return-value]


def _inputs(ctx: Builder, inputs: object) -> tuple[Value, ...]:
    if not isinstance(inputs, tuple):
        ctx.fail(f"the inputs of px.ptx are a tuple, not {describe(inputs)}", "write (x,) for one of them")
    values: list[Numeric] = [require_numeric(ctx, "px.ptx", item) for item in inputs]
    typed = {dtype_of(value) for value in values if isinstance(value, Value)}
    common = typed.pop() if len(typed) == 1 else None  # which bare numbers take, as they do in arithmetic
    return tuple(
        value if isinstance(value, Value) else cast(ctx, value, common or dtype_of(value)) for value in values
    )


def _function(ctx: Builder, sim: object) -> Callable[..., object] | None:
    function = sim.function if isinstance(sim, HostFunction) else sim
    if function is not None and (isinstance(function, KernelObject) or not callable(function)):
        ctx.fail(f"sim= of px.ptx is {describe(sim)}", "give a function of NumPy arrays: np.exp2, or one made with def")
    return function


def _packing(ctx: Builder, pack: object, types: tuple[DType, ...], values: tuple[Value, ...]) -> int:
    if not is_constant_integer(pack) or pack not in (1, 2):
        ctx.fail(f"pack= of px.ptx is {describe(pack)}", "it is 1, or 2 for two elements in a register")
    if pack == 2:
        widths = {dtype.bits for dtype in (*types, *(value.type.dtype for value in values))}  # type: ignore[union-attr]
        if len(widths) > 1 or not widths <= PACKED_BITS.keys():
            listed = ", ".join(str(bits) for bits in sorted(widths))
            ctx.fail(
                f"pack=2 of px.ptx with elements of {listed} bits",
                "two elements go into a register where all inputs and outputs have 16 bits each, or 32",
            )
    return pack


def _text(ctx: Builder, text: object, outputs: int, inputs: int) -> str:
    """The PTX, if it is a function of elements and names its operands."""
    if not isinstance(text, str) or not text.strip():
        ctx.fail(f"the text of px.ptx is {describe(text)}", 'give PTX: "ex2.approx.ftz.f32 $0, $1;"')
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    if "/*" in code:
        ctx.fail("px.ptx with a comment that does not end", "end it with */: it would go on behind the text")
    _check_characters(ctx, code)
    named = {int(number) for number in re.findall(r"\$(\d+)", code)}
    count = outputs + inputs
    if re.search(r"\$(?!\d)", code) or any(number >= count for number in named):
        last = "" if count == 1 else f" to ${count - 1}"
        ctx.fail(
            f"px.ptx has {plural(outputs, 'output')} and {plural(inputs, 'input')}, its text names others",
            f"operands are $0{last}, the outputs first",
        )
    unused = next((number for number in range(count) if number not in named), None)
    if unused is not None:
        what = f"output {unused}" if unused < outputs else f"input {unused - outputs}"
        ctx.fail(f"${unused}, {what} of px.ptx, is nowhere in its text", "operands are numbered, the outputs first")
    written: set[int] = set()
    for statement, inside in _statements(ctx, code):
        _check_statement(ctx, statement, inside)
        written |= _written(statement)
    if any(number >= outputs for number in written):
        number = min(number for number in written if number >= outputs)
        ctx.fail(
            f"px.ptx writes ${number}, which is input {number - outputs}",
            "the outputs are $0 and those behind it; what is in between is a register: { .reg .f32 t; ... }",
        )
    left = next((number for number in range(outputs) if number not in written), None)
    if left is not None:
        ctx.fail(f"px.ptx writes nothing to ${left}, output {left}", "an instruction's first operand is what it writes")
    return " ".join(code.split())


def _statements(ctx: Builder, code: str) -> list[tuple[str, bool]]:
    """The statements of a text, and whether each stands inside { }; the braces of vector operands belong to theirs."""
    found: list[tuple[str, bool]] = []
    start = depth = vectors = 0
    for end, character in enumerate(code):
        begins = not code[start:end].strip()
        if character == "{":
            depth, vectors = (depth + 1, vectors) if begins else (depth, vectors + 1)
        elif character == "}" and vectors:
            vectors -= 1
            continue
        elif character == "}" and begins:
            depth -= 1
        elif character == ";" and not vectors:
            found.append((code[start:end].strip(), depth > 0))
        else:
            continue
        start = start if vectors else end + 1
        if depth < 0:
            break
    if depth or vectors or code[start:].strip():
        ctx.fail("px.ptx ends in the middle of a statement, or of { }", "end each instruction with ;, and each { with }")
    return found


def _written(statement: str) -> set[int]:
    """The operands by number that an instruction writes: those in its first operand, which may be a vector or a pair."""
    operands = re.sub(r"^(@!?\w+\s+)?[\w.:]+", "", statement).strip()
    first = re.match(r"\{[^}]*\}|[^,]*", operands)
    assert first is not None
    return set() if statement.startswith(".") else {int(number) for number in re.findall(r"\$(\d+)", first[0])}


def _check_characters(ctx: Builder, code: str) -> None:
    if "[" in code or "]" in code:
        ctx.fail("px.ptx with a memory operand ([...])", "it computes on registers: px.load and px.store move memory")
    if "%" in code:
        ctx.fail(
            "px.ptx with '%'",
            "operands are $0, $1 ...; special registers tell threads apart, and elements know no thread; registers of your "
            "own are declared inside { } with .reg, under plain names",
        )
    if re.search(r"(?<!:):(?!:)", code):
        ctx.fail("px.ptx with a label", "nothing jumps in it: if, for and while of the kernel do")
    odd = next((character for character in code if character in "\"\\#`?" or not character.isascii()), None)
    if odd is not None:
        ctx.fail(f"px.ptx with {odd!r} in its text", "PTX is instructions, their operands and numbers")


def _check_statement(ctx: Builder, statement: str, inside: bool) -> None:
    if statement.startswith(".") and not (inside and re.match(r"\.reg\s", statement)):
        ctx.fail(
            f"px.ptx with '{statement.split()[0]}'" + " outside of { }" * statement.startswith(".reg"),
            "it is instructions on registers; those of its own are declared inside: { .reg .f32 t; ... }",
        )
    words = re.sub(r"^@!?\w+\s+", "", statement).split()
    opcode = words[0].split(".")[0] if words else ""
    if opcode in _REFUSED:
        why, instead = _REFUSED[opcode]
        ctx.fail(f"px.ptx with '{opcode}', which {why}", f"it is a function of registers; {instead}")
