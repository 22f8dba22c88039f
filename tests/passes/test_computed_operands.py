"""Products in pipelined loops whose operands the steps compute: where the tensor cores read these, and that results stay."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from passes.test_pipelining import agrees, notes, numbers, run
from support.host_build import COMPILER, MISSING
from support.host_cuda import run_on_host

HALF = ml_dtypes.bfloat16


@px.kernel(warps=lambda WARPS: WARPS)
def computed(A, W, S, C, *, BM=64, BN=32, BK=32, STAGES=2, SIDE="b", WARPS=4):
    """One operand is what was loaded, the other one is scaled, masked, activated or gated."""
    m, acc = px.block_id(0) * BM, px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=STAGES):
        a, w = px.load(A[m : m + BM, k : k + BK]), px.load(W[0:BN, k : k + BK])
        s = px.load(S[k : k + BK])
        if SIDE == "b":
            acc = px.dot(a, (w.to(px.f32) * s[None, :]).to(A.dtype).T, acc)
        elif SIDE == "a":
            acc = px.dot(px.where(s[None, :] > 0.0, a.to(px.f32), 0.0).to(A.dtype), w.T, acc)
        else:
            gated = px.maximum(a.to(px.f32), 0.0) * s[None, :]
            acc = px.dot(gated.to(A.dtype), (w.to(px.f32) * s[None, :]).to(A.dtype).T, acc)
    px.store(C[m : m + BM, 0:BN], acc)


def factors(depth: int, dtype: Any = HALF) -> list[Any]:
    """Two tiles of rows on two CTAs."""
    a, w = numbers(128, depth, dtype=dtype), numbers(32, depth, dtype=dtype, seed=1)
    return [a, w, numbers(depth, seed=2), np.zeros((128, 32), np.float32)]


@pytest.mark.share(2)
@pytest.mark.parametrize("depth", [0, 32, 96, 136])
@pytest.mark.parametrize("side", ["a", "b", "both"])
def test_results_are_those_of_the_plain_loop(side: str, depth: int) -> None:
    agrees(computed[2], *factors(depth), SIDE=side)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
def test_on_other_targets(arch: str) -> None:
    args = factors(96)
    got, want = [arg.copy() for arg in args], [arg.copy() for arg in args]
    computed[2](*got, arch=arch)
    computed[2](*want, pipelined=False)
    np.testing.assert_array_equal(got[3], want[3])
    assert px.check(computed[2], *args, arch=arch).ok


ROOM = "b goes through 4096 bytes of shared memory, a place for each of two steps"


def test_the_right_operand_goes_through_shared_memory() -> None:
    spec = px.spec((512, 512), px.bf16), px.spec((32, 512), px.bf16), px.spec((512,), px.f32), px.spec((512, 32), px.f32)
    for side in ("b", "both"):
        made = px.compile(computed[2], *spec, arch="sm_90a", SIDE=side)
        said = [note.partition(": ")[2] for note in made.notes]
        assert f"px.dot runs as wgmma on the ring, {ROOM}, the next step's operands are computed while it runs" in said
        assert made.spills == 0 and "mma.sync" not in made.ptx
    made = px.compile(computed[2], *spec, arch="sm_100a")
    assert any("px.dot runs as tcgen05" in note for note in made.notes)


@px.kernel(warps=8)
def large(A, W, C, *, BM=128, BN=128, BK=128):
    acc = px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, A.shape[1], BK)):
        w = px.maximum(px.load(W[0:BN, k : k + BK]).to(px.f32), 0.0)
        acc = px.dot(px.load(A[0:BM, k : k + BK]), w.to(A.dtype).T, acc)
    px.store(C[0:BM, 0:BN], acc)


def test_operands_take_room_from_the_rings() -> None:
    """There is a stage less than would fit without them; where two stages leave no room, operands stay in registers."""
    args = [numbers(128, 256, dtype=HALF), numbers(256, 256, dtype=HALF, seed=1), np.zeros((128, 256), np.float32)]
    said = notes(large[1], *args)
    assert any("px.load of A: staged by the copy engine, in a ring of 2 stages" in note for note in said)
    assert any("px.dot runs as wgmma on the ring, b goes through 65536 bytes" in note for note in said)
    said = notes(large[1], *args, BN=192)
    assert any("px.load of A: staged by the copy engine, in a ring of 2 stages" in note for note in said)
    assert any("px.dot runs as wgmma: b goes through 49152 bytes" in note for note in said), "one place for all steps"
    said = notes(large[1], *args, BN=256)
    assert any("px.load of A: staged by the copy engine, in a ring of 2 stages" in note for note in said)
    assert any("px.dot runs as mma.sync: b is" in note for note in said)
    agrees(large[1], *args, BN=256)


@px.kernel(warps=4)
def recurrent(K, V, Y, *, C=32, D=64):
    """Linear attention with corrections: the carried state is the right operand of one product, and added to by another."""
    state = px.zeros((D, C), px.f32)
    for t in px.pipelined(range(0, K.shape[0], 64), stages=2):
        k, v = px.load(K[t : t + 64, 0:D]), px.load(V[t : t + 64, 0:C])
        kept = state.to(px.bf16)
        seen = px.dot(k, kept)
        other = px.dot(v.T, px.load(K[t : t + 64, 0:D]))
        state = px.dot(k.T, (v.to(px.f32) - px.minimum(seen, 1.0)).to(px.bf16), px.minimum(state, 8.0) + other.T)
    px.store(Y[0:D, 0:C], state)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_carried_tile_is_an_operand(steps: int) -> None:
    args = [numbers(64 * steps, 64, dtype=HALF), numbers(64 * steps, 32, dtype=HALF, seed=1), np.ones((64, 32), np.float32)]
    agrees(recurrent[1], *args)
    if steps:
        said = [note for note in notes(recurrent[1], *args) if note.startswith("px.dot")]
        assert sum("b goes through" in note for note in said) == 2, said


@px.kernel(warps=4)
def promoted(A, B, S, T, C, *, BM=64, BN=32, BK=32, STAGES=2, CASE=""):
    """Each step's product is scaled before it is added, by rows and by a number of the step."""
    acc, other = px.zeros((BM, BN), px.f32), px.zeros((BM, BN), px.f32)
    for i in px.pipelined(range(px.cdiv(A.shape[1], BK)), stages=STAGES):
        a, b = px.load(A[0:BM, i * BK : i * BK + BK]), px.load(B[0:BN, i * BK : i * BK + BK])
        part = px.dot(a, b.T)
        if CASE == "two at once":
            part = px.dot(a, b.T, part)
            other = px.dot(a, b.T, other)
        if CASE == "computed":
            other = px.dot(a, px.maximum(b.to(px.f32), 0.0).to(B.dtype).T, other)
        if CASE == "chosen":
            part = px.where(px.arange(BN)[None, :] > i * 8, part, -1.0)
        acc = px.minimum(acc, 900.0) + part * (px.load(S[i, 0:BM]) * T[i])[:, None]
        if CASE == "dependent":
            other = px.dot(px.minimum(part, 4.0).to(B.dtype), px.load(B[0:BN, i * BK : i * BK + BK]), other)
        if CASE == "stored":
            px.store(C[i % 2, 0:BM, 0:BN], part)
    px.store(C[0, 0:BM, 0:BN], acc)
    px.store(C[1, 0:BM, 0:BN], other)


def scaled(depth: int) -> list[Any]:
    """A tile, with scales for each step."""
    steps = -(-depth // 32)
    a, b = numbers(64, depth, dtype=HALF), numbers(32, depth, dtype=HALF, seed=1)
    return [a, b, numbers(steps, 64, seed=2), numbers(steps, seed=3), np.zeros((2, 64, 32), np.float32)]


@pytest.mark.share(3)
@pytest.mark.parametrize("depth", [0, 32, 64, 96, 128, 150])
@pytest.mark.parametrize("case", ["", "two at once", "computed", "chosen", "dependent", "stored"])
def test_sums_that_are_promoted(case: str, depth: int) -> None:
    agrees(promoted[1], *scaled(depth), CASE=case)


def specs(steps: int = 8) -> list[Any]:
    """The types of the arguments of `promoted`."""
    half = px.spec((64, 32 * steps), px.bf16), px.spec((32, 32 * steps), px.bf16)
    return [*half, px.spec((steps, 64), px.f32), px.spec((steps,), px.f32), px.spec((2, 64, 32), px.f32)]


USED = "px.dot runs as wgmma on the ring, its sum is used while the next step's product runs"


@pytest.mark.share(2)
@pytest.mark.parametrize("case", ["", "two at once", "computed", "chosen"])
def test_promotion_runs_beside_the_next_product(case: str) -> None:
    """The text has both steps of a turn, and nobody waits for all products between them."""
    made = px.compile(promoted[1], *specs(), arch="sm_90a", CASE=case)
    assert USED in [note.partition(": ")[2] for note in made.notes]
    assert made.spills == 0 and not any("waited for" in note or "is not staged: its" in note for note in made.notes)
    text = made.ir
    turn = text[text.index(" for %", text.index("wgmma.commit")) : text.rindex("if %inside")]
    assert turn.count("wgmma.commit") == 2 and turn.count("wgmma.wait n=1") == turn.count("wgmma.wait n=0") == 1
    late = text.index(" mul %part", text.index("wgmma.commit", text.index(turn)))
    assert late < text.index("wgmma.wait n=1"), "what was summed before is used while the next product runs"


@pytest.mark.parametrize("case", ["dependent", "stored"])
def test_other_steps_stay_in_order(case: str) -> None:
    """A product that needs another one of its step, or a store of what a step gave: nothing runs beside the next one."""
    assert USED not in notes(promoted[1], *scaled(64), CASE=case)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_text_runs_on_the_host(seed: int) -> None:
    for depth in (64, 150):
        args = scaled(depth)
        want = run(promoted[1], *args, CASE="computed")
        run_on_host(promoted, 1, *args, seed=seed, CASE="computed")
        np.testing.assert_array_equal(args[4], want[4])
    for side in ("a", "b", "both"):
        args = factors(136)
        want = run(computed[2], *args, SIDE=side)
        run_on_host(computed, 2, *args, seed=seed, SIDE=side)
        np.testing.assert_array_equal(args[3], want[3])


@px.kernel(warps=4)
def powers(X, Y, *, N=64, TIMES=4):
    """Squares of squares: each is converted twice as it is written, and is the right operand of two products."""
    for t in px.pipelined(range(X.shape[0] // N), stages=2):
        result = power = px.load(X[t * N : t * N + N, 0:N]).to(px.f32)
        for _ in px.static_range(TIMES):
            power = px.minimum(px.dot(power.to(px.f16), power.to(px.f16)), 1.0)
            result = px.dot(result.to(px.f16), power.to(px.f16), power)
            result = px.maximum(px.minimum(result, 2.0), -2.0)
        px.store(Y[t * N : t * N + N, 0:N], result)


def test_operands_take_turns_in_two_buffers() -> None:
    """Five tiles are stored, each once for both of its readers; two of them are there at a time, and none is overtaken."""
    x, y = (numbers(192, 64, seed=seed) for seed in (0, 1))
    agrees(powers[1], np.minimum(x, 1).astype(np.float16), y)
    made = px.compile(powers[1], px.spec((192, 64), px.f16), px.spec((192, 64), px.f32), arch="sm_90a")
    lines = [line.strip() for line in made.ir.splitlines()]
    assert sum(line.startswith("shared") and "_tile:" in line for line in lines) == 2
    assert sum(line.startswith("store") and "_tile" in line for line in lines) == 5
    assert sum(line.startswith("sync") and "_tile is read" in line for line in lines) == 5, "one barrier for each"
    assert sum(line.startswith("sync") for line in lines) == 5 + 3, "others are the ring's"
    assert made.spills == 0


@px.kernel(warps=4)
def smoothed(A, B, C, *, BM=64, BN=32, BK=32):
    """The left operand is carried from step to step, in registers that move while a product might read them."""
    acc, kept = px.zeros((BM, BN), px.f32), px.zeros((BM, BK), px.bf16)
    for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
        a, b = px.load(A[0:BM, k : k + BK]), px.load(B[0:BN, k : k + BK])
        acc = px.dot(kept, b.T, acc)
        kept = (a.to(px.f32) * 0.5 + kept.to(px.f32) * 0.5).to(px.bf16)
    px.store(C[0:BM, 0:BN], acc)


def test_a_product_that_is_waited_for_after_all_is_not_said_to_overlap() -> None:
    args = [numbers(64, 160, dtype=HALF), numbers(32, 160, dtype=HALF, seed=1), np.zeros((64, 32), np.float32)]
    agrees(smoothed[1], *args)
    said = [note.partition(": ")[2] for note in px.compile(smoothed[1], *args, arch="sm_90a").notes]
    assert any(note.startswith("px.wgmma is waited for at once") for note in said)
    assert "px.dot runs as wgmma on the ring, waited for at once" in said
    assert not any("computed while it runs" in note for note in said)
