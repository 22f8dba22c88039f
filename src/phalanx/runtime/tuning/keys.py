"""Searches on disk: the key of one, and its table as an entry of the cache of compiled kernels."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.ir.types import DType
from phalanx.language.capture import InlinedFunction
from phalanx.runtime.cache import compiler_fingerprint, digest
from phalanx.runtime.compiled import disk_cache
from phalanx.runtime.tuning.result import Row


class NoKey(Exception):
    """The search depends on something that has no text: it is not kept."""


def text_of(value: Any) -> str:
    """A text that differs wherever two values do; `NoKey` for what has none."""
    if isinstance(value, (bool, int, str)) or value is None:
        return repr(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, DType):
        return f"dtype {value.name}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {text_of(item)}' for key, item in value.items())}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return f"{type(value).__qualname__}{text_of(parts)}"
    if isinstance(value, InlinedFunction):
        return text_of(value.fn)
    if inspect.isfunction(value):
        if value.__closure__:
            raise NoKey
        try:
            return f"{value.__module__}.{value.__qualname__}\n{inspect.getsource(value)}"
        except (OSError, TypeError):
            raise NoKey from None
    raise NoKey


def driver_text() -> str:
    """The driver of this machine: its version and the CUDA version it supports."""
    from phalanx.runtime.driver import get_driver, has_gpu

    if not has_gpu():
        return "no driver"
    try:
        version = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        version = ""
    return f"{get_driver().version()} {version}"


def search_key(parts: Sequence[Any], listings: Sequence[str]) -> str | None:
    """The key of a search; None where it has none."""
    import phalanx

    try:
        texts = [text_of(part) for part in parts]
    except NoKey:
        return None
    return digest("tune", phalanx.__version__, compiler_fingerprint(), driver_text(), *texts, *listings)


def load_rows(key: str | None, configs: Sequence[dict[str, Any]]) -> list[Row] | None:
    """The rows of an earlier search, in the order of the configurations."""
    entry = disk_cache().load(key) if key is not None else None
    if entry is None:
        return None
    try:
        kept = json.loads(entry.blobs["rows"])
        if len(kept) != len(configs):
            return None
        return [
            Row(config, None if ms is None else float(ms), None, str(status), str(note), int(rounds))
            for config, (ms, status, note, rounds) in zip(configs, kept)
        ]
    except (KeyError, TypeError, ValueError):
        return None


def store_rows(key: str | None, rows: Sequence[Row]) -> None:
    if key is not None:
        kept = [[row.ms, row.status, row.note, row.rounds] for row in rows]
        disk_cache().store(key, {"kind": "tuned"}, {"rows": json.dumps(kept).encode()})
