"""Where a GEMM benchmark runs: operands, the right result, and a clock, through torch."""

from __future__ import annotations

import importlib.util
import statistics
from typing import Any

from phalanx.errors import Error
from phalanx.runtime.device.power import Meter, meter_of
from phalanx.runtime.device.timing import Run

HEAD_START = 400_000
"""Cycles: about 0.2 ms."""


class TorchDevice:
    """A CUDA device as torch sees it. Random normal bf16 operands: zeros would draw less power and run faster."""

    def __init__(self) -> None:
        if importlib.util.find_spec("torch") is None:
            raise Error(
                "the benchmark needs torch, for cuBLAS and for arrays on the GPU",
                remedy="pip install torch; px.tune and kernels need no torch",
            )
        import torch

        if not torch.cuda.is_available():
            raise Error(
                "the benchmark needs a CUDA GPU, and torch finds none here",
                remedy="run it on a machine with a GPU; benchmarks/overhead/sim.py measures the simulator",
            )
        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch: Any = torch
        self.scratch: Any = None
        self.sms: int = torch.cuda.get_device_properties(0).multi_processor_count

    def meter(self) -> Meter:
        """What the card draws; raises `NoMeter` where that can't be read."""
        return meter_of(self.torch.cuda.current_device())

    def operands(self, m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
        """Random A (m, k) and B (n, k), and C (m, n) full of NaN."""
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(seed)
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16, generator=generator)
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16, generator=generator)
        return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)

    def product(self, a: Any, b: Any) -> Any:
        """A @ B.T in f32."""
        return a.float() @ b.float().T

    def difference(self, c: Any, want: Any) -> float:
        """The largest error, relative to the largest element of the f32 product."""
        return float((c.float() - want).abs().max() / want.abs().max())

    def blank(self, c: Any) -> None:
        """Forgets a result."""
        c.fill_(float("nan"))

    def synchronize(self) -> None:
        """Waits until the GPU has done all that it was given."""
        self.torch.cuda.synchronize()

    def release(self) -> None:
        """Gives memory of dead arrays back."""
        self.torch.cuda.empty_cache()

    def cold_milliseconds(self, run: Run, repeats: int) -> float:
        """The median time of single runs, L2 overwritten before each."""
        torch = self.torch
        if self.scratch is None:
            l2 = torch.cuda.get_device_properties(0).L2_cache_size
            self.scratch = torch.empty(2 * l2, device="cuda", dtype=torch.int8)
        pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(repeats)]
        for start, stop in pairs:
            self.scratch.zero_()
            start.record()
            run()
            stop.record()
        torch.cuda.synchronize()
        return statistics.median(float(start.elapsed_time(stop)) for start, stop in pairs)

    def milliseconds(self, run: Run, repeats: int) -> float:
        """Time per run, by events around all of them.

        The card is kept busy until the first runs are in its queue: after a rest, Python is slow for a moment, and that
        is not the kernel's time.
        """
        torch = self.torch
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(HEAD_START)
        start.record()
        for _ in range(repeats):
            run()
        stop.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(stop)) / repeats
