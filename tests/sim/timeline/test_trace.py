"""Timelines: who waits for whom, what limits a kernel, and what follows from a change."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.sim.timeline.events import Event


@px.kernel(warps=2)
def ring(X, Y, *, STAGES=2, STEPS=8):
    s, full, empty, at = px.shared((STAGES, 8, 32), X.dtype), px.barrier(STAGES), px.barrier(STAGES), px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(STEPS):
            empty[at.stage].wait(at.parity ^ 1)
            with full[at.stage].transaction():
                px.tma.load(X[t * 8 : t * 8 + 8, 0:32], s[at.stage], full[at.stage])
            at.advance()
    with px.warps(1, 1):
        for t in range(STEPS):
            full[at.stage].wait(at.parity)
            px.store(Y[t * 8 : t * 8 + 8, 0:32], px.load(s[at.stage]))
            empty[at.stage].arrive()
            at.advance()


ROWS = px.spec((64, 32), px.f32)


def waits_of(trace: Any, who: str) -> list[Event]:
    return [event for event in trace.events if event.kind == "wait" and event.lane.title == who]


def test_the_consumer_waits_for_copies_and_the_producer_for_arrivals() -> None:
    made = px.trace(ring[1], ROWS, ROWS, STAGES=1)
    by = {event.number: event for event in made.events}
    consumer, producer = waits_of(made, "warp 1"), waits_of(made, "warp 0")
    copies = [event for event in consumer if event.barrier == "full"]
    assert {by[event.released_by].text for event in copies} == {"tma.load"}
    assert [event.phase for event in copies] == list(range(8))
    assert {by[event.released_by].text for event in producer} == {"mbarrier.arrive"}
    assert [event.phase for event in producer] == list(range(7))
    assert all(by[event.released_by].end <= event.end for event in [*copies, *producer])
    assert copies[0].location.text.strip() == "full[at.stage].wait(at.parity)"


def test_an_agent_does_one_thing_at_a_time_and_nothing_ends_before_its_cause_begins() -> None:
    made = px.trace(ring[1], ROWS, ROWS)
    by = {event.number: event for event in made.events}
    for lane in made.lanes:
        if not lane.engine:
            mine = sorted((event for event in made.events if event.lane == lane), key=lambda event: (event.start, event.end))
            assert all(before.end <= after.start for before, after in itertools.pairwise(mine))
    for event in made.events:
        for cause in (event.after, event.released_by):
            assert cause < 0 or by[cause].start <= event.end


def test_more_stages_take_less_time() -> None:
    one, two, four = (px.trace(ring[1], ROWS, ROWS, STAGES=stages) for stages in (1, 2, 4))
    assert four.cycles < two.cycles < one.cycles
    change = one.compare(four)
    assert change.ratio == four.cycles / one.cycles < 1
    assert sum(stall.cycles for stall in four.stalls()) < sum(stall.cycles for stall in one.stalls())


def test_the_text_has_a_line_for_each_place_whatever_the_stage() -> None:
    made = px.trace(ring[1], ROWS, ROWS)
    told = [line.partition(": ")[0] for line in str(made).splitlines() if line.startswith("  ")]
    assert len(told) == len(set(told)) < len(made.stalls()), "two barriers of an array, each a stall of its own"
    for barrier in ("full", "empty"):
        stalls = [stall for stall in made.stalls() if stall.barrier.startswith(f"{barrier}[")]
        assert stalls
        total = f"{sum(stall.count for stall in stalls)} times, {sum(stall.cycles for stall in stalls):,.0f} cycles"
        assert total in str(made)


def test_two_timelines_are_saved_side_by_side(tmp_path: Any) -> None:
    one, two = (px.trace(ring[1], ROWS, ROWS, STAGES=stages) for stages in (1, 2))
    beside = one.compare(two)
    beside.save(tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    data = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    assert len(data["events"]) == len(one.events) + len(two.events) and len(data["sides"]) == 2
    with pytest.raises(px.Error, match=r"two timelines are not saved as 'both\.json'"):
        beside.save(tmp_path / "both.json")
    assert beside._repr_html_().startswith("<iframe srcdoc=")


def test_waits_that_only_one_timeline_has_are_told() -> None:
    one, four = (px.trace(ring[1], ROWS, ROWS, STAGES=stages) for stages in (1, 4))
    assert one.compare(one).differing() == ()
    (key,) = (key for key in one.waiting() if key[0] == "warp 0" and key[2] == "mbarrier.arrive")
    share = one.waiting()[key]
    assert 0.2 < share < 1 and share > 2 * four.waiting().get(key, 0.0)
    beside = one.compare(four)
    change = next(row for row in beside.waits if (row.who, row.line, row.waited_for) == key)
    assert change.before == share and f"waits: warp 0 at {key[1]} for mbarrier.arrive" in str(beside)
    assert change in one.compare(four).differing(share)


def test_stages_are_filled_and_read_in_turn() -> None:
    uses = px.trace(ring[1], ROWS, ROWS).uses
    for stage in range(2):
        mine = sorted((use for use in uses if use.stage == stage), key=lambda use: use.start)
        assert [use.writes for use in mine] == [True, False] * 4
        assert all(before.end <= after.start for before, after in itertools.pairwise(mine))


def test_arguments_are_not_changed_and_arrays_do_as_well_as_specs() -> None:
    x, y = np.ones((64, 32), np.float32), np.zeros((64, 32), np.float32)
    made = px.trace(ring[1], x, y)
    assert not y.any()
    assert made.cycles == px.trace(ring[1], ROWS, ROWS).cycles


@px.kernel(warps=4)
def product(A, B, C, *, K=64):
    a, b, bar = px.shared((64, K), A.dtype), px.shared((64, K), B.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(A[0:64, 0:K], a, bar)
        px.tma.load(B[0:64, 0:K], b, bar)
    bar.wait(0)
    acc = px.zeros((64, 64), px.f32)
    for _ in range(64):
        acc = px.dot(a, b.T, acc)
    px.store(C[0:64, 0:64], acc)


def test_a_kernel_of_products_is_limited_by_tensor_cores() -> None:
    square = px.spec((64, 64), px.bf16)
    made = px.trace(product[1], square, square, px.spec((64, 64), px.f32), arch="sm_90a")
    kinds = {event.kind for event in made.events}
    assert made.bound().unit == "tensor cores" and {"copy", "product", "wait", "work", "store"} <= kinds
    tensor = [event for event in made.events if event.kind == "product"]
    assert len(tensor) == 64 and all(a.end <= b.start for a, b in itertools.pairwise(tensor))
    stall = made.stalls()[0]
    assert stall.waited_for == "wgmma" and stall.count == 64


def test_a_copy_of_a_large_array_is_limited_by_hbm() -> None:
    @px.kernel(warps=4)
    def copy(X, Y):
        row = px.block_id(0) * 64
        px.store(Y[row : row + 64, 0:256], px.load(X[row : row + 64, 0:256]))

    large = px.spec((64 * 4096, 256), px.f32)
    made = px.trace(copy[4096], large, large)
    assert made.bound().unit == "HBM"
    seconds = made.microseconds / 1e6
    assert 2.5e12 < 2 * 64 * 4096 * 256 * 4 / seconds < 4.8e12


def test_rounds_of_clusters_take_their_time() -> None:
    @px.kernel(warps=4, cluster=2)
    def busy(X):
        x = px.load(X[0:64, 0:64])
        for _ in range(16):
            x = px.exp2(x)
        px.store(X[0:64, 0:64], x)
        px.cluster.sync()

    x = px.spec((64, 64), px.f32)
    few, many = px.trace(busy[2], x), px.trace(busy[132 * 64], x)
    assert many.cycles > 2 * few.cycles
    assert {event.lane.cta for event in few.events} == {0, 1}
    assert any(event.barrier == "the cluster's barrier" for event in few.events)


def test_the_critical_path_leads_to_the_end() -> None:
    made = px.trace(ring[1], ROWS, ROWS, STAGES=1)
    path = made.critical_path()
    assert path[-1].end == max(event.end for event in made.events)
    assert {"copy", "wait"} <= {event.kind for event in path}
    assert all(cause.start <= event.end for cause, event in itertools.pairwise(path))


@px.kernel(warps=4)
def dealt(X, *, TILES=64):
    for t in px.persistent(TILES, schedule="counter"):
        px.store(X[t * 32 : t * 32 + 32], px.full((32,), 1.0, px.f32))


def test_tiles_that_are_drawn_are_shared_with_the_clusters_that_are_not_run() -> None:
    x = px.spec((64 * 32,), px.f32)
    stores = [event for event in px.trace(dealt[16], x).events if event.kind == "store"]
    alone = [event for event in px.trace(dealt[1], x).events if event.kind == "store"]
    assert len(alone) == 64 and len(stores) == 4


def test_perfetto_has_rows_bars_and_arrows(tmp_path: Any) -> None:
    made = px.trace(ring[1], ROWS, ROWS)
    made.save(tmp_path / "t.json")
    rows = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    phases = [row["ph"] for row in rows]
    assert phases.count("X") == len(made.events)
    assert phases.count("s") == phases.count("f") == sum(e.kind == "wait" and e.released_by >= 0 for e in made.events)
    assert {row["args"]["name"] for row in rows if row["name"] == "thread_name"} >= {"warp 0", "warp 1", "TMA engine"}


def test_the_page_holds_all_events_and_the_text(tmp_path: Any) -> None:
    made = px.trace(ring[1], ROWS, ROWS)
    made.save(tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text()
    data = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    assert len(data["events"]) == len(made.events)
    assert any("full[at.stage].wait(at.parity)" in line for file in data["files"] for line in file["lines"])
    assert "http://" not in page and "https://" not in page and "<!--DATA-->" not in page
    assert made._repr_html_().startswith("<iframe srcdoc=")


def test_lives_of_barriers_take_time_too() -> None:
    @px.kernel(warps=1)
    def ends(X):
        bars, tile = px.barrier(3, count=1), px.shared((64,), px.f32)
        with bars[1].transaction():
            px.tma.load(X[0:64], tile, bars[1])
        bars[1].wait(0)
        bars[1].invalidate()
        px.store(X[0:64], px.load(tile))

    seen = px.trace(ends[1], np.zeros(64, np.float32))
    assert seen.cycles > 0 and "bars[1]" in [event.barrier for event in seen.events if event.kind == "wait"]
