"""How near the model of time comes to what was recorded on an H200: `px.trace` of recorded launches, without a GPU.

    python -m benchmarks.timeline                  all cases: some minutes on two cores
    python -m benchmarks.timeline --only gemm copy --out timeline.json

Times are those of `benchmarks/results`: the rungs of examples/gemm and examples/attention and the short matmul in
bursts, the ring copy, drawn products in several configurations, attention and rows of the library. What the library
launches is found with a stand-in for torch. A case that a constant of `machines/h200_time.json` was fitted to is left
out of the figures. The error of a case is |modelled / measured - 1|; of each kind, and of all, the mean, the median and
the worst are printed, and for kinds with several configurations of a problem how well the model ranks them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import phalanx as px
from benchmarks import EXAMPLES

RESULTS = Path(__file__).resolve().parent / "results"
FITTED = ("gemm v6 4096,4096,4096", "attention v0 full", "attention v1 full", "copy 16384x16384 64 64 4 1")
"""Cases that constants were fitted to."""
ROWS_OF_RUNG = {"v0": 64, "v1": 128, "v2": 128, "v3": 128, "v4": 192}


@dataclass
class Case:
    """A recorded launch: what ran, and how long, in microseconds. `problem`: cases of one problem are ranked."""

    kind: str
    name: str
    measured: float
    trace: Callable[[], Any]
    problem: str = ""


def recorded(name: str) -> Any:
    """A file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def module_of(folder: str, name: str) -> Any:
    """A rung of a ladder, as a module of its own: another ladder has files of the same names, which stay loaded."""
    path = str(EXAMPLES / folder)
    former = {other: sys.modules.pop(other, None) for other in ("heads", "shapes", "orders", "arrays", "common", name)}
    sys.path.insert(0, path)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(path)
        for other, module in former.items():
            sys.modules.pop(other, None)
            if module is not None:
                sys.modules[other] = module


def product_specs(m: int, n: int, k: int) -> tuple[Any, ...]:
    """The arguments of C = A @ B.T in bf16."""
    return px.spec((m, k), px.bf16), px.spec((n, k), px.bf16), px.spec((m, n), px.bf16)


def gemm_ladder() -> Iterator[Case]:
    """Rungs of examples/gemm in bursts: v6 and v7 of a later run than v5, which is scaled by cuBLAS in both."""
    later = {(row["contender"], *row["shape"]): row for row in recorded("gemm_again")["rows"] if row["mode"] == "burst"}
    first = {(row["contender"], *row["shape"]): row for row in recorded("gemm")["rows"] if row["mode"] == "burst"}
    for name in ("v5", "v6", "v7"):
        module = module_of("gemm", name)
        for shape in sorted({key[1:] for key in later}):
            if (name, *shape) in later:
                took = statistics.median(later[name, *shape]["ms"])
            else:
                ratio = statistics.median(later["cublas", *shape]["ms"]) / statistics.median(first["cublas", *shape]["ms"])
                took = statistics.median(first[name, *shape]["ms"]) * ratio

            def trace(module: Any = module, shape: tuple[int, ...] = shape) -> Any:
                return px.trace(module.launch(*shape), *product_specs(*shape))

            yield Case("gemm", f"gemm {name} {','.join(map(str, shape))}", 1e3 * took, trace, f"gemm {shape}")


def attention_ladder() -> Iterator[Case]:
    """Rungs of examples/attention: 64 heads of 128, 4,096 queries and keys."""
    heads, length, dim = 64, 4096, 128
    array = px.spec((heads, length, dim), px.bf16)
    for row in recorded("attention_ladder")["rows"]:
        causal = "causal" in row["case"]
        for name, rows in ROWS_OF_RUNG.items():
            kernel = getattr(module_of("attention", name), f"attention_{name}")
            tiles = heads * px.cdiv(length, rows)
            grid = min(tiles, 132) if name == "v4" else tiles

            def trace(kernel: Any = kernel, grid: int = grid, causal: bool = causal) -> Any:
                return px.trace(kernel[grid], *[array] * 4, math.log2(math.e) / math.sqrt(dim), D=dim, CAUSAL=causal)

            kind = "causal" if causal else "full"
            yield Case("attention", f"attention {name} {kind}", 1e3 * row["ms"][name]["burst"], trace, f"attention {kind}")


def simple_products() -> Iterator[Case]:
    """The short matmul of examples/simple, whose loop pipelines itself."""
    kernel = module_of("simple", "matmul").matmul
    for row in recorded("simple_again")["products"]["rows"]:
        if row["mode"] == "burst" and row["contender"] == "simple":
            shape = tuple(row["shape"])

            def trace(shape: tuple[int, ...] = shape) -> Any:
                return px.trace(kernel[px.auto], *product_specs(*shape))

            yield Case("simple", f"simple {','.join(map(str, shape))}", 1e3 * statistics.median(row["ms"]), trace)


def ring_copies() -> Iterator[Case]:
    """The ring copy in its configurations: f32 in and out, bound by HBM."""
    kernel = module_of(".", "ring_copy").ring_copy
    for row in recorded("copy")["rows"]:
        rows, columns = row["shape"]
        config = dict(row["config"])
        grid = 132 * config.pop("CTAS_PER_SM")
        array = px.spec((rows, columns), px.f32)

        def trace(grid: int = grid, array: Any = array, config: dict[str, Any] = config) -> Any:
            return px.trace(kernel[grid], array, array, **config)

        name = f"copy {rows}x{columns} " + " ".join(map(str, row["config"].values()))
        yield Case("copy", name, 2 * 4 * rows * columns / row["ours_gbs"] / 1e3, trace, f"copy {rows}")


def launched(call: Callable[[Any, Any], Any]) -> list[tuple[Any, list[Any], dict[str, Any]]]:
    """What a call of the library would launch on an H200, its arrays as NumPy ones without memory of their own."""
    from benchmarks.same_launches import allocate_nothing
    from phalanx.runtime.device.arrays import describe
    from phalanx.runtime.device.outlines import taking_launches
    from support.fake_torch import fake_torch_gpu

    found: list[tuple[Any, list[Any], dict[str, Any]]] = []

    def take(bound: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        arrays = []
        for arg in args:
            info = describe(arg)
            arrays.append(arg if info is None else empty_like(info))
        found.append((bound, arrays, {name: value for name, value in given.items() if name != "arch"}))

    with fake_torch_gpu() as torch:
        allocate_nothing(torch)
        with taking_launches(take):
            call(px.kernels, torch)
    return found


def empty_like(info: Any) -> np.ndarray:
    """Zeros of the shape and strides of an array."""
    dtype = getattr(px, info.dtype_name).numpy if hasattr(px, info.dtype_name) else np.dtype(info.dtype_name)
    span = 1 + sum((size - 1) * stride for size, stride in zip(info.shape, info.strides))
    flat = np.zeros(max(1, span), dtype)
    return np.lib.stride_tricks.as_strided(flat, info.shape, [stride * flat.itemsize for stride in info.strides])


class Together:
    """The launches of one call of the library, one after the other."""

    def __init__(self, traces: list[Any]) -> None:
        self.microseconds = sum(trace.microseconds for trace in traces)


def traced_call(call: Callable[[Any, Any], Any]) -> Together:
    """The timelines of what a call launches."""
    return Together([px.trace(bound, *args, **given) for bound, args, given in launched(call)])


def drawn_products() -> Iterator[Case]:
    """Products of the sweep in recorded configurations, every third of them: `matmul_tiles` as the library launches it."""
    from phalanx.kernels.products.matmul_config import MatmulConfig

    known = {field.name for field in fields(MatmulConfig)}
    for product in recorded("sweep_products")["products"]:
        problem = product["problem"]
        if problem["itemsize"] != 2 or problem["batch"] > 1 or product.get("cold"):
            continue
        rows = [row for row in product["rows"] if row["kind"] == "tiles" and "us" in row and set(row["config"]) <= known]
        for row in rows[::3]:
            given = {**row["config"], "cluster": tuple(row["config"]["cluster"])}

            def trace(problem: dict[str, Any] = problem, given: dict[str, Any] = given) -> Any:
                return traced_call(lambda library, torch: product_call(library, torch, problem, MatmulConfig(**given)))

            sizes = f"{problem['m']},{problem['n']},{problem['k']}"
            tile = f"{given['bm']}x{given['bn']} {given['cluster'][0]}x{given['cluster'][1]} s{given['stages']}"
            yield Case("products", f"product {sizes} {tile}", row["us"], trace, product["name"])


def product_call(library: Any, torch: Any, problem: dict[str, Any], config: Any) -> None:
    """A product of the library in that configuration, with operands that lie as the problem says."""
    m, n, k = problem["m"], problem["n"], problem["k"]
    by_k = problem["by_k"]

    def new(*shape: int) -> Any:
        return torch.empty(shape, dtype=torch.bfloat16, device=0)

    a = new(m, k) if by_k[0] else new(k, m).transpose(-1, -2)
    b = new(n, k).transpose(-1, -2) if by_k[1] else new(k, n)
    library.matmul(a, b, out=new(m, n), config=config)


def library_attention() -> Iterator[Case]:
    """Attention as the library launches it."""
    for row in recorded("attention")["rows"]:
        sizes, dim, mask = row["case"].split()
        batch, heads, length = map(int, sizes.split(","))

        def call(library: Any, torch: Any, shape: Any = (batch, heads, length, int(dim[1:])), causal: Any = mask) -> None:
            q, k, v = (torch.empty(shape, dtype=torch.bfloat16, device=0) for _ in range(3))
            library.attention(q, k, v, causal=causal == "causal")

        def trace(call: Any = call) -> Any:
            return traced_call(call)

        yield Case("library attention", f"library {row['case']}", 1e3 * row["ms"]["phalanx"]["burst"], trace)


def library_rows() -> Iterator[Case]:
    """Softmax and norms of the library: every byte read once and written once."""
    for row in recorded("rowwise")["rows"]:
        if row["kernel"] not in ("softmax", "rms_norm", "layer_norm"):
            continue

        def call(library: Any, torch: Any, kind: str = row["kernel"], shape: Any = tuple(row["shape"])) -> None:
            x, w, b = (torch.empty(size, dtype=torch.bfloat16, device=0) for size in (shape, shape[1:], shape[1:]))
            extra = {"softmax": (), "rms_norm": (w,), "layer_norm": (w, b)}[kind]
            getattr(library, kind)(x, *extra)

        def trace(call: Any = call) -> Any:
            return traced_call(call)

        moved = 2 * 2 * math.prod(row["shape"])
        name = f"{row['kernel']} {'x'.join(map(str, row['shape']))}"
        yield Case("rows", name, moved / row["ours_gbs"] / 1e3, trace)


KINDS: dict[str, Callable[[], Iterator[Case]]] = {
    "gemm": gemm_ladder, "attention": attention_ladder, "simple": simple_products, "copy": ring_copies,
    "products": drawn_products, "library": library_attention, "rows": library_rows,
}  # fmt: skip


def ranks(values: list[float]) -> list[float]:
    """The place of each number among all."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [float(order.index(number)) for number in range(len(values))]


def correlation(pairs: list[tuple[float, float]]) -> float:
    """Spearman's: how well one number ranks the other."""
    first, second = (ranks([pair[side] for pair in pairs]) for side in (0, 1))
    return statistics.correlation(first, second)


def told(rows: list[dict[str, Any]], name: str) -> str:
    """A line of the table."""
    errors = [abs(row["ratio"] - 1) for row in rows]
    worst = max(rows, key=lambda row: abs(row["ratio"] - 1))
    signed = statistics.fmean(row["ratio"] for row in rows)
    head = f"{name:18} {len(rows):4} {statistics.fmean(errors):7.1%} {statistics.median(errors):7.1%} {max(errors):7.1%}"
    return f"{head} {signed:7.3f}   {worst['name']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--every", type=int, default=1, help="every n-th case of a kind")
    parser.add_argument("--out", type=Path, help="write the cases there, as JSON")
    given = parser.parse_args()
    sys.path[:0] = [str(EXAMPLES), str(RESULTS.parents[1] / "tests")]
    rows: list[dict[str, Any]] = []
    for kind in given.only:
        for case in list(KINDS[kind]())[:: given.every]:
            began = time.perf_counter()
            try:
                modelled = case.trace().microseconds
            except px.Error as problem:
                print(f"{case.name}: {problem.message}", flush=True)
                continue
            row = {"kind": case.kind, "name": case.name, "problem": case.problem, "measured_us": case.measured}
            row |= {"modelled_us": modelled, "ratio": modelled / case.measured, "fitted": case.name in FITTED}
            rows.append(row)
            seconds = time.perf_counter() - began
            print(f"{case.name:58} {case.measured:9.1f} {modelled:9.1f} {row['ratio']:6.3f} {seconds:6.1f} s", flush=True)
    judged = [row for row in rows if not row["fitted"]]
    print(f"\n{'kind':18} {'n':>4} {'mean':>7} {'median':>7} {'worst':>7} {'ratio':>7}   worst case")
    for kind in dict.fromkeys(row["kind"] for row in judged):
        print(told([row for row in judged if row["kind"] == kind], kind))
    if judged:
        print(told(judged, "all"))
    ranked = [[row for row in judged if row["problem"] == name] for name in {row["problem"] for row in judged} - {""}]
    found = [correlation([(row["measured_us"], row["modelled_us"]) for row in group]) for group in ranked if len(group) > 3]
    if found:
        mean = statistics.fmean(found)
        print(f"rank correlation in {len(found)} problems of four or more configurations: mean {mean:.2f}")
    if given.out:
        given.out.write_text(json.dumps({"rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
