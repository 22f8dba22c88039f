"""What waiting warps and operands in registers cost in joules: variants of one GEMM, each alone at the power limit.

    python -m benchmarks.products.energy_roles --json energy_roles.json

needs an H200. All variants compute the same tiles in the same order through the same copies (`gemm_v6` of the examples, in a
size of ring that all of them have room for):

- "one warp fetches": it copies, and its three neighbours have nothing to do and leave at once.
- "three more wait": these wait for every free stage as well, and arrive where its bytes do, so that no phase passes them by.
  The difference is what three waiting warps draw. (Of a role of four warps whose body is copies alone the compiler has one
  run it.)
- "A in registers": each warpgroup reads its rows of A from shared memory into registers, and multiplies those. Tensor cores
  then read 256 columns of B alone from shared memory, instead of 64 rows of A and these; registers are read instead. Both
  warpgroups wait for each product before they read the next rows: there are no registers for two. Beside it stands
  "registers moved", which is the first variant with the registers that this one needs.

The two numbers: at 700 W time is energy, so a difference of 1% in joules is 1% in time; three warps that wait are three of
twelve. `energy.py` has what is of tiles, clusters, orders and numbers.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import phalanx as px
from benchmarks.common.machine import arguments
from benchmarks.products.energy import Bench, Way
from benchmarks.products.shapes import Shape
from phalanx.kernels.products.orders import grouped

SHAPES = (Shape(8192, 8192, 8192), Shape(4096, 4096, 14336))


@px.kernel(warps=12, cluster=2, exit_sync=False)
def gemm_roles(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8, PARTS=4, WAITING=0, MOVED=False, HELD=False):
    """C = A @ B.T by a warp that copies and two warpgroups that multiply; with HELD these hold A in registers.

    WAITING warps more wait for what the one that copies waits for, and arrive. With MOVED, its warpgroup gives registers to
    those that multiply, as HELD needs.
    """
    rank = px.cluster.rank()
    half, height, width = BN // 2, BM // 2, BN // PARTS
    a, b = px.shared((STAGES, BM, BK), A.dtype), px.shared((STAGES, BN, BK), B.dtype)
    out = px.shared((2, height, width), C.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], 2 * BM), px.cdiv(C.shape[1], BN)
    first, step = px.cluster.id(), px.num_blocks(0) // 2
    ring = px.ring(STAGES)

    for other in px.static_range(1, 1 + WAITING):
        with px.warps(other, 1):
            for _ in range(first, rows * columns, step):
                for _ in range(steps):
                    empty[ring.stage].wait(ring.parity ^ 1)
                    full[ring.stage].arrive()
                    ring.advance()

    with px.warps(0, 4 if MOVED else 1, regs=40 if MOVED else None):
        for tile in range(first, rows * columns, step):
            i, j = grouped(tile, rows, columns, GROUP)
            m, n = (2 * i + rank) * BM, j * BN + rank * half
            for k in range(0, steps * BK, BK):
                s = ring.stage
                empty[s].wait(ring.parity ^ 1)
                with full[s].transaction():
                    px.tma.load(A[m : m + BM, k : k + BK], a[s], full[s])
                    mine = b[s][rank * half : rank * half + half]
                    px.tma.load(B[n : n + half, k : k + BK], mine, full[s], multicast=0b11)
                ring.advance()
        for _ in range(STAGES):  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            empty[ring.stage].wait(ring.parity ^ 1)
            ring.advance()

    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232 if MOVED else None):
            top = c * height
            for tile in range(first, rows * columns, step):
                i, j = grouped(tile, rows, columns, GROUP)
                m, n = (2 * i + rank) * BM + top, j * BN
                acc = px.empty((height, BN), px.f32)
                last = 0
                for k in range(steps):
                    s = ring.stage
                    full[s].wait(ring.parity)
                    if HELD:
                        px.wgmma(px.load(a[s][top : top + height]), b[s].T, acc, accumulate=k > 0)
                    else:
                        px.wgmma(a[s][top : top + height], b[s].T, acc, accumulate=k > 0)
                    px.wgmma_commit()
                    if HELD:
                        px.wgmma_wait(0)
                        empty[s].arrive(ctas=0b11)
                    else:
                        px.wgmma_wait(1)
                        if k > 0:
                            empty[last].arrive(ctas=0b11)
                        last = s
                    ring.advance()
                if not HELD:
                    px.wgmma_wait(0)
                    empty[last].arrive(ctas=0b11)
                for part in px.static_range(0, BN, width):
                    px.tma.wait(0, read=True)
                    px.store(out[c], acc[:, part : part + width].to(C.dtype))
                    px.fence.async_proxy()
                    px.tma.store(out[c], C[m : m + height, n + part : n + part + width])
                    px.tma.commit()
            px.tma.wait(0)


VARIANTS: dict[str, dict[str, Any]] = {
    "one warp fetches": {},
    "three more wait": {"WAITING": 3},
    "registers moved": {"MOVED": True},
    "A in registers": {"MOVED": True, "HELD": True},
}


def launch(a: Any, b: Any, c: Any, constants: dict[str, Any]) -> None:
    """One product, in tiles of 128 x 256 by clusters of two."""
    (m, n), clusters = c.shape, px.device().clusters(2)
    gemm_roles[2 * min(clusters, px.cdiv(m, 256) * px.cdiv(n, 256))](a, b, c, **constants)


def measure(bench: Bench, shape: Shape, rounds: int) -> None:
    """One shape by all variants in turns, beside cuBLAS."""
    ways: dict[str, Way] = {
        name: lambda a, b, c, constants=constants: launch(a, b, c, constants) for name, constants in VARIANTS.items()
    }
    (m, n, k), seconds = shape.sizes, bench.ends - time.monotonic()
    for row in bench.compare(shape, ways, seconds, rounds):
        rate = 2 * m * n * k / statistics.median(row["ms"]) / 1e9
        measured = ", ".join(f"{row[name]:.4g} {name}" for name in ("joules", "watts", "megahertz") if row.get(name))
        bench.say(f"{shape}: {row['variant']:28} {rate:5.0f} TFLOP/s, {measured or 'no energy'}")
    bench.save()


def main() -> None:
    parser = arguments(__doc__, 4)
    parser.add_argument("--seconds", type=float, default=60.0, help="of measuring")
    given = parser.parse_args()
    bench = Bench(given.seconds, given.json)
    for shape in SHAPES:
        measure(bench, shape, given.rounds)


if __name__ == "__main__":
    main()
