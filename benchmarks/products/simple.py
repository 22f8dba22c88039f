"""Loops of `examples/simple` beside the library's kernels, cuBLAS, Triton and TileLang, bf16, with their lines of code.

    python -m benchmarks.products.simple                      six products and five attentions, in bursts and steady
    python -m benchmarks.products.simple --only matmul --peers cublas triton --modes burst
    python -m benchmarks.products.simple --rounds 2 --settings 3 --seconds 120    bursts first; none begins after 120 s

Products: C = A @ B.T as `gemm.py` measures it; Triton is its persistent TMA matmul, TileLang `T.Pipelined`, each with the
fastest of its settings for a shape. Attention: no mask; 4 L^2 D operations a head; Triton and TileLang run the same loop
(`peers/triton_attention.py`, `peers/tilelang_attention.py`). Results are compared with f32 (products) and float64 (some
heads) first, ours with bounded waits. Lines are those of the kernel alone: no blank ones, no comments, no docstrings.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import io
import math
import os
import statistics
import sys
import time
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import EXAMPLES

SIMPLE = EXAMPLES / "simple"
NAME = "simple"
ATTENTIONS = ((64, 4096, 128), (16, 16384, 128), (128, 2048, 128), (32, 8192, 128), (128, 4096, 64))
"""Heads (of all sequences), length, dim: the rows without a mask of `benchmarks/attention/forward.py`."""
TILES = {128: ((192, 80), (128, 128)), 64: ((192, 128), (192, 80))}
"""Queries and keys of the short attention's tiles, by the size of heads: the fastest is taken, as of the peers' settings."""
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
Run = Callable[[], Any]


def example(name: str) -> ModuleType:
    """A file of `examples/simple`, under a name of its own: benchmarks have files of these names."""
    sys.path.append(str(SIMPLE))
    spec = importlib.util.spec_from_file_location(f"simple_{name}", SIMPLE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def lines_of(*functions: Any) -> int:
    """The lines of functions on which something stands that is neither comment nor docstring."""
    count = 0
    for function in functions:
        text = inspect.getsource(function)
        used: set[int] = set()
        before = tokenize.NEWLINE
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in LAYOUT:
                before = token.type
                continue
            if token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                continue
            before = token.type
            used |= set(range(token.start[0], token.end[0] + 1))
        count += len(used)
    return count


class Simple:
    """The short matmul as a contender of the GEMM benchmark."""

    name = NAME

    def __init__(self) -> None:
        import phalanx as px

        self.kernel = example("matmul").matmul
        self.bound = self.kernel[px.auto]

    def fits(self, m: int, n: int, k: int) -> bool:
        return True

    def launch(self, a: Any, b: Any, c: Any) -> Run:
        bound = self.bound
        return lambda: bound(a, b, c)

    def watched(self, a: Any, b: Any, c: Any) -> Run:
        from phalanx.runtime.launch.watchdog import bounded_waits

        def run() -> None:
            with bounded_waits():
                self.bound(a, b, c)

        return run


class Products:
    """The GEMM benchmark with the short kernel, and its ratios to the library's."""

    title = "products"

    def __init__(self, options: argparse.Namespace) -> None:
        from benchmarks.common.device import TorchDevice
        from benchmarks.products.gemm import GemmBench, Options
        from benchmarks.products.peers import triton_matmul
        from benchmarks.products.shapes import LARGE

        if options.settings:
            triton_matmul.Triton.settings = triton_matmul.SETTINGS[: options.settings]  # type: ignore[assignment]
        self.shapes = LARGE if options.rows is None else [LARGE[n - 1] for n in options.rows]
        rounds = (options.rounds,) * 3
        given = Options(self.shapes, ["matmul"], ["matmul", NAME], options.peers, options.modes, *rounds, others=[Simple])
        self.bench = GemmBench(given, TorchDevice())
        if "tilelang" in options.peers:
            compile_tilelang(self.shapes, options.settings)
        self.bench.begin()
        self.lines = {NAME: lines_of(example("matmul").matmul.fn)}
        with_peer("triton", options.peers, lambda: self.lines.update(triton=triton_matmul_lines()))
        with_peer("tilelang", options.peers, lambda: self.lines.update(tilelang=tilelang_matmul_lines()))

    def measure(self, mode: str, shape: Any) -> None:
        """All contenders on one shape."""
        self.bench.measure(mode, shape)

    @property
    def results(self) -> dict[str, Any]:
        """What was found so far."""
        return {**self.bench.results, "lines": self.lines}


def compile_tilelang(shapes: Any, count: int) -> None:
    """All of TileLang's matmuls side by side: a contender would compile the settings of one shape after another's."""
    try:
        import tilelang

        from benchmarks.products.peers import tilelang_matmul as peer
    except ImportError:
        return
    chosen = peer.SETTINGS[: count or None]
    wanted: list[tuple[Any, Any]] = [(shape.sizes, setting) for shape in shapes for setting in chosen]
    wanted += [(shape, setting) for shape in peer.TileLang.checks for setting in chosen]
    tilelang.set_log_level("WARNING")
    made = tilelang.par_compile([peer.program(m, n, k, s) for (m, n, k), s in wanted], target="cuda", ignore_error=True)
    known: dict[Any, dict[Any, Any]] = {}
    for (shape, setting), kernel in zip(wanted, made, strict=True):
        known.setdefault(shape, {})[setting] = kernel
    begin = peer.TileLang.__init__

    def init(self: Any, timer: Any) -> None:
        begin(self, timer)
        self.compiled.update(known)

    peer.TileLang.__init__, peer.TileLang.settings = init, chosen  # type: ignore[method-assign, assignment]


def triton_matmul_lines() -> int:
    from benchmarks.products.peers import triton_kernel

    return lines_of(triton_kernel.matmul.fn, triton_kernel.place.fn)


def tilelang_matmul_lines() -> int:
    from benchmarks.products.peers import tilelang_matmul

    return lines_of(tilelang_matmul.program)


def with_peer(name: str, peers: Any, work: Callable[[], Any]) -> Any:
    """What can be done where a peer takes part and is installed; None elsewhere, and one line where it fails."""
    if name not in peers:
        return None
    try:
        return work()
    except Exception as problem:
        print(f"{name}: left out: {type(problem).__name__}: {str(problem).strip().splitlines()[:1]}", flush=True)
        return None


def ratios(rows: list[dict[str, Any]], mode: str) -> dict[str, list[float]]:
    """The short kernel's speed over each other's, shape by shape."""
    mine = [row for row in rows if row["mode"] == mode]
    times = {(row["contender"], tuple(row["shape"])): statistics.median(row["ms"]) for row in mine}
    names = dict.fromkeys(name for name, _ in times if name != NAME)
    shapes = dict.fromkeys(shape for name, shape in times if name == NAME)
    return {
        name: [times[name, shape] / times[NAME, shape] for shape in shapes if (name, shape) in times] for name in names
    }


def told(what: str, found: dict[str, list[float]]) -> None:
    from phalanx.runtime.device.timing import geometric_mean

    for name, values in found.items():
        if values:
            listed = " ".join(f"{value:.3f}" for value in values)
            mean = geometric_mean(values)
            print(f"{what}: {NAME} over {name}: {mean:.3f} (lowest {min(values):.3f}; {listed})", flush=True)


# Attention -----------------------------------------------------------------------------------------------------------


def compile_ours(options: argparse.Namespace) -> None:
    """The short kernels, side by side, with waits that are bounded and without: the card does not wait for them then."""
    from concurrent.futures import ThreadPoolExecutor

    import phalanx as px

    wanted: list[tuple[Any, int, dict[str, int]]] = []
    if options.only != "attention":
        wanted.append((example("matmul").matmul[px.auto], 2, {}))
    if options.only != "matmul":
        dims = sorted({dim for _, _, dim in ATTENTIONS})
        kernel = example("attention").attention
        wanted += [(kernel[px.auto], 3, {"D": d, "ROWS": rows, "KEYS": keys}) for d in dims for rows, keys in TILES[d]]

    def build(job: tuple[Any, int, dict[str, Any]]) -> None:
        bound, rank, constants = job
        spec = px.spec((128,) * rank, px.bf16)
        for watchdog in (True, False):
            px.compile(bound, *[spec] * (4 if rank == 3 else 3), arch="sm_90a", watchdog=watchdog, **constants)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(build, wanted))


class Attentions:
    """The short attention beside the library's, Triton's and TileLang's."""

    title = "attention"

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        chosen = range(1, len(ATTENTIONS) + 1) if options.rows is None else options.rows
        self.shapes = [ATTENTIONS[n - 1] for n in chosen if n <= len(ATTENTIONS)]
        self.made = with_peer("tilelang", options.peers, lambda: tilelang_attention(self.shapes, options.settings))
        self.rows: list[dict[str, Any]] = []
        self.ready: dict[Any, tuple[dict[str, Run], dict[str, float]]] = {}
        self.lines = {NAME: lines_of(example("attention").attention.fn)}
        with_peer("triton", options.peers, lambda: self.lines.update(triton=lines_of(peer_of("triton").attention.fn)))
        with_peer("tilelang", options.peers, lambda: self.lines.update(tilelang=lines_of(peer_of("tilelang").program)))

    def measure(self, mode: str, shape: tuple[int, int, int]) -> None:
        """All contenders on one shape, printed as they come."""
        from benchmarks.common.device import TorchDevice
        from phalanx.runtime.device.timing import MODES, take_turns

        if shape not in self.ready:
            self.ready[shape] = prepared(shape, self.made, self.options)
        contenders, errors = self.ready[shape]
        heads, length, dim = shape
        flops, rows = 4.0 * heads * length * length * dim, []
        for name, took in take_turns(
            contenders, TorchDevice().milliseconds, MODES[mode], rounds=self.options.rounds
        ).items():
            ms = statistics.median(took)
            rows.append({"mode": mode, "shape": list(shape), "contender": name, "ms": took, "tflops": flops / ms / 1e9,
                         "error": errors[name]})  # fmt: skip
        shown = ", ".join(f"{row['contender']} {row['tflops']:.0f}" for row in rows)
        print(f"attention {heads} x {length} x {dim}, {mode}: {shown} TFLOP/s", flush=True)
        self.rows += rows

    @property
    def results(self) -> dict[str, Any]:
        """What was found so far."""
        return {"rows": self.rows, "lines": self.lines}


def prepared(
    shape: tuple[int, int, int], made: Any, options: argparse.Namespace
) -> tuple[dict[str, Run], dict[str, float]]:
    """All contenders on one shape, each with its fastest setting, and their errors; those that are wrong are left out."""
    import torch

    import phalanx as px
    from benchmarks.common.device import TorchDevice
    from benchmarks.products.peers.settings import fastest
    from phalanx.runtime.launch.watchdog import bounded_waits

    heads, length, dim = shape
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o, kernel = torch.empty_like(q), example("attention").attention

    def bind(tile: tuple[int, int]) -> Run:
        bound, constants = kernel[px.auto], {"D": dim, "ROWS": tile[0], "KEYS": tile[1]}
        with bounded_waits():
            bound(q, k, v, o, **constants)
        torch.cuda.synchronize()
        return lambda: bound(q, k, v, o, **constants)

    tile, short = fastest(TILES[dim], bind, TorchDevice().milliseconds)
    print(f"attention {heads} x {length} x {dim}: {NAME} with tiles of {tile[0]} queries and {tile[1]} keys", flush=True)
    contenders: dict[str, Run] = {
        NAME: lambda: (short(), o)[1], "library": lambda: px.kernels.attention(q[None], k[None], v[None])[0],
    }  # fmt: skip
    with_peer("triton", options.peers, lambda: contenders.update(triton=triton_attention(q, k, v, options.settings)))
    if made is not None:
        with_peer("tilelang", options.peers, lambda: contenders.update(tilelang=fastest_of(made, shape, q, k, v)))
    errors = {name: error_of(call(), q, k, v) for name, call in contenders.items()}
    for name, error in errors.items():
        if not error < 0.01:
            print(f"{heads} x {length} x {dim}: {name} has the error {error:.4f}: not timed", flush=True)
            del contenders[name]
    return contenders, errors


def error_of(got: Any, q: Any, k: Any, v: Any) -> float:
    """The relative error of two heads against float64."""
    import torch

    worst = 0.0
    for head in (0, q.shape[0] - 1):
        x, y, z = (part[head].double() for part in (q, k, v))
        want = torch.softmax(x @ y.T * q.shape[2] ** -0.5, -1) @ z
        worst = max(worst, float((got[head].double() - want).norm() / want.norm()))
    return worst


def peer_of(name: str) -> Any:
    """The attention of Triton or TileLang, where it is installed."""
    return importlib.import_module(f"benchmarks.products.peers.{name}_attention")


def triton_attention(q: Any, k: Any, v: Any, count: int) -> Run:
    """Triton's, with the fastest of its settings."""
    import torch

    from benchmarks.common.device import TorchDevice
    from benchmarks.products.peers.settings import fastest

    o = torch.empty_like(q)
    peer = peer_of("triton")
    settings = peer.SETTINGS[: count or None]
    _, run = fastest(settings, lambda s: peer.bind(s, q, k, v, o), TorchDevice().milliseconds)
    return lambda: (run(), o)[1]


def tilelang_attention(shapes: Any, count: int) -> Any:
    peer = peer_of("tilelang")
    return peer.compiled(list(shapes), peer.SETTINGS[: count or None])


def fastest_of(made: Any, shape: tuple[int, int, int], q: Any, k: Any, v: Any) -> Run:
    """TileLang's, with the fastest of its settings."""
    import torch

    from benchmarks.common.device import TorchDevice
    from benchmarks.products.peers.settings import fastest

    o = torch.empty_like(q)
    kernels = [kernel for (of, _), kernel in made.items() if of == shape and kernel is not None]
    _, run = fastest(kernels, lambda kernel: lambda: kernel(q, k, v, o), TorchDevice().milliseconds)
    return lambda: (run(), o)[1]


def main() -> None:
    from benchmarks.common.machine import arguments, save

    parser = arguments(__doc__, 5)
    parser.add_argument("--only", choices=["matmul", "attention"])
    parser.add_argument("--rows", type=int, nargs="*", help="of the shapes, from 1 on")
    parser.add_argument("--modes", nargs="*", default=["burst", "steady"])
    parser.add_argument("--settings", type=int, default=0, help="of each peer the first so many (0: all)")
    parser.add_argument("--peers", nargs="*", default=["cublas", "triton", "tilelang"])
    folder = os.environ.get("OUT")
    parser.set_defaults(json=None if folder is None else Path(folder, "simple.json"))
    parser.add_argument("--seconds", type=float, default=math.inf, help="no shape begins after so many")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    compile_ours(options)
    parts: list[Any] = []
    if options.only != "attention":
        parts.append(Products(options))
    if options.only != "matmul":
        parts.append(Attentions(options))
    for mode in options.modes:
        for part in parts:
            for shape in part.shapes:
                if time.monotonic() < end:
                    part.measure(mode, shape)
                    save(options.json, {each.title: each.results for each in parts})
            told(f"{part.title}, {mode}", ratios(part.results["rows"], mode))
    for part in parts:
        print(f"lines, {part.title}:", part.results["lines"], flush=True)


if __name__ == "__main__":
    main()
