"""Loops over `px.pipelined`: what is staged and what is not, who fetches what, and that nobody can tell from the results."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.launch.dispatch import function_for
from phalanx.runtime.launch.specialise import read_arguments, specialise
from support.host_cuda import run_on_host


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Small whole numbers, so that every order of additions gives the same."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def run(bound: Any, *args: Any, **constants: Any) -> list[Any]:
    """The arguments after a launch."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    bound(*copies, **constants)
    return copies


def agrees(bound: Any, *args: Any, **constants: Any) -> list[Any]:
    """The arguments after a launch, which is clean and does what the plain loop does."""
    got, want = run(bound, *args, **constants), run(bound, *args, pipelined=False, **constants)
    for mine, plain in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, plain)
    report = px.check(bound, *args, **constants)
    assert report.ok, report
    return got


def notes(bound: Any, *args: Any, **constants: Any) -> list[str]:
    """What the passes say of a kernel, without its lines."""
    values = bound.kernel.bind_constants(constants)
    function = function_for(specialise(bound.kernel, read_arguments(bound.kernel, args), values), None)
    return [note.message for note in function.notes]


@px.kernel(warps=4)
def tiles(A, B, C, *, BM=64, BN=64, BK=32, SCHEDULE=None, PRODUCER=True):
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns, schedule=SCHEDULE):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), producer=PRODUCER):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


@pytest.mark.share(4)
@pytest.mark.parametrize("depth", [0, 8, 40, 100])
@pytest.mark.parametrize("producer", [True, False])
def test_a_ring_goes_on_over_tiles(depth: int, producer: bool) -> None:
    a, b = numbers(200, depth, dtype=np.float16), numbers(136, depth, dtype=np.float16, seed=1)
    got = agrees(tiles[3], a, b, np.ones((200, 136), np.float16), PRODUCER=producer)[2]
    np.testing.assert_array_equal(got, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))


@pytest.mark.parametrize("schedule", ["static", "counter"])
def test_the_producer_goes_through_the_same_tiles(schedule: str) -> None:
    a, b = numbers(200, 64, dtype=np.float16), numbers(72, 64, dtype=np.float16, seed=1)
    agrees(tiles[2], a, b, np.zeros((200, 72), np.float32), SCHEDULE=schedule)


def test_what_the_notes_say_of_a_product() -> None:
    spec = px.spec((512, 512), px.f16)
    made = px.compile(tiles[px.auto], spec, spec, spec)
    said = [note.partition(": ")[2] for note in made.notes]
    assert said[1:7] == [
        "px.persistent: 8 rows of tiles at a time, column by column, so that those in flight share what they read",
        "px.pipelined: 1 warp more fetches (5 warps in all)",
        "px.load of A: staged by the copy engine, in a ring of 8 stages; products read it there",
        "px.load of B: staged by the copy engine, in a ring of 8 stages; products read it there",
        "px.dot runs as wgmma on the ring, one group stays in flight",
        "px.store of C: leaves through 8192 bytes of shared memory, while the next tile is computed",
    ]
    assert made.warps == 5 and made.spills == 0


@px.kernel(warps=1)
def order(ROWS, SEEN, rows, columns):
    for t in px.persistent(rows * columns):
        i, j = t // columns, t % columns
        for k in px.pipelined(range(1)):
            px.store(SEEN[i, j, 0:8], px.load(ROWS[i * 8 : i * 8 + 8]) + px.load(ROWS[j * 8 : j * 8 + 8]) * 100 + t + k)


@pytest.mark.share(4)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (7, 1), (5, 3), (19, 4)])
def test_the_order_of_tiles_is_a_bijection(rows: int, columns: int) -> None:
    most = max(rows, columns)
    marks = np.repeat(np.arange(most, dtype=np.int32), 8)
    args = (marks, np.full((rows, columns, 8), -1, np.int32), rows, columns)
    assert any("rows of tiles at a time" in note for note in notes(order[2], *args))
    seen = agrees(order[2], *args)[1]
    for i, j in itertools.product(range(rows), range(columns)):
        assert (seen[i, j] == i + 100 * j + i * columns + j).all()


@px.kernel(warps=4, cluster=(2, 2))
def shared(A, B, C, limit, *, BM=64, BN=64, BK=32, CASE=""):
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    m, n = (px.block_id(0) if CASE == "blocks" else x) * BM, y * BN
    acc = px.zeros((BM, BN), px.f32)
    end = limit + x * 32 if CASE == "trips" else A.shape[1]
    for k in px.pipelined(range(0, end, BK), multicast=CASE != "off"):
        acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, n : n + BN], acc)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("case", "count", "why"),
    [
        ("", 2, ""), ("blocks", 2, ""), ("off", 0, ""),
        ("trips", 0, "each CTA fetches its own: trip counts at {} are not provably the same in all CTAs of the cluster"),
    ],
)
def test_ctas_of_a_cluster_fetch_what_they_have_in_common(case: str, count: int, why: str) -> None:
    args = (numbers(128, 128, dtype=np.float16), numbers(128, 128, dtype=np.float16), np.zeros((128, 128), np.float32), 64)
    agrees(shared[2, 2], *args, CASE=case)
    said = notes(shared[2, 2], *args, CASE=case)
    assert sum("each of 2 CTAs a share, sent to all of them" in note for note in said) == count
    if why:
        first, last = why.split("{}")
        assert sum(first in note and note.endswith(last) for note in said) == 2


@px.kernel(warps=4)
def places(X, Y, I, OUT, n, *, CASE=""):
    acc, at = px.zeros((16, 32), px.f32), 0
    for k in px.pipelined(range(n)):
        if CASE == "carried":
            at = at + k
            acc = acc + px.load(X[at : at + 16, 0:32])
        elif CASE == "computed":
            top = px.max(px.load(X[0:16, 0:32]).reshape(512), axis=0).to(px.i32)
            acc = acc + px.load(Y[top + k : top + k + 16, 0:32])
        elif CASE == "written":
            px.store(X[k + 1 : k + 17, 0:32], px.load(X[k : k + 16, 0:32]) + 1.0)
        elif CASE == "index":
            rows = px.load(I[k * 16 : k * 16 + 16], fill=-1)
            acc = acc + px.load(X[rows, 0:32])
        elif CASE == "from memory":
            first = I[k]
            acc = acc + px.load(X[first : first + 16, 0:32])
        elif CASE == "fill":
            acc = acc + px.load(X[k * 16 : k * 16 + 16, 0:32], fill=1.0)
        elif CASE == "narrow":
            acc = acc + px.load(X[k * 16 : k * 16 + 16, 1:33])
        else:
            acc = acc + I[k]
    px.store(OUT[0:16, 0:32], acc)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("carried", "px.load of X is not staged: its place follows from what an iteration of the loop leaves to the next, "
         "other than the index"),
        ("computed", "px.load of Y is not staged: its place follows from a tile of shape (16, 32)"),
        ("written", "px.load of X is not staged: 'X' is written at"),
        ("index", "px.load of I: read by the producer, which needs it for a place"),
        ("index", "px.load of X: staged by the producer's threads (rows by index)"),
        ("from memory", "px.load of X: staged by the copy engine"),
        ("fill", "px.load of X: staged by the producer's threads (what is outside the array is not 0)"),
        ("narrow", "px.load of X: staged by the producer's threads (its start along the last axis is not known to be a "
         "multiple of 16 bytes)"),
        ("number", "px.load of I is not staged: a single number is read where it is used"),
    ],
)  # fmt: skip
def test_what_is_staged_and_why_not(case: str, said: str) -> None:
    index = np.random.default_rng(2).integers(0, 40, 80).astype(np.int32)
    args = (numbers(90, 40), numbers(90, 40, seed=1), index, np.zeros((16, 32), np.float32), 5)
    agrees(places[1], *args, CASE=case)
    assert any(note.startswith(said) for note in notes(places[1], *args, CASE=case))


@px.kernel(warps=4)
def turned(X, O):
    for k in px.pipelined(range(0, X.shape[1], 16)):
        px.store(O[0:32, k : k + 16], 2.0 - px.load(X[0:32, k : k + 16]))


@pytest.mark.parametrize("shift", [0, 16, 64])
def test_arguments_that_share_memory_select_the_plain_loop(shift: int) -> None:
    def after(**how: Any) -> np.ndarray:
        base = numbers(32, 128)
        turned[1](base[:, :64], base[:, shift : shift + 64], **how)
        return base

    np.testing.assert_array_equal(after(), after(pipelined=False))


@px.kernel(warps=4)
def attention(Q, K, V, O, *, ROWS=64, KEYS=32, D=32):
    q, o = px.load(Q[0:ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
    top, total = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32)
    for j in px.pipelined(range(0, K.shape[0], KEYS)):
        k, v = px.load(K[j : j + KEYS, 0:D]), px.load(V[j : j + KEYS, 0:D])
        s = px.where(j + px.arange(KEYS)[None, :] < K.shape[0], px.dot(q, k.T), -float("inf"))
        new = px.maximum(top, px.max(s, axis=1))
        p, faded = px.exp2(s - new[:, None]), px.exp2(top - new)
        total, top = total * faded + px.sum(p, axis=1), new
        o = px.dot(p.to(V.dtype), v, o * faded[:, None])
    px.store(O[0:ROWS, 0:D], o / px.maximum(total, 1.0)[:, None])


@pytest.mark.share(4)
@pytest.mark.parametrize("keys", [0, 1, 32, 33, 64, 100])
def test_two_products_a_step_overlap(keys: int) -> None:
    q, k, v = (numbers(size, 32, dtype=np.float16, seed=seed) for seed, size in enumerate((64, keys, keys)))
    agrees(attention[1], q, k, v, np.zeros((64, 32), np.float32))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_every_target_has_its_own_products(arch: str) -> None:
    q, k, v = (numbers(size, 32, dtype=np.float16, seed=seed) for seed, size in enumerate((64, 70, 70)))
    args = (q, k, v, np.zeros((64, 32), np.float32))
    report = px.check(attention[1], *args, arch=arch)
    assert report.ok, report
    got, want = run(attention[1], *args, arch=arch)[3], run(attention[1], *args, arch=arch, pipelined=False)[3]
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


def test_the_first_product_of_the_next_step_runs_beside_the_second() -> None:
    spec = px.spec((512, 32), px.f16)
    said = px.compile(attention[1], spec, spec, spec, px.spec((64, 32), px.f32)).notes
    assert any(note.endswith("px.dot runs as wgmma on the ring, begun before the last product of the step before is over")
               for note in said)  # fmt: skip


@px.kernel(warps=4)
def in_roles(X, Y):
    with px.warps(0, 2):
        for k in px.pipelined(range(0, X.shape[0], 8)):
            px.store(Y[k : k + 8], px.load(X[k : k + 8]))


def test_kernels_with_roles_of_their_own_keep_their_loops() -> None:
    args = (numbers(40), np.zeros(40, np.float32))
    agrees(in_roles[1], *args)
    said = "px.pipelined: this loop stays as it is written: the kernel has roles of its own"
    assert any(note.startswith(said) for note in notes(in_roles[1], *args))


@px.kernel(warps=8)
def by_threads(A, B, C, *, BM=128, BN=32, BK=32):
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        a = px.load(A[0:BM, k + 1 : k + 1 + BK])
        acc = px.dot(a, px.load(B[0:BN, k : k + BK]).T, acc)
    px.store(C[0:BM, 0:BN], acc)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_threads_refill_a_stage_only_when_all_warps_have_multiplied(seed: int) -> None:
    a, b = numbers(128, 160, dtype=np.float16), numbers(32, 160, dtype=np.float16, seed=1)
    c = np.zeros((128, 32), np.float32)
    run_on_host(by_threads, 1, a, b, c, seed=seed)
    moved = np.pad(a[:, 1:], ((0, 0), (0, 1))).astype(np.float32)
    np.testing.assert_array_equal(c, moved @ b.astype(np.float32).T)
