"""Kernels whose CTAs run at the same time: what says so, from the decorator to launchers and exports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import phalanx as px


@px.kernel(warps=1, cooperative=True)
def meet(X):
    px.atomic_add(X[0], 1)
    while px.atomic_load(X[0]) < px.num_blocks(0):
        pass


def test_the_launcher_is_told() -> None:
    made = px.compile(meet[4], px.spec((1,), px.i32), arch="sm_90a")
    assert made.cooperative and "warps 1, cooperative" in made.ir and "ld.relaxed.gpu.global.b32" in made.ptx
    assert px.compile(meet[4], px.spec((1,), px.i32), arch="sm_90a").cooperative, "also from the cache"


def test_exports_are_told(tmp_path: Path) -> None:
    px.export(meet[4], px.spec((1,), px.i32), to=tmp_path)
    assert [made["cooperative"] for made in json.loads((tmp_path / "meet.json").read_text())["programs"]] == [True]
    text = (tmp_path / "meet.c").read_text()
    assert "CU_LAUNCH_ATTRIBUTE_COOPERATIVE" in text and re.search(r'\{"\w*meet\w*", \d+, 32, 1, 1, 1, 0, 0, 1\}', text)
