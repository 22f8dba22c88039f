"""The C that is the same in every export: files beside this one, of whose parts a text gets those that it needs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("c")
STATUSES = {
    "NULL_POINTER": (-1, "an array is NULL"),
    "BAD_SIZE": (-2, "a size is negative, above 2^31 - 1, or not what was exported"),
    "BAD_STRIDE": (-3, "the strides of an array are not as exported: contiguous, or rows at multiples of 16 bytes"),
    "BAD_ALIGNMENT": (-4, "an array does not begin at a multiple of 16 bytes (32 for padded operands)"),
    "NO_CODE": (-5, "there is no machine code for this device among what was exported"),
    "SHARES_MEMORY": (-7, "two arrays share memory that one of them is written to and the other is read from ahead of time"),
    "BAD_GRID": (-6, "the grid is no whole number of clusters, or larger than the hardware takes"),
    "BAD_NUMBER": (-9, "a number is not among those that were exported"),
    "BAD_WORKSPACE": (-8, "the workspace is too small, or does not begin at a multiple of 256 bytes"),
}
"""What a call returns besides a CUresult, which is 0 or positive."""
_LINE = re.compile(r"^/\* -{20,} \*/\n", re.MULTILINE)
_DEFINED = re.compile(r"^static [^=;{]*?\b(px_\w+)\b *[\[(=;]", re.MULTILINE)


@cache
def c_text(name: str) -> str:
    """The text of a file in the folder."""
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def _parts(name: str) -> tuple[tuple[frozenset[str], str], ...]:
    """The parts of a file behind its first line of dashes: the names that each defines, and its text."""
    texts = [part.strip() for part in _LINE.split(c_text(name))[1:]]
    return tuple((frozenset(_DEFINED.findall(text)), text) for text in texts)


def needed(name: str, text: str) -> str:
    """The parts of a file that a text uses by name, with what these use themselves."""
    found: list[str] = []
    used = set(re.findall(r"\bpx_\w+", text))
    for names, part in reversed(_parts(name)):  # a part uses those before it
        if names & used:
            found.insert(0, part)
            used |= set(re.findall(r"\bpx_\w+", part))
    return "".join(f"{part}\n\n" for part in found)


def packed_array(rank: int) -> str:
    """The C type of an array parameter, as `ArraySlot.format` lays it out.

    Its padding is an element of the shape, so that a variable that begins as ``{0}`` has no byte that nobody wrote.
    """
    strides = f" int64_t stride[{rank}]; int32_t shape[{rank + rank % 2}];" if rank else ""
    return f"struct {{ CUdeviceptr data;{strides} }}"
