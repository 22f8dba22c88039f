"""Grouped products of a mixture of experts, whose rows are gathered by index into the operand, or scattered as sums.

Tokens are sorted by expert; tile t of the output belongs to one expert and ends where its tokens do. Two CTAs of a
cluster take two column tiles of the same rows, each fetches half of the rows for both: half of the row copies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import phalanx as px
from phalanx.kernels.gather import INDICES, gather_rows
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import has_work, info_of, refused, result_info
from phalanx.kernels.products.group_tiles import clusters_at_once, most_tiles, operands_of, planned, sizes_of, stored_result
from phalanx.kernels.products.grouped import NARROW, are_few, choose_grouped
from phalanx.kernels.products.grouped_blackwell import choose_grouped_blackwell, launch_groups
from phalanx.kernels.products.grouped_split import launch_few_rows
from phalanx.kernels.products.split_config import SplitConfig
from phalanx.kernels.products.sums import sum_stages
from phalanx.kernels.products.targets import Target, target_of
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.symbolic.choices import not_chosen_in_exports

SUMS = ("f32", "bf16", "f16")
ROWS = 128
OPTIONS = frozenset({"BM", "BN", "BK", "STAGES", "PARTS"})


@px.kernel(warps=12, cluster=2, exit_sync=False, pdl=True)
def expert_ring(
    A, I, W, Y, TABLE, WEIGHT, *, BM=ROWS, BN=256, BK=64, STAGES=4, PARTS=2, GATHER=True, SCATTER=False, TURNED=False
):
    """Y[i] = A[I[i]] @ W[e].T with GATHER, or A[i] @ W[e].T; with SCATTER Y[I[i]] += WEIGHT[i] * (A[i] @ W[e].T).

    With TURNED the factor is W[e] itself, whose rows lie along the columns of the result.
    The ring is no `px.pipe`, for the reason that `matmul_tiles.Tiles` gives.
    """
    rank = px.cluster.rank()
    half = BM // 2
    # Step 1: shared memory, and the tiles of this cluster.
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BK, BN) if TURNED else (STAGES, BN, BK), A.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    wait_for_prior_launch()
    steps = px.cdiv(A.shape[1], BK)
    columns = px.cdiv(W.shape[2 if TURNED else 1], 2 * BN)
    total = px.load(TABLE[3, 0]) * columns
    first = px.cluster.id()
    step = px.num_blocks(0) // 2
    ring = px.ring(STAGES)
    if not SCATTER:
        out = px.shared((2, half, BN // PARTS), Y.dtype)

    # Step 2: a warpgroup brings rows and weights of tile after tile.
    with px.warps(0, 4, regs=40):
        for tile in range(first, total, step):
            t = tile // columns
            e = px.load(TABLE[0, t])
            m = px.load(TABLE[1, t]) + rank * half
            n = (tile % columns * 2 + rank) * BN
            if GATHER:
                rows = px.load(I[m : m + half], fill=-1)
                if I.dtype == px.i64:  # narrowed once, and not in each step, for which this role lacks the registers
                    rows = px.where((rows >= 0) & (rows < A.shape[0]), rows, -1).to(px.i32)
            for k in range(0, steps * BK, BK):
                s = ring.stage
                empty[s].wait(ring.parity ^ 1)
                with full[s].transaction():
                    mine = a[s][rank * half : rank * half + half]
                    if GATHER:
                        px.tma.gather(A, rows, k, mine, full[s], multicast=0b11)
                    else:
                        px.tma.load(A[m : m + half, k : k + BK], mine, full[s], multicast=0b11)
                    if TURNED:
                        px.tma.load(W[e, k : k + BK, n : n + BN], b[s], full[s])
                    else:
                        px.tma.load(W[e, n : n + BN, k : k + BK], b[s], full[s])
                ring.advance()
        for _ in range(STAGES):  # the peer's last releases have arrived: no CTA leaves while a signal is on its way to it
            empty[ring.stage].wait(ring.parity ^ 1)
            ring.advance()

    # Step 3: two warpgroups multiply; results leave in parts beside the next tile's first copies.
    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232):
            for tile in range(first, total, step):
                t = tile // columns
                m = px.load(TABLE[1, t]) + c * half
                n = (tile % columns * 2 + rank) * BN
                end = px.load(TABLE[2, t])
                acc = sum_stages(a, b, full, empty, ring, steps, c * half, half, 0b11, 0b11, TURNED)
                place = m + px.arange(half)
                if SCATTER:
                    token = px.load(I[m : m + half], fill=-1)
                    named = (place < end) & (token >= 0) & (token < Y.shape[0])
                    token = px.where(named, token, -1).to(px.i32)  # only now: 64 bits may name a row that 32 would wrap to
                    weight = px.load(WEIGHT[m : m + half]).to(px.f32).reshape(half, 1)
                    for part in px.static_range(0, BN, 64):
                        y = (acc[:, part : part + 64] * weight).to(Y.dtype)
                        px.atomic_add(Y[token, n + part : n + part + 64], y)
                else:
                    width = BN // PARTS
                    for part in px.static_range(0, BN, width):
                        px.tma.wait(0, read=True)
                        px.store(out[c], acc[:, part : part + width].to(Y.dtype))
                        px.fence.async_proxy()
                        if m + half <= end:
                            px.tma.store(out[c], Y[m : m + half, n + part : n + part + width])
                        else:  # the next expert's rows are not this tile's to write
                            px.tma.scatter(out[c], px.where(place < end, place, -1), n + part, Y)
                        px.tma.commit()
            px.tma.wait(0, read=True)


@remembered("x", "idx", "w", "group_sizes", "out", writes={"out": "out is not None"})
def moe_gather_matmul(
    x: Any, idx: Any, w: Any, group_sizes: Any, *, out: Any = None, arch: str | None = None, **options: int
) -> Any:
    """Row i of the result is ``x[idx[i]] @ w[e].T``, e the expert of i.

    The first group_sizes[0] rows have expert 0, the next group_sizes[1] expert 1, and so on.
    `x` (tokens, K) and `w` (experts, N, K) bf16 or f16, K and N multiples of 8; `idx` and `group_sizes` i32 or i64, all
    on one device; `group_sizes` may also be a list. The gathered rows go straight to shared memory: there is no gathered
    copy of `x`, unless rows are few (`gathers_first`). A row outside `x` counts as zeros. Sums are f32. sm_90a; sm_100a
    and its kin, four rows a copy (compiled and simulated, never run there); or the simulator, of the target that `arch`
    names. Example:
    ``h = moe_gather_matmul(x, order, w1, counts)``.
    """
    rows, weights = operands_of("x", x, w)
    names = _indices(idx)
    out = stored_result(x, out, (names, weights.shape[1]), rows.dtype_name)
    _launch(x, idx, w, out, group_sizes, None, names, {**options, "GATHER": True}, target_of(rows, arch))
    return out


@remembered("x", "w", "group_sizes", "out", writes={"out": "out is not None"})
def moe_matmul(x: Any, w: Any, group_sizes: Any, *, out: Any = None, arch: str | None = None, **options: int) -> Any:
    """Row i of the result is ``x[i] @ w[e].T``: the grouped product of rows that are already sorted by expert.

    Arrays and targets as in `moe_gather_matmul`. Example: ``y = moe_matmul(x_sorted, w, counts)``.
    """
    rows, weights = operands_of("x", x, w)
    out = stored_result(x, out, (rows.shape[0], weights.shape[1]), rows.dtype_name)
    _launch(x, None, w, out, group_sizes, None, rows.shape[0], {**options, "GATHER": False}, target_of(rows, arch))
    return out


@remembered("h", "w", "group_sizes", "idx", "weight", "out", writes={"out": "out is not None"})
def moe_matmul_scatter(
    h: Any, w: Any, group_sizes: Any, idx: Any, weight: Any, out: Any, *, arch: str | None = None, **options: int
) -> Any:
    """Adds ``weight[i] * (h[i] @ w[e].T)`` to row idx[i] of `out` for every row i of `h`, and returns `out`.

    `h` (rows, K) and `w` (experts, N, K) bf16 or f16; `weight` (rows,) f32, bf16 or f16; `out` (tokens, N) f32, bf16
    or f16, summed atomically in its type. Rows outside `out` are left out. Targets as in `moe_gather_matmul`. Example:
    ``moe_matmul_scatter(h, w2, counts, order, gates, y)``.
    """
    rows, weights = operands_of("h", h, w)
    names = _indices(idx)
    if names != rows.shape[0]:
        raise refused(f"idx has {names} entries", f"pass one per row of h: {rows.shape[0]}")
    if info_of("weight", weight, SUMS).shape != (names,):
        raise refused(f"weight has shape {tuple(weight.shape)}", f"pass one per row of h: ({names},)")
    found = result_info("out", out, SUMS)
    if len(found.shape) != 2 or found.shape[1] != weights.shape[1]:
        raise refused(f"out has shape {found.shape}", f"pass a matrix of {weights.shape[1]} columns, one per row of w[e]")
    options = {**options, "GATHER": False, "SCATTER": True}
    _launch(h, idx, w, out, group_sizes, weight, names, options, target_of(rows, arch))
    return out


@not_chosen_in_exports
def gathers_first(rows: int, experts: int, n: int, k: int) -> bool:
    """Whether rows are gathered before they are multiplied; not in exports, which would have to gather any number of them.

    A row of a tile that is fetched by index is a copy of its own in each step along K, by every CTA that needs it. With few
    rows of a group that takes longer than the weights do: 63 to 118 us for three products of 120 to 300 rows, which take
    25 to 75 without indices (`sweep_groups.json`).
    """
    return are_few(rows, experts, n, k)


def _indices(idx: Any) -> int:
    """How many indices there are; refuses anything but a vector of them."""
    shape = info_of("idx", idx, INDICES).shape
    if len(shape) != 1:
        raise refused(f"idx has shape {shape}", "pass a vector; idx.reshape(-1) makes one")
    return shape[0]


def _launch(
    a: Any, idx: Any, w: Any, out: Any, group_sizes: Any, weight: Any, rows: int, options: dict[str, int], target: Target
) -> None:
    unknown = sorted(options.keys() - OPTIONS - {"GATHER", "SCATTER"})
    if unknown:
        raise refused(f"unknown option {unknown[0]}", f"there are {', '.join(sorted(OPTIONS))}")
    experts = w.shape[0]
    columns = w.shape[1]
    sizes = sizes_of(group_sizes, experts, rows, a)
    if not has_work(rows, columns, experts):
        return
    if target.blackwell:
        _launch_blackwell(a, idx, w, out, sizes, weight, rows, options, target)
        return
    if not options.keys() & OPTIONS and not options.get("SCATTER"):
        sizes_of_product = rows, experts, columns, w.shape[2]
        if idx is not None and gathers_first(*sizes_of_product):
            a = gather_rows(a, idx)
            idx = None
            options = {**options, "GATHER": False}
        settings = choose_grouped(*sizes_of_product) if idx is None else None
        if isinstance(settings, SplitConfig):
            launch_few_rows(a, w, out, sizes, settings, None, None, target.named)
            return
        if settings == NARROW:
            options = {**options, "BN": NARROW.bn, "STAGES": NARROW.stages, "PARTS": NARROW.parts}
    height = options.get("BM", ROWS)
    table = planned(sizes, a, rows, experts, height)
    pairs = px.cdiv(columns, 2 * options.get("BN", 256))
    clusters = min(clusters_at_once(a, 2), most_tiles(rows, experts, height) * pairs)
    index = sizes if idx is None else idx
    expert_ring[2 * clusters](a, index, w, out, table, index if weight is None else weight, **options, **target.named)


def _launch_blackwell(
    a: Any, idx: Any, w: Any, out: Any, sizes: Any, weight: Any, rows: int, options: dict[str, int], target: Target
) -> None:
    """Launches the kernel for tensor memory, whose tiles have 128 rows; `options` override what is chosen."""
    decided = sorted(options.keys() & (OPTIONS - {"BN", "BK"}))
    if decided:
        raise refused(f"{decided[0]}={options[decided[0]]}", "leave it out: on Blackwell the compiler chooses it")
    cut = choose_grouped_blackwell(rows, w.shape[0], w.shape[1])
    given: dict[str, Any] = {name.lower(): options[name] for name in ("BN", "BK") if name in options}
    launch_groups(
        a, idx, w, out, sizes, rows, replace(cut, **given), weight=weight, GATHER=bool(options["GATHER"]),
        SCATTER=bool(options.get("SCATTER")), **target.named,
    )
