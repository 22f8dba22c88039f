"""Counters that kernels draw tiles from: which launch gets which, in streams, graphs and after a failure."""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.core import MOST_COUNTERS, MOST_DRAWN
from phalanx.kernels.products.matmul_cuts import MOST_COUNTED
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.counters import PAGE, PER_THREAD, RING, SLOT_BYTES, counters_of
from phalanx.runtime.launch.specialise import read_arguments, specialise
from support.fake_driver import FakeLibrary, OnGpu, fake_gpu


def test_a_launch_has_room_for_all_counters_of_a_kernel() -> None:
    assert 4 * (MOST_COUNTERS + MOST_DRAWN) <= SLOT_BYTES
    assert f"At most {MOST_COUNTERS}," in str(px.counters.__doc__)
    assert MOST_COUNTED <= MOST_COUNTERS


def test_the_ring_is_longer_than_the_grids_that_run_at_once() -> None:
    assert RING > 128


def test_launches_of_a_stream_go_round(driver: cuda.Driver) -> None:
    counters = counters_of(driver, 0)
    assert counters_of(driver, 0) is counters is not counters_of(driver, 1)
    first = [counters.take(7) for _ in range(RING)]
    assert [place - first[0] for place in first] == [SLOT_BYTES * n for n in range(RING)]
    assert counters.take(7) == first[0]
    other = counters.take(8)
    assert not first[0] <= other < first[0] + SLOT_BYTES * RING


def test_the_stream_of_each_thread_has_its_own(driver: cuda.Driver) -> None:
    counters = counters_of(driver, 0)
    places = {counters.take(PER_THREAD) for _ in range(RING)}
    other: set[int] = set()
    thread = threading.Thread(target=lambda: other.update(counters.take(PER_THREAD) for _ in range(RING)))
    thread.start()
    thread.join()
    assert len(other) == RING and not places & other


def test_memory_is_zero_before_anybody_gets_it(driver: cuda.Driver, library: FakeLibrary) -> None:
    counters_of(driver, 0).take(7)
    names = [name for name in library.names() if name.startswith(("cuMem", "cuStream", "cuThread"))]
    assert names == [
        "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode", "cuMemAlloc_v2", "cuStreamCreate", "cuMemsetD8Async",
        "cuStreamSynchronize", "cuStreamDestroy_v2", "cuThreadExchangeStreamCaptureMode",
    ]  # fmt: skip


def test_a_graph_owns_its_counters(driver: cuda.Driver, library: FakeLibrary) -> None:
    counters = counters_of(driver, 0)
    plain = {counters.take(7) for _ in range(RING)}
    library.capturing.add(7)
    captured = [counters.take(7) for _ in range(PAGE + 3)]
    library.capturing.clear()
    assert len(set(captured)) == len(captured) and not plain & set(captured)
    library.capturing.add(9)
    counters.take(9)
    assert [ring.start != 0 for ring in counters._rings.values()] == [True, False], "no ring for what is only captured"
    library.capturing.clear()
    assert not set(captured) & {counters.take(7) for _ in range(2 * RING)}, "nobody gets them again"


def test_after_a_failure_the_next_launch_begins_anew(driver: cuda.Driver) -> None:
    counters = counters_of(driver, 0)
    before = {counters.take(7) for _ in range(RING)}
    counters.forget()
    assert not before & {counters.take(7) for _ in range(RING)}


# Launches.


@px.kernel(warps=1)
def dealt(X, n):
    for t in px.persistent(n, schedule="counter"):
        px.store(X[t], 1.0)


def parameter(library: Any) -> tuple[int, int, int]:
    """The last array of the last launch: address, stride, size."""
    place, stride, size = struct.unpack("<QqI4x", library.launches[-1].parameter(2, 24))
    return place, stride, size


def test_every_launch_gets_the_next_ones() -> None:
    x = OnGpu(100)
    with fake_gpu() as library:
        seen = []
        for n in (5, 5, 6, 7):  # the whole way, a plain repetition, other numbers
            dealt[px.auto](x, n)
            seen.append(parameter(library))
        start = seen[0][0]
        assert seen == [(start + SLOT_BYTES * n, 1, 1) for n in range(4)]
        dealt[3](OnGpu(50), 5)  # another geometry, and back: a launcher of its own
        dealt[3](x, 5)
        assert parameter(library)[0] == start + 5 * SLOT_BYTES


def test_a_capture_gets_its_own() -> None:
    x = OnGpu(100)
    with fake_gpu() as library:
        dealt[2](x, 5)
        first = parameter(library)[0]
        library.capturing.add(0)
        dealt[2](x, 5)
        captured = parameter(library)[0]
        library.capturing.clear()
        dealt[2](x, 5)
        assert parameter(library)[0] == first + SLOT_BYTES and not first <= captured < first + RING * SLOT_BYTES


def test_a_launch_that_is_refused_leaves_its_counters_behind() -> None:
    x = OnGpu(100)
    with fake_gpu() as library:
        dealt[2](x, 5)
        first = parameter(library)[0]
        library.failures["cuLaunchKernelEx"] = [719]
        with pytest.raises(px.Error):
            dealt[2](x, 5)
        dealt[2](x, 5)
        assert not first <= parameter(library)[0] < first + RING * SLOT_BYTES


def test_a_thread_without_a_context_tries_again() -> None:
    x = OnGpu(100)
    with fake_gpu() as library:
        dealt[2](x, 5)
        first = parameter(library)[0]
        library.failures["cuLaunchKernelEx"] = [cuda.INVALID_CONTEXT]
        dealt[2](x, 5)
        assert parameter(library)[0] == first + 2 * SLOT_BYTES


def test_users_give_no_counters() -> None:
    with fake_gpu(), pytest.raises(px.Error, match="takes 2 run-time arguments, not 3"):
        dealt[2](OnGpu(4), 3, OnGpu(4))
    made = px.compile(dealt[px.auto], px.spec((100,), px.f32), 5)
    assert made.signature.counters == 1 and [slot.name for slot in made.signature.given] == ["X", "n"]
    assert type(made.signature).from_json(made.signature.to_json()) == made.signature


def test_kernels_without_counters_ask_nothing() -> None:
    @px.kernel(warps=1)
    def plain(X):
        px.store(X[0], 1.0)

    with fake_gpu() as library:
        plain[1](OnGpu(4))
        plain[1](OnGpu(4))
        assert "cuStreamIsCapturing" not in library.names()


@px.kernel(warps=4)
def counts_beside_a_pipelined_loop(X, Y):
    visits = px.counters(1)
    px.atomic_add(visits[0], 1)
    total = px.zeros((64,), px.f32)
    for k in px.pipelined(range(4)):
        total = total + px.load(X[k, 0:64])
    px.store(Y[0, 0:64], total)
    px.atomic_exch(visits[0], 0)


def test_counters_share_memory_with_no_argument() -> None:
    x, y = np.ones((4, 64), np.float32), np.zeros((4, 64), np.float32)
    counts_beside_a_pipelined_loop[1](x, y)
    assert (y[0] == 4).all() and (y[1:] == 0).all()
    both = np.ones((4, 64), np.float32)
    counts_beside_a_pipelined_loop[1](both, both)
    assert (both[0] == 4).all()
    spec = px.spec((4, 64), px.f32)
    reading = specialise(counts_beside_a_pipelined_loop, read_arguments(counts_beside_a_pipelined_loop, (spec, spec)), {})
    assert reading.watched == ((0, 1),)
