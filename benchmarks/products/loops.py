"""Loops over `px.pipelined` that were written with rings by hand before: times, and whether they are right.

    PYTHONPATH=src python benchmarks/products/loops.py --json loops.json

Products of 4,096 x 4,096 x 7,168: fp8 with a scale for each 128 elements, and weights of 4 bits, beside torch's product in
bf16, with L2 emptied before each launch. Recurrences of 64 heads of 128 and 8,192 steps: decayed linear attention and the
gated delta rule, in bursts. Results are compared with torch in f32, those of recurrences for the first 512 steps.

The two numbers: operations over 1,979 (fp8) or 989 TFLOP/s, and bytes over 4.8 TB/s. For the products they are 0.12, 0.24 ms
and 0.02 ms, for the recurrences 0.04 to 0.06 ms and 0.11 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "simple"))

import phalanx as px
from benchmarks.common import machine

M, N, K = 4096, 4096, 7168
HEADS, STEPS, COMPARED, DIM = 64, 8192, 512, 128


@dataclass
class Loop:
    """A launch, what it must give, what it computes, and others beside it."""

    name: str
    launch: Callable[[], Any]
    wrong: Callable[[], float]
    flops: float
    mode: str
    against: dict[str, Callable[[], Any]]


def error_of(got: Any, want: Any) -> float:
    """The largest error, relative to the largest element."""
    return float((got.float() - want.float()).abs().max() / want.float().abs().max())


def block_scaled(torch: Any) -> Loop:
    """fp8 with a scale for each 128 elements of a row, and for each block of weights."""
    from block_scaled import block_scaled as kernel

    groups = K // 128
    x, w = torch.randn(M, groups, 128, device="cuda"), torch.randn(N // 128, 128, groups, 128, device="cuda")
    sa, sb = x.abs().amax(2) / 448, w.abs().amax((1, 3)) / 448
    a, b = (x / sa[:, :, None]).to(torch.float8_e4m3fn), (w / sb[:, None, :, None]).to(torch.float8_e4m3fn)
    wide_a = (a.float() * sa[:, :, None]).view(M, K)
    wide_b = (b.float() * sb[:, None, :, None]).view(N, K)
    c, scales = torch.empty(M, N, device="cuda", dtype=torch.bfloat16), sa.T.contiguous()
    a, b, sb = a.view(M, K), b.view(N, K), sb.contiguous()
    half_a, half_b = wide_a.bfloat16(), wide_b.bfloat16()
    return Loop(
        "fp8, block scales", lambda: kernel[px.auto](a, scales, b, sb, c), lambda: error_of(c, wide_a @ wide_b.T),
        2.0 * M * N * K, "cold", {"torch bf16": lambda: half_a @ half_b.T},
    )  # fmt: skip


def dequantised(torch: Any) -> Loop:
    """Weights of 4 bits with a scale and a zero point for each 128."""
    from dequantised import dequantised as kernel

    groups, bf16 = K // 128, torch.bfloat16
    codes = torch.randint(0, 16, (N, K), device="cuda", dtype=torch.uint8)
    packed = px.packed((codes[:, ::2] | (codes[:, 1::2] << 4)).contiguous(), px.u4)
    s = (torch.rand(groups, N, device="cuda") * 0.01 + 0.005).to(bf16)
    z = torch.randint(5, 11, (groups, N), device="cuda").to(bf16)
    w = ((codes.float().view(N, groups, 128) - z.T.float()[:, :, None]) * s.T.float()[:, :, None]).view(N, K).to(bf16)
    x, c = torch.randn(M, K, device="cuda").to(bf16), torch.empty(M, N, device="cuda", dtype=bf16)
    return Loop(
        "weights of 4 bits", lambda: kernel[px.auto](x, packed, s, z, c), lambda: error_of(c, x.float() @ w.float().T),
        2.0 * M * N * K, "cold", {"torch bf16": lambda: x @ w.T},
    )  # fmt: skip


def recurrence(torch: Any, gated: bool) -> Loop:
    """Linear attention with decay, or the gated delta rule."""
    from delta_rule import delta_rule
    from state_space import state_space

    q, k, v = (torch.randn(HEADS, STEPS, DIM, device="cuda").to(torch.bfloat16) for _ in range(3))
    k = torch.nn.functional.normalize(k.float(), dim=2).to(torch.bfloat16)
    g = -0.2 * torch.rand(HEADS, STEPS, device="cuda")
    beta = 0.1 + 0.9 * torch.rand(HEADS, STEPS, device="cuda")
    o = torch.empty_like(v)
    kernel = delta_rule if gated else state_space
    arguments = (q, k, v, g, beta, o) if gated else (q, k, v, g, o)

    def wrong() -> float:
        state, want = torch.zeros(HEADS, DIM, DIM, device="cuda"), torch.empty(HEADS, COMPARED, DIM, device="cuda")
        for t in range(COMPARED):
            state = state * g[:, t, None, None].exp()
            value = v[:, t].float()
            if gated:
                value = beta[:, t, None] * (value - torch.bmm(k[:, t, None].float(), state)[:, 0])
            state = torch.baddbmm(state, k[:, t, :, None].float(), value[:, None])
            want[:, t] = torch.bmm(q[:, t, None].float(), state)[:, 0]
        return error_of(o[:, :COMPARED], want)

    products = 7 if gated else 4
    name = "gated delta rule" if gated else "decayed linear attention"
    flops = HEADS * (STEPS // 64) * products * 2.0 * 64 * DIM * DIM
    return Loop(name, lambda: kernel[DIM // 64, HEADS](*arguments), wrong, flops, "burst", {})


def loops(torch: Any) -> list[Loop]:
    """All of them."""
    return [block_scaled(torch), dequantised(torch), recurrence(torch, False), recurrence(torch, True)]


def main() -> None:
    given = machine.arguments(__doc__, 5).parse_args()
    import torch

    torch.manual_seed(0)
    rows = []
    for loop in loops(torch):
        loop.launch()
        torch.cuda.synchronize()
        error = loop.wrong()
        found = px.bench(loop.launch, mode=loop.mode, rounds=given.rounds, flops=loop.flops, against=loop.against)
        rows.append({"loop": loop.name, "ms": found.ms, "tflops": found.tflops, "error": error, "ratios": found.ratios})
        ratios = ", ".join(f"{ratio:.3f} of {name}" for name, ratio in found.ratios.items())
        print(f"{loop.name:26} {found.ms:8.4f} ms {found.tflops:7.0f} TFLOP/s, error {error:.4f} {ratios}", flush=True)
    machine.save(given.json, {"loops": rows})


if __name__ == "__main__":
    main()
