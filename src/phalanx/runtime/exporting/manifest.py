"""The manifest of an exported kernel, and the loader that reads it: a file of its own that needs cuda-bindings alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from phalanx.runtime.compiled import Compiled
from phalanx.runtime.exporting.c_source import Launch

FORMAT = 1
LOADER = Path(__file__).with_name("loader.py")
"""Copied into the folder as it is: it imports nothing of Phalanx."""


def manifest(launch: Launch) -> str:
    """The text of NAME.json."""
    model = launch.model
    content: dict[str, Any] = {
        "format": FORMAT,
        "name": launch.name,
        "entry": model.name,
        "described": launch.described,
        **launch.parameters.to_json(),
        "grid": None if launch.grid is None else [size.python for size in launch.grid],
        **launched(model),
        "targets": {
            made.arch: {"cubin": f"{launch.name}_{made.arch}.cubin", "registers": made.registers, "spills": made.spills}
            for made in launch.programs
        },
    }
    return json.dumps(content, indent=2) + "\n"


def launched(model: Compiled) -> dict[str, Any]:
    """How a kernel is launched, whatever its grid: the part that kernels and functions have in common."""
    return {
        "cluster": list(model.cluster),
        "as_cluster": model.addresses_cluster or model.cluster != (1, 1, 1),
        "threads": 32 * model.warps,
        "shared_bytes": model.shared_bytes,
        "overlap": model.pdl,
        "cooperative": model.cooperative,
    }
