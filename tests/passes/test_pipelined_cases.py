"""The cases in which pipelined loops go wrong elsewhere: each as it is written, pipelined, checked, and against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px


@px.kernel(warps=lambda WARPS: WARPS, cluster=lambda CLUSTER: CLUSTER)
def product(A, B, C, *, BM=64, BN=32, BK=32, WARPS=4, CLUSTER=1, STAGES=3, PRODUCER=True):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=STAGES, producer=PRODUCER):
        acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4)
def two_loops(A, B, C, D, *, BM=64, BN=32, BK=32):
    """Sums of rows by one loop; another one multiplies what is above them."""
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    total, acc = px.zeros((BM,), px.f32), px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK)):
        total = total + px.sum(px.load(A[m : m + BM, k : k + BK]).to(px.f32), 1)
    for k in px.pipelined(range(0, A.shape[1], BK)):
        a = px.load(A[m : m + BM, k : k + BK]).to(px.f32)
        a = px.where(a > total[:, None], a, 0.0).to(A.dtype)
        acc = px.dot(a, px.load(B[n : n + BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, n : n + BN], acc)
    px.store(D[m : m + BM], total)


@px.kernel(warps=4)
def under_a_condition(A, B, C, flag, *, BM=64, BN=32, BK=32):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    acc = px.full((BM, BN), 1.0, px.f32)
    if flag > 0 and px.block_id(0) != 1:
        for k in px.pipelined(range(0, A.shape[1], BK)):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
    else:
        acc = acc + 1.0
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4, cluster=2)
def by_rank(A, B, STEPS, C, *, BM=64, BN=32, BK=32):
    """How many steps a CTA takes is its own: what both load may not be shared."""
    m, n, steps = px.block_id(0) * BM, px.block_id(1) * BN, STEPS[px.block_id(0)]
    acc = px.zeros((BM, BN), px.f32)
    for i in px.pipelined(range(steps), stages=2):
        k = i * BK
        acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4, cluster=2)
def skipped_by_rank(A, B, C, *, BM=64, BN=32, BK=32):
    """The same number of steps, but a load that one CTA leaves out: nobody may wait for its share."""
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        a = px.load(A[m : m + BM, k : k + BK])
        if (k // BK + px.cluster.rank()) % 2 == 0:
            acc = px.dot(a, px.load(B[n : n + BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4, cluster=2)
def left_by_rank(A, B, C, *, BM=64, BN=32, BK=32, CARRIED=False):
    """One CTA goes on to the next step before a load; with CARRIED, by a number that only the other counts."""
    m, n, seen = px.block_id(0) * BM, px.block_id(1) * BN, 0
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        if not CARRIED:
            if px.cluster.rank() == k // BK % 2:
                continue
        else:
            if px.cluster.rank() == 0:
                seen = seen + 1
        if seen < 2:
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4)
def with_continue(A, B, C, flag, *, BM=64, BN=32, BK=32, PRODUCER=True):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2, producer=PRODUCER):
        a, b = px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T
        if (k // BK) % 2 == flag:
            continue
        acc = px.dot(a, b, acc)
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4)
def rows_by_index(A, X, I, C, *, BM=64, BN=32, BK=32):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        rows = px.load(I[k : k + BK], fill=-1)
        acc = acc + px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(X[rows, n : n + BN]))
    px.store(C[m : m + BM, n : n + BN], acc)


@px.kernel(warps=4)
def gathered_behind_a_loop(A, X, I, C, D, *, BM=64, BN=32, BK=32):
    """A loop with a producer; then indices are loaded, and a loop without one gathers by them."""
    acc, total = px.zeros((BM, BN), px.f32), px.zeros((BM,), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        acc = px.dot(px.load(A[0:BM, k : k + BK]), px.load(A[0:BN, k : k + BK]).T, acc)
    rows = px.load(I[0:BM])
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2, producer=False):
        total = total + px.sum(px.load(X[rows, k : k + BK]).to(px.f32), 1)
    px.store(C[0:BM, 0:BN], acc)
    px.store(D[0:BM], total)


@px.kernel(warps=8)
def many_rows_by_index(X, I, Y, *, BM=128, BK=64):
    """Indices that lie in several warps of those who fetch."""
    rows, total = px.load(I[0:BM]), px.zeros((BM,), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
        total = total + px.sum(px.load(X[rows, k : k + BK], fill=1).to(px.f32), 1)
    px.store(Y[0:BM], total)


@px.kernel(warps=4)
def stored(X, O, *, BM=64, BK=32):
    m = px.block_id(0) * BM
    for k in px.pipelined(range(0, X.shape[1], BK), stages=3):
        px.store(O[m : m + BM, k : k + BK], 2 - px.load(X[m : m + BM, k : k + BK]))


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Small whole numbers: sums are exact in every order."""
    return rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16)


def factors(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    return whole(rng, m, k), whole(rng, n, k), np.full((m, n), 7, np.float32)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


def agree(kernel: Any, grid: Any, args: list[Any], wants: dict[int, np.ndarray], **constants: Any) -> None:
    """Plain and pipelined leave what NumPy says, and the checks find nothing."""
    for pipelined in (False, True):
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        kernel[grid](*given, pipelined=pipelined, **constants)
        for position, want in wants.items():
            np.testing.assert_array_equal(given[position], want, err_msg=f"pipelined={pipelined}")
    report = px.check(kernel[grid], *args, schedules=1, **constants)
    assert report.ok, str(report)


def notes_of(kernel: Any, grid: Any, args: list[Any], **constants: Any) -> list[str]:
    return [note.split(": ", 1)[1] for note in px.compile(kernel[grid], *args, arch="sm_90a", **constants).notes]


@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("k", [32, 0, 250, 64, 16], ids=["one iteration", "none", "250", "two", "less than one"])
def test_lengths(k: int, producer: bool) -> None:
    a, b, c = factors(100, 40, k)
    agree(product, (2, 2), [a, b, c], {2: wide(a) @ wide(b).T}, PRODUCER=producer)


@pytest.mark.share(2)
@pytest.mark.parametrize("k", [0, 32, 250])
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2)])
def test_lengths_in_clusters(cluster: tuple[int, int], k: int) -> None:
    """A row of CTAs lies beyond the edge of C: they take their part in what the others load."""
    a, b, c = factors(60, 30, k)
    agree(product, (2, 2), [a, b, c], {2: wide(a) @ wide(b).T}, CLUSTER=cluster)


@pytest.mark.parametrize("k, rows", [(96, 128), (250, 200)])
def test_eight_warps(k: int, rows: int) -> None:
    a, b, c = factors(rows, 40, k)
    agree(product, (2, 2), [a, b, c], {2: wide(a) @ wide(b).T}, WARPS=8, BM=128)
    agree(product, (px.cdiv(rows, 64), 1), [a, b, c], {2: wide(a) @ wide(b).T}, WARPS=8, BM=64, BN=64)


@pytest.mark.share(4)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("form", ["odd rows", "every other", "begins anywhere"])
def test_a_load_that_can_not_be_tma_beside_one_that_can(which: int, form: str) -> None:
    a, b, c = factors(100, 40, 128)
    args: list[Any] = [a, b, c]
    given = args[which]
    room = np.zeros((given.shape[0], 2 * given.shape[1] + 1), given.dtype)
    region = {"odd rows": np.s_[:, :128], "every other": np.s_[:, :256:2], "begins anywhere": np.s_[:, 1:129]}[form]
    room[region] = given
    args[which] = room[region]
    want = wide(a) @ wide(b).T
    for pipelined in (False, True):
        c[:] = 7
        product[2, 2](*args, pipelined=pipelined)
        np.testing.assert_array_equal(c, want)
    assert px.check(product[2, 2], *args).ok
    said = [note for note in notes_of(product, (2, 2), args) if note.startswith("px.load of") or " px.load of" in note]
    assert len(said) == 2 and len({"by the copy engine" in note for note in said}) == 2, said


def test_two_loops_in_one_kernel() -> None:
    a, b, c = factors(100, 40, 104)
    total = wide(a).sum(1)
    chosen = np.where(wide(a) > total[:, None], wide(a), 0)
    agree(two_loops, (2, 1), [a, b, c, np.zeros(100, np.float32)], {2: chosen @ wide(b).T, 3: total}, BN=64)


@pytest.mark.parametrize("flag", [0, 1])
def test_a_loop_under_a_condition(flag: int) -> None:
    a, b, c = factors(192, 32, 104)
    want = wide(a) @ wide(b).T + 1
    want[64:128] = 2
    agree(under_a_condition, (3, 1), [a, b, c, flag], {2: want if flag else np.full_like(c, 2)})


@pytest.mark.parametrize("steps", [(3, 1), (0, 4), (2, 2), (0, 0), (7, 6)])
def test_ctas_of_a_cluster_take_different_numbers_of_steps(steps: tuple[int, int]) -> None:
    a, b, c = factors(128, 32, 7 * 32)
    want = np.concatenate([wide(a[r * 64 : r * 64 + 64, : 32 * n]) @ wide(b[:, : 32 * n]).T for r, n in enumerate(steps)])
    agree(by_rank, (2, 1), [a, b, np.array(steps, np.int32), c], {3: want})


@pytest.mark.parametrize("k", [32, 160])
def test_a_cta_of_a_cluster_leaves_a_load_out(k: int) -> None:
    a, b, c = factors(128, 32, k)
    step, rank = np.arange(k) // 32, np.arange(128)[:, None] // 64
    chosen = np.where((step + rank) % 2 == 0, wide(a), 0)
    agree(skipped_by_rank, (2, 1), [a, b, c], {2: chosen @ wide(b).T})


@pytest.mark.parametrize("carried", [False, True])
def test_a_cta_of_a_cluster_leaves_a_step_early(carried: bool) -> None:
    a, b, c = factors(128, 32, 160)
    step, rank = np.arange(160) // 32, np.arange(128)[:, None] // 64
    kept = (rank == 1) | (step < 1) if carried else step % 2 != rank
    agree(left_by_rank, (2, 1), [a, b, c], {2: np.where(kept, wide(a), 0) @ wide(b).T}, CARRIED=carried)


@pytest.mark.share(2)
@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("flag", [0, 1, 2])
def test_continue_between_a_load_and_its_product(flag: int, producer: bool) -> None:
    a, b, c = factors(100, 40, 7 * 32)
    chosen = np.where(np.arange(7 * 32) // 32 % 2 == flag, 0, wide(a))
    agree(with_continue, (2, 2), [a, b, c, flag], {2: chosen @ wide(b).T}, PRODUCER=producer)


@pytest.mark.parametrize("k", [32, 104])
def test_rows_whose_indices_are_loaded_in_the_loop(k: int) -> None:
    a, _, c = factors(64, 32, k)
    rng = np.random.default_rng(1)
    x, index = whole(rng, 50, 32), rng.integers(-3, 53, k).astype(np.int32)
    inside = (index >= 0) & (index < 50)
    picked = np.where(inside[:, None], wide(x)[np.where(inside, index, 0)], 0)
    agree(rows_by_index, (1, 1), [a, x, index, c], {3: wide(a) @ picked})


def test_many_rows_by_index() -> None:
    x, _, _ = factors(50, 1, 128)
    index = np.random.default_rng(1).integers(-3, 53, 128).astype(np.int32)
    inside = (index >= 0) & (index < 50)
    want = np.where(inside, wide(x).sum(1)[np.where(inside, index, 0)], 128)
    args = [x, index, np.zeros(128, np.float32)]
    agree(many_rows_by_index, 1, args, {2: want})
    for arch in ("sm_90a", "sm_100a", "sm_120a"):
        assert px.compile(many_rows_by_index[1], *args, arch=arch).spills == 0


def test_rows_by_indices_that_are_loaded_between_two_loops() -> None:
    a, x, _ = factors(64, 50, 104)
    index = np.random.default_rng(1).integers(-3, 53, 64).astype(np.int32)
    inside = (index >= 0) & (index < 50)
    total = np.where(inside, wide(x).sum(1)[np.where(inside, index, 0)], 0)
    outputs = [np.zeros((64, 32), np.float32), np.zeros(64, np.float32)]
    agree(gathered_behind_a_loop, 1, [a, x, index, *outputs], {3: wide(a) @ wide(a)[:32].T, 4: total})


@pytest.mark.parametrize("shift", [0, 8, 32, 40])
def test_arguments_that_share_memory(shift: int) -> None:
    """A step stores what a later one loads: pipelined as written, one step after the other."""
    rng = np.random.default_rng(shift)
    room = rng.integers(-2, 3, (64, 200)).astype(np.float32)
    want = room.copy()
    for k in range(0, 160, 32):
        want[:, k + shift : k + shift + 32] = 2 - want[:, k : k + 32].copy()
    for pipelined in (False, True):
        memory = room.copy()
        stored[1](memory[:, :160], memory[:, shift : shift + 160], pipelined=pipelined)
        np.testing.assert_array_equal(memory, want, err_msg=f"pipelined={pipelined}")


def test_arguments_that_share_none_go_through_the_ring() -> None:
    """Also where they once were launched over each other."""
    x, o = np.arange(64 * 160, dtype=np.float32).reshape(64, 160), np.zeros((64, 160), np.float32)
    stored[1](x, x)
    x = np.arange(64 * 160, dtype=np.float32).reshape(64, 160)
    agree(stored, 1, [x, o], {1: 2 - x})
    assert any("staged by the copy engine" in note for note in notes_of(stored, 1, [x, o]))


@px.kernel(warps=4)
def repeated(A, B, S, C, n, *, BM=64, BN=32, BK=32, PRODUCER=False):
    """A tile of each step beside several of an inner loop."""
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2, producer=PRODUCER):
        a = px.load(A[0:BM, k : k + BK])
        for i in range(n):
            acc = acc + px.dot(a, px.load(B[i : i + BN, k : k + BK]).T) * S[i]
    px.store(C[0:BM, 0:BN], acc)


@pytest.mark.parametrize("times", [0, 1, 3])
@pytest.mark.parametrize("producer", [True, False])
def test_a_load_that_an_inner_loop_repeats(times: int, producer: bool) -> None:
    """Without a producer it stays: its second stage would be waited for by the warps that are to give it back."""
    a, b, sums = factors(64, 34, 96)
    scales = np.arange(1, 4, dtype=np.float32)
    want = sum((wide(a) @ wide(b[i : i + 32]).T * scales[i] for i in range(times)), np.zeros((64, 32), np.float32))
    args = [a, b, scales, sums[:, :32].copy(), times]
    agree(repeated, 1, args, {3: want}, PRODUCER=producer)
    said = notes_of(repeated, 1, args, PRODUCER=producer)
    assert any("px.load of A: staged by the copy engine, in a ring of 2 stages" in note for note in said)
    assert any("px.load of B is not staged: the loop at" in note for note in said) is not producer
    assert any("px.load of S is not staged: a single number is read where it is used" in note for note in said)


@px.kernel(warps=8, cluster=lambda CTAS: CTAS)
def early(A, B, FLAGS, C, n, *, BM=128, BN=32, BK=32, CASE="scalar", CTAS=1):
    """A loop in each of two tiles that may end early."""
    m, acc, count = px.block_id(0) * BM, px.zeros((BM, BN), px.f32), 0
    for t in px.persistent(2 * px.num_blocks(0) // CTAS):
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            if CASE == "scalar" and k >= n:
                break
            elif CASE == "flag":
                if FLAGS[k // BK] > 0:
                    break
            elif CASE == "count":
                count = count + 1
                if count > 3:
                    break
            elif CASE == "rank":
                if px.cluster.rank() == k // BK:
                    break
            elif CASE == "nested" and k > 0:
                if FLAGS[k // BK] > t:
                    break
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
            if CASE == "last" and FLAGS[k // BK] > 0:
                break
    px.store(C[m : m + BM, 0:BN], acc)


@pytest.mark.share(4)
@pytest.mark.parametrize("flags", [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 2, 0, 1, 0], [0, 0, 0, 0, 1]])
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("case", ["scalar", "flag", "count", "rank", "nested", "last"])
def test_a_break_that_those_who_fetch_can_tell(case: str, ctas: int, flags: list[int]) -> None:
    rng = np.random.default_rng(ctas)
    sums = np.zeros((128 * ctas, 32), np.float32)
    args = [whole(rng, 128 * ctas, 160), whole(rng, 32, 160), np.array(flags, np.int32), sums]
    plain, ahead = args[3].copy(), args[3].copy()
    early[ctas](*args[:3], plain, 64 * sum(flags), CASE=case, CTAS=ctas, pipelined=False)
    early[ctas](*args[:3], ahead, 64 * sum(flags), CASE=case, CTAS=ctas)
    np.testing.assert_array_equal(ahead, plain)
    report = px.check(early[ctas], *args, 64, CASE=case, CTAS=ctas, schedules=1)
    assert report.ok, str(report)
    said = notes_of(early, ctas, [*args, 64], CASE=case, CTAS=ctas)
    assert any("px.load of A: staged by the copy engine" in note for note in said)
    assert any("sent to all of them" in note for note in said) is (ctas == 2 and case != "rank")
    how = "waited for at once" if case == "last" else "one group stays in flight"
    assert any(f"px.dot runs as wgmma on the ring, {how}" in note for note in said)


def test_a_break_on_what_the_loop_computes_is_refused() -> None:
    @px.kernel(warps=4)
    def late(X, O, *, BK=32):
        total = px.zeros((32, BK), px.f32)
        for k in px.pipelined(range(0, X.shape[1], BK)):
            total = total + px.load(X[0:32, k : k + BK])
            if px.sum(total) > 100.0:
                break
        px.store(O[0:32, 0:BK], total)

    x, o = np.ones((32, 128), np.float32), np.zeros((32, 32), np.float32)
    with pytest.raises(px.Error, match=r"break in a loop over px\.pipelined: whether it is come to follows from a tile"):
        late[1](x, o)
    late[1](x, o, pipelined=False)
    assert (o == 1.0).all()
