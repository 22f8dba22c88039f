"""Constants that are `px.auto`: the largest number with which a kernel's shared memory fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from phalanx.cuda.prepare import prepare_for
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import USUAL
from phalanx.ir.core import Function, Note
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.language.auto import Auto
from phalanx.language.kernel import Kernel
from phalanx.language.reader.reading import Reading, read_kernel
from phalanx.passes.sharing import budget

UNLIMITED = 1 << 40
PADDING = 1024
"""What a buffer or a barrier array is rounded up to, where no plan says how they lie."""


@frozen
class Resolved:
    """Constants with the number in its place, and why it is that one."""

    constants: dict[str, Any]
    note: Note


_TARGET = USUAL[0]
"""Whose shared memory the numbers are fitted to: they are the same for every target."""


def has_auto(constants: dict[str, Any]) -> bool:
    """Whether a constant is left to the compiler."""
    return any(isinstance(value, Auto) for value in constants.values())


def resolve_auto(kernel: Kernel, types: Sequence[Any], constants: dict[str, Any]) -> Resolved:
    """The constants with `px.auto` replaced.

    Called before a kernel with such a constant is read. The bytes are those of the plan for a GPU, with the layouts and
    the scratch it chooses, read off at two small numbers and confirmed at the one that follows from them.
    """
    names = [name for name, value in constants.items() if isinstance(value, Auto)]
    if len(names) > 1:
        raise Error(
            f"the constants {', '.join(names)} of kernel '{kernel.name}' are all px.auto",
            location=kernel.location,
            remedy="let the compiler choose one of them and give the others",
        )
    name = names[0]
    auto: Auto = constants[name]
    readings: dict[int, Reading] = {}

    def nbytes(number: int) -> int:
        readings[number] = read_kernel(kernel, tuple(types), {**constants, name: number})
        return shared_bytes(readings[number].function)

    first = nbytes(auto.least)
    limit = budget(readings[auto.least].function, _TARGET)
    number, each = auto.least, 0
    if auto.most > auto.least:
        each = nbytes(auto.least + 1) - first
        if each <= 0:
            raise Error(
                f"the constant '{name}' of kernel '{kernel.name}' is px.auto, and shared memory does not grow with it",
                location=kernel.location,
                remedy="use it as the number of stages of a px.shared buffer, or give a number",
            )
    if first > limit:
        raise Error(
            f"kernel '{kernel.name}' needs {first:,} bytes of shared memory with {name}={auto.least}, "
            f"the least that px.auto may take; a CTA has {limit:,}",
            location=kernel.location,
            remedy="use smaller tiles, or allow fewer: px.auto(least=1)",
        )
    if each:
        number = min(auto.most, auto.least + (limit - first) // each)
        while number > auto.least and nbytes(number) > limit:
            number -= 1
    used = shared_bytes(readings[number].function)
    note = Note(
        f"{name}={number} (px.auto): {used:,} of {limit:,} bytes of shared memory, {each:,} each", kernel.location
    )
    return Resolved({**constants, name: number}, note)


def shared_bytes(function: Function) -> int:
    """Shared memory of a kernel as it is planned for a GPU, however much that is.

    A kernel that can't be planned (the simulator runs more than GPUs do) counts its buffers and barriers as they are.
    """
    from phalanx.cuda.lower.lower import lower

    prepared = prepare_for(function, _TARGET)
    try:
        return lower(prepared, dataclasses.replace(_TARGET, shared_limit=UNLIMITED)).shared_bytes
    except Error:
        items: tuple[SharedBuffer | BarrierArray, ...] = (*prepared.shared_buffers, *prepared.barriers)
        return sum(-(-item.nbytes // PADDING) * PADDING for item in items if item.reuse is None)
