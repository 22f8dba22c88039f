"""Inline PTX as C++ in its place, for `host_text`: statement by statement, by what the PTX says and not by who wrote it.

An `asm` statement is a list of PTX instructions: registers that it declares become variables, guards become conditions, and
each instruction becomes a call of the machine (`host_ptx_forms` has those of barriers, copies and cluster launch control,
`host_ptx_tcgen05` those of tensor memory and tensor cores). Operands come by their numbers, also inside of a mnemonic
(`.cta_group::%2`). What is not known is refused with its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from support.host_build import HostFailure

_TYPES = {
    "pred": "bool", "b128": "px_b128", "f32": "float", "f64": "double",
    **{f"{kind}{bits}": "unsigned long long" if bits == 64 else "unsigned" for kind in "bus" for bits in (16, 32, 64)},
}  # fmt: skip
SPECIAL = {
    "cluster_ctarank": "px_self->rank",
    "cluster_nctarank": "px_ctas()",
    "laneid": "(px_self->index % 32)",
    "warpid": "(threadIdx.x / 32)",
    **{f"cluster_nctaid.{axis}": f"px_cluster_shape()[{n}]" for n, axis in enumerate("xyz")},
    **{f"cluster_ctaid.{axis}": f"(blockIdx.{axis} % (unsigned)px_cluster_shape()[{n}])" for n, axis in enumerate("xyz")},
    **{f"{name}.{axis}": f"{cuda}.{axis}" for axis in "xyz"
       for name, cuda in (("tid", "threadIdx"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))},
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """What stands in parentheses behind a constraint."""

    constraint: str
    text: str


@dataclass
class Instruction:
    """One PTX instruction: `parts` are what dots separate; forms take them out one by one, and none may be left."""

    ptx: str
    parts: list[str]
    operands: list[str]
    given: list[Operand]
    registers: set[str] = field(default_factory=set)

    def refuse(self) -> HostFailure:
        return HostFailure(f"no host version of the PTX {self.ptx!r}")

    def take(self, *names: str) -> str:
        """The first of these modifiers that is there, which is then done with; "" if none is."""
        for name in names:
            if name in self.parts:
                self.parts.remove(name)
                return name
        return ""

    def take_value(self, before: str) -> str:
        """What follows `before` in one of the modifiers, as C++: "cta_group::" gives 1, 2 or an expression."""
        for part in self.parts:
            if part.startswith(before):
                self.parts.remove(part)
                return self.value(part.removeprefix(before))
        return ""

    def done(self, least: int, most: int | None = None) -> None:
        """Every modifier was understood, and there are so many operands."""
        if self.parts or not least <= len(self.operands) <= (least if most is None else most):
            raise self.refuse()

    def value(self, text: str) -> str:
        """An operand as a C++ expression, which may be assigned to if it is a register."""
        text = text.strip()
        if match := re.fullmatch(r"%(\d+)", text):
            if int(match[1]) >= len(self.given):
                raise self.refuse()
            return f"({self.given[int(match[1])].text})"
        if text.startswith("%%"):
            if text[2:] not in SPECIAL:
                raise self.refuse()
            return SPECIAL[text[2:]]
        if text in self.registers:
            return f"px_r_{text}"
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            return text
        raise self.refuse()

    def values(self, text: str) -> list[str]:
        """The elements of a vector, or the one operand."""
        text = text.strip()
        return [self.value(part) for part in split(text[1:-1])] if text.startswith("{") else [self.value(text)]

    def address(self, text: str) -> str:
        """A shared address: 32 bits, or a pointer where the operand has 64."""
        match = re.fullmatch(r"\[\s*(\S+?)\s*(?:\+\s*(\S+?)\s*)?\]", text.strip())
        if match is None:
            raise self.refuse()
        value, number = self.value(match[1]), re.fullmatch(r"%(\d+)", match[1])
        if number and self.given[int(number[1])].constraint == "l":
            value = f"px_address((const void*){value})"
        return f"((unsigned){value}{f' + {self.value(match[2])}' if match[2] else ''})"

    def inside(self, text: str) -> str:
        """What stands between brackets."""
        text = text.strip()
        if not (text.startswith("[") and text.endswith("]")):
            raise self.refuse()
        return text[1:-1].strip()


Form = Callable[[Instruction], str]
FORMS: dict[str, Form] = {}
"""What instructions become, by how their mnemonic begins; the longest beginning counts."""


def form(*beginnings: str) -> Callable[[Form], Form]:
    def register(make: Form) -> Form:
        FORMS.update(dict.fromkeys(beginnings, make))
        return make

    return register


def split(text: str, at: str = ",") -> list[str]:
    """At commas outside brackets and strings."""
    parts, depth, quoted, last = [""], 0, False, ""
    for character in text:
        quoted ^= character == '"' and last != "\\"
        last = character
        depth += 0 if quoted else {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if character == at and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def in_place(text: str) -> str:
    """A text whose `asm` statements are C++, on as many lines."""
    done, position = [], 0
    for start, stop, inner in _statements(text):
        lines = "\n" * text[start:stop].count("\n")
        done += [text[position:start], _statement(inner), lines]
        position = stop
    return "".join([*done, text[position:]])


def _statements(text: str) -> list[tuple[int, int, str]]:
    """Where `asm` statements begin and end, and what stands between their parentheses; comments are not text."""
    found = []
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|\basm\b(?:\s+volatile|\s+__volatile__)?\s*\(', re.S)
    position = 0
    while (match := pattern.search(text, position)) is not None:
        position = match.end()
        if not match[0].startswith("asm"):
            continue
        depth = 1
        for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[()]', text[match.end() :]):
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            if depth == 0:
                position = match.end() + token.end()
                found.append((match.start(), position, text[match.end() : position - 1]))
                break
    return found


def _statement(inner: str) -> str:
    sections = [part.strip() for part in _at_colons(inner.replace("\\\n", " "))]
    ptx = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sections[0])).replace("\\n", "\n").replace("\\t", " ")
    given = [_operand(part) for section in sections[1:3] for part in split(section)]
    registers: set[str] = set()
    code = []
    for piece in re.sub(r"//[^\n]*", "", ptx).split(";"):
        piece = " ".join(re.sub(r"^[\s{}]+", "", piece).split())
        if piece.startswith(".reg"):
            code.append(_declared(piece, registers))
        elif piece:
            code.append(_instruction(piece, given, registers))
    if not code:  # what such a statement does is the compiler's affair
        raise HostFailure("no host version of an asm statement without PTX")
    return f"do {{ px_at = __LINE__; {' '.join(code)} }} while (0)"


def _at_colons(inner: str) -> list[str]:
    """The template, outputs, inputs and clobbers: colons outside parentheses and strings."""
    parts, depth, position = [""], 0, 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[():]', inner):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == ":" and depth == 0:
            parts[-1] += inner[position : token.start()]
            parts.append("")
            position = token.end()
    parts[-1] += inner[position:]
    return parts


def _operand(text: str) -> Operand:
    match = re.fullmatch(r'"[=+]?(\w)"\s*\((.*)\)', text, re.S)
    if match is None:
        raise HostFailure(f"no host version of the operand {text}")
    return Operand(match[1], " ".join(match[2].split()))


def _declared(piece: str, registers: set[str]) -> str:
    match = re.fullmatch(r"\.reg \.(\w+) ([\w, ]+)", piece)
    if match is None or match[1] not in _TYPES:
        raise HostFailure(f"no host version of the PTX {piece!r}")
    names = [name.strip() for name in match[2].split(",")]
    registers.update(names)
    return " ".join(f"{_TYPES[match[1]]} px_r_{name} = {{}};" for name in names)


def _instruction(piece: str, given: list[Operand], registers: set[str]) -> str:
    import support.host_ptx_arithmetic
    import support.host_ptx_forms
    import support.host_ptx_tcgen05  # noqa: F401

    guard, rest = "", piece
    if match := re.match(r"@(!?)(\w+) (.*)", piece):
        guard, rest = f"if ({match[1]}px_r_{match[2]}) ", match[3]
        if match[2] not in registers:
            raise HostFailure(f"no host version of the PTX {piece!r}")
    mnemonic, _, operands = rest.partition(" ")
    parts = mnemonic.split(".")
    for length in range(len(parts), 0, -1):
        if (make := FORMS.get(".".join(parts[:length]))) is not None:
            instruction = Instruction(piece, parts[length:], split(operands), given, registers)
            return f"{guard}{{ {make(instruction)} }}"
    raise HostFailure(f"no host version of the PTX {piece!r}")
