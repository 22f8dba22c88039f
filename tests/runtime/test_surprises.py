"""What is legal but may surprise: `px.check` tells it, and a launch's error names the line that launched."""

from __future__ import annotations

import html

import numpy as np
import pytest

import phalanx as px


@px.kernel
def last(X, Y):
    px.store(Y[0], X[-1])
    px.store(Y[1:3], px.load(X[-4:-2]))


@px.kernel
def near(X, Y):
    px.store(Y[0:4], px.load(X[-2:2]))
    px.store(Y[X.shape[0] - 1], X[0])


X, Y = np.ones(8, np.float32), np.zeros(8, np.float32)


def test_what_is_outside_whatever_the_size_is_a_note() -> None:
    report = px.check(last[1], X, Y)
    assert report.ok
    first, second = (note.partition(": ")[2] for note in report.notes)
    told = "is outside 'X' whatever its size: it loads as `fill`, and stores nothing; the last element is X.shape[0] - 1"
    assert first == f"-1 {told}" and second == f"-4:-2 {told}"
    assert any("-1 is outside 'X'" in note for note in px.compile(last[1], X, Y).notes)


def test_what_is_partly_inside_or_counted_from_the_end_is_none() -> None:
    assert px.check(near[1], X, Y).notes == []


@pytest.mark.parametrize("grid", [0, (4, 0), lambda: 8 // 64])
def test_a_grid_without_ctas_is_a_note(grid) -> None:
    (note,) = px.check(near[grid], X, Y).notes
    assert note.endswith("has no CTA: nothing was run; px.cdiv(n, BLOCK) rounds up, n // BLOCK down")


@pytest.mark.parametrize("use", ["near[1](X)", "px.check(near[1], X)", "px.compile(near[1], X)"])
def test_an_error_about_a_launch_names_its_line(use: str) -> None:
    with pytest.raises(px.Error) as caught:
        if use.startswith("near"):
            near[1](X)
        elif "check" in use:
            px.check(near[1], X)
        else:
            px.compile(near[1], X)
    assert caught.value.location.text.startswith("def near(X, Y):")
    assert caught.value.call.file == __file__ and caught.value.call.text.strip() == use
    assert f"= called at {__file__.rpartition('tests/')[1]}" in str(caught.value) and use in str(caught.value)


def test_an_error_at_a_line_of_the_kernel_names_that_line_alone() -> None:
    @px.kernel
    def wrong(X):
        px.store(X[0], nothing_like_it)  # noqa: F821

    with pytest.raises(px.Error) as caught:
        wrong[1](X)
    assert "called at" not in str(caught.value)


def test_a_report_in_a_notebook() -> None:
    text = px.check(last[1], X, Y)._repr_html_()
    assert text.startswith("<pre>note: ") and html.escape("'X'") in text
    assert text.endswith("no findings under 3 schedules</pre>")
