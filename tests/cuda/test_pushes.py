"""Which way a push goes, and that every way moves each element to its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.exchanges.push import _places
from phalanx.cuda.lower.pushes import Unfit, _bulk, _offsets, _stores, _vector
from phalanx.cuda.plan import Plan, PushPath, PushPlan
from phalanx.ir.core import Note
from phalanx.ir.ops.cluster import ClusterCopy
from phalanx.ir.types import bf16, f16, f32, u8
from phalanx.ir.values import Const
from phalanx.ir.views import SharedBuffer, SharedView
from phalanx.layouts import SharedLayout
from support.cluster_cases import MAKERS, case
from support.cuda_text import plan_of
from support.front import array
from support.host_cuda import type_of

FACTS = Divisibility({})


def push(src: SharedView, dst: SharedView, *, barrier: bool = True) -> ClusterCopy:
    from phalanx.ir.views import BarrierArray, BarrierRef

    return ClusterCopy(src, dst, BarrierRef(BarrierArray("full", 1), Const(0)) if barrier else None, Const(1))


def view(
    shape: tuple[int, ...], start: tuple[int, ...], extents: tuple[int, ...], dtype=f32, kept=None, name="s"
) -> SharedView:
    kept = tuple(range(len(shape))) if kept is None else kept
    return SharedView(SharedBuffer(name, shape, dtype), tuple(map(Const, start)), extents, kept)


def moved(plan: PushPlan) -> dict[int, int]:
    """From every source byte to where it lands."""
    out = {}
    for a, b in plan.places or _places(plan):
        for byte in range(plan.nbytes):
            out[a + byte] = b + byte
    return out


def wanted(op: ClusterCopy, a: SharedLayout, b: SharedLayout) -> dict[int, int]:
    item = op.src.dtype.itemsize
    pairs = zip(_offsets(op.src, a), _offsets(op.dst, b), strict=True)
    return {int(s) + byte: int(d) + byte for s, d in pairs for byte in range(item)}


@pytest.mark.parametrize("seed", range(60))
def test_bulk_copies_move_every_byte_to_its_place(seed: int) -> None:
    """Regions of random rank and layout: whatever path is chosen moves the same bytes."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = (
        *rng.integers(1, 4, max(0, rank - 2)),
        *((int(rng.choice([8, 16])),) if rank > 1 else ()),
        int(rng.choice([32, 64])),
    )
    shape = tuple(map(int, shape))
    dtype = [u8, f16, f32][int(rng.integers(3))]
    swizzle = int(
        rng.choice([s for s in (0, 0, 32, 64, 128) if s == 0 or (rank > 1 and shape[-1] * dtype.itemsize % s == 0)])
    )
    layout = SharedLayout(shape, dtype.itemsize, swizzle)
    extents = (*(int(rng.integers(1, n + 1)) for n in shape[:-1]), int(rng.choice([16, shape[-1]])))
    start, end = ((*(int(rng.integers(0, n - e + 1)) for n, e in zip(shape[:-1], extents)), 0) for _ in range(2))
    op = push(view(shape, start, extents, dtype), view(shape, end, extents, dtype, name="d"))
    layouts = {op.src.buffer: layout, op.dst.buffer: layout}
    try:
        plan = _bulk(op, layouts, FACTS)
    except Unfit:
        item = dtype.itemsize
        row = extents[-1] * item
        assert swizzle or row % 16, "plain rows of whole pieces are bulk copies"
        return
    assert moved(plan) == wanted(op, layout, layout)


def test_a_region_that_fills_a_range_is_one_copy_whatever_its_swizzle() -> None:
    op = push(view((4, 16, 64), (1, 0, 0), (2, 16, 64), f16), view((4, 16, 64), (0, 0, 0), (2, 16, 64), f16, name="d"))
    for swizzle in (0, 32, 64, 128):
        layout = SharedLayout((4, 16, 64), 2, swizzle)
        plan = _bulk(op, {op.src.buffer: layout, op.dst.buffer: layout}, FACTS)
        assert (plan.path, plan.nbytes, plan.src, plan.dst) == ("bulk", 4096, 2048, 0)


def refusal(op: ClusterCopy, *layouts: SharedLayout) -> str:
    with pytest.raises(Unfit) as error:
        _bulk(op, dict(zip((op.src.buffer, op.dst.buffer), layouts, strict=True)), FACTS)
    return str(error.value)


def test_reasons() -> None:
    plain = SharedLayout((16, 64), 2)
    whole = ((16, 64), (0, 0), (16, 64))
    assert refusal(push(view(*whole, f16), view(*whole, f16, name="d"), barrier=False), plain, plain) == (
        "bulk copies complete on a barrier, and none is given"
    )
    assert refusal(push(view(*whole, f16), view(*whole, bf16, name="d")), plain, plain) == "f16 is converted to bf16"
    assert refusal(
        push(view(*whole, f16), view((32, 32), (0, 0), (32, 32), f16, name="d")), plain, SharedLayout((32, 32), 2)
    ) == ("a region of 16 x 64 is reshaped to 32 x 32")
    assert refusal(push(view(*whole, f16), view(*whole, f16, name="d")), plain, SharedLayout((16, 64), 2, 128)) == (
        "a row is not contiguous in both: s has a swizzle of 0 bytes, d of 128"
    )
    square = ((64, 64), (0, 0), (64, 64), f16)
    turned = push(view(*square), view(*square, kept=(1, 0), name="d"))
    assert refusal(turned, SharedLayout((64, 64), 2), SharedLayout((64, 64), 2)) == (
        "a row is not contiguous in both: one of them is transposed"
    )
    part = push(view((16, 64), (0, 0), (16, 60), f16), view((16, 64), (0, 0), (16, 60), f16, name="d"))
    assert refusal(part, plain, plain) == "runs of 120 bytes are no multiple of 16"
    shifted = push(view((16, 64), (0, 4), (16, 56), f16), view((16, 64), (0, 0), (16, 56), f16, name="d"))
    assert refusal(shifted, plain, plain) == "a run does not start at a multiple of 16 bytes"


def test_extents_of_one_are_no_reshape() -> None:
    op = push(view((4, 16, 64), (2, 0, 0), (1, 16, 64), f16), view((16, 64), (0, 0), (16, 64), f16, name="d"))
    plan = _bulk(op, {op.src.buffer: SharedLayout((4, 16, 64), 2), op.dst.buffer: SharedLayout((16, 64), 2)}, FACTS)
    assert plan.path == "bulk"


def test_widths_of_stores() -> None:
    plain = SharedLayout((16, 64), 2)
    assert _vector(view((16, 64), (0, 0), (16, 64), f16), plain, FACTS) == 8
    assert _vector(view((16, 64), (0, 4), (16, 56), f16), plain, FACTS) == 4
    assert _vector(view((16, 64), (0, 1), (16, 63), f16), plain, FACTS) == 1
    assert _vector(view((16, 64), (0, 0), (16, 64), f16, kept=(1, 0)), plain, FACTS) == 1
    assert _vector(view((16, 62), (0, 0), (16, 62), f16), SharedLayout((16, 62), 2), FACTS) == 2
    assert _vector(view((16, 64), (3, 5), (1, 1), f16, kept=()), plain, FACTS) == 1


def test_which_stores() -> None:
    square = ((16, 16), (0, 0), (16, 16))
    wide = push(view(*square, f32), view(*square, f32, kept=(1, 0), name="d"))
    layouts = {wide.src.buffer: SharedLayout((16, 16), 4), wide.dst.buffer: SharedLayout((16, 16), 4)}
    assert _stores(wide, layouts, FACTS, "why", False) == PushPlan(PushPath.ST_ASYNC, "why; 4 bytes at a time", vector=1)
    fenced = _stores(wide, layouts, FACTS, "why", True)
    assert (fenced.path, fenced.fenced) == ("stores", True)
    assert fenced.reason == "why; 4 bytes at a time; d is read by an engine: a fence and a credit of 1024 bytes follow"


def paths(name: str) -> list[str]:
    made = case(name, (4, 1, 1))
    plan = plan_of(made.kernel, tuple(map(type_of, made.args)), **made.constants)
    return [push.path for push in plan.pushes.values()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("whole", ["bulk"]),
        ("parts", ["bulk rows"]),
        ("converted", ["st.async"]),
        ("transposed", ["st.async"]),
        ("transposed_narrow", ["stores"]),
        ("swizzled", ["bulk"]),
        ("read_by_an_engine", ["stores"]),
        ("no_barrier", ["stores"]),
        ("armed", ["st.async", "st.async", "bulk"]),
        ("relay", ["bulk"]),
        ("to_itself", ["bulk"]),
    ],
)
def test_paths_of_the_cases(name: str, expected: list[str]) -> None:
    assert paths(name) == expected
    assert name in MAKERS


@px.kernel(cluster=2)
def stages(X, *, STAGES=4, N=64):
    ring = px.shared((STAGES, N), X.dtype)
    full = px.barrier(count=1)
    for i in range(8):
        px.cluster.copy(ring[i % STAGES], ring[(i + 1) % STAGES], full, cta=1)


def plan_for(dtype: Any, **constants: Any) -> tuple[Plan, PushPlan]:
    plan = plan_of(stages, (array(1, dtype),), **constants)
    return plan, next(iter(plan.pushes.values()))


def test_a_run_time_stage_moves_the_whole_run() -> None:
    plan, push_plan = plan_for(f32)
    assert (push_plan.path, push_plan.nbytes) == ("bulk", 256)
    assert [str(note) for note in plan.notes if "cluster.copy" in str(note)] == [
        f"{note_place(plan)}: cluster.copy of ring to ring: bulk: one contiguous run of 256 bytes"
    ]


def note_place(plan: Plan) -> str:
    note = next(note for note in plan.notes if isinstance(note, Note) and "cluster.copy" in note.message)
    return note.loc.short


def test_a_run_time_stage_of_odd_size_is_stored() -> None:
    _, push_plan = plan_for(f16, N=9)
    assert push_plan.path == "stores"
    assert push_plan.reason == (
        "its start along axis 0 of ring is not known to be a multiple of 16 bytes; 2 bytes at a time, "
        "too few for st.async: a fence and a credit of 18 bytes follow"
    )


@px.kernel(warps=2, cluster=2)
def boxes(X, n, m, *, WAY=0, STEP=4):
    mine, inbox, full = px.shared((4, 16, 64), X.dtype), px.shared((6, 16, 64), X.dtype), px.barrier()
    px.store(mine, px.load(X[0:4, 0:16, 0:64]))
    px.fence.async_proxy()
    px.cluster.sync()
    to = px.cluster.rank() ^ 1
    if WAY == 0:
        px.cluster.copy(mine[0:m, 0:n, 0:64], inbox[0:m, 0:n, 0:64], full, cta=to, arm=True)
    elif WAY == 1:
        px.cluster.copy(mine[1:2, 0:n, 0:64], inbox[2, 0:n], full, cta=to, arm=True)
    elif WAY == 2:
        px.cluster.copy(mine[0:2, 0:8, 0 : n * STEP], inbox[4:6, 8:16, 0 : n * STEP], full, cta=to, arm=True)
    elif WAY == 3:
        px.cluster.copy(mine[m : m + n, 0:16, 0:32], inbox[0:n, 0:16, 32:64], full, cta=to, arm=True)
    else:
        px.cluster.copy(mine[0:m, 0:8, 0 : n * STEP], inbox[0:m, 0:8, 0 : n * STEP], full, cta=to, arm=True)
    full.wait(0)


@pytest.mark.parametrize(("way", "step", "expected"), [
    (0, 4, "bulk rows: contiguous runs, whose number and length the launch decides"),
    (1, 4, "bulk: one contiguous run, whose length the launch decides"),
    (2, 4, "bulk rows: 16 contiguous runs, whose length the launch decides"),
    (2, 1, "st.async: its runs of bytes, known only at run time, are not known to be multiples of 16; 4 bytes at a time"),
    (3, 4, "bulk rows: contiguous runs of 128 bytes, as many as the launch says"),
    (4, 4, "bulk rows: contiguous runs, whose number and length the launch decides"),
])
def test_paths_of_run_time_extents(way: int, step: int, expected: str) -> None:
    x = np.zeros((4, 16, 64), np.float32)
    compiled = px.compile(boxes[2], x, 3, 2, arch="sm_90a", WAY=way, STEP=step)
    note, = [note for note in map(str, compiled.notes) if "cluster.copy" in note]
    assert note.split("inbox: ")[1] == expected
    assert ("cp.async.bulk.shared::cluster.shared::cta" in compiled.ptx) == (step == 4)
