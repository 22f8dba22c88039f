"""The host's time of a call of every function of the library: repeated, and with a shape that never came before.

    PYTHONPATH=src python benchmarks/host_calls.py --json host_calls.json

On a GPU, beside torch's way to the same result, in turns, medians over rounds: a repeated call is to take no longer than
torch's in geometric mean and 1.4 of it at most, one with a new shape 60 us once its kernel is compiled. Elsewhere torch and
the driver are stand-ins, and the times are Python's alone (`tests/support/fake_torch.py`). Calls that read a new kernel are
left out of the new shapes: that is compiling. What is shown of them: the median, and in brackets the least, what one in ten
exceeds, and the most.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("src", "tests")]

import phalanx as px
from benchmarks.common import machine
from phalanx.kernels.rowwise.norms_backward import layer_norm_backward, rms_norm_backward
from phalanx.runtime.launch.memory import memories

Run = Callable[[], Any]
FIRST = 100
"""The first of the new shapes that are timed."""
CLOCKS = [time.perf_counter]
"""Without a GPU what other programs take is left out: then the last one is this thread's own."""


@dataclass(frozen=True)
class Case:
    """A function of the library: `make(n)` gives its call on arrays of the n-th shape, and torch's way, where it has one."""

    name: str
    make: Callable[[int], tuple[Run, Run | None]]

    def spread(self, apart: int) -> Case:
        """The same function on every so many of its shapes."""
        return Case(self.name, lambda n: self.make(apart * n))


class Cases:
    """The calls, for torch or what stands in for it. Sizes are small: the host's time is the question."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self.k = px.kernels

    def new(self, *shape: int, dtype: str = "bfloat16") -> Any:
        make = getattr(self.torch, "distinct", self.torch.empty)
        made = make(shape, dtype=getattr(self.torch, dtype), device=self.device)
        if hasattr(made, "zero_"):
            made.zero_()
        return made

    def index(self, count: int, below: int, dtype: str = "int64") -> Any:
        made = self.new(count, dtype=dtype)
        if hasattr(self.torch, "arange"):
            made.copy_(self.torch.arange(count, device=self.device) % below)
        return made

    def all(self) -> Iterator[Case]:
        for name in sorted(name for name in dir(self) if name.startswith("case_")):
            yield Case(name.removeprefix("case_"), getattr(self, name))

    # Rows --------------------------------------------------------------------------------------------------

    def _functional(self) -> Any:
        return self.torch.nn.functional if hasattr(self.torch, "nn") else None

    def case_softmax(self, n: int) -> tuple[Run, Run | None]:
        x = self.new(64 + n, 512)
        return lambda: self.k.softmax(x), lambda: self.torch.softmax(x, -1)

    def case_softmax_long(self, n: int) -> tuple[Run, Run | None]:
        x = self.new(8 + n, 65536)
        return lambda: self.k.softmax(x), lambda: self.torch.softmax(x, -1)

    def case_softmax_mask(self, n: int) -> tuple[Run, Run | None]:
        x, mask = self.new(64 + n, 512), self.new(64 + n, 512, dtype="bool")
        return (
            lambda: self.k.softmax(x, scale=0.125, mask=mask),
            lambda: self.torch.softmax((x * 0.125).masked_fill(mask, float("-inf")), -1),
        )

    def case_log_softmax(self, n: int) -> tuple[Run, Run | None]:
        x = self.new(64 + n, 512)
        return lambda: self.k.log_softmax(x), lambda: self.torch.log_softmax(x, -1)

    def case_rms_norm(self, n: int) -> tuple[Run, Run | None]:
        x, w, f = self.new(64 + n, 512), self.new(512), self._functional()
        return lambda: self.k.rms_norm(x, w), lambda: f.rms_norm(x, (512,), w)

    def case_add_rms_norm(self, n: int) -> tuple[Run, Run | None]:
        x, r, w, f = self.new(64 + n, 512), self.new(64 + n, 512), self.new(512), self._functional()
        return lambda: self.k.add_rms_norm(x, r, w), lambda: f.rms_norm(r.add_(x), (512,), w)

    def case_layer_norm(self, n: int) -> tuple[Run, Run | None]:
        x, w, b, f = self.new(64 + n, 512), self.new(512), self.new(512), self._functional()
        return lambda: self.k.layer_norm(x, w, b), lambda: f.layer_norm(x, (512,), w, b)

    def case_rms_norm_backward(self, n: int) -> tuple[Run, Run | None]:
        d, x, w = self.new(64 + n, 512), self.new(64 + n, 512), self.new(512)
        theirs, aten = None, self.torch.ops.aten if hasattr(self.torch, "ops") else None
        if aten is not None and hasattr(aten, "_fused_rms_norm_backward"):
            scales = self.new(64 + n, 1, dtype="float32")
            theirs = lambda: aten._fused_rms_norm_backward(d, x, (512,), scales, w, (True, True))  # noqa: E731
        return lambda: rms_norm_backward(d, x, w), theirs

    def case_layer_norm_backward(self, n: int) -> tuple[Run, Run | None]:
        d, x, w, b = self.new(64 + n, 512), self.new(64 + n, 512), self.new(512), self.new(512)
        theirs = None
        if hasattr(self.torch, "ops"):
            aten, moments = self.torch.ops.aten, [self.new(64 + n, 1, dtype="float32") for _ in range(2)]
            theirs = lambda: aten.native_layer_norm_backward(d, x, (512,), *moments, w, b, (True,) * 3)  # noqa: E731
        return lambda: layer_norm_backward(d, x, w, bias=b), theirs

    def case_cross_entropy(self, n: int) -> tuple[Run, Run | None]:
        x, t, f = self.new(64 + n, 4096), self.index(64 + n, 4096), self._functional()
        return lambda: self.k.cross_entropy(x, t), lambda: f.cross_entropy(x, t)

    # Rows by index -----------------------------------------------------------------------------------------

    def case_gather_rows(self, n: int) -> tuple[Run, Run | None]:
        x, i = self.new(256, 512), self.index(64 + n, 256)
        return lambda: self.k.gather_rows(x, i), lambda: self.torch.index_select(x, 0, i)

    def case_embedding(self, n: int) -> tuple[Run, Run | None]:
        x, i, f = self.new(256, 512), self.index(64 + n, 256), self._functional()
        return lambda: self.k.embedding(x, i), lambda: f.embedding(i, x)

    def case_scatter_rows(self, n: int) -> tuple[Run, Run | None]:
        x, i, out = self.new(64 + n, 512), self.index(64 + n, 4096), self.new(4096, 512)
        return lambda: self.k.scatter_rows(x, i, out), lambda: out.index_copy_(0, i, x)

    def case_scatter_add_rows(self, n: int) -> tuple[Run, Run | None]:
        x, i, out = self.new(64 + n, 512), self.index(64 + n, 256), self.new(256, 512)
        return lambda: self.k.scatter_add_rows(x, i, out), lambda: out.index_add_(0, i, x)

    def case_kv_compact(self, n: int) -> tuple[Run, Run | None]:
        cache, keep = self.new(8, 128 + n, 8, 64), self.index(64, 64, "int32")
        keep = keep.reshape(1, 64).expand((8, 64)).contiguous()
        wide = keep.to(self.torch.int64)[:, :, None, None].expand((8, 64, 8, 64)) if hasattr(keep, "zero_") else None
        return lambda: self.k.kv_compact(cache, keep, inplace=True), lambda: self.torch.gather(cache, 1, wide)

    # Products ----------------------------------------------------------------------------------------------

    def case_matmul(self, n: int) -> tuple[Run, Run | None]:
        x, w = self.new(1536 + n, 512), self.new(1024, 512)
        return lambda: self.k.matmul(x, w.T), lambda: self.torch.matmul(x, w.T)

    def case_matmul_shared(self, n: int) -> tuple[Run, Run | None]:
        w = self.new(2048, 512)
        x = w[: 1024 + n % 1024]  # both operands begin at one address
        return lambda: self.k.matmul(x, w.T), lambda: self.torch.matmul(x, w.T)

    def case_matmul_few_rows(self, n: int) -> tuple[Run, Run | None]:
        x, w = self.new(1 + n % 512, 4096), self.new(6144, 4096)
        return lambda: self.k.matmul(x, w.T), lambda: self.torch.matmul(x, w.T)

    def case_matmul_bias(self, n: int) -> tuple[Run, Run | None]:
        x, w, b, f = self.new(1536 + n, 512), self.new(1024, 512), self.new(1024), self._functional()
        return lambda: self.k.matmul(x, w.T, b), lambda: f.linear(x, w, b)

    def case_matmul_odd(self, n: int) -> tuple[Run, Run | None]:
        x, w = self.new(1536 + n, 513), self.new(1024, 513)
        return lambda: self.k.matmul(x, w.T), lambda: self.torch.matmul(x, w.T)

    def case_matmul_batched(self, n: int) -> tuple[Run, Run | None]:
        x, w = self.new(4, 512 + n, 256), self.new(4, 256, 256)
        return lambda: self.k.matmul(x, w), lambda: self.torch.matmul(x, w)

    def case_split_k_matmul(self, n: int) -> tuple[Run, Run | None]:
        x, w = self.new(16, 4096 + 8 * n), self.new(1024, 4096 + 8 * n)
        return lambda: self.k.split_k_matmul(x, w.T), lambda: self.torch.matmul(x, w.T)

    def _groups(self, rows: int) -> tuple[Any, Any, Any]:
        sizes = self.new(4, dtype="int32")
        if hasattr(sizes, "fill_"):
            sizes.fill_(rows // 4)
        return self.new(rows, 512), self.new(4, 512, 512), sizes

    def _grouped_mm(self, x: Any, w: Any, sizes: Any) -> Run | None:
        if not hasattr(self.torch, "_grouped_mm"):
            return None
        ends = self.torch.cumsum(sizes, 0, dtype=self.torch.int32)
        return lambda: self.torch._grouped_mm(x, w.transpose(1, 2), ends)

    def case_grouped_matmul(self, n: int) -> tuple[Run, Run | None]:
        x, w, sizes = self._groups(512 + 4 * n)
        return lambda: self.k.grouped_matmul(x, w, sizes), self._grouped_mm(x, w, sizes)

    def case_moe_matmul(self, n: int) -> tuple[Run, Run | None]:
        x, w, sizes = self._groups(512 + 4 * n)
        return lambda: self.k.moe_matmul(x, w, sizes), self._grouped_mm(x, w, sizes)

    def case_moe_gather_matmul(self, n: int) -> tuple[Run, Run | None]:
        x, w, sizes = self._groups(512 + 4 * n)
        i, way = self.index(512 + 4 * n, 512), self._grouped_mm(x, w, sizes)
        ends = self.torch.cumsum(sizes, 0, dtype=self.torch.int32) if way else None
        theirs = (lambda: self.torch._grouped_mm(x[i], w.transpose(1, 2), ends)) if way else None
        return lambda: self.k.moe_gather_matmul(x, i, w, sizes), theirs

    def case_moe_matmul_scatter(self, n: int) -> tuple[Run, Run | None]:
        x, w, sizes = self._groups(512 + 4 * n)
        i, gates, out = self.index(512 + 4 * n, 512), self.new(512 + 4 * n, dtype="float32"), self.new(512, 512)
        way = self._grouped_mm(x, w, sizes)
        theirs = (lambda: out.index_add_(0, i, way() * gates[:, None].to(out.dtype))) if way else None
        return lambda: self.k.moe_matmul_scatter(x, w, sizes, i, gates, out), theirs

    # Attention ---------------------------------------------------------------------------------------------

    def _heads(self, length: int, heads: int = 4) -> tuple[Any, Any, Any]:
        return self.new(2, heads, length, 64), self.new(2, heads, length, 64), self.new(2, heads, length, 64)

    def case_attention(self, n: int) -> tuple[Run, Run | None]:
        (q, k, v), f = self._heads(256 + n), self._functional()
        return lambda: self.k.attention(q, k, v), lambda: f.scaled_dot_product_attention(q, k, v)

    def case_attention_self(self, n: int) -> tuple[Run, Run | None]:
        (x, *_), f = self._heads(256 + n), self._functional()  # queries, keys and values are one array
        return lambda: self.k.attention(x, x, x), lambda: f.scaled_dot_product_attention(x, x, x)

    def case_attention_causal(self, n: int) -> tuple[Run, Run | None]:
        (q, k, v), f = self._heads(256 + n), self._functional()
        return (
            lambda: self.k.attention(q, k, v, causal=True),
            lambda: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        )

    def case_attention_lse(self, n: int) -> tuple[Run, Run | None]:
        q, k, v = self._heads(256 + n)
        aten: Any = self.torch.ops.aten if hasattr(self.torch, "ops") else None
        return (
            lambda: self.k.attention(q, k, v, lse=True),
            lambda: aten._scaled_dot_product_flash_attention(q, k, v),
        )

    def case_attention_backward(self, n: int) -> tuple[Run, Run | None]:
        q, k, v = self._heads(256 + n)
        do, o, lse = self.new(*q.shape), self.new(*q.shape), self.new(*q.shape[:3], dtype="float32")
        theirs = None
        if hasattr(self.torch, "ops"):
            aten = self.torch.ops.aten
            made = aten._scaled_dot_product_flash_attention(q, k, v)
            _, logs, cum_q, cum_k, max_q, max_k, seed, offset = made[:8]

            def theirs() -> Any:
                return aten._scaled_dot_product_flash_attention_backward(
                    do, q, k, v, o, logs, cum_q, cum_k, max_q, max_k, 0.0, False, seed, offset
                )

        return lambda: self.k.attention_backward(do, q, k, v, o, lse), theirs

    def case_attention_decode(self, n: int) -> tuple[Run, Run | None]:
        q, k, v = self.new(4, 1, 8, 64), self.new(4, 512 + n, 8, 64), self.new(4, 512 + n, 8, 64)
        lengths, f = self.new(4, dtype="int32"), self._functional()
        return (
            lambda: self.k.attention_decode(q, k, v, lengths),
            lambda: f.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),
        )

    def case_sparse_attention(self, n: int) -> tuple[Run, Run | None]:
        q, k, v = (self.new(1, 256 + n, 4, 64) for _ in range(3))
        lists = self.index(128, 128, "int32").reshape(1, 1, 1, 128).expand((1, 256 + n, 1, 128)).contiguous()
        return lambda: self.k.sparse_attention(q, k, v, lists), None

    def case_quantize(self, n: int) -> tuple[Run, Run | None]:
        x = self.new(128 + n, 512)
        return lambda: self.k.quantize(x, "mxfp8"), None

    def case_pack_scales(self, n: int) -> tuple[Run, Run | None]:
        x = self.new(128 + n, 16, dtype="float8_e8m0fnu")
        return lambda: self.k.pack_scales(x), None


def kernels_read() -> int:
    """How many kernels have been read so far, for some types and constants."""
    return sum(len(getattr(memory, "specialisations", ())) for memory in memories())


def new_shapes(case: Case, shapes: Iterator[int], count: int, ours: bool = True) -> list[float]:
    """Microseconds of calls with shapes that come for the first time, the next ones, but for those that read a kernel."""
    found: list[float] = []
    for n in itertools.islice(shapes, 4 * count):
        run = case.make(n)[0 if ours else 1]
        assert run is not None
        before = kernels_read()
        start = CLOCKS[-1]()
        run()
        spent = CLOCKS[-1]() - start
        if kernels_read() == before:
            found.append(1e6 * spent)
        if len(found) == count:
            break
    return found


def repeated(run: Run, calls: int, wait: Callable[[], None]) -> float:
    """Microseconds of a call among many of the same."""
    wait()
    start = CLOCKS[-1]()
    for _ in range(calls):
        run()
    spent = CLOCKS[-1]() - start
    wait()
    return 1e6 * spent / calls


class Times:
    """Microseconds of one function's calls so far, `fresh` of those with a new shape, the others by whose they are."""

    def __init__(self) -> None:
        self.shapes, self.shapes_of_torch = itertools.count(FIRST), itertools.count(600)
        self.fresh: list[float] = []
        self.of_torch: list[float] = []
        self.repeated: dict[str, list[float]] = {"repeated_us": [], "torch_us": []}

    def row(self) -> dict[str, Any]:
        """What is shown of them."""
        row: dict[str, Any] = {"new_shapes": len(self.fresh)}
        if self.fresh:
            tenths = statistics.quantiles(self.fresh, n=10) if len(self.fresh) > 1 else [self.fresh[0]] * 9
            row |= {"new_us": statistics.median(self.fresh), "new_least_us": min(self.fresh)}
            row |= {"new_tenth_us": tenths[-1], "new_most_us": max(self.fresh)}
        if self.of_torch:
            row["torch_new_us"] = statistics.median(self.of_torch)
        row |= {name: statistics.median(spent) for name, spent in self.repeated.items() if spent}
        ours, theirs = self.repeated.values()
        if theirs:
            row["ratio"] = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        return row


def measure(case: Case, times: Times, options: argparse.Namespace, wait: Callable[[], None], beside: bool) -> None:
    """Times a function's calls; the host's clock changes from second to second, so that all functions have several turns."""
    ours, theirs = case.make(0)
    ours()
    wait()
    times.fresh += new_shapes(case, times.shapes, options.shapes)
    wait()
    runs = {"repeated_us": ours}
    if beside and theirs is not None:
        theirs()
        runs["torch_us"] = theirs
        times.of_torch += new_shapes(case, times.shapes_of_torch, options.torch_shapes, ours=False)
    for run in runs.values():
        repeated(run, options.calls, wait)
    for _ in range(options.rounds):
        for name, run in runs.items():
            times.repeated[name].append(repeated(run, options.calls, wait))


def shown(name: str, row: dict[str, Any]) -> str:
    text = f"{name:22} repeated {row['repeated_us']:6.2f}"
    if "new_us" in row:
        least, tenth, most = (row[f"new_{which}_us"] for which in ("least", "tenth", "most"))
        text += f"  new {row['new_us']:6.1f} ({least:.1f} to {tenth:.0f}, {most:.0f})"
    if "torch_us" in row:
        text += f"  torch {row['torch_us']:6.2f} (new {row['torch_new_us']:6.1f})  ratio {row['ratio']:.2f}"
    return text


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The figures that are asked for."""
    ratios = [row["ratio"] for row in rows.values() if "ratio" in row]
    fresh = [row["new_us"] for row in rows.values() if "new_us" in row]
    found = {"new_median_us": statistics.median(fresh), "new_worst_us": max(fresh)} if fresh else {}
    if ratios:
        found |= {"ratio": statistics.geometric_mean(ratios), "worst_ratio": max(ratios)}
    return found


def run_all(torch: Any, device: Any, options: argparse.Namespace, wait: Callable[[], None], beside: bool) -> None:
    rows: dict[str, dict[str, Any]] = {}
    cases = {case.name: case.spread(options.apart) for case in Cases(torch, device).all()}
    chosen = list(cases.values()) if not options.only else [cases[name] for name in options.only]
    timed = range(FIRST, FIRST + options.turns * options.shapes) if options.compile else ()
    for case in list(chosen):
        try:
            for n in (0, *range(FIRST - options.warm, FIRST), *timed):
                case.make(n)[0]()
        except Exception as problem:  # one function less: the others are still to be timed
            print(f"{case.name:22} failed: {type(problem).__name__}: {str(problem)[:200]}", flush=True)
            chosen.remove(case)
    wait()
    if options.compile:
        return
    if options.wait:
        options.wait.with_suffix(".ready").touch()
        while not options.wait.exists():
            time.sleep(0.05)
    times = {case.name: Times() for case in chosen}
    for _ in range(options.turns):
        for case in chosen:
            gc.collect()
            try:
                measure(case, times[case.name], options, wait, beside)
            except Exception as problem:  # one function less: the others are still to be timed
                print(f"{case.name:22} failed: {type(problem).__name__}: {str(problem)[:200]}", flush=True)
                continue
            rows[case.name] = times[case.name].row()
            machine.save(options.json, {"calls": rows, "summary": summary(rows)})
    for name, row in rows.items():
        print(shown(name, row), flush=True)
    if rows:
        print(", ".join(f"{name} {value:.2f}" for name, value in summary(rows).items()))


def cheap_allocations(torch: Any) -> None:
    """Results of the stand-in for torch share some memory: what an allocator costs is not the question."""
    import numpy as np

    from support.fake_torch import MEMORY, Tensor, aligned

    # Nobody writes there, so that most of it is never more than addresses.
    pool, places = aligned((2 << 30,), np.uint8), itertools.cycle(range(0, 64 << 10, 1024))

    def empty(shape: tuple[int, ...], dtype: Any, device: int = 0) -> Any:
        return Tensor(np.ndarray(shape, MEMORY[dtype.name], pool, next(places)), dtype, device)

    def empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, device: int = 0) -> Any:
        steps = tuple([step * dtype.itemsize for step in strides])
        return Tensor(np.ndarray(shape, MEMORY[dtype.name], pool, next(places), steps), dtype, device)

    torch.distinct, torch.empty, torch.empty_strided = torch.empty, empty, empty_strided
    torch._C._dynamo.guards._empty_strided_cuda = lambda shape, strides, dtype: (
        empty(shape, dtype) if strides[-1:] == (1,) else empty_strided(shape, strides, dtype)
    )
    torch.empty_like = lambda x: empty(x.shape, x.dtype, x.device)


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--turns", type=int, default=3, help="turns of all functions")
    parser.add_argument("--calls", type=int, default=100, help="calls of a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a turn")
    parser.add_argument("--shapes", type=int, default=16, help="new shapes that are timed in a turn")
    parser.add_argument("--torch-shapes", type=int, default=3, help="the same of torch, which compiles some of them")
    parser.add_argument(
        "--apart", type=int, default=1, help="how far apart new shapes are: those of products have one choice in eights"
    )
    parser.add_argument("--warm", type=int, default=12, help="new shapes of each function before all")
    parser.add_argument("--only", nargs="*", help="names of functions")
    parser.add_argument("--compile", action="store_true", help="only call each, so that its kernels are on disk")
    parser.add_argument("--wait", type=Path, help="what has to exist before anything is timed; the suffix .ready says so")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        with torch.no_grad():
            run_all(torch, "cuda", options, torch.cuda.synchronize, True)
        return
    from support.fake_driver import encode_described
    from support.fake_torch import fake_torch_gpu

    CLOCKS.append(time.thread_time)
    with fake_torch_gpu() as fake:
        cheap_allocations(fake)
        fake.driver.functions["cuLaunchKernelEx"] = lambda *_: 0
        fake.driver.functions["cuTensorMapEncodeTiled"] = encode_described
        run_all(fake, 0, options, lambda: None, False)


if __name__ == "__main__":
    main()
