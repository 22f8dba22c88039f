"""Kernels that are strict: what would be a note about lost speed is an error at its line.

Which notes name lost speed they say themselves (`ir.core.Faster`), whoever makes them: this is the one place that asks.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.errors import Error
from phalanx.ir.archs import Arch
from phalanx.ir.core import Function, Note
from phalanx.passes.pipelining.write import leave_plain


def require_fast(function: Function, arch: Arch) -> None:
    """Raises a strict kernel's first note about lost speed, if it has one on this target; the others are its details.

    `function` is prepared for the target. For whoever runs, checks or compiles it.
    """
    if function.strict:
        refuse_slow(function, _notes(function, arch), arch)


def refuse_overlap(function: Function) -> None:
    """Raises for a launch of a strict kernel whose loops run as they are written, since its arguments share memory."""
    if function.strict:
        plain = leave_plain(function, "arguments share memory", "copy one of them first")
        refuse_slow(function, plain.notes[len(function.notes) :])


def refuse_slow(function: Function, notes: Iterable[Note], arch: Arch | None = None) -> None:
    """Raises the first of these notes that names speed lost on a target, if there is one and the kernel is strict."""
    if not function.strict:
        return
    lost = [note for note in dict.fromkeys(notes) if note.faster is not None]
    slow = [note for note in lost if arch is None or arch.has(note.faster.needs)]  # type: ignore[union-attr]
    if not slow:
        return
    first, *others = slow
    assert first.faster is not None
    listed = "\n".join(map(str, others))
    raise Error(
        f"{first.message}; kernel '{function.name}' is strict",
        location=first.loc,
        details=f"further speed is lost here:\n{listed}" if others else None,
        remedy=f"{first.faster.remedy}; or let it be a note, without strict=True (PHALANX_STRICT=1)",
    )


def _notes(function: Function, arch: Arch) -> tuple[Note, ...]:
    """All that is said of a prepared kernel: by its passes, and by what the target makes of it."""
    from phalanx.cuda.lower.lower import lower

    try:
        return lower(function, arch).notes
    except Error:  # the simulator runs more than GPUs do; whoever compiles the kernel sees this error
        return function.notes
