"""The report: text, JSON, errors, counts, seeds."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, line_of

X, Y = array(256, 64), array(256, 64)


@px.kernel(warps=1)
def races(X, Y):
    b = px.block_id(0) * 32
    px.store(Y[b : b + 64, 0:64], px.load(X[b : b + 64, 0:64]))  # bug


@px.kernel(warps=1)
def clean(X, Y):
    b = px.block_id(0) * 64
    px.store(Y[b : b + 64, 0:64], px.load(X[b : b + 64, 0:64]))


def test_a_clean_report():
    report = px.check(clean[4], X, Y)
    assert report.ok and not report.findings and bool(report)
    assert str(report) == "clean: no findings under 3 schedules"
    report.raise_if_found()
    assert json.loads(report.to_json()) == {
        "kernel": "clean", "ok": True, "schedules": ["late", "early", "random, seed 0"], "findings": [],
    }


def test_findings_are_counted_by_kind_and_lines():
    report = px.check(races[4], X, Y)
    finding, = report.findings
    assert finding.count == 3
    assert report.schedules == ("late",)  # the first schedule that finds something is the last


def test_a_finding_says_where_and_who():
    finding, = px.check(races[2], X, Y).findings
    assert finding.location.file == __file__ and finding.location.line == line_of(races, "bug")
    assert finding.location.column == 4
    assert [(actor.cluster, actor.cta, actor.engine) for actor in finding.agents] == [(1, 0, None), (0, 0, None)]
    assert "Y[32:96, 0:64]" in finding.message and "clusters run in any order" in finding.message


def test_the_text_shows_both_lines_with_carets():
    text = str(px.check(races[2], X, Y))
    assert text.startswith("race: px.store writes Y[32:96, 0:64]")
    assert len(re.findall(r"\| +\^+ writes Y", text)) == 2 and text.count("# bug") == 2
    assert "schedule late, seed 0" in text
    assert text.endswith("races: 1 finding under 1 schedule")


def test_json_has_everything():
    data = json.loads(px.check(races[2], X, Y).to_json())
    finding, = data["findings"]
    assert finding["kind"] == "race" and finding["location"]["line"] == line_of(races, "bug")
    assert finding["agents"][0]["cluster"] == 1 and finding["seed"] == 0 and finding["schedule"] == "late"


def test_raise_if_found():
    with pytest.raises(px.Error) as caught:
        px.check(races[2], X, Y).raise_if_found()
    assert caught.value.kind == "race" and caught.value.location.line == line_of(races, "bug")
    assert "races: 1 finding" in str(caught.value)


def test_a_random_schedule_prints_its_seed():
    @px.kernel(warps=5)
    def by_luck(X, Y):
        """Four roles arrive, unless they came in the very order that is opposite to their numbers."""
        turn, orders = px.shared((1,), px.i32), px.shared((4,), px.i32)
        done = px.barrier(count=4, checked=False)
        px.store(turn, px.zeros((1,), px.i32))
        px.store(orders, px.zeros((4,), px.i32))
        for role in px.static_range(4):
            with px.warps(role, 1):
                if px.atomic_add(turn[0], 1) == 3 - role:
                    px.atomic_add(orders[0], 1)
                done.arrive()
        with px.warps(4, 1):
            done.wait(0)
            if px.atomic_add(orders[0], 0) == 4:
                done.wait(1)

    report = px.check(by_luck[1], X, Y, schedules=200, seed=5)
    finding, = report.findings
    assert finding.kind == "deadlock" and finding.schedule == "random"
    again = px.check(by_luck[1], X, Y, schedules=3, seed=finding.seed)
    assert [f.kind for f in again.findings] == ["deadlock"]
    assert f"seed={finding.seed}" in str(finding)


def test_rich_can_print_it():
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(px.check(races[2], X, Y))
    assert "race" in console.export_text()


def test_arguments_are_copied_with_their_strides():
    y = np.zeros((64, 512), np.float32)
    before = y.copy()

    @px.kernel(warps=1)
    def strided(Y):
        px.store(Y[0:32, 0:32], px.full((32, 32), 1.0, px.f32))

    assert px.check(strided[1], y[::2, ::4]).ok
    assert np.array_equal(y, before)


def test_wrong_calls_are_errors():
    with pytest.raises(px.Error, match="kernel with its grid"):
        px.check(clean, X, Y)
    with pytest.raises(px.Error, match="schedules"):
        px.check(clean[4], X, Y, schedules=0)


def test_errors_that_are_no_checks_are_raised():
    @px.kernel(warps=1)
    def asserts(X):
        px.device_assert(X.shape[0] < 3, "too long")

    with pytest.raises(px.Error, match="too long"):
        px.check(asserts[1], X)


def test_more_shared_memory_than_any_gpu_has_is_a_note():
    @px.kernel(warps=1)
    def roomy(X, Y, *, N):
        s = px.shared((N, 64), X.dtype)
        px.store(s[0:64], px.load(X[0:64, 0:64]))
        px.store(Y[0:64, 0:64], px.load(s[0:64]))

    size = X.dtype.itemsize * 64
    report = px.check(roomy[1], X, Y, N=232448 // size + 1)
    assert report.ok and len(report.notes) == 1
    needed = f"{(232448 // size + 1) * size:,}"
    assert f"roomy needs at least {needed} bytes of shared memory, a CTA has 232,448 at most" in report.notes[0]
    assert not px.check(roomy[1], X, Y, N=232448 // size).notes


@px.kernel(warps=5)
def multiplies_too_early(X, Y, *, WARPS, K=64):
    """Both forms of a product, on what a pipe brings, without its wait."""
    a, b = px.shared((64, K), X.dtype), px.shared((K, 64), X.dtype)
    pipe = px.pipe(1)
    with px.warps(4, 1):
        with pipe.produce() as s:
            px.tma.load(X[0:64, 0:K], a, pipe.full[s])
            px.tma.load(X[0:K, 0:64], b, pipe.full[s])
    with px.warps(0, WARPS):
        acc = px.dot(a, b)
        px.store(Y[0:64, 0:64], acc)
        with pipe.consume() as s:
            pass


@pytest.mark.parametrize("warps", [4, 2])
def test_the_words_are_the_users(warps):
    """Four warps multiply with wgmma, two with mma.sync."""
    x = np.zeros((64, 64), np.float16)
    report = px.check(multiplies_too_early[1], x, np.zeros((64, 64), np.float32), WARPS=warps)
    finding = report.findings[0]
    assert "px.dot reads" in finding.message
    assert "pipe.full" in finding.message and "mma" not in finding.message and "pipe_full" not in str(report)
