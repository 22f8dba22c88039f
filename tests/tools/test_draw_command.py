"""`phalanx draw`: which pictures it writes, what they show, exit codes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import phalanx as px
from phalanx.runtime.recording import ENGINE, SimRecording
from phalanx.tools.cli import app
from phalanx.tools.draw import record, ring_picture, timeline_picture

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pictures_of_a_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["draw", str(EXAMPLES / "ring_copy.py"), "--to", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    names = ["ring_copy.timeline.svg", "ring_copy.stages.svg"]
    assert result.output.split() == [str(tmp_path / "new" / name) for name in names]
    assert all((tmp_path / "new" / name).read_text().startswith("<svg ") for name in names)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["draw", str(tmp_path / "missing.py")])
    assert result.exit_code == 2 and "there is no file" in result.output


@px.kernel(warps=2)
def ring(X, Y, *, STAGES=2):
    s, full, empty, at = px.shared((STAGES, 8, 32), X.dtype), px.barrier(STAGES), px.barrier(STAGES), px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(4):
            empty[at.stage].wait(at.parity ^ 1)
            with full[at.stage].transaction():
                px.tma.load(X[t * 8 : t * 8 + 8, 0:32], s[at.stage], full[at.stage])
            at.advance()
    with px.warps(1, 1):
        for t in range(4):
            full[at.stage].wait(at.parity)
            px.store(Y[t * 8 : t * 8 + 8, 0:32], px.load(s[at.stage]))
            empty[at.stage].arrive()
            at.advance()


def recorded(stages: int) -> SimRecording:
    x = np.ones((32, 32), np.float32)
    return record(ring[1], x, np.zeros_like(x), STAGES=stages)


def test_nobody_reads_a_stage_before_it_is_filled_nor_fills_it_before_it_is_read() -> None:
    uses = recorded(2).uses
    for stage in range(2):
        mine = sorted((use for use in uses if use.stage == stage), key=lambda use: use.start)
        assert [use.writes for use in mine] == [True, False, True, False]
        assert all(before.end <= after.start for before, after in itertools.pairwise(mine))


def test_more_stages_end_sooner() -> None:
    assert recorded(4).end < recorded(2).end < recorded(1).end


def test_arguments_are_not_changed() -> None:
    x, y = np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)
    record(ring[1], x, y)
    assert not y.any()


def test_a_picture_shows_as_much_as_it_is_told() -> None:
    made = recorded(2)
    whole, part = timeline_picture(made, most=1000), timeline_picture(made, most=ENGINE)
    assert part.count("<rect") < whole.count("<rect")


def test_a_buffer_without_stages() -> None:
    with pytest.raises(ValueError, match="no stages of 'other' are used in CTA 0; there are s"):
        ring_picture(recorded(2), "other")


def test_peers_wait_for_each_other() -> None:
    """Of a cluster both CTAs are drawn, and a barrier of the cluster ends no earlier than the last arrives."""

    @px.kernel(warps=1, cluster=2)
    def meet(X):
        if px.cluster.rank() == 0:
            px.store(X[0, 0:32], px.load(X[1, 0:32]))
        px.cluster.sync()
        px.store(X[2 + px.cluster.rank(), 0:32], px.load(X[1, 0:32]))

    made = record(meet[2], np.ones((4, 32), np.float32))
    by_cta = {lane.cta: spans for lane, spans in made.spans.items()}
    first = next(span for span in by_cta[1] if span.kind == "wait")
    assert first.end == sum(span.end - span.start for span in by_cta[0][:2])
