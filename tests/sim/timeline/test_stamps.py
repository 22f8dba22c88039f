"""Stamps become timelines: read from those that a card with the model's times would write, they say what the model says."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

import phalanx as px
from cuda.test_stamps_on_host import CASES
from phalanx.cuda.nvrtc import has_packages
from phalanx.machines.rates import rates_of
from phalanx.runtime.launch.stamping import sampled_ctas, stamped, wanted_stamps
from phalanx.runtime.timeline.stamps import LEAST_WAIT, trace_of_stamps
from phalanx.runtime.timeline.trace import Trace
from phalanx.sim.timeline.events import Event
from support.fake_driver import OnGpu, fake_gpu
from support.stamped_runs import as_buffer, stamped_text, stamps_of_model

CLOCK = 1000.0
"""Cycles of a microsecond: those of the buffers are nanoseconds."""

LONG = rates_of("sm_90a").wait + LEAST_WAIT + 4
"""Cycles of a wait that takes longer than one that is passed at once."""


def both(name: str) -> tuple[Any, Trace]:
    """The events of a modelled run, and the timeline of its stamps."""
    kernel, grid, args = CASES[name]
    function, module = stamped_text(kernel, args)
    run, told = stamps_of_model(function, grid, [value.copy() for value in args])
    return run, trace_of_stamps(as_buffer(module, (grid, 1, 1), told), CLOCK)


def waits_of(events: list[Event]) -> Counter[Any]:
    """Waits on barriers that were long: who, for which phase, how long, and what ended them."""
    found: Counter[Any] = Counter()
    for event in events:
        if event.kind == "wait" and event.barrier and event.cycles > LONG:
            by = events[event.released_by].line if event.released_by >= 0 else ""
            place = event.cluster, event.lane.cta, event.lane.title
            found[*place, event.line, event.barrier, event.phase, by] += 1
    return found


@pytest.mark.parametrize("name", ["ring", "cluster"])
def test_waits_are_released_by_what_the_model_says(name: str) -> None:
    run, read = both(name)
    inside = [event for event in run.events if event.barrier != "the cluster's barrier"]
    assert len(inside) > 20
    modelled = Counter({key: count for key, count in waits_of(run.events).items() if "cluster" not in key[4]})
    real = Counter({key: count for key, count in waits_of(read.events).items() if "cluster" not in key[4]})
    assert sum(modelled.values()) > 5 and real == modelled


@pytest.mark.parametrize("name", ["ring", "cluster"])
def test_waits_take_as_long_and_copies_end_when_they_are_waited_for(name: str) -> None:
    run, read = both(name)
    long = [
        sum(e.cycles for e in events if e.kind == "wait" and e.cycles > LONG) for events in (run.events, read.events)
    ]
    assert abs(long[0] - long[1]) < 0.05 * long[0]
    copies = [event for event in read.events if event.kind == "copy"]
    assert len(copies) == sum(event.kind == "copy" for event in run.events)
    assert all(event.end > event.start and event.nbytes for event in copies)
    products = [event for event in read.events if event.kind == "product"]
    assert len(products) == sum(event.kind == "product" for event in run.events)
    assert all(event.end > event.start for event in products)


def test_stalls_and_paths_are_those_of_any_timeline() -> None:
    _, read = both("ring")
    stall = read.stalls()[0]
    assert (stall.who, stall.waited_for) == ("warp 1", "tma.load")
    path = read.critical_path()
    assert {"wait", "copy"} <= {event.kind for event in path}
    assert all(before.start <= after.end for before, after in itertools.pairwise(path))
    assert read.source == "a run on the model" and "limited by" not in str(read) and read.cycles > 0


def test_clocks_of_sms_are_brought_together_and_rings_end() -> None:
    kernel, grid, args = CASES["cluster"]
    function, module = stamped_text(kernel, args)
    _, told = stamps_of_model(function, grid, [value.copy() for value in args])
    plain = as_buffer(module, (grid, 1, 1), told)
    before = trace_of_stamps(plain, CLOCK)
    moved = as_buffer(module, (grid, 1, 1), told)
    offset, step = 0xFFFFFF00, (len(moved.words) - 16) // grid  # so that the low half of one clock turns over
    cta = moved.words[16 + step :][:step]
    cta[3] += np.uint64(offset)
    cta[5] += np.uint64(offset)
    for warp in range(moved.warps):
        ring = cta[16 + warp * 2 * 8193 :][: 2 * 8193]
        lines = ring[2 : 2 + 2 * int(ring[0])].view(np.uint32).reshape(-1, 4)
        lines[:, :2] += np.uint32(offset)
    after = trace_of_stamps(moved, CLOCK)
    assert [(e.text, e.start, e.end) for e in after.events] == [(e.text, e.start, e.end) for e in before.events]
    assert not int(cta[16 + 2 * 8193])
    cta[16 + 2 * 8193] = 9000
    assert trace_of_stamps(moved, CLOCK).lost == 0  # of a warp that writes none
    cta[16] = 9000
    assert trace_of_stamps(moved, CLOCK).lost == 9000 - 8192


def test_stamps_are_a_build_of_their_own() -> None:
    _, _, args = CASES["ring"]
    kernel = CASES["ring"][0]
    plain = px.compile(kernel[1], *args) if has_packages() else None
    with stamped(3):
        assert wanted_stamps() is not None
        if plain is not None:
            marked = px.compile(kernel[1], *args)
            assert "px_stamp" in marked.source and marked.signature.debug
            assert {site.stamp.kind for site in marked.sites if site.stamp} >= {"wait", "signal", "copy", "begin", "end"}
    assert wanted_stamps() is None
    if plain is not None:
        assert px.compile(kernel[1], *args) is plain
        assert "px_stamp" not in plain.source and not plain.signature.debug


@pytest.mark.parametrize(("clusters", "sample", "ctas"), [(1, 4, 1), (8, 4, 4), (9, 4, 3), (132, 4, 4), (3, 4, 3)])
def test_a_sample_is_spread_over_the_grid(clusters: int, sample: int, ctas: int) -> None:
    assert sampled_ctas((clusters * 2, 1, 1), (2, 1, 1), sample) == 2 * ctas


@px.kernel(warps=1)
def doubles(X, Y):
    px.store(Y[0:32], px.load(X[0:32]) * 2)


@pytest.mark.skipif(not has_packages(), reason="the driver gets machine code that NVRTC makes")
def test_arrays_of_a_gpu_are_traced_by_a_launch() -> None:
    with fake_gpu() as library:
        made = px.trace(doubles[5], OnGpu(32), OnGpu(32), sample=2)
        assert made.source == "a run on Fake GPU" and made.events == [] and made.ctas == 5
        (launch,) = library.launches
        assert launch.grid == (5, 1, 1)
        names = library.names()
        assert names.index("cuMemcpyDtoH_v2") > names.index("cuLaunchKernelEx")
        assert px.trace(doubles[5], np.zeros(32, np.float32), np.zeros(32, np.float32)).source.startswith("a model")
        assert len(library.launches) == 1
