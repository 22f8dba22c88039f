"""Is attention right on this card? Random calls against float64, beside cuDNN's errors, and repeats bit by bit.

    python -m benchmarks.attention.check --seed 1 --count 160 --out attention_check.json

Calls are drawn from the seed: lengths of 1 to 4,000 that are no multiples of anything, heads of all sizes that share keys,
masks, caps, biases, packed sequences, amplitudes of 1 to 8, rows with nothing to attend to, numbers that are none; forward,
backward, 8-bit floats, caches and lists. Errors are relative, by norms. Where cuDNN (through torch) can do the same, ours
is at most 1.3 times its error; where it can't, at most that of results rounded twice; of 8-bit floats, 1.3 times that of
float64 whose powers are rounded as ours are. Every call is made twice, and must give the same bits (gradients: with
`deterministic`). Processes share the card, since most of the time is the compiler's; calls that do not begin before
`--limit` are not made.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.attention.forward import settle
from benchmarks.common import machine
from phalanx.kernels.attention.backward import attention_backward
from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.forward import attention
from phalanx.kernels.attention.narrow import SHIFT
from phalanx.kernels.attention.sparse import sparse_attention

Found = dict[str, Any]
BESIDE = 1.3
"""Our error over cuDNN's, at most."""
ROUNDED = {torch.bfloat16: 0.0045, torch.float16: 0.0008}
"""The error where there is nobody beside: powers and results are rounded, by 2^-9 and 2^-12 of themselves at most."""
ENOUGH = 64
"""Queries and keys from which on errors are compared with cuDNN's: those of a few numbers are anything."""


def normal(*shape: int, amplitude: float = 1.0, dtype: Any = torch.bfloat16) -> Any:
    return (torch.randn(*shape, device="cuda") * amplitude).to(dtype)


def error(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm().clamp(min=1e-30))


def reachable(queries: int, keys: int, causal: bool, window: tuple[int, int] | None) -> Any:
    """Which keys each query may attend to: the last query stands beside the last key."""
    beside = torch.arange(queries, device="cuda")[:, None] + keys - queries
    column = torch.arange(keys, device="cuda")[None]
    ok = torch.ones(queries, keys, dtype=torch.bool, device="cuda")
    left, right = window or (-1, -1)
    if left >= 0:
        ok &= column >= beside - left
    if right >= 0:
        ok &= column <= beside + right
    return ok & (column <= beside) if causal else ok


def powers(
    q: Any, k: Any, causal: bool = False, window: tuple[int, int] | None = None, softcap: float | None = None,
    bias: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """e^(score - the row's largest) in float64, (batch, heads, queries, keys), 0 without attention; the largest scores."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q.double() @ k.double().transpose(-1, -2) * q.shape[-1] ** -0.5
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None and bias.dim() == 1:
        beside = torch.arange(s.shape[2], device="cuda")[:, None] + s.shape[3] - s.shape[2]
        s = s - bias.double()[None, :, None, None] * (beside - torch.arange(s.shape[3], device="cuda")[None]).abs()
    elif bias is not None:
        s = s + bias.double()
    s.masked_fill_(~reachable(s.shape[2], s.shape[3], causal, window), -float("inf"))
    top = s.amax(-1, keepdim=True)
    top = torch.where(top == -float("inf"), 0.0, top)
    return torch.exp(s - top), top


def exact(q: Any, k: Any, v: Any, **options: Any) -> tuple[Any, Any]:
    """Result and logarithms in float64."""
    p, top = powers(q, k, **options)
    total = p.sum(-1, keepdim=True)
    o = p @ v.double().repeat_interleave(q.shape[1] // v.shape[1], 1) / total.clamp(min=1e-300)
    return o, (top + torch.log(total))[..., 0]


def cudnn(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """cuDNN's result, or None where it has none."""
    group = q.shape[1] // k.shape[1]
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=group > 1)
    except RuntimeError:
        return None


def judged(ours: float, theirs: float | None, limit: float) -> Found:
    """Whether an error is as small as it should be."""
    if theirs is None:
        return {"ok": ours <= limit, "error": ours}
    return {"ok": ours <= BESIDE * theirs, "error": ours, "cudnn": theirs, "ratio": ours / max(theirs, 1e-30)}


def forward_case(rng: random.Random) -> Found:
    """One call of `attention` with whatever it can be asked for."""
    dim = rng.choice((64, 96, 128, 128, 192, 256, 8 * rng.randrange(1, 33)))
    dtype = rng.choice((torch.bfloat16, torch.bfloat16, torch.float16))
    kv, group, batch = rng.randrange(1, 4), rng.choice((1, 1, 2, 4)), rng.randrange(1, 3)
    queries = rng.randrange(1, 4001)
    kind = rng.choice(("full", "full", "causal", "causal", "window", "window", "cap", "slopes", "bias"))
    keys = queries if kind == "causal" and rng.random() < 0.7 else rng.randrange(1, 4001)
    amplitude = rng.uniform(1, 8)
    options: Found = {"causal": kind == "causal" or (kind != "full" and rng.random() < 0.5)}
    if kind == "window":
        options["window"] = (rng.randrange(-1, 3000), rng.randrange(-1, 3000))
    if kind == "cap":
        options["softcap"] = rng.uniform(5, 30)
    if kind == "slopes":
        options["bias"] = torch.rand(kv * group, device="cuda")
    if kind == "bias":
        options["bias"] = torch.randn(1, kv * group, queries, keys, device="cuda")
        options["bias"].masked_fill_(torch.rand_like(options["bias"]) < 0.2, -float("inf"))
        options["bias"][:, 0, queries // 2] = -float("inf")
    q = normal(batch, queries, kv * group, dim, amplitude=amplitude, dtype=dtype).transpose(1, 2)
    k, v = (normal(batch, keys, kv, dim, dtype=dtype).transpose(1, 2) for _ in range(2))
    got, logs = attention(q, k, v, lse=True, **options)
    settle("attention")
    want, want_logs = exact(q, k, v, **options)
    same = torch.equal(got, attention(q, k, v, **options))
    empty = want_logs == -float("inf")
    beside = kind in ("full", "causal") and (not options["causal"] or queries == keys) and min(queries, keys) >= ENOUGH
    theirs = cudnn(q, k, v, options["causal"]) if beside else None
    found = judged(error(got, want), None if theirs is None else error(theirs, want), ROUNDED[dtype])
    good_logs = bool((logs.double() - want_logs)[~empty].abs().max() < 1e-4) if bool((~empty).any()) else True
    good_rows = bool((got[empty] == 0).all()) and torch.equal(logs == -float("inf"), empty)
    found["ok"] = found["ok"] and same and good_logs and good_rows and bool(torch.isfinite(got).all())
    return {
        **found, "same": same, "empty rows": int(empty.sum()),
        "what": f"{kind} {dim} {dtype} {tuple(q.shape)} x {tuple(k.shape)} amplitude {amplitude:.1f} {options['causal']}",
    }  # fmt: skip


def packed_case(rng: random.Random) -> Found:
    """Packed sequences, some of them empty, each against one of its own."""
    dim, causal, kv, group = rng.choice((64, 80, 128, 256)), rng.random() < 0.5, rng.randrange(1, 3), rng.choice((1, 4))
    lengths = [(rng.choice((0, 1, rng.randrange(1, 4001))), rng.randrange(0, 2001)) for _ in range(rng.randrange(1, 6))]
    starts = torch.tensor([(0, 0), *lengths], dtype=torch.int32).cumsum(0).to(torch.int32).cuda()
    totals = [int(x) for x in starts[-1]]
    q = normal(totals[0] + 1, kv * group, dim, amplitude=rng.uniform(1, 8))
    k, v = normal(totals[1] + 1, kv, dim), normal(totals[1] + 1, kv, dim)
    options: Found = {"causal": causal, "cu_seqlens_q": starts[:, 0].contiguous(), "cu_seqlens_k": starts[:, 1].contiguous()}
    got, logs = attention(q, k, v, lse=True, **options)
    settle("packed sequences")
    same = torch.equal(got[: totals[0]], attention(q, k, v, **options)[: totals[0]])
    worst, ok, at_q, at_k = 0.0, same, 0, 0
    for queries, keys in lengths:
        if queries and keys:
            one = [x.transpose(0, 1)[None] for x in (q[at_q : at_q + queries], k[at_k : at_k + keys], v[at_k : at_k + keys])]
            want, want_logs = exact(*one, causal=causal)
            worst = max(worst, error(got[at_q : at_q + queries].transpose(0, 1)[None], want))
            finite = want_logs > -float("inf")
            ok &= bool(((logs[:, at_q : at_q + queries][None].double() - want_logs)[finite].abs() < 1e-4).all())
        elif queries:
            ok &= bool((got[at_q : at_q + queries] == 0).all())
        at_q, at_k = at_q + queries, at_k + keys
    found = judged(worst, None, ROUNDED[torch.bfloat16])
    return {**found, "ok": found["ok"] and ok, "same": same, "what": f"packed {dim} {causal} {lengths} heads {kv} x {group}"}


def narrow_case(rng: random.Random) -> Found:
    """8-bit floats, beside float64 whose powers are rounded as ours are."""
    dim, causal, queries = rng.choice((64, 96, 128, 192, 256)), rng.random() < 0.5, rng.randrange(ENOUGH, 4001)
    keys = rng.randrange(ENOUGH, 4001)
    eight = torch.float8_e4m3fn
    q = normal(1, 2, queries, dim, amplitude=rng.uniform(1, 4)).to(eight)
    k, v = normal(1, 2, keys, dim).to(eight), normal(1, 2, keys, dim).to(eight)
    got = attention(q, k, v, causal=causal, q_scale=1.0, k_scale=1.0, v_scale=1.0)
    settle("8-bit floats")
    same = torch.equal(got, attention(q, k, v, causal=causal, q_scale=1.0, k_scale=1.0, v_scale=1.0))
    q, k, v = q.float(), k.float(), v.double()
    want, logs = exact(q, k, v, causal=causal)
    p, _ = powers(q, k, causal=causal)
    p = p * 2**SHIFT
    rounded = p.float().to(eight).double() @ v / p.sum(-1, keepdim=True).clamp(min=1e-300)
    seen = logs > -float("inf")
    found = judged(error(got[seen], want[seen]), error(rounded[seen], want[seen]), 0.0)
    found["ok"] = found["ok"] and same and bool((got[~seen] == 0).all())
    return {**found, "same": same, "what": f"8-bit {dim} {queries} x {keys} {causal}"}


def poisoned_case(rng: random.Random) -> Found:
    """A NaN in a query, a NaN or an infinity in a key: the rows that it reaches are NaN, all others are as they were."""
    dim, causal = rng.choice((64, 128, 256)), rng.random() < 0.5
    queries = rng.randrange(2, 4001)
    keys = queries if causal else rng.randrange(2, 4001)
    q, k, v = normal(1, 2, queries, dim), normal(1, 2, keys, dim), normal(1, 2, keys, dim)
    clean = attention(q, k, v, causal=causal)
    row, column = rng.randrange(queries), rng.randrange(keys)
    bad = rng.choice((float("nan"), float("inf"), -float("inf")))
    other = q.clone()
    other[0, 0, row, rng.randrange(dim)] = float("nan")
    got = attention(other, k, v, causal=causal)
    settle("a query that is no number")
    rest = torch.arange(queries, device="cuda") != row
    ok = bool(got[0, 0, row].isnan().all()) and torch.equal(got[0, 0, rest], clean[0, 0, rest])
    ok = ok and torch.equal(got[0, 1], clean[0, 1])
    other = k.clone()
    other[0, 1, column, rng.randrange(dim)] = bad
    got = attention(q, other, v, causal=causal)
    reached = reachable(queries, keys, causal, None)[:, column]
    s = (q[0, 1].double() @ other[0, 1].double().T)[:, column]
    spoilt = reached & (s.isnan() | (s == float("inf")))  # a score of -inf only leaves its key out
    ok = ok and bool(got[0, 1, spoilt].isnan().all()) and torch.equal(got[0, 1, ~reached], clean[0, 1, ~reached])
    ok = ok and torch.equal(got[0, 0], clean[0, 0])
    return {"ok": ok, "what": f"no number: {dim} {queries} x {keys} {causal} row {row} column {column} {bad}"}


def gradients(q: Any, k: Any, v: Any, do: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Gradients in float64."""
    p, _ = powers(q, k, **options)
    group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    p = p / p.sum(-1, keepdim=True).clamp(min=1e-300)
    do, key, value = do.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    dp = do @ value.transpose(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
    dk, dv = ds.transpose(-1, -2) @ q.double(), p.transpose(-1, -2) @ do
    shared = (q.shape[0], k.shape[1], group, *dk.shape[2:])
    return ds @ key, dk.reshape(shared).sum(2), dv.reshape(shared).sum(2)


def backward_case(rng: random.Random) -> Found:
    """Gradients in both orders of summing, beside cuDNN's where it has them."""
    dim, kv, group = rng.choice((64, 64, 96, 128, 128, 192, 256)), rng.randrange(1, 3), rng.choice((1, 1, 2, 4))
    queries, kind = rng.randrange(1, 4001), rng.choice(("full", "causal", "causal", "window"))
    keys = queries if kind == "causal" else rng.randrange(1, 4001)
    options: Found = {"causal": kind == "causal"}
    if kind == "window":
        options["window"] = (rng.randrange(ENOUGH, 3000), rng.randrange(0, 3000))  # of one key gradients are 0
    amplitude = rng.uniform(1, 4)
    q = normal(1, kv * group, queries, dim, amplitude=amplitude)
    k, v, do = normal(1, kv, keys, dim), normal(1, kv, keys, dim), normal(1, kv * group, queries, dim)
    o, lse = attention(q, k, v, lse=True, **options)
    settle("attention")
    want = gradients(q, k, v, do, **options)
    theirs = None
    if kind != "window" and dim <= 128 and min(queries, keys) >= ENOUGH:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        result = cudnn(leaves[0], leaves[1], leaves[2], options["causal"])
        theirs = None if result is None else torch.autograd.grad(result, leaves, do)
    ok, worst, ours_worst = True, 0.0, 0.0
    for deterministic in (False, True):
        got = attention_backward(do, q, k, v, o, lse, deterministic=deterministic, **options)
        settle("attention_backward")
        for number, part in enumerate(got):
            ours = error(part, want[number])
            ours_worst = max(ours_worst, ours)
            if theirs is not None:
                worst = max(worst, ours / error(theirs[number], want[number]))
            small = theirs is not None or min(queries, keys) < ENOUGH or ours < 0.02
            ok = ok and small and bool(torch.isfinite(part).all())
    again = attention_backward(do, q, k, v, o, lse, deterministic=True, **options)
    same = all(torch.equal(a, b) for a, b in zip(got, again))
    found: Found = {"ok": ok and same and worst <= BESIDE, "error": ours_worst, "same": same}
    if theirs is not None:
        found["ratio"] = worst
    return {**found, "what": f"gradients {kind} {dim} {queries} x {keys} heads {kv} x {group} amplitude {amplitude:.1f}"}


def decode_case(rng: random.Random) -> Found:
    """Caches of random lengths, contiguous and in pages, against float64."""
    dim, kv, group = rng.choice((64, 72, 128, 160, 256)), rng.randrange(1, 5), rng.choice((1, 4, 8))
    tokens = rng.choice((1, 1, 2, 5))
    batch, most = rng.randrange(1, 9), rng.randrange(16, 4001)
    lengths = [rng.randrange(tokens, max(tokens, most) + 1) for _ in range(batch)]
    q = normal(batch, tokens, kv * group, dim, amplitude=rng.uniform(1, 8))
    page = rng.choice((16, 64))
    room = -(-max(lengths) // page) * page
    k, v = normal(batch, room, kv, dim), normal(batch, room, kv, dim)
    table = torch.randperm(batch * room // page, device="cuda").reshape(batch, -1).int()
    pages = [torch.empty_like(x).reshape(-1, page, kv, dim) for x in (k, v)]
    for x, to in zip((k, v), pages):
        to[table.long()] = x.reshape(batch, -1, page, kv, dim)
    count = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    got = attention_decode(q, k, v, count)
    settle("attention_decode")
    by_pages = attention_decode(q, *pages, count, pages=table)
    settle("attention_decode of pages")
    same = torch.equal(got, attention_decode(q, k, v, count)) and torch.equal(
        by_pages, attention_decode(q, *pages, count, pages=table)
    )
    worst = 0.0
    for number, length in enumerate(lengths):
        one = [x[number : number + 1, :n].transpose(1, 2) for x, n in ((q, tokens), (k, length), (v, length))]
        want, _ = exact(*one, causal=True)
        for result in (got, by_pages):
            worst = max(worst, error(result[number : number + 1].transpose(1, 2), want))
    found = judged(worst, None, 2 * ROUNDED[torch.bfloat16])
    what = f"caches {dim} {lengths} heads {kv} x {group} x {tokens}"
    return {**found, "ok": found["ok"] and same, "same": same, "what": what}


def sparse_case(rng: random.Random) -> Found:
    """Lists of keys, against float64."""
    latent = rng.random() < 0.4
    dim, wide, kv = (576, 512, 1) if latent else (128, 128, rng.choice((1, 2, 4)))
    group = rng.choice((16, 64, 128)) if latent else rng.choice((1, 4, 8))
    block = rng.choice((1, 1, 2, 8, 16, 64))
    queries, tokens = rng.randrange(1, 9), rng.randrange(64, 4001)
    entries = max(1, rng.randrange(1, 1500) // block)
    q, k = normal(1, queries, kv * group, dim), normal(1, tokens, kv, dim)
    v = None if latent else normal(1, tokens, kv, wide)
    indices = torch.randint(-1, tokens // block + 2, (1, queries, kv, entries), device="cuda", dtype=torch.int32)
    options: Found = {"block": block, "v_dim": 512 if latent else None}
    got = sparse_attention(q, k, v, indices, **options)
    settle("sparse_attention")
    same = torch.equal(got, sparse_attention(q, k, v, indices, **options))
    values, worst = k[..., :512] if v is None else v, 0.0
    for number in range(queries):
        for head in range(kv):
            named = indices[0, number, head].long()
            named = (named[named >= 0][:, None] * block + torch.arange(block, device="cuda")).reshape(-1)
            named = named[named < tokens]
            mine = slice(head * group, head * group + group)
            result = got[0, number, mine]
            if not len(named):
                worst = max(worst, float(result.abs().max()))
                continue
            one = q[0, number, mine][None, :, None], k[0, named, head][None, None], values[0, named, head][None, None]
            worst = max(worst, error(result[None, :, None], exact(*one)[0]))
    found = judged(worst, None, 2 * ROUNDED[torch.bfloat16])
    return {
        **found, "ok": found["ok"] and same, "same": same,
        "what": f"lists {dim} block {block} {queries} x {entries} of {tokens} heads {kv} x {group}",
    }  # fmt: skip


CASES: dict[str, tuple[Callable[[random.Random], Found], int]] = {
    "attention": (forward_case, 8), "packed sequences": (packed_case, 2), "8-bit floats": (narrow_case, 1),
    "no numbers": (poisoned_case, 1), "gradients": (backward_case, 4), "caches": (decode_case, 2), "lists": (sparse_case, 2),
}  # fmt: skip
"""By name, and how many of 20 calls are of that kind."""


def one(name: str, seed: int, until: float) -> Found:
    """One call, drawn from its seed."""
    if time.time() > until:
        return {"kind": name, "seed": seed, "ok": None}
    torch.manual_seed(seed)
    try:
        found = CASES[name][0](random.Random(seed))
    except Exception as wrong:  # the others go on
        found = {"ok": False, "what": f"{type(wrong).__name__}: {str(wrong)[:300]}"}
    return {"kind": name, "seed": seed, **found}


def summary(results: list[Found]) -> dict[str, Found]:
    """By kind: calls made, calls right, the largest error and the largest ratio to cuDNN's."""
    by_kind: dict[str, list[Found]] = collections.defaultdict(list)
    for row in results:
        by_kind[row["kind"]].append(row)
    return {
        kind: {
            "made": sum(row["ok"] is not None for row in rows), "right": sum(row["ok"] is True for row in rows),
            "asked": len(rows), "largest error": max((row["error"] for row in rows if "error" in row), default=None),
            "beside": sum("ratio" in row for row in rows),
            "largest ratio": max((row["ratio"] for row in rows if "ratio" in row), default=None),
        }
        for kind, rows in by_kind.items()
    }  # fmt: skip


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--limit", type=float, default=90.0, help="seconds after which no further call is made")
    given = parser.parse_args()
    names = [name for name, (_, share) in CASES.items() for _ in range(share)]
    wanted = [(names[n % len(names)], given.seed * 100_000 + n) for n in range(given.count)]
    random.Random(given.seed).shuffle(wanted)
    until, results = time.time() + given.limit, []
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for row in pool.map(one, *zip(*wanted), [until] * len(wanted)):
            results.append(row)
            if row["ok"] is False:
                print(f"WRONG: {row}", flush=True)
            machine.save(given.json, {"seed": given.seed, "summary": summary(results), "calls": results})
    for kind, row in summary(results).items():
        beside = f", at most {row['largest ratio']:.3f} of the peer's error ({row['beside']} calls)" if row["beside"] else ""
        worst = f", largest error {row['largest error']:.5f}" if row["largest error"] is not None else ""
        print(f"{kind:18} {row['right']} of {row['made']} right ({row['asked']} asked for){worst}{beside}", flush=True)
    return 0 if all(row["ok"] for row in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
