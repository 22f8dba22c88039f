"""Attention to caches and to lists of keys, on a GPU, beside cuDNN (through torch), alternating in one process.

The two numbers of decoding: the bytes of K and V over the memory's bandwidth, and 4 x heads x tokens x size operations
over the tensor cores' rate. With few query heads for each KV head the first is the floor, with 128 they are near each
other, and a latent cache (576 columns of keys, 512 of them values) is limited by the second. Every call reads far more
than L2 holds, or another cache than the call before. Calls are recorded in CUDA graphs: no launch waits for Python.

Sparse attention: 2,048 of 65,536 tokens for each query, beside `index_select` and dense attention to what it brings, and
beside `gather_rows` alone, which moves as many rows of one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.common import machine
from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.decode_config import choose_runs
from phalanx.kernels.attention.sparse import sparse_attention
from phalanx.kernels.gather import gather_rows
from phalanx.runtime.device.timing import in_turns

Run = Callable[[], object]
SHAPES = ((64, 32, 8, 8192, 128), (16, 32, 8, 32768, 128), (128, 64, 8, 4096, 128), (8, 128, 1, 16384, 128))
"""Sequences, heads of queries, KV heads, tokens, size."""
LATENT = ((64, 8192), (128, 4096), (16, 16384))
"""Sequences and tokens of latent caches, with 128 heads of queries."""
SPARSE = ((64, 8, 8), (64, 32, 8), (256, 128, 8))
"""Queries, heads of queries, KV heads, each with a list of its own for each query."""
UNEVEN = (64, 32, 8, 32768, 128)
"""Of such caches three sequences are long, (32768, 20000, 9000) tokens, and the others have 500 to 3,000."""
LISTED, TOKENS = 2048, 65536
COLD_BYTES = 256 << 20
"""Caches that are read between two calls on the same one have at least as many bytes together: more than L2 holds."""
BATCH_BYTES = 4 << 30
"""Bytes that a graph reads, at least."""


def random(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def recorded(call: Callable[[int], object], calls: int) -> Run:
    """The replay of a CUDA graph of so many calls; a call is told its number."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for number in range(2):
            call(number)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(calls):
            call(number)
    return graph.replay


def compiled(calls: Iterable[Callable[[int], object]]) -> None:
    """Makes each call once, side by side: their kernels are compiled then."""

    def make(call: Callable[[int], object]) -> None:
        torch.zeros(1, device="cuda")  # this thread's context
        call(0)
        torch.cuda.synchronize()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, calls))


def medians(calls: dict[str, Callable[[int], object]], count: int, rounds: int) -> dict[str, float]:
    """The median time of a call of each, in microseconds, the graphs taking turns, in another order each round."""
    compiled(calls.values())
    runs = {name: recorded(call, count) for name, call in calls.items()}
    for run in runs.values():
        run()
    times = in_turns(list(runs), rounds, lambda name: machine.milliseconds(runs[name], 1))
    return {name: sorted(values)[rounds // 2] * 1e3 / count for name, values in times.items()}


def cudnn(q: Any, k: Any, v: Any) -> Any:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), enable_gqa=True)


def decoding(batch: int, heads: int, kv_heads: int, tokens: int, size: int, rounds: int) -> dict[str, Any]:
    """GB/s of K and V of cuDNN, of contiguous caches and of pages that lie anywhere, and of 8-bit caches."""
    nbytes = 2 * batch * tokens * kv_heads * size * 2
    several = 1 + -(-COLD_BYTES // nbytes)
    q = random(batch, 1, heads, size)
    caches = [(random(batch, tokens, kv_heads, size), random(batch, tokens, kv_heads, size)) for _ in range(several)]
    lengths = torch.full((batch,), tokens, device="cuda", dtype=torch.int32)
    calls: dict[str, Callable[[int], object]] = {
        "cudnn": lambda i: cudnn(q, *caches[i % several]),
        "contiguous": lambda i: attention_decode(q, *caches[i % several], lengths),
    }
    for page in (16, 64):
        table = torch.randperm(batch * tokens // page, device="cuda").reshape(batch, -1).int()
        pages = [[x.reshape(-1, page, kv_heads, size) for x in pair] for pair in caches]
        calls[f"paged {page}"] = lambda i, pages=pages, table=table: attention_decode(
            q, *pages[i % several], lengths, pages=table
        )
    narrow = [[x.to(torch.float8_e4m3fn) for x in pair] for pair in caches]
    calls["8-bit"] = lambda i: attention_decode(q, *narrow[i % several], lengths, k_scale=1.0, v_scale=1.0)
    times = medians(calls, max(several, BATCH_BYTES // nbytes), rounds)
    want = cudnn(q, *caches[0]).transpose(1, 2)
    error = (attention_decode(q, *caches[0], lengths).float() - want.float()).abs().max().item()
    assert error < 0.01, error
    gbs = {name: nbytes / (2 if name == "8-bit" else 1) / time / 1e3 for name, time in times.items()}
    shape = [batch, heads, kv_heads, tokens, size]
    print(f"{shape}: " + ", ".join(f"{name} {speed:.0f}" for name, speed in gbs.items()) + " GB/s", flush=True)
    return {
        "shape": shape, "us": times, "gbs": gbs, "vs_cudnn": times["cudnn"] / times["contiguous"],
        "paged_vs_contiguous": times["contiguous"] / times["paged 16"], "error": error,
    }  # fmt: skip


def uneven(batch: int, heads: int, kv_heads: int, tokens: int, size: int, rounds: int) -> dict[str, Any]:
    """GB/s of the keys and values that are there, where lengths differ much: the usual choice, and equal runs."""
    q = random(batch, 1, heads, size)
    k, v = random(batch, tokens, kv_heads, size), random(batch, tokens, kv_heads, size)
    lengths = torch.randint(500, 3000, (batch,), device="cuda", dtype=torch.int32)
    lengths[:3] = torch.tensor([tokens, 20000, 9000], device="cuda", dtype=torch.int32)
    runs = choose_runs(batch, kv_heads, heads // kv_heads, tokens, size, size)
    calls: dict[str, Callable[[int], object]] = {
        "usual": lambda _: attention_decode(q, k, v, lengths),
        "runs": lambda _: attention_decode(q, k, v, lengths, config=runs),
    }
    times = medians(calls, 8, rounds)
    nbytes = 4 * int(lengths.sum()) * kv_heads * size
    gbs = {name: nbytes / time / 1e3 for name, time in times.items()}
    print("uneven: " + ", ".join(f"{name} {speed:.0f}" for name, speed in gbs.items()) + " GB/s", flush=True)
    return {"shape": [batch, heads, kv_heads, tokens, size], "us": times, "gbs": gbs}


def latent(batch: int, tokens: int, rounds: int) -> dict[str, Any]:
    q, cache = random(batch, 1, 128, 576), random(batch, tokens, 1, 576)
    lengths = torch.full((batch,), tokens, device="cuda", dtype=torch.int32)
    time = medians({"latent": lambda _: attention_decode(q, cache, None, lengths, v_dim=512)}, 10, rounds)["latent"]
    flops = 2 * 128 * batch * tokens * (576 + 512)
    row = {"shape": [batch, tokens], "us": time, "gbs": cache.nbytes / time / 1e3, "tflops": flops / time / 1e6}
    print(f"latent {(batch, tokens)}: {row['gbs']:.0f} GB/s, {row['tflops']:.0f} TFLOP/s", flush=True)
    return row


def sparse(queries: int, heads: int, kv_heads: int, rounds: int) -> dict[str, Any]:
    """Gathered GB/s, beside gathering first and attending densely, and beside the gather of the keys alone."""
    q, (k, v) = random(1, queries, heads, 128), (random(1, TOKENS, kv_heads, 128) for _ in range(2))
    indices = torch.randint(0, TOKENS, (1, queries, kv_heads, LISTED), device="cuda", dtype=torch.int32)
    rows = (indices[0].long() * kv_heads + torch.arange(kv_heads, device="cuda")[:, None]).reshape(-1)
    flat, out = k.reshape(-1, 128), torch.empty(len(rows), 128, device="cuda", dtype=torch.bfloat16)

    def dense(_: int) -> Any:
        kv = (x.reshape(-1, 128).index_select(0, rows).reshape(queries, kv_heads, LISTED, 128) for x in (k, v))
        return scaled_dot_product_attention(q[0].reshape(queries, kv_heads, -1, 128), *kv)

    error = (sparse_attention(q, k, v, indices)[0] - dense(0).reshape(queries, heads, 128)).abs().max().item()
    assert error < 0.01, error
    times = medians(
        {
            "sparse": lambda _: sparse_attention(q, k, v, indices), "index_select and dense": dense,
            "gather_rows": lambda _: gather_rows(flat, rows, out=out),
        },
        10, rounds,
    )  # fmt: skip
    nbytes = 2 * len(rows) * 256
    gbs = {"sparse": nbytes / times["sparse"] / 1e3, "gather_rows": nbytes / times["gather_rows"] / 1e3}
    row = {
        "shape": [queries, heads, kv_heads], "us": times, "gbs": gbs, "error": error,
        "vs_index_select": times["index_select and dense"] / times["sparse"],
        "vs_gather": gbs["sparse"] / gbs["gather_rows"],
    }  # fmt: skip
    print(
        f"sparse {(queries, heads, kv_heads)}: {gbs['sparse']:.0f} GB/s, "
        f"{row['vs_index_select']:.2f} of index_select and dense, {row['vs_gather']:.2f} of gather_rows' (it writes, too)",
        flush=True,
    )  # fmt: skip
    return row


def sparse_latent(queries: int, rounds: int) -> dict[str, Any]:
    """128 heads that share a list for each query, over a latent cache."""
    q, k = random(1, queries, 128, 576), random(1, TOKENS, 1, 576)
    indices = torch.randint(0, TOKENS, (1, queries, 1, LISTED), device="cuda", dtype=torch.int32)
    rows = indices.reshape(-1).long()

    def dense(_: int) -> Any:
        found = k[0, :, 0].index_select(0, rows).reshape(queries, 1, LISTED, 576)
        return scaled_dot_product_attention(q[0].unsqueeze(1), found, found[..., :512])

    calls: dict[str, Callable[[int], object]] = {
        "sparse": lambda _: sparse_attention(q, k, None, indices, v_dim=512), "index_select and dense": dense,
    }  # fmt: skip
    times = medians(calls, 3, rounds)
    tflops = 2 * 128 * queries * LISTED * (576 + 512) / times["sparse"] / 1e6
    ratio = times["index_select and dense"] / times["sparse"]
    print(f"sparse latent, {queries} queries: {tflops:.0f} TFLOP/s, {ratio:.2f} of index_select and dense", flush=True)
    return {"queries": queries, "us": times, "tflops": tflops, "vs_index_select": ratio}


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    parser.add_argument("--first", action="store_true", help="only the first shape of each kind")
    parser.add_argument("--dense", action="store_true", help="no lists of keys")
    options = parser.parse_args()
    last = 1 if options.first else None
    found: dict[str, Any] = {
        "decode": [decoding(*shape, options.rounds) for shape in SHAPES[:last]],
        "uneven": uneven(*UNEVEN, options.rounds),
        "latent": [latent(*shape, options.rounds) for shape in LATENT[:last]],
    }
    if not options.dense:
        found["sparse"] = [sparse(*shape, options.rounds) for shape in SPARSE[:last]]
        found["sparse latent"] = [sparse_latent(264, options.rounds)]
    machine.save(options.json, found)


if __name__ == "__main__":
    main()
