"""Products in pipelined loops whose operands the steps compute: where the tensor cores read these, and that results stay."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from passes.test_pipelining import agrees, notes, numbers

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


def test_the_right_operand_goes_through_shared_memory() -> None:
    spec = px.spec((512, 512), px.bf16), px.spec((32, 512), px.bf16), px.spec((512,), px.f32), px.spec((512, 32), px.f32)
    for side in ("b", "both"):
        made = px.compile(computed[2], *spec, arch="sm_90a", SIDE=side)
        said = [note.partition(": ")[2] for note in made.notes]
        assert "px.dot runs as wgmma: b goes through 2048 bytes of shared memory" in said
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
    assert any("px.load of A: staged by the copy engine, in a ring of 3 stages" in note for note in said)
    assert any("px.dot runs as wgmma: b goes through 32768 bytes" in note for note in said)
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
