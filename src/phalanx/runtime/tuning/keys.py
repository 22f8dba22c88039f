"""Searches on disk: the key of one, and its table as an entry of the cache of compiled kernels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from phalanx.errors import Error
from phalanx.runtime.cache import compiler_fingerprint, digest
from phalanx.runtime.compiled import compiler_identity, disk_cache
from phalanx.runtime.device.power import Reading
from phalanx.runtime.tuning.result import Row
from phalanx.runtime.tuning.sources import NoText, text_of


def driver_text() -> str:
    """The driver of this machine: its version and the CUDA version it supports."""
    from phalanx.runtime.device.driver import get_driver, has_gpu

    if not has_gpu():
        return "no driver"
    try:
        version = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        version = ""
    return f"{get_driver().version()} {version}"


def compiler_text() -> str:
    """What would compile the kernels, as `compile_function` has it in its keys; functions may do without NVRTC."""
    try:
        return compiler_identity()
    except Error:
        return f"{compiler_fingerprint()} without NVRTC"


def search_key(parts: Mapping[str, Any], listings: Sequence[str]) -> tuple[str | None, str]:
    """The key of a search, from what it is given and the keys of its kernels; or None, and which part has no text."""
    texts = []
    for name, part in parts.items():
        try:
            texts.append(text_of(part))
        except NoText as problem:
            return None, f"{name}: {problem}"
    return digest("tune", compiler_text(), driver_text(), *texts, *listings), ""


def load_rows(key: str | None, configs: Sequence[dict[str, Any]]) -> tuple[list[Row], str] | None:
    """The rows of an earlier search, in the order of the configurations, and why they have no energy."""
    entry = disk_cache().load(key) if key is not None else None
    if entry is None:
        return None
    try:
        kept, unmetered = json.loads(entry.blobs["rows"])
        if len(kept) != len(configs):
            return None
        rows = [
            Row(
                config, None if ms is None else float(ms), None, str(status), str(note), int(rounds),
                None if drawn is None else Reading(*drawn), modelled=None if modelled is None else float(modelled),
            )
            for config, (ms, status, note, rounds, drawn, modelled) in zip(configs, kept)
        ]
        return rows, str(unmetered)
    except (KeyError, TypeError, ValueError):
        return None


def store_rows(key: str | None, rows: Sequence[Row], unmetered: str = "") -> None:
    """Keeps the table of a search on disk, unless it has no key; `unmetered` says why it has no energy."""
    if key is not None:
        kept = [
            [row.ms, row.status, row.note, row.rounds, row.drawn and astuple(row.drawn), row.modelled] for row in rows
        ]
        disk_cache().store(key, {"kind": "tuned"}, {"rows": json.dumps([kept, unmetered]).encode()})
