"""Inline PTX of loads and stores as C++, statement by statement: the text around it, which packs and unpacks, stays."""

from __future__ import annotations

import re

_STATEMENT = re.compile(r'asm(?: volatile)?\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)(.*?)\);', re.S)
_OPERAND = re.compile(r'"[=+]?[rlhfd]"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)')
_PREDICATE = re.compile(r"setp\.ne\.u32 p, %(\d+), 0;")
_VALUES = r"\{?((?:%\d+(?:, )?)+)\}?"
_BITS = r"(?:\.v([24]))?\.[bu](8|16|32)"
_FORMS = {
    "st": re.compile(rf"st\.(global|shared::cluster|shared)(?:\.L1::\w+)?{_BITS} \[%(\d+)\], {_VALUES};"),
    "ld": re.compile(rf"ld\.(global|shared::cluster)(?:\.L[12]::\w+)*{_BITS} {_VALUES}, \[%(\d+)\];"),
    "st.async": re.compile(rf"st\.async\.shared::cluster\.\S*?{_BITS} \[%(\d+)\], {_VALUES}, \[%(\d+)\];"),
}
_STRONG = re.compile(r"ld\.relaxed\.gpu\.global\.b(32|64) %(\d+), \[%(\d+)\];")
_TYPES = {8: "unsigned char", 16: "unsigned short", 32: "unsigned"}


def translated(text: str) -> str | None:
    """A device function whose PTX only moves data, with C++ in its place and as many lines; None if there is other PTX."""
    unknown = False

    def replace(match: re.Match[str]) -> str:
        nonlocal unknown
        ptx = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])).replace("\\n", " ")
        statement = _statement(ptx, _OPERAND.findall(match[2]))
        unknown = unknown or statement is None
        return (statement or "") + "\n" * match[0].count("\n")

    done = _STATEMENT.sub(replace, text)
    return None if unknown or "asm" in re.sub(r"//.*", "", done) else done


def _statement(ptx: str, operands: list[str]) -> str | None:
    predicate = _PREDICATE.search(ptx)
    condition = f"if ({operands[int(predicate[1])]}) " if predicate else ""  # in braces: an else may follow

    def named(numbers: str) -> list[str]:
        return [operands[int(number)] for number in re.findall(r"%(\d+)", numbers)]

    if (strong := _STRONG.search(ptx)) is not None:  # who polls lets others go on
        size, value, where = int(strong[1]) // 8, operands[int(strong[2])], operands[int(strong[3])]
        return f"px_yield(); memcpy(&{value}, px_aligned<const void>({where}, {size}), {size});"
    for form, pattern in _FORMS.items():
        if (match := pattern.search(ptx)) is None:
            continue
        space, vector, bits, *rest = match.groups() if form != "st.async" else ("", *match.groups())
        ctype = _TYPES[int(bits)]
        size = int(bits) // 8 * int(vector or 1)
        values, address = (rest[0], rest[1]) if form == "ld" else (rest[1], rest[0])
        parts, where = named(values), operands[int(address)]
        place = f"px_aligned<const void>({where}, {size})" if space == "global" else f"px_place({where}, {size})"
        if form == "ld":
            back = " ".join(f"{part} = px_w[{n}];" for n, part in enumerate(parts))
            return f"{{ {condition}{{ {ctype} px_w[{len(parts)}]; memcpy(px_w, {place}, {size}); {back} }} }}"
        casts = ", ".join(f"({ctype})({part})" for part in parts)
        words = f"const {ctype} px_w[] = {{{casts}}};"
        if form == "st.async":
            return f"{{ {words} px_send({where}, px_w, {size}, {operands[int(rest[2])]}); }}"
        return f"{{ {condition}{{ {words} memcpy((void*){place}, px_w, {size}); }} }}"
    return None
