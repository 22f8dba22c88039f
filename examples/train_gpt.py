"""Trains a small GPT whose heavy operations are ours, and the same one by torch alone, and compares losses and speeds.

    python examples/train_gpt.py                          # on a GPU: 300 steps of the model that fills a card, both sides
    python examples/train_gpt.py --size small --experts 8 --steps 100
    python examples/train_gpt.py --size tiny --steps 2    # anywhere: our side in the simulator

Both sides have the same weights, text, clipping and optimiser (torch's fused AdamW) and are compiled by `torch.compile`,
torch's as one graph, ours block by block; torch's attention is cuDNN's. With `--table` it says where a step's time goes.
SwiGLU's product, rotations and casts are Inductor's on both sides; residual sums are part of our products on our side, and
of Inductor's norms on the other.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import gpt
import numpy as np
import step_table
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks.common.machine import save

SIZES = {"tiny": gpt.TINY, "small": gpt.SMALL, "card": gpt.CARD}
SIDES = {"ours": gpt.Ours, "torch": gpt.Plain}
ON_GPU = torch.cuda.is_available()
LARGEST_NORM = 1.0
"""Of a step's gradients, which are scaled down to it."""
WARM_UP, LAST_RATE = 60, 0.1
"""Steps in which the rate rises, and the part of it that is left in the last step."""


def attention_of(side: str) -> Any:
    """cuDNN's attention for torch's side, on a GPU."""
    if side == "ours" or not ON_GPU:
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)


def part_of_rate(number: int, steps: int) -> float:
    """What a step of so many takes of the rate: it rises along a line, and falls along a cosine."""
    falling = 0.5 + 0.5 * math.cos(math.pi * min(1.0, number / steps))
    return min(1.0, (number + 1) / WARM_UP) * (LAST_RATE + (1 - LAST_RATE) * falling)


class Side:
    """A model with its optimiser and text, ready for the first of `steps` steps."""

    def __init__(self, side: str, sizes: gpt.Sizes, rows: int, rate: float, compiled: bool, steps: int = 300) -> None:
        torch.manual_seed(0)
        self.side, self.rows, self.rate, self.steps = side, rows, rate, steps
        self.device = torch.device("cuda" if ON_GPU else "cpu")
        with self.device:
            self.model = gpt.GPT(sizes, SIDES[side])
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=rate, betas=(0.9, 0.95), fused=ON_GPU or None)
        self.run = self.model
        if compiled:
            self.compile()
        self.text = gpt.Text(sizes.vocab)
        self.length = sizes.length

    def compile(self, backend: Any = "inductor") -> None:
        """Torch's side as one graph, ours block by block: all blocks are one graph, compiled once, however many there are.

        Nothing of ours could be fused across blocks, and outside of them there is little but our own operators.
        """
        if self.side == "ours":
            for block in self.model.blocks:
                block.compile(fullgraph=True, backend=backend)
        else:  # torch's own loop over experts reads their sizes on the host
            self.run = torch.compile(self.model, fullgraph=not self.model.sizes.experts, backend=backend)

    def batch(self) -> torch.Tensor:
        """The next tokens: the same ones on either side."""
        return torch.from_numpy(self.text.batch(self.rows, self.length + 1)).to(self.device)

    def step(self, tokens: torch.Tensor, number: int) -> torch.Tensor:
        """One step of training; the loss stays on the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * part_of_rate(number, self.steps)
        with attention_of(self.side):
            loss = self.run(tokens)
            loss.backward()
        self.norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), LARGEST_NORM)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    def train(self, steps: int, first: int = 0) -> list[float]:
        """The losses of so many steps, of which `first` came before."""
        losses = [self.step(self.batch(), number) for number in range(first, first + steps)]
        return [float(loss) for loss in losses]

    def speed(self, steps: int) -> float:
        """Tokens a second, over steps behind the first ones."""
        batches = [self.batch() for _ in range(2)]
        for number in range(3):
            self.step(batches[number % 2], WARM_UP)
        wait()
        start = time.perf_counter()
        for number in range(steps):
            self.step(batches[number % 2], WARM_UP)
        wait()
        return steps * self.rows * self.length / (time.perf_counter() - start)

    def kernels(self) -> list[tuple[str, float, int]]:
        """The kernels of a step: names, milliseconds, launches."""
        tokens = self.batch()
        return step_table.kernels_of(lambda: self.step(tokens, WARM_UP))


def wait() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def run_side(side: str, sizes: gpt.Sizes, given: argparse.Namespace) -> dict[str, Any]:
    """Trains one side, and says what came out."""
    trained = Side(side, sizes, given.rows, given.rate, ON_GPU and not given.eager, given.steps)
    start = time.perf_counter()
    losses = trained.train(given.steps)
    found: dict[str, Any] = {"losses": losses, "seconds": time.perf_counter() - start}
    print(f"{side:>6}: loss {losses[0]:.4f} after 1 step, {np.mean(losses[-10:]):.4f} at step {len(losses)}", flush=True)
    if given.timed:
        found["tokens_per_second"] = trained.speed(given.timed)
        print(f"{side:>6}: {found['tokens_per_second']:,.0f} tokens a second", flush=True)
    if ON_GPU:
        found["gigabytes"] = torch.cuda.max_memory_allocated() / 1e9
        print(f"{side:>6}: {found['gigabytes']:.1f} GB at most", flush=True)
    if given.table:
        found["kernels"] = trained.kernels()
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Trains the sides that were asked for, and compares them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="card" if ON_GPU else "tiny")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--steps", type=int, default=300 if ON_GPU else 2)
    parser.add_argument("--rows", type=int, default=9 if ON_GPU else 2, help="sequences of a step")
    for name in ("layers", "length", "heads", "kv_heads", "head_dim", "experts"):
        parser.add_argument(f"--{name}", type=int, help="instead of the size's")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--timed", type=int, default=20 if ON_GPU else 0, help="steps for the tokens a second")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--table", action="store_true", help="time per kind of work, on a GPU")
    parser.add_argument("--out", type=Path, help="a file for the losses, speeds and kernels, as JSON")
    given = parser.parse_args(arguments)
    other = {field.name: getattr(given, field.name, None) for field in fields(gpt.Sizes)}
    sizes = replace(SIZES[given.size], **{name: value for name, value in other.items() if value is not None})
    found: dict[str, Any] = {"sizes": asdict(sizes), "rows": given.rows, "torch_version": torch.__version__}
    for side in given.sides:
        found[side] = run_side(side, sizes, given)
        if ON_GPU:
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        save(given.out, found)
    if given.table:
        print(step_table.text_of({side: step_table.by_work(found[side]["kernels"]) for side in given.sides}))
    if len(given.sides) == 2:
        last = [np.mean(found[side]["losses"][-10:]) for side in SIDES]
        print(f"losses {100 * (last[0] / last[1] - 1):+.2f}%", end="")
        if given.timed:
            speeds = [found[side]["tokens_per_second"] for side in SIDES]
            print(f", {speeds[0] / speeds[1]:.3f} times the tokens a second", end="")
        print("  (ours beside torch's)")
    return found


if __name__ == "__main__":
    main()
