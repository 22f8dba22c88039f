"""Index arithmetic of generated loops: what a slot (a thread's n-th register of a tile) stands for, as short text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from weakref import WeakKeyDictionary

from phalanx.cuda.text.writer import Writer
from phalanx.ir.archs import Feature
from phalanx.layouts.expressions import linear_expression
from phalanx.layouts.registers import RegisterLayout

_LOCALS: WeakKeyDictionary[Writer, dict[str, str]] = WeakKeyDictionary()


def local(w: Writer, hint: str) -> str:
    """A name for a variable of a nested scope, the same each time in one kernel and never a user's."""
    names = _LOCALS.setdefault(w, {})
    if hint not in names:
        names[hint] = w.unique(hint, everywhere=True)
    return names[hint]


def slot_expression(values: Sequence[int], var: str, step: int = 1) -> str | None:
    """Text that gives `values[k]` at `var == k * step`, or None if it is no XOR of bits of the variable.

    The text is valid C++ and Python. Example: ``slot_expression([0, 1, 0, 1], "i") == "(i & 1)"``.
    """
    if not any(values):
        return "0"
    constant = values[0]
    images: list[int] = []
    bit = 1
    while bit < len(values):
        images.append(values[bit] ^ constant)
        bit <<= 1
    for k, value in enumerate(values):
        expected = constant
        for position, image in enumerate(images):
            if k >> position & 1:
                expected ^= image
        if expected != value:
            return None
    low = (step - 1).bit_length()
    if 1 << low != step:
        return None
    return linear_expression([(var, [0] * low + images)], constant)


def is_identity(values: Sequence[int]) -> bool:
    """Whether every value is its own position."""
    return all(value == k for k, value in enumerate(values))


class SlotTexts:
    """Turns per-slot numbers into text, with a `constexpr` table where no expression does."""

    def __init__(self, w: Writer) -> None:
        self.w = w

    def at(self, values: Sequence[int], var: str, step: int = 1, hint: str = "table") -> str:
        """Text for `values[var / step]`; a table is declared at the current line if one is needed."""
        text = slot_expression(values, var, step)
        if text is not None:
            return text
        name = self.w.unique(hint)
        self.w.line(f"constexpr int {name}[{len(values)}] = {{{', '.join(map(str, values))}}};")
        return f"{name}[{var}]" if step == 1 else f"{name}[{var} / {step}]"


def element(array: str, index: str) -> str:
    """`array[index]` without superfluous parentheses."""
    return f"{array}[{strip(index)}]"


def strip(text: str) -> str:
    """`text` without one pair of parentheses around the whole of it."""
    if text.startswith("(") and text.endswith(")"):
        depth = 0
        for position, character in enumerate(text):
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth == 0 and position < len(text) - 1:
                return text
        return text[1:-1]
    return text


def atom(text: str) -> str:
    """`text`, parenthesised unless it is a name, a number, a call, an element or parenthesised already."""
    depth = 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if depth == 0 and character in " +-*/%^&|<>?=!":
            return f"({text})"
    return text


def plus(*terms: str) -> str:
    """A sum of texts; zeros are left out."""
    kept = [_summand(term) for term in terms if term != "0"]
    return " + ".join(kept) or "0"


def _summand(text: str) -> str:
    """Parenthesised if an operator in it binds less than `+`."""
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if depth == 0 and character in "^&|<>?=!":
            return f"({text})"
        if depth == 0 and character == "-" and position == 0:
            return f"({text})"
    return text


def times(text: str, factor: str) -> str:
    """A product of texts; trivial factors are left out."""
    if text == "0" or factor == "0":
        return "0"
    if factor == "1":
        return text
    if text == "1":
        return factor
    return f"{_factor(text)} * {_factor(factor)}"


def _factor(text: str) -> str:
    depth = 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if depth == 0 and character in "+-^&|<>?=!%/":
            return f"({text})"
    return text


@contextmanager
def slot_loop(w: Writer, slots: int, step: int = 1, *, first: int = 0, scope: bool = False) -> Iterator[str]:
    """An unrolled loop over `slots` registers from `first` on; yields its variable, or a number where it has one turn only.

    `scope`: the body declares variables, so that a single turn needs braces too.
    """
    if slots - first <= step:
        with w.block() if scope else nullcontext():
            yield str(first)
        return
    var = local(w, "i")
    advance = f"++{var}" if step == 1 else f"{var} += {step}"
    w.line("#pragma unroll")
    with w.block(f"for (int {var} = {first}; {var} < {slots}; {advance})"):
        yield var


FEW_TURNS = 2
"""Turns of a loop over registers up to which its statements are written one below the other. NVVM visits all loops of a
kernel again whenever it has unrolled one of them: of the 200 loops of an attention, 100 are over one or two registers.
Targets with tensor memory keep their loops: without them 88 bytes of a causal softmax are spilled there."""


def slot_line(w: Writer, slots: int, text: str, var: str, step: int = 1) -> None:
    """One statement for every slot, or every `step` of them: one below the other where they are few, else the loop and its
    body on one line. `text` uses the variable `var`."""
    if slots <= FEW_TURNS * step and not w.arch.has([Feature.TCGEN05]):
        for slot in range(0, slots, step):
            w.line(re.sub(rf"\b{var}\b", str(slot), text))
        return
    advance = f"++{var}" if step == 1 else f"{var} += {step}"
    w.line("#pragma unroll")
    w.line(f"for (int {var} = 0; {var} < {slots}; {advance}) {text}")


def slot_offsets(layout: RegisterLayout, dim: int) -> list[int]:
    """What each slot alone contributes to the coordinate along `dim`."""
    return [layout.register_offset(register)[dim] for register in layout.live_registers()]


def thread_parts_equal(a: RegisterLayout, b: RegisterLayout) -> bool:
    """Whether every thread's first register holds the same element in both layouts."""
    return (
        a.shape == b.shape
        and a.warps == b.warps
        and a.linear.flat_bases["lane"] == b.linear.flat_bases["lane"]
        and a.linear.flat_bases["warp"] == b.linear.flat_bases["warp"]
    )


def local_slots(have: RegisterLayout, want: RegisterLayout) -> tuple[int, ...] | None:
    """For each slot of `want` the slot of `have` that holds the same element in the same thread; None if one must move.

    For emitters and layout inference. Both layouts are of the same tile.
    """
    if have == want:
        return tuple(range(want.num_registers))
    if not thread_parts_equal(have, want):
        return None
    places = {have.linear.flat(register=register): slot for slot, register in enumerate(have.live_registers())}
    found = [places.get(want.linear.flat(register=register)) for register in want.live_registers()]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


def broadcast_slots(have: RegisterLayout, result: RegisterLayout) -> tuple[int, ...] | None:
    """For each slot of `result` the slot of its operand `have` (whose shape broadcasts to it); None if none fits."""
    wanted = result.operand(have.shape)
    places = local_slots(have, wanted.layout)
    return None if places is None else tuple(places[slot] for slot in wanted.register_map)


def axis_projection(layout: RegisterLayout, dim: int) -> tuple[RegisterLayout, tuple[int, ...]]:
    """The layout of a rank-1 tile that runs along `dim` of `layout`, and its slot for each slot of `layout`."""
    current = layout
    slots = tuple(range(layout.num_registers))
    for axis in reversed(range(layout.rank)):
        if axis != dim:
            projection = current.slice(axis)
            current = projection.layout
            slots = tuple(projection.register_map[slot] for slot in slots)
    return current, slots
