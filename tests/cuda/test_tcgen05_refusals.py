"""What the tensor cores have no instruction for: the simulator and the compiler say the same, at the same place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px

X = np.zeros((128, 128), np.float32)


@px.kernel(warps=4, cluster=2)
def a_part_of_a_folded_accumulator(X):
    """64 rows in each CTA: half of the columns lie in the lanes of the two upper warps."""
    a, b, acc, done = px.shared((64, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((64, 128), px.f32), px.barrier()
    if px.cluster.rank() == 0:
        px.tcgen05.mma(a, b.T, acc, two_cta=True)
        px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    done.wait(0)
    px.store(X[0:64, 0:32], px.tcgen05.load(acc[:, 0:32]))


@px.kernel(warps=4, cluster=2)
def a_run_time_part_of_a_folded_accumulator(X):
    a, b, acc, done = px.shared((64, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((64, 128), px.f32), px.barrier()
    if px.cluster.rank() == 0:
        px.tcgen05.mma(a, b.T, acc, two_cta=True)
        px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    done.wait(0)
    with px.warps(0, 2):
        for n in range(0, 64, 32):
            px.store(X[0:64, n : n + 32], px.tcgen05.load(acc[:, n : n + 32]))


@px.kernel(warps=4, cluster=2)
def a_product_into_half_of_a_folded_accumulator(X):
    a, b, acc, done = px.shared((64, 64), px.bf16), px.shared((32, 64), px.bf16), px.tmem((64, 128), px.f32), px.barrier()
    if px.cluster.rank() == 0:
        px.tcgen05.mma(a, b.T, acc[:, 0:64], two_cta=True)
        px.tcgen05.commit(done, multicast=0b11, two_cta=True)
    done.wait(0)


@px.kernel(warps=4)
def two_warps_at_sixty_four_rows(X):
    """Without pairs, 64 rows lie in the lanes of four warps."""
    a, b, acc, done = px.shared((64, 64), px.bf16), px.shared((64, 64), px.bf16), px.tmem((64, 64), px.f32), px.barrier()
    px.tcgen05.mma(a, b.T, acc)
    px.tcgen05.commit(done)
    done.wait(0)
    with px.warps(0, 2):
        px.store(X[0:64, 0:32], px.tcgen05.load(acc[:, 0:32]))


@px.kernel(warps=4)
def a_copy_of_sixty_four_rows(X):
    a, t, done = px.shared((64, 64), px.bf16), px.tmem((64, 64), px.bf16), px.barrier()
    px.tcgen05.copy(a, t)
    px.tcgen05.commit(done)
    done.wait(0)


@px.kernel(warps=4)
def scales_as_a_matrix(X):
    a, b = px.shared((128, 64), px.f8e4m3), px.shared((128, 64), px.f8e4m3)
    s, done = px.shared((128, 32), px.f8e8m0), px.barrier()
    acc, scale = px.tmem((128, 128), px.f32), px.tmem((128, 32), px.f8e8m0)
    px.tcgen05.copy(s, scale)
    px.tcgen05.mma(a, b.T, acc, scale_a=scale[:, 0:2], scale_b=scale[:, 0:2])
    px.tcgen05.commit(done)
    done.wait(0)


FOLDED = (
    "with 64 rows in each CTA of a pair columns 64 to 127 lie in the upper lanes: take all columns with four warps, or "
    "parts of the first half in px.warps(0, 2) and of the second in px.warps(2, 2)"
)
ROWS = "copy 128 rows or a multiple, 64 in each CTA of a pair, from a buffer with rows of a multiple of 32 bytes"
WHOLE = "give each product a whole accumulator, stages of one buffer say: acc = px.tmem((2, rows, columns), px.f32)"
REFUSED: list[tuple[Any, int, str, str]] = [
    (
        a_part_of_a_folded_accumulator, 2, "px.tcgen05.load can't reach this region of acc: the tile lies in lanes 0 to 63, "
        "a warp reaches 32 of them: 2 warps are needed, not 4", FOLDED,
    ),
    (
        a_run_time_part_of_a_folded_accumulator, 2, "px.tcgen05.load can't reach this region of acc: its columns begin at a "
        "run-time place of 128, of which half lie in the upper lanes", FOLDED,
    ),
    (
        a_product_into_half_of_a_folded_accumulator, 2, "px.tcgen05.mma can't use 'acc' so: the accumulator (accumulator B "
        "[64, 64]: 64 columns) does not lie as products of 64 x 64 write it", WHOLE,
    ),
    (
        two_warps_at_sixty_four_rows, 1, "px.tcgen05.load can't reach this region of acc: the tile lies in lanes 0 to 127, "
        "a warp reaches 32 of them: 4, 8 or 16 warps are needed, not 2",
        "take whole accumulators, or columns and rows in powers of two",
    ),
    (
        a_copy_of_sixty_four_rows, 1, "px.tcgen05.copy can't bring a to t: tcgen05.cp writes no lanes as operand F [64, "
        "64]: 32 columns lies: store it from registers", ROWS,
    ),
    (
        scales_as_a_matrix, 1, "px.tcgen05.copy: scales of 128 rows x 32 lie in shared memory as (1, 8, 32, 4, 4), not as "
        "(128, 32)",
        "scales come in blocks of 128 rows by 4, here (1, 8, 32, 4, 4): px.kernels.pack_scales makes that order",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "grid", "message", "remedy"), REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_both_refuse(kernel: Any, grid: int, message: str, remedy: str) -> None:
    with pytest.raises(px.Error) as simulated:
        kernel[grid](X)
    with pytest.raises(px.Error) as compiled:
        px.compile(kernel[grid], X, arch="sm_100a")
    assert str(simulated.value) == str(compiled.value)
    assert (simulated.value.message, simulated.value.remedy) == (message, remedy)
