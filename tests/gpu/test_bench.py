"""The benchmark's contenders on a real GPU: each computes what f32 does, and rows come out. No times are asserted."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

from benchmarks.common.device import TorchDevice  # noqa: E402
from benchmarks.products.contenders import Missing  # noqa: E402
from benchmarks.products.gemm import GemmBench, Options  # noqa: E402
from benchmarks.products.peers import PEERS, peer  # noqa: E402
from benchmarks.products.shapes import Shape  # noqa: E402


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_is_right(name: str) -> None:
    device = TorchDevice()
    try:
        entry = peer(name, device.milliseconds)
    except Missing as missing:
        pytest.skip(str(missing))
    bench = GemmBench(Options(), device)
    assert bench.check(entry) < 0.01


def test_a_short_run() -> None:
    options = Options(
        shapes=(Shape(1024, 1024, 1024), Shape(64, 4096, 1024, ("v7",))), rungs=("v6", "v7"), peers=("cublas",), rounds=2,
        burst_rounds=1, modes=("turns", "burst", "cold"),
    )
    found = GemmBench(options, TorchDevice()).run()
    names = {(row["mode"], row["shape"][0], row["contender"]) for row in found["rows"]}
    assert names == {
        (mode, m, name)
        for mode in options.modes
        for m, contenders in ((1024, ("cublas", "v6", "v7")), (64, ("cublas", "v7")))
        for name in contenders
    }
    assert all(row["tflops"] > 0 and row["ratio"] > 0 and row["error"] < 0.01 for row in found["rows"])
