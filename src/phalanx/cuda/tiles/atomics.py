"""Device functions that update one element of memory atomically: one instruction, or a loop around compare-and-swap."""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper, helper
from phalanx.cuda.text.prelude import device_function
from phalanx.ir.effects import Span

# dtype name -> (PTX type of the addition, asm constraint, C++ type of the operand)
_ATOMIC_TYPES = {
    "f64": ("f64", "d", "double"),
    "f32": ("f32", "f", "float"),
    "f16": ("noftz.f16", "h", "px_f16"),
    "bf16": ("noftz.bf16", "h", "px_bf16"),
    "i64": ("u64", "l", "long long"),
    "u64": ("u64", "l", "unsigned long long"),
    "i32": ("s32", "r", "int"),
    "u32": ("u32", "r", "unsigned"),
}
ATOMIC_DTYPES = tuple(_ATOMIC_TYPES)
_WORDS = {16: ("b16", "h", "unsigned short"), 32: ("b32", "r", "unsigned"), 64: ("b64", "l", "unsigned long long")}
"""Elements as bits: what is compared and exchanged."""
# How a float is computed with: (its bits, the function of two, from the bits, to the bits).
_FLOAT_BITS = {
    "f64": (64, "f64", "__longlong_as_double((long long){})", "(unsigned long long)__double_as_longlong({})"),
    "f32": (32, "f32", "__uint_as_float({})", "__float_as_uint({})"),
    "f16": (16, "f32", "f16_to_float({})", "f16_from_float({})"),
    "bf16": (16, "f32", "bf16_to_float({})", "bf16_from_float({})"),
}


def _atomic_type(update: str, dtype: str) -> tuple[str, str, str] | None:
    """PTX type, constraint and C++ type of an update that is one instruction; None where there is none."""
    kind, constraint, ctype = _ATOMIC_TYPES[dtype]
    if update == "add":
        return kind, constraint, ctype
    if update in ("max", "min"):
        return None if dtype in _FLOAT_BITS else (dtype.replace("i", "s"), constraint, ctype)
    if update == "cas":
        return None if dtype in _FLOAT_BITS else (_WORDS[int(dtype[1:])][0], constraint, ctype)
    return None if _FLOAT_BITS.get(dtype, (0,))[0] == 16 else (f"b{dtype[1:]}", constraint, ctype)


@cache
def atomic(update: str, dtype: str, space: str, scope: Span, returns: bool, ordered: bool = False) -> Helper:
    """Updates one element: `space` "global", "shared" (both take pointers) or "remote" (a shared::cluster address).

    `update` is "add", "max", "min", "exch" or "cas", whose function takes the element to compare with first. `ordered`: it
    releases and acquires; of those that are one instruction.
    """
    found = _atomic_type(update, dtype)
    if found is None:
        return _atomic_loop(update, dtype, space, scope)
    kind, constraint, ctype = found
    return _atomic_instruction(update, dtype, kind, constraint, ctype, space, scope, returns, ordered)


@cache
def strong_load(dtype: str) -> Helper:
    """One element of global memory as it is now in L2, whoever changes it."""
    _, constraint, ctype = _ATOMIC_TYPES[dtype]
    body = (
        f"{ctype} now;\n"
        f'asm volatile("ld.relaxed.{Span.GPU.value}.global.{_WORDS[int(dtype[1:])][0]} %0, [%1];"\n'
        f'             : "={constraint}"(now) : "l"(p) : "memory");\n'
        "return now;"
    )
    return device_function(f"atomic_load_{dtype}", ctype, ((f"const {ctype}*", "p"),), body)


VECTOR_ADDITIONS = ("f32", "f16", "bf16")
"""Element types of which `red` adds up to 16 bytes of neighbours in global memory at once (sm_90 and up)."""


@cache
def vector_addition(dtype: str, width: int) -> Helper:
    """Adds `width` neighbours, aligned to their size, to global memory; each is updated atomically, not all at once."""
    kind, constraint, ctype = _ATOMIC_TYPES[dtype]
    *flush, element = kind.split(".")
    form = ".".join([*flush, f"v{width}", element])
    values = ", ".join(f"%{n + 1}" for n in range(width))
    inputs = ", ".join(f'"{constraint}"(x[{n}])' for n in range(width))
    (_, place), address = _atomic_place(ctype, "global")
    return device_function(
        f"reduce_add_{dtype}_global_v{width}", "void", ((f"{ctype}*", place), (f"const {ctype}*", "x")),
        f'asm volatile("red.relaxed.{Span.GPU.value}.global.add.{form} [%0], {{{values}}};" '
        f':: {address}, {inputs} : "memory");',
    )


def _atomic_instruction(
    update: str, dtype: str, kind: str, constraint: str, ctype: str, space: str, scope: Span, returns: bool,
    ordered: bool = False,
) -> Helper:
    place = {"global": "global", "shared": "shared::cta", "remote": "shared::cluster"}[space]
    returns = returns or ordered or update in ("exch", "cas")
    verb = "atom" if returns else "red"
    name = f"{'atomic' if returns else 'reduce'}_{update}_{dtype}_{space}{'_ordered' if ordered else ''}"
    name += "_system" if scope is Span.SYSTEM else ""
    parameter, address = _atomic_place(ctype, space)
    mnemonic = f"{verb}.{'acq_rel' if ordered else 'relaxed'}.{scope.value}.{place}.{update}.{kind}"
    news = ("expected", "x") if update == "cas" else ("x",)
    inputs = ", ".join([address, *(f'"{constraint}"({new})' for new in news)])
    numbered = ", ".join(f"%{n + 1 + returns}" for n in range(len(news)))
    if returns:
        body = (
            f"{ctype} old;\n"
            f'asm volatile("{mnemonic} %0, [%1], {numbered};"\n'
            f'             : "={constraint}"(old) : {inputs} : "memory");\n'
            "return old;"
        )
    else:
        body = f'asm volatile("{mnemonic} [%0], {numbered};" :: {inputs} : "memory");'
    return device_function(name, ctype if returns else "void", (parameter, *((ctype, new) for new in news)), body)


def _atomic_place(ctype: str, space: str) -> tuple[tuple[str, str], str]:
    """The parameter that says where the element is, and the address it gives the instruction."""
    if space == "remote":
        return ("unsigned", "address"), '"r"(address)'
    convert = "__cvta_generic_to_global" if space == "global" else "__cvta_generic_to_shared"
    return (f"{ctype}*", "p"), f'"l"({convert}(p))' if space == "global" else f'"r"((unsigned){convert}(p))'


def _atomic_loop(update: str, dtype: str, space: str, scope: Span) -> Helper:
    """Where no instruction does it: computes the new element until nobody has changed the old one meanwhile."""
    bits, compute, from_bits, to_bits = _FLOAT_BITS[dtype]
    kind, constraint, word = _WORDS[bits]
    ctype = _ATOMIC_TYPES[dtype][2]
    swap = _atomic_instruction("cas", f"u{bits}", kind, constraint, word, space, scope, True)
    parameter, _ = _atomic_place(ctype, space)
    needs: list[Helper] = [swap]
    if space == "remote":
        needs.append(helper("load_remote"))
        place, look = "address", f"{word} seen;\nload_remote<1>(&seen, address);\n"
    else:
        place = f"reinterpret_cast<{word}*>(p)"
        look = f"{word} seen = *reinterpret_cast<const volatile {word}*>(p);\n"
    if update == "exch":
        new = "x" if ctype.startswith("px_") else to_bits.format("x")
    else:
        extreme = helper(f"{update}_NaN_{compute}")
        needs.append(extreme)
        needs += [helper(f"{dtype}_to_float"), helper(f"{dtype}_from_float")] if bits == 16 else []
        given = from_bits.format("x") if bits == 16 else "x"
        new = to_bits.format(f"{extreme.name}({from_bits.format('seen')}, {given})")
    old = "seen" if bits == 16 else from_bits.format("seen")
    body = (
        f"{look}"
        "for (;;) {\n"
        f"  const {word} next = {new};\n"
        f"  const {word} was = next == seen ? seen : {swap.name}({place}, seen, next);\n"
        f"  if (was == seen) return {old};\n"
        "  seen = was;\n"
        "}"
    )
    return device_function(f"atomic_{update}_{dtype}_{space}", ctype, (parameter, (ctype, "x")), body, *needs)
