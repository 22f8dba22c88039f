"""Where the time of a training step goes on a GPU: kernels by what they do and whose they are, for `train_gpt.py`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

WORK = (
    # What a kernel does, by its name: the first pattern that is found says it.
    ("attention, backward", r"backward_(keys|queries)|prepare_rows|finish_sums|(flash|fmha|sdpa).*(bprop|bwd|backward)"),
    ("attention, forward", r"attention_tiles|flash|fmha|sdpa|cudnn"),
    ("products", r"matmul|split_k|split_ring|nvjet|gemm|cutlass|splitKreduce"),
    ("loss", r"cross_entropy|softmax|nll_loss"),
    ("optimiser", r"multi_tensor|adam"),
    ("embedding", r"embedding|add_rows|gather|scatter"),
    ("SwiGLU", r"silu|sigmoid"),
    ("norms, with residual sums where fused", r"norm|sum_columns|rsqrt"),
    ("rotation", r"triton.*(cat|split|neg|cos|sin)"),
    ("residual sums", r"triton.*add"),
    ("casts", r"triton.*copy"),
    ("fills and copies", r"Memset|Memcpy|fill|copy|FillFunctor"),
)
OWNERS = (
    ("Inductor", r"^triton_"), ("cuDNN", r"cudnn|flash.*sm90|sdpa"), ("cuBLAS", r"nvjet|gemm|cutlass|splitKreduce"),
    ("torch", r"at::|Memset|Memcpy"),
)


def is_kernel(name: str) -> bool:
    """Whether a row of the profiler is a kernel or a copy: not the span of an optimiser's step, which has them inside."""
    return not name.startswith("Optimizer.step#")


def work_of(kernel: str) -> str:
    """What a kernel does."""
    return next((work for work, pattern in WORK if re.search(pattern, kernel)), "other")


def owner_of(kernel: str) -> str:
    """Whose kernel it is: what is nobody else's is ours."""
    return next((owner for owner, pattern in OWNERS if re.search(pattern, kernel)), "Phalanx")


def kernels_of(step: Callable[[], Any], steps: int = 3) -> list[tuple[str, float, int]]:
    """The kernels of a step, (name, milliseconds, launches), by torch's profiler, the longest first."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    on_device = [row for row in seen.key_averages() if row.device_type == torch.autograd.DeviceType.CUDA]
    found = [
        (row.key, row.self_device_time_total / 1e3 / steps, round(row.count / steps))
        for row in on_device if is_kernel(row.key)
    ]  # fmt: skip
    return sorted(found, key=lambda row: -row[1])


def by_work(kernels: list[tuple[str, float, int]]) -> dict[str, dict[str, Any]]:
    """Kernels summed by what they do: milliseconds, launches and whose they are."""
    found: dict[str, dict[str, Any]] = defaultdict(lambda: {"ms": 0.0, "launches": 0, "of": set()})
    for name, spent, count in kernels:
        if not is_kernel(name):
            continue
        row = found[work_of(name)]
        row["ms"] += spent
        row["launches"] += count
        row["of"].add(owner_of(name))
    return {work: {**row, "of": sorted(row["of"])} for work, row in sorted(found.items(), key=lambda one: -one[1]["ms"])}


def text_of(sides: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Tables of several sides beside each other, a line for each kind of work.

    A kernel that is launched while the one before it ends (`pdl`, as ours are) counts from then on, with the time it waits:
    the sum may be more than the step.
    """
    works = {work: None for table in sides.values() for work in table}
    lines = ["ms of a step".ljust(40) + "".join(f"{side:>10}  {'by':<24}" for side in sides)]
    for work in works:
        cells = [table.get(work) for table in sides.values()]
        lines.append(
            work.ljust(40)
            + "".join(f"{cell['ms']:>10.3f}  {', '.join(cell['of']):<24}" if cell else f"{'':>36}" for cell in cells)
        )
    sums = [sum(row["ms"] for row in table.values()) for table in sides.values()]
    lines.append("all kernels".ljust(40) + "".join(f"{total:>10.3f}{'':<26}" for total in sums))
    return "\n".join(line.rstrip() for line in lines)
