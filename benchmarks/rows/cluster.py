"""What a cluster is worth, on a GPU: multicast against separate loads, pushes between SMs against stores.

The two numbers. Multicast: both CTAs of a cluster need the whole of X; with multicast L2 is read once for both, without
it twice; both write Y, twice as large, so HBM sets the same floor and the difference is what L2's bandwidth costs.
Push: bytes that land in shared memory per SM and second; the network has no published figure, stores are the measure.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import EXAMPLES
from benchmarks.common import machine

sys.path.insert(0, str(EXAMPLES))

from multicast_copy import multicast_copy

import phalanx as px

COPIES = ({"BM": 64, "BN": 64, "STAGES": 4}, {"BM": 64, "BN": 128, "STAGES": 4}, {"BM": 32, "BN": 256, "STAGES": 6})
PUSHES = (64, 256, 1024, 4096, 16384, 32768)


@px.kernel(warps=2, cluster=2)
def separate_copy(X, Y, *, BM=64, BN=64, STAGES=4):
    """`multicast_copy` without multicast: each CTA of the cluster loads every tile itself."""
    rank = px.cluster.rank()
    stages = px.shared((STAGES, BM, BN), X.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    across = px.cdiv(X.shape[1], BN)
    tiles = px.cdiv(X.shape[0], BM) * across
    first, step = px.cluster.id(), px.num_blocks(0) // 2
    ring = px.ring(STAGES)

    with px.warps(0, 1):
        for tile in range(first, tiles, step):
            m, n = tile // across * BM, tile % across * BN
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[m : m + BM, n : n + BN], stages[ring.stage], full[ring.stage])
            ring.advance()

    with px.warps(1, 1):
        for tile in range(first, tiles, step):
            m, n = tile // across * BM, tile % across * BN
            full[ring.stage].wait(ring.parity)
            px.tma.store(stages[ring.stage], Y[rank, m : m + BM, n : n + BN])
            px.tma.commit()
            px.tma.wait(0, read=True)
            empty[ring.stage].arrive()
            ring.advance()
        px.tma.wait(0)


@px.kernel(warps=5, cluster=2)
def push(Y, rounds, *, COUNT=1024, STAGES=4, SHIFT=0):
    """Each CTA pushes COUNT floats into its neighbour, `rounds` times; with SHIFT=2 by stores, 8 bytes each."""
    peer = px.cluster.rank() ^ 1
    source = px.shared((COUNT + 4,), px.f32)
    inbox = px.shared((STAGES, COUNT), px.f32)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    px.store(source, px.full((COUNT + 4,), 1.0 + px.cluster.rank(), px.f32))
    px.fence.async_proxy()
    px.sync()
    ring = px.ring(STAGES)

    with px.warps(0, 4):
        for _ in range(rounds):
            empty[ring.stage].wait(ring.parity ^ 1)  # the neighbour has let go of this slot of its own
            px.cluster.copy(source[SHIFT : SHIFT + COUNT], inbox[ring.stage], full[ring.stage], cta=peer, arm=True)
            ring.advance()

    with px.warps(4, 1):
        for _ in range(rounds):
            full[ring.stage].wait(ring.parity)
            empty[ring.stage].arrive(ctas=1 << peer)
            ring.advance()

    px.store(Y[px.block_id(0), 0:COUNT], px.load(inbox[0]))


def milliseconds(run: Callable[[], Any], repeats: int) -> float:
    """The same after a run that warms up: what is timed was only just made."""
    run()
    return machine.milliseconds(run, repeats)


def median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def copies(rounds: int) -> list[dict[str, Any]]:
    import torch

    rows = []
    print(f"{'multicast copy':40} {'with GB/s':>10} {'without':>8} {'ratio':>6}")
    for shape in ((4096, 4096), (16384, 8192)):
        x = torch.randn(*shape, device="cuda")
        y = torch.empty(2, *shape, device="cuda")
        landed = 2 * x.nbytes + y.nbytes  # what both CTAs receive, and what they write
        for config in COPIES:
            per_sm = max(1, min(4, 220_000 // (4 * config["BM"] * config["BN"] * config["STAGES"] + 2048)))
            grid = px.device().sms // 2 * 2 * per_sm
            times: dict[str, list[float]] = {"with": [], "without": []}
            for _ in range(rounds):
                for name, kernel in (("with", multicast_copy), ("without", separate_copy)):
                    y.fill_(0)
                    times[name].append(milliseconds(partial(kernel[grid], x, y, **config), 10))
                    assert torch.equal(y[0], x) and torch.equal(y[1], x), (name, config)
            rates = {name: landed / median(found) / 1e6 for name, found in times.items()}
            rows.append({"shape": shape, "config": config, **rates, "ratio": rates["with"] / rates["without"]})
            speeds = f"{rates['with']:10.0f} {rates['without']:8.0f} {rows[-1]['ratio']:6.3f}"
            print(f"{shape!s:16}{config!s:24.60} {speeds}")
    return rows


def pushes(rounds: int) -> list[dict[str, Any]]:
    import torch

    rows = []
    sms = px.device().sms // 2 * 2
    print(f"{'push, bytes':>12} {'bulk GB/s/SM':>13} {'stores':>8} {'ratio':>6}")
    for nbytes in PUSHES:
        count, turns = nbytes // 4, max(200, 4_000_000 // nbytes)
        y = torch.zeros(sms, count, device="cuda")
        times: dict[str, list[float]] = {"bulk": [], "stores": []}
        for _ in range(rounds):
            for name, shift in (("bulk", 0), ("stores", 2)):
                times[name].append(milliseconds(partial(push[sms], y, turns, COUNT=count, SHIFT=shift), 3))
        assert bool((y[0] == 2).all()) and bool((y[1] == 1).all())
        rates = {name: nbytes * turns / median(found) / 1e6 for name, found in times.items()}
        rows.append({"bytes": nbytes, **rates, "ratio": rates["bulk"] / rates["stores"]})
        print(f"{nbytes:>12} {rates['bulk']:13.1f} {rates['stores']:8.1f} {rows[-1]['ratio']:6.2f}")
    return rows


def main() -> None:
    parser = machine.arguments(__doc__, 5)
    options = parser.parse_args()
    results = {"copies": copies(options.rounds), "pushes": pushes(options.rounds)}
    machine.save(options.json, results)


if __name__ == "__main__":
    main()
