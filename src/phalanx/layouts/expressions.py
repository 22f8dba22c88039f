"""Readable integer arithmetic for linear maps: text that both C++ and Python evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_


def linear_expression(terms: Sequence[tuple[str, Sequence[int]]], constant: int = 0) -> str:
    """The text of `constant ^ XOR of the images of the set bits` of some named integers.

    `terms` lists (variable, image of each of its bits). Runs of bits that move together become one shift and
    mask, and terms whose bits do not overlap are added rather than XORed, so that compilers fold them into
    addresses. Variables are assumed to be non-negative and within their bits.

    Example: `linear_expression([("lane", (2, 4, 0, 0, 0))])` is `"(lane & 3) * 2"`.
    """
    pieces: list[tuple[str, int]] = []  # (text, mask of the result bits it can set)
    for name, images in terms:
        for first, count, image in _runs(images):
            top = first + count == len(images)
            pieces.append((_piece(name, first, count, image, top), ((1 << count) - 1) * image))
    if constant or not pieces:
        pieces.append((str(constant), constant))
    disjoint = sum(mask for _, mask in pieces) == reduce(or_, (mask for _, mask in pieces))
    if len(pieces) == 1:
        return pieces[0][0]
    if disjoint:
        return " + ".join(text for text, _ in pieces)
    return " ^ ".join(
        f"({text})" if not text.isidentifier() and not text.isdigit() else text for text, _ in pieces
    )


def _runs(images: Sequence[int]) -> list[tuple[int, int, int]]:
    """(first bit, number of bits, image of the first): images that double from bit to bit, each one bit wide.

    An image with several bits set is a run of its own (its multiple of 0 or 1 is exact).
    """
    runs: list[tuple[int, int, int]] = []
    for bit, image in enumerate(images):
        if image == 0:
            continue
        if runs:
            first, count, start = runs[-1]
            single = start & (start - 1) == 0
            if single and first + count == bit and image == start << count:
                runs[-1] = (first, count + 1, start)
                continue
        runs.append((bit, 1, image))
    return runs


def _piece(name: str, first: int, count: int, image: int, top: bool) -> str:
    mask = (1 << count) - 1
    if first == 0:
        text = name if top else f"({name} & {mask})"
    elif top:
        text = f"({name} >> {first})"
    else:
        text = f"(({name} >> {first}) & {mask})"
    return text if image == 1 else f"{text} * {image}"
