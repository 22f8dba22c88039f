"""Choices on disk, beside compiled kernels: another process that launches the same sizes ranks nothing."""

from __future__ import annotations

import json
from typing import Any

from phalanx.language.kernel import Kernel
from phalanx.runtime.cache import compiler_fingerprint, digest
from phalanx.runtime.compiled import disk_cache
from phalanx.runtime.tuning.sources import NoText, text_of


def key_of(kernel: Kernel, key: tuple[Any, ...]) -> str | None:
    """The key of a choice: the kernel with all that it names, the sizes, the candidates; None for what has no text."""
    try:
        return digest("choose", compiler_fingerprint(), text_of(kernel), repr(key))
    except NoText:
        return None


def load_choice(kernel: Kernel, key: tuple[Any, ...]) -> tuple[int, str] | None:
    """The number of the combination that was chosen before, and what was said of it."""
    name = key_of(kernel, key)
    entry = disk_cache().load(name) if name is not None else None
    if entry is None:
        return None
    try:
        number, told = json.loads(entry.blobs["choice"])
        return int(number), str(told)
    except (KeyError, TypeError, ValueError):
        return None


def store_choice(kernel: Kernel, key: tuple[Any, ...], number: int, told: str) -> None:
    """Keeps a choice, unless its kernel names something without a text."""
    name = key_of(kernel, key)
    if name is not None:
        disk_cache().store(name, {"kind": "chosen"}, {"choice": json.dumps([number, told]).encode()})
