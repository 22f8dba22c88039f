"""benchmarks/drawn/spills.py: kernels of drawn calls whose machine code spills are named, with the call that launches."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import phalanx as px
from benchmarks.drawn import spills


def test_kernels_that_spill_nothing_are_counted() -> None:
    assert spills.spilling(spills.cases_of(["pack_scales"], ["0"], 1)) == (1, [])


def test_what_spills_is_named_once_with_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(px, "compile", lambda *_, **__: SimpleNamespace(spills=24))
    (case,) = spills.cases_of(["pack_scales"], ["0"], 1).values()
    kernels, (line,) = spills.spilling({"pack_scales, seed 0, 0: rows": case, "the same": case})
    assert kernels == 1 and line.lstrip().startswith("24 bytes a thread: pack_scale_tiles")
    assert line.splitlines()[1].strip().startswith("pack_scales, seed 0, 0: rows")
