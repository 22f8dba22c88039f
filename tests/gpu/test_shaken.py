"""Launches with random delays: the library is right with any of them, and a bug that plain runs do not show is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from phalanx.runtime.launch.watchdog import Delays, shaken
from phalanx.runtime.shaking import delay_sites
from phalanx.tools.shake import Trials, shaken_text
from phalanx.tools.user_files import declared

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

LATE = '''
import numpy as np
import phalanx as px


@px.kernel(warps=5)
def early_release(X, Y, *, BM=64, BN=64, STAGES=2):
    """The consumer gives a stage back before it has read it: it reads in time unless it is late."""
    stages = px.shared((STAGES, BM, BN), X.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    tiles = X.shape[1] // BN
    m = px.block_id(0) * BM
    ring = px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(tiles):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[m:m+BM, t*BN:t*BN+BN], stages[ring.stage], full[ring.stage])
            ring.advance()
    with px.warps(1, 4):
        for t in range(tiles):
            full[ring.stage].wait(ring.parity)
            empty[ring.stage].arrive()
            px.store(Y[m:m+BM, t*BN:t*BN+BN], px.load(stages[ring.stage]))
            ring.advance()


@px.example
def small():
    x = np.random.default_rng(0).standard_normal((256, 2048), np.float32)
    return early_release[4], (x, np.zeros_like(x))
'''


def test_a_late_reader_is_found_and_reduced(tmp_path: Path) -> None:
    path = tmp_path / "early_release.py"
    path.write_text(LATE)
    (launch,) = declared(str(path))
    sites = delay_sites(launch.bound, launch.args, launch.constants, "sm_90a")
    text, failed = shaken_text(launch, sites, Trials(str(path), 0), range(40))
    assert failed and "'Y' is off by" in text
    assert 1 <= text.count("early_release.py:") <= 3, text


def bf16(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(torch.bfloat16)


CALLS = {
    "matmul": lambda: px.kernels.matmul(bf16(512, 768), bf16(1024, 768, seed=1).T),
    "few rows": lambda: px.kernels.matmul(bf16(16, 2048), bf16(1024, 2048, seed=1).T),
    "softmax": lambda: px.kernels.softmax(bf16(64, 4096)),
    "long rows": lambda: px.kernels.softmax(bf16(16, 200_000)),
    "rms_norm": lambda: px.kernels.rms_norm(bf16(64, 8192)),
    "layer_norm": lambda: px.kernels.layer_norm(bf16(33, 12_345)),
    "attention": lambda: px.kernels.attention(*(bf16(1, 512, 4, 64, seed=number) for number in range(3))),
    "decode": lambda: px.kernels.attention_decode(
        bf16(2, 1, 8, 128), bf16(2, 1000, 2, 128, seed=1), bf16(2, 1000, 2, 128, seed=2),
        torch.tensor([1000, 700], dtype=torch.int32, device="cuda"),
    ),
    "gather": lambda: px.kernels.gather_rows(bf16(1000, 512), torch.arange(999, -1, -3, device="cuda")),
    "grouped": lambda: px.kernels.grouped_matmul(
        bf16(600, 256), bf16(3, 512, 256, seed=1), [100, 250, 250]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_library_is_right_however_late_its_agents_are(name: str) -> None:
    want = CALLS[name]()
    for seed in range(12):
        with shaken(Delays(seed)):
            got = CALLS[name]()
        assert torch.equal(got, want), f"seed {seed}"
