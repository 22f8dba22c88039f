"""A translation unit for the host from the CUDA text of any number of kernels.

Each kernel stands in a namespace of its own, its lines numbered as in its own text. PTX that loads and stores becomes C++ in
its place (`host_asm`), and so does Blackwell's and any other that `host_ptx` knows; functions of other PTX are left out, and
the host versions of all kernels come once, before them. Casts of pointers look at the alignment.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from phalanx.cuda.module import Module
from support.host_asm import translated
from support.host_build import HostFailure
from support.host_ptx import in_place

Lookup = Callable[[str], str | None]
"""The host version of a device function, by its name; None if there is none."""
_BEGIN, _END = "namespace ptx {", "}  // namespace ptx"
_BLACKWELL = re.compile(r"tcgen05|clusterlaunchcontrol|cta_group::")
_NOTES_LINE = "px_at = __LINE__, "


def translation_unit(modules: Sequence[Module], lookup: Lookup) -> str:
    """The text that defines `px_kernels`, one function per module; each takes the addresses of its parameters."""
    needed: dict[str, str] = {}
    bodies = [_case(n, module, lookup, needed) for n, module in enumerate(modules)]
    functions = "\n".join(needed.values())
    table = ", ".join(f"px_case_{n}::px_call" for n in range(len(modules)))
    return (
        f'#include "machine.h"\nnamespace px_host {{\n{functions}\n}}\n' + "".join(bodies) + 'extern "C" {\n'
        "extern void (*const px_kernels[])(void**);\n"
        f"void (*const px_kernels[])(void**) = {{{table}}};\n}}\n"
    )


def _case(n: int, module: Module, lookup: Lookup, needed: dict[str, str]) -> str:
    source = module.source
    if _BEGIN in source:
        start = source.index(_BEGIN) + len(_BEGIN)
        stop = source.index(_END)
        parts = [_without_ptx(part, lookup, needed) for part in source[start:stop].split("\n\n")]
        source = f"{source[:start]} using namespace px_host;" + "\n\n".join(parts) + source[stop:]
    source = _shared_variables(in_place(source))
    head = re.search(rf'extern "C" __global__ void\s+(?:__\w+__\([^)]*\)\s+)*{module.entry}\((.*?)\) \{{', source, re.S)
    assert head is not None, source
    types = []
    for parameter in filter(None, (p.strip() for p in _split(head[1]))):
        parameter = parameter.replace("const __grid_constant__ ", "").replace("const ", "")
        types.append(parameter.rsplit(" ", 1)[0])
    arguments = ", ".join(f"*({ctype}*)px_args[{n}]" for n, ctype in enumerate(types))
    source = source[: head.start()] + f"static void px_entry({head[1]}) {{" + source[head.end() :]
    return (
        f'namespace px_case_{n} {{\n#line 1 "{file_of(n)}"\n{_checked(source)}\n#line 1 "call"\n'
        f"static void px_call(void** px_args) {{ px_entry({arguments}); }}\n}}\n"
    )


def file_of(n: int) -> str:
    """What the compiler calls the text of kernel `n`."""
    return f"kernel-{n}.cu"


def _shared_variables(source: str) -> str:
    """Variables in shared memory as references into the CTA's; the dynamic part is where it begins."""
    source = re.sub(r"extern __shared__ .*px_smem\[\];", "", source)
    source = re.sub(r"extern __shared__ (?:__align__\(\d+\) )?([\w ]+) (\w+)\[\];", r"\1* const \2 = (\1*)px_smem;", source)
    numbers = itertools.count()

    def variable(match: re.Match[str]) -> str:
        alignment, ctype, name, extents = match.groups()
        return f"auto& {name} = px_variable<{ctype}{extents}>({next(numbers)}, {alignment or 1});"

    return re.sub(r"__shared__ (?:alignas\((\d+)\) )?([\w ]+) (\w+)((?:\[[^\]]*\])*);", variable, source)


def _without_ptx(text: str, lookup: Lookup, needed: dict[str, str]) -> str:
    """A device function's text with C++ in the place of PTX, or as many empty lines if the host has its own version."""
    if "asm" not in text:
        return text
    if (moves := translated(text)) is not None:
        return moves
    if _BLACKWELL.search(text):
        return in_place(text)
    names = re.findall(r"(\w+)\((?:[^()]|\([^()]*\))*\) \{", text)
    for name in names:
        host = lookup(name)
        if host is not None:
            needed.setdefault(name, f"#ifndef HOST_{name}\n#define HOST_{name}\n{host}\n#endif")
            return "\n" * text.count("\n")
    try:
        return in_place(text)
    except HostFailure as unknown:
        raise HostFailure(f"no host version of {' '.join(names) or text}: {unknown}") from None


def _checked(source: str) -> str:
    """Casts of pointers that look at the alignment, and the line of each vector access for the story of a failure."""
    source = re.sub(r"(keep_unsigned<\d+>)\(reinterpret_cast<unsigned\*>", r"\1((unsigned*)", source)  # of registers
    source = re.sub(r"reinterpret_cast<((?:const )?\w[\w ]*)\*>\(", r"px_aligned<\1>(", source)
    return re.sub(r"(?<![\w:])(ptx::(?:load|store)_\w+<)", rf"{_NOTES_LINE}\1", source)


def _split(parameters: str) -> list[str]:
    """At commas outside angle brackets."""
    parts, depth = [""], 0
    for character in parameters:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def with_line(module: Module, story: str) -> str:
    """A failure's story with the line of the text where it has the line's number."""
    lines = module.source.splitlines()

    def told(match: re.Match[str]) -> str:
        number = int(match[1])
        return f", at {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""

    story = re.sub(r" @(\d+)$", told, story, flags=re.M)
    return re.sub(r"(kernel-\d+\.cu:(\d+)(?::\d+)?)", lambda m: f"{m[1]} [{_line(lines, int(m[2]))}]", story)


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else "?"
