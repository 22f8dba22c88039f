"""Triton's persistent TMA matmul (`triton_kernel.py`) as a contender, with a small search of its settings."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

from benchmarks.products.contenders import Missing
from benchmarks.products.peers.settings import FastestSetting
from phalanx.runtime.device.timing import Run, Timer


class Setting(NamedTuple):
    """Tile, warps, stages, and whether the result leaves in halves."""

    bm: int
    bn: int
    bk: int
    warps: int
    stages: int
    halves: bool


SETTINGS = (
    Setting(128, 256, 64, 8, 3, True),
    Setting(128, 256, 64, 8, 4, True),
    Setting(128, 256, 64, 8, 3, False),
    Setting(256, 128, 64, 8, 3, True),
    Setting(128, 128, 64, 8, 4, False),
    Setting(128, 128, 64, 4, 4, True),
    Setting(64, 256, 64, 4, 4, True),
    Setting(64, 128, 64, 4, 5, False),
)
GROUP = 8


class Triton(FastestSetting):
    """The matmul with the fastest of its settings for each shape."""

    name = "triton"
    settings = SETTINGS

    def __init__(self, timer: Timer) -> None:
        if importlib.util.find_spec("triton") is None:
            raise Missing("triton is not installed")
        if importlib.util.find_spec("triton.tools.tensor_descriptor") is None:
            raise Missing("this triton has no tensor descriptors made on the host: 3.4 and newer have them")
        super().__init__(timer)
        from benchmarks.products.peers.triton_kernel import matmul

        self.kernel = matmul

    def bind(self, setting: Setting, a: Any, b: Any, c: Any) -> Run:
        """A run with one setting."""
        import torch
        from triton.tools.tensor_descriptor import TensorDescriptor

        (m, k), n = a.shape, b.shape[0]
        bm, bn, bk, warps, stages, halves = setting
        a_desc, b_desc = TensorDescriptor.from_tensor(a, [bm, bk]), TensorDescriptor.from_tensor(b, [bn, bk])
        c_desc = TensorDescriptor.from_tensor(c, [bm, bn // 2 if halves else bn])
        tiles = -(-m // bm) * -(-n // bn)
        sms = torch.cuda.get_device_properties(a.device).multi_processor_count  # a constant of the kernel: compiled once
        launch = self.kernel[(min(sms, tiles),)]

        def run() -> None:
            launch(
                a_desc, b_desc, c_desc, m, n, k, BM=bm, BN=bn, BK=bk, GROUP=GROUP, CTAS=sms, HALVES=halves,
                num_warps=warps, num_stages=stages,
            )

        return run
