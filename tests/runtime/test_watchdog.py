"""Bounded waits: which launches they reach."""

from __future__ import annotations

import os
from typing import Any

import pytest

import phalanx as px
from phalanx.runtime.launch.dispatch import BoundLaunch
from phalanx.runtime.launch.launch_list import LISTS
from phalanx.runtime.launch.watchdog import bounded_waits


@px.kernel
def nothing(X):
    px.store(X[0], 1.0)


class Watched(BoundLaunch):
    """Counts the launches that go the whole way, where bounds are asked for."""

    __slots__ = ("whole",)

    def launch(self, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        self.whole = getattr(self, "whole", 0) + 1


def test_launches_that_are_known_already_are_bounded_too() -> None:
    bound = Watched(nothing, 1)
    bound.last = lambda args: True  # as after a plain launch on a GPU
    bound(None)
    assert not hasattr(bound, "whole")
    with bounded_waits():
        bound(None)
    assert bound.whole == 1
    bound(None)
    assert bound.whole == 1 and not LISTS


@pytest.mark.parametrize("before", [None, "0", "1"])
def test_the_environment_is_as_it_was(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv("PHALANX_WATCHDOG", raising=False)
    if before is not None:
        monkeypatch.setenv("PHALANX_WATCHDOG", before)
    with pytest.raises(ZeroDivisionError), bounded_waits():
        assert os.environ["PHALANX_WATCHDOG"] == "1"
        raise ZeroDivisionError
    assert os.environ.get("PHALANX_WATCHDOG") == before
