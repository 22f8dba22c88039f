"""How long each kernel of attention takes to compile, cold, and whether registers are spilled. Needs no GPU.

    python -m benchmarks.attention.compile --jobs 8 --out attention_compile.json

Calls of the library with NumPy arrays that nobody fills, whose launches are compiled for sm_90a instead of being made: every
kind of call, with the configuration that the library chooses for it. Each process has a cache of its own, which is empty;
imports and NVRTC's own loading are not counted. Seconds are those of the process on its core, which is all that a compile
takes where nothing else runs: `nvrtc` of them for machine code of the text, `python` for all else; `wall` is what passed.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np

from benchmarks.common import machine

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
MASKS: dict[str, dict[str, Any]] = {
    "full": {}, "causal": {"causal": True}, "window": {"window": (500, 100)}, "packed": {},
    "packed, causal": {"causal": True}, "cap": {"softcap": 30.0}, "slopes, causal": {"causal": True}, "bias": {},
}  # fmt: skip
LONG = 4096


def dense(dim: int, wide: int, kind: str, dtype: Any = BF16) -> tuple[list[Any], dict[str, Any]]:
    """Arrays and options of a call of `attention`."""
    heads, options = 16, dict(MASKS[kind])
    shape = (LONG, heads) if kind.startswith("packed") else (4, heads, LONG)
    arrays = [np.empty((*shape, size), dtype) for size in (dim, dim, wide)]
    if kind.startswith("packed"):
        options |= {name: np.array([0, 1000, LONG], np.int32) for name in ("cu_seqlens_q", "cu_seqlens_k")}
    if kind == "slopes, causal":
        options["bias"] = np.empty(heads, np.float32)
    if kind == "bias":
        options["bias"] = np.empty((4, heads, LONG, LONG), BF16)
    if dtype == F8:
        options |= dict.fromkeys(("q_scale", "k_scale", "v_scale"), 0.5)
    return arrays, options


def forward(dim: int, wide: int, kind: str, dtype: str = "bf16") -> None:
    from phalanx.kernels.attention.forward import attention

    arrays, options = dense(dim, wide, kind, {"bf16": BF16, "f16": np.float16, "f8": F8}[dtype])
    attention(*arrays, lse=dtype != "f8", **options)


def backward(dim: int, kind: str, deterministic: bool) -> None:
    from phalanx.kernels.attention.backward import attention_backward

    (q, k, v), options = dense(dim, dim, kind)
    logs = np.empty(q.shape[:-1] if q.ndim == 4 else q.shape[1::-1], np.float32)
    attention_backward(q, q, k, v, q, logs, deterministic=deterministic, **options)


def decode(batch: int, heads: int, kv_heads: int, tokens: int, page: int = 0, narrow: bool = False, count: int = 1) -> None:
    from phalanx.kernels.attention.decode import attention_decode

    lengths = np.full(batch, tokens, np.int32)
    shape = (batch * tokens // page, page, kv_heads, 128) if page else (batch, tokens, kv_heads, 128)
    k, v = (np.empty(shape, F8 if narrow else BF16) for _ in range(2))
    pages = np.zeros((batch, tokens // page), np.int32) if page else None
    scales = {"k_scale": 1.0, "v_scale": 1.0} if narrow else {}
    attention_decode(np.empty((batch, count, heads, 128), BF16), k, v, lengths, pages=pages, lse=True, **scales)


def latent(batch: int, tokens: int, heads: int) -> None:
    from phalanx.kernels.attention.decode import attention_decode

    q, cache = np.empty((batch, 1, heads, 576), BF16), np.empty((batch, tokens, 1, 576), BF16)
    attention_decode(q, cache, None, np.full(batch, tokens, np.int32), v_dim=512, lse=True)


def sparse(queries: int, heads: int, kv_heads: int, dim: int, block: int, lse: bool = True) -> None:
    from phalanx.kernels.attention.sparse import sparse_attention

    q, k = np.empty((1, queries, heads, dim), BF16), np.empty((1, 65536, kv_heads, dim), BF16)
    v = None if dim == 576 else np.empty((1, 65536, kv_heads, dim), BF16)
    indices = np.zeros((1, queries, kv_heads, 2048 // block), np.int32)
    sparse_attention(q, k, v, indices, block=block, lse=lse, v_dim=512 if v is None else None)


SIZES = ((64, 64), (72, 72), (96, 96), (128, 128), (160, 160), (192, 128), (192, 192), (224, 224), (256, 256))
Wanted = tuple[Callable[..., None], tuple[Any, ...]]


def all_calls() -> list[Wanted]:
    """Every kind of call."""
    found: list[Wanted] = [(forward, (*sizes, kind)) for sizes in SIZES for kind in MASKS]
    found += [(forward, (*sizes, "causal", "f16")) for sizes in SIZES]
    found += [(forward, (dim, dim, kind, "f8")) for dim, _ in SIZES for kind in ("full", "causal")]
    for dim in (64, 72, 96, 128, 160, 192, 224, 256):
        found += [(backward, (dim, kind, False)) for kind in MASKS]
        found += [(backward, (dim, kind, True)) for kind in ("full", "causal")]
    found += [(decode, shape) for shape in ((64, 32, 8, 8192), (16, 32, 8, 32768), (128, 64, 8, 4096), (8, 128, 1, 16384))]
    found += [(decode, (*given, 16)) for given in ((64, 32, 8, 8192), (16, 32, 8, 32768), (8, 128, 1, 16384))]
    found += [(decode, (64, 32, 8, 8192, page, True)) for page in (0, 16)]
    found += [(decode, (64, 32, 8, 8192, 0, False, 8)), (decode, (1, 32, 8, 32768)), (decode, (4, 64, 8, 1024))]
    found += [(latent, given) for given in ((64, 8192, 128), (16, 16384, 128), (1, 16384, 128), (16, 4096, 16))]
    found += [(sparse, (64, 32, 8, dim, block)) for dim in (64, 128, 192, 256) for block in (1, 8, 64)]
    found += [(sparse, (64, heads, 1, 576, block)) for heads in (16, 64, 128) for block in (1, 2, 8, 16, 64)]
    found += [(sparse, (64, heads, 1, 576, 1, False)) for heads in (64, 128)]
    return list(dict.fromkeys(found))


def cold(work: Callable[..., None], given: tuple[Any, ...]) -> list[dict[str, Any]]:
    """What a call launches, compiled: seconds, registers and bytes that are spilled of each kernel."""
    import phalanx as px
    from phalanx.cuda import nvrtc
    from phalanx.runtime import compiled as compiling
    from phalanx.runtime.launch import memory
    from phalanx.runtime.launch.dispatch import BoundLaunch

    compiling.disk_cache().clear()
    memory.forget()
    rows: list[dict[str, Any]] = []
    name = f"{work.__name__} {' '.join(map(str, given))}"
    assembled: list[float] = []
    compile_cuda = nvrtc.compile_cuda

    def timed(*args: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return compile_cuda(*args, **options)
        finally:
            assembled.append(time.process_time() - start)

    def compiled(launch: Any, *args: Any, **constants: Any) -> None:
        constants.pop("arch", None)
        assembled.clear()
        row: dict[str, Any] = {"call": name, "kernel": launch.kernel.name}
        start, start_wall = time.process_time(), time.perf_counter()
        try:
            made = px.compile(launch, *args, arch="sm_90a", **constants)
            row |= {"registers": made.registers, "spills": made.spills}
        except px.Error as wrong:
            row["error"] = str(wrong)[:300]
        seconds, assembling = time.process_time() - start, sum(assembled)
        row |= {"seconds": seconds, "python": seconds - assembling, "nvrtc": assembling}
        row["wall"] = time.perf_counter() - start_wall
        rows.append(row)

    with patch.object(BoundLaunch, "__call__", compiled), patch.object(nvrtc, "compile_cuda", timed):
        try:
            work(*given)
        except px.Error as refused:
            rows.append({"call": name, "kernel": "", "refused": str(refused)[:200]})
    return rows


def prepare(folder: str) -> None:
    """A process gets a cache of its own, and loads NVRTC."""
    os.environ["PHALANX_CACHE_DIR"] = str(Path(folder, str(os.getpid())))
    from phalanx.cuda.nvrtc import compile_cuda

    compile_cuda('extern "C" __global__ void warm() {}', "sm_90a")


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--only", default="", help="calls whose name has this in it")
    given = parser.parse_args()
    wanted = [x for x in all_calls() if given.only in f"{x[0].__name__} {' '.join(map(str, x[1]))}"]
    rows: list[dict[str, Any]] = []
    spawned = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(given.jobs, spawned, prepare, (folder,)) as pool,
    ):
        for found in pool.map(cold, *zip(*wanted)):
            rows += found
            for row in found:
                if row.get("seconds", 0) > 3 or row.get("spills") or "error" in row or "refused" in row:
                    print(row, flush=True)
            machine.save(given.json, {"jobs": given.jobs, "rows": rows})
    kernels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "seconds" in row:
            kernels.setdefault(row["kernel"], []).append(row)
    for kernel, found in kernels.items():
        seconds = sorted(row["seconds"] for row in found)
        spilled = sum(bool(row.get("spills")) for row in found)
        print(
            f"{kernel:24} {len(found):3} kernels, {seconds[0]:.2f} to {seconds[-1]:.2f} s, "
            f"{sum(s > 3 for s in seconds)} over 3 s, {spilled} spilled, {sum('error' in row for row in found)} refused"
        )  # fmt: skip


if __name__ == "__main__":
    main()
