"""Rebuilding instructions around changed blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from phalanx.ir.core import Block, Op


def map_blocks(op: Op, change: Callable[[Block], Block]) -> Op:
    """`op` with `change` applied to each block it holds (the regions of `Roles` included); itself if none changed."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(op):
        item = getattr(op, field.name)
        if isinstance(item, Block):
            new: Any = change(item)
        elif isinstance(item, tuple) and item and isinstance(item[0], Op):
            new = tuple(map_blocks(part, change) for part in item)
            if all(a is b for a, b in zip(new, item, strict=True)):
                new = item
        else:
            continue
        if new is not item:
            changes[field.name] = new
    return dataclasses.replace(op, **changes) if changes else op
