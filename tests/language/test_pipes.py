"""Pipes by hand: several stages in hand, given back oldest first; what is not given back, or was not taken, is told."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px

X = np.arange(8 * 64, dtype=np.float32)


@px.kernel(warps=2)
def late(X, Y, *, STAGES, HOW):
    """The consumer gives a stage back one step after it took the next one."""
    s = px.shared((STAGES, 64), X.dtype)
    pipe = px.pipe(STAGES)
    n = X.shape[0] // 64
    with px.warps(0, 1):
        for t in range(n):
            with pipe.produce() as i:
                px.tma.load(X[t * 64 : t * 64 + 64], s[i], pipe.full[i])
    with px.warps(1, 1):
        for t in range(n):
            i = pipe.wait()
            px.store(Y[t * 64 : t * 64 + 64], px.load(s[i]))
            if t > 0:
                pipe.release()
        if HOW == "too often":
            pipe.release()
        if HOW != "too few":
            pipe.release()


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_a_stage_may_be_given_back_later(stages: int) -> None:
    y = np.zeros_like(X)
    late[1](X, y, STAGES=stages, HOW="right")
    assert np.array_equal(X, y)
    assert px.check(late[1], X, y, STAGES=stages, HOW="right").ok


@pytest.mark.parametrize(
    ("how", "message", "text"),
    [
        ("too often", "pipe.release() gives back a stage that was not taken", "pipe.release()"),
        ("too few", "this role ends with a stage of a pipe taken and not given back",
         "with px.warps(1, 1):"),
    ],
)  # fmt: skip
def test_what_only_a_run_knows_is_told_at_its_line(how: str, message: str, text: str) -> None:
    with pytest.raises(px.Error) as error:
        late[1](X, np.zeros_like(X), STAGES=3, HOW=how)
    assert error.value.message.startswith(message) and error.value.location.text.strip() == text


def test_one_stage_can_not_be_given_back_later() -> None:
    """The only stage is still in hand when the next is asked for: nobody can fill it."""
    with pytest.raises(px.Error, match="deadlock"):
        late[1](X, np.zeros_like(X), STAGES=1, HOW="right")


@px.kernel(warps=2)
def drained(X, Y, *, STAGES=3):
    """At the end the producer waits until every stage is free again: it acquires them all, and commits none."""
    s = px.shared((STAGES, 64), X.dtype)
    pipe = px.pipe(STAGES)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            with pipe.produce() as i:
                px.tma.load(X[t * 64 : t * 64 + 64], s[i], pipe.full[i])
        for _ in px.static_range(STAGES):
            pipe.acquire()
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            with pipe.consume() as i:
                px.store(Y[t * 64 : t * 64 + 64], px.load(s[i]))


def test_acquiring_every_stage_drains_the_pipe() -> None:
    y = np.zeros_like(X)
    drained[1](X, y)
    assert np.array_equal(X, y) and px.check(drained[1], X, y).ok
