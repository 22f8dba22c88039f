"""Small kernels for ordinary memory instructions, beside those of `tile_cases`: atomics, shared memory by index."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import phalanx as px
from support.tile_cases import case, numbers, zeros

KINDS = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64,
}


def extreme_numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Both signs and the whole range of a type; for floats some NaNs and infinities among them."""
    if np.dtype(kind).kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    found = rng.standard_normal(shape).astype(np.float32)
    found[rng.random(shape) < 0.05] = np.nan
    found[rng.random(shape) < 0.05] = -np.inf
    return found.astype(kind)


# ---------------------------------------------------------------------- atomics


@px.kernel(warps=4)
def updates(X, Y, Z, I, *, M=16, N=24):
    """Boxes that an edge cuts, rows by index with a row named twice, elements: global and shared, old values seen or not."""
    x = px.load(X[0:M, 0:N])
    rows = px.load(I[0:M])
    px.store(Z[0, 0:M, 0:N], px.atomic_max(Y[3 : 3 + M, 0:N], x))
    px.atomic_min(Y[0:M, 5 : 5 + N], px.load(X[M : M + M, 0:N]))
    px.atomic_max(Y[rows, 0:N], x)
    px.atomic_min(Y[rows, 0:N], px.load(X[M : M + M, 0:N]))
    px.store(Z[1, 0:M, 0:N], px.atomic_exch(Y[0:M, 2 : 2 + N], x))
    px.store(Z[2, 0, 0:N], px.atomic_max(Y[1, 1], px.load(X[2, 3])))
    px.store(Z[2, 1, 0:N], px.atomic_exch(Y[1, 2], px.load(X[2, 4])))
    s = px.shared((M, N), X.dtype)
    px.store(s, x)
    px.store(Z[3, 0:M, 0:N], px.atomic_min(s, px.load(X[M : M + M, 0:N])))
    px.atomic_max(s[0:4, 0:8], px.load(X[0:4, 8:16]))
    px.store(Z[2, 2, 0:N], px.atomic_exch(s[1, 1], px.load(X[5, 5])))
    px.atomic_max(s[0, 0], px.load(X[6, 6]))
    px.store(Z[4, 0:M, 0:N], px.load(s))


for _name, _kind in KINDS.items():
    case(
        f"update-{_name}",
        updates,
        1,
        lambda rng, kind=_kind: [
            extreme_numbers(rng, (32, 24), kind),
            extreme_numbers(rng, (16, 24), kind),
            zeros((5, 16, 24), kind),
            np.array([0, 3, -1, 3, 15, 16, 3, 7, 2, 2, 9, 14, 13, 1 << 30, 5, 4], np.int32),
        ],
    )


@px.kernel(warps=4)
def swaps(X, Y, Z, I, *, N=24):
    """Half of the comparisons succeed; then elements, and shared memory."""
    index = px.load(I[0:N])
    here = px.load(Y[0:N])
    px.store(Z[0, 0:N], px.atomic_cas(Y[0:N], px.where(px.arange(N) % 2 == 0, here, here + 1), px.load(X[0:N])))
    px.store(Z[1, 0:N], px.atomic_cas(Y[index], px.load(Y[index]), px.load(X[N : N + N])))
    px.store(Z[2, 0:N], px.atomic_cas(Y[5], px.load(Y[5]), px.load(X[1])))
    px.store(Z[3, 0:N], px.atomic_cas(Y[6], px.load(Y[6]) + 1, px.load(X[1])))
    s = px.shared((N,), X.dtype)
    px.store(s, here)
    px.store(Z[4, 0:N], px.atomic_cas(s, px.load(X[0:N]), 3))
    px.atomic_cas(s, here, px.load(X[0:N]))
    px.store(Z[5, 0:N], px.load(s))


for _name in ("i32", "u32", "i64", "u64"):
    case(
        f"swap-{_name}",
        swaps,
        1,
        lambda rng, kind=KINDS[_name]: [
            extreme_numbers(rng, (48,), kind),
            extreme_numbers(rng, (20,), kind),
            zeros((6, 24), kind),
            np.where(np.arange(24) % 5 == 0, -1, rng.permutation(24)).astype(np.int32),
        ],
    )


@px.kernel(warps=4)
def looks(X, Y, I, *, M=16, N=24):
    """Regions past the array's ends, rows by index and single elements, as they are after updates."""
    index = px.load(I[0:M])
    px.atomic_exch(X[1, 2], px.load(X[2, 1]))
    px.store(Y[0, 0:M, 0:N], px.atomic_load(X[0:M, 2 : 2 + N]))
    px.store(Y[1, 0:M, 0:N], px.atomic_load(X[index, 0:N]))
    px.store(Y[2, 0:M, 0:N], px.atomic_load(X[1, 2]))
    px.store(Y[3, 0:M, 0:N], px.atomic_load(X[M, 0]))


for _name in ("f32", "f64", "i32", "u64"):
    case(
        f"look-{_name}",
        looks,
        1,
        lambda rng, kind=KINDS[_name]: [
            extreme_numbers(rng, (14, 24), kind),
            zeros((4, 16, 24), kind),
            np.array([0, 3, -1, 3, 15, 16, 3, 7, 2, 2, 9, 14, 13, 1 << 30, 5, 4], np.int32),
        ],
    )


@px.kernel(warps=2)
def slid(X, Y, *, N=512, MORE=24):
    """Slices of a shared vector that begin anywhere, up to its last element."""
    s = px.shared((N + MORE,), X.dtype)
    px.store(s, px.load(X[0 : N + MORE]))
    for start in range(MORE + 1):
        px.store(Y[start, 0:N], px.load(s[start : start + N], shifted=True))


for _name in ("f32", "bf16", "f64", "i32"):
    case(
        f"slide-{_name}",
        slid,
        1,
        lambda rng, kind=KINDS[_name]: [extreme_numbers(rng, (536,), kind), zeros((25, 512), kind)],
    )


# ---------------------------------------------------------------------- assumptions


@px.kernel(warps=2)
def trusted(X, Y, m, n, *, N=32):
    """The first row and column are told to be right: aligned, and not negative."""
    px.assume(m >= 0 and n >= 0 and n % 8 == 0)
    x = px.load(X[m : m + 8, n : n + N])
    px.assume(px.abs(x) < 1000.0)
    px.store(Y[m : m + 8, n : n + N], x * 2)


case("assume", trusted, 1, lambda rng: [numbers(rng, (20, 72), np.float32), zeros((20, 72)), 15, 48])


# ---------------------------------------------------------------------- shared memory by index


@px.kernel(warps=4)
def elements(X, Y, I, *, N=96, M=64):
    """Elements of a shared vector by index: out of range is filled, not stored, not counted."""
    s, counts = px.shared((M,), X.dtype), px.shared((M,), px.i32)
    index = px.load(I[0:N])
    px.store(s, px.load(X[0:M]))
    px.store(counts, 0)
    px.store(Y[0, 0:N], px.load(s[index], fill=7))
    px.store(Y[1, 0:N], px.load(s[index // 2]))
    px.atomic_add(counts[index], 1)
    px.store(s[index], px.load(X[index]) * 2)
    px.store(Y[2, 0:M], px.load(s))
    px.store(Y[3, 0:M], px.load(counts).to(X.dtype))
    px.atomic_max(s[index], px.load(X[index]) * 3)
    px.store(Y[4, 0:M], px.load(s))


@px.kernel(warps=4)
def shared_rows(X, Y, I, stage, *, R=24, M=16, K=32):
    """Rows and columns of a stage of a buffer by index, and rows of its transpose."""
    s = px.shared((2, M, K), X.dtype)
    rows = px.load(I[0:R])
    px.store(s[0], px.load(X[0:M, 0:K]))
    px.store(s[1], px.load(X[M : M + M, 0:K]))
    px.store(Y[0, 0:R, 0:K], px.load(s[stage, rows], fill=9))
    px.store(Y[1, 0:R, 0:8], px.load(s[1 - stage, rows, 8:16]))
    px.store(Y[2, 0:M, 0:R], px.load(s[stage][:, rows]))
    px.store(Y[3, 0:R, 0:M], px.load(s[stage].T[rows, :]))
    px.store(s[stage, px.where(px.arange(R) < 6, rows, -1)], px.load(Y[0, 0:R, 0:K]) + 1)
    px.store(Y[4, 0:M, 0:K], px.load(s[stage]))
    px.store(Y[5, 0:R, 0:K], px.load(s.at(0)[stage, rows]))


def _index(rng: np.random.Generator, count: int, size: int, kind: type = np.int32) -> np.ndarray:
    """Each index at most once, some of none."""
    found = np.full(count, -1, kind)
    places = rng.permutation(count)[: min(size, count) - 3]
    found[places] = rng.permutation(size)[: len(places)]
    found[places[:2]] = size, np.iinfo(kind).max
    return found


for _name in ("f32", "bf16", "i32", "i64"):
    case(
        f"sharedrows-{_name}",
        elements,
        1,
        lambda rng, kind=KINDS[_name]: [numbers(rng, (64,), kind), zeros((5, 96), kind), _index(rng, 96, 64, np.int64)],
    )
for _name, _kind in (("f32", np.float32), ("f16", np.float16), ("u8", np.uint8), ("f64", np.float64)):
    for _stage in (0, 1):
        case(
            f"sharedrows-box-{_name}-{_stage}",
            shared_rows,
            1,
            lambda rng, kind=_kind, stage=_stage: [
                numbers(rng, (32, 32), kind), zeros((6, 24, 32), kind), _index(rng, 24, 16), stage
            ],
        )

# ---------------------------------------------------------------------- slots without an element


@px.kernel(warps=8)
def moved_bools(X, Y):
    """Bools that change their layout through shared memory: some registers then hold no element."""
    px.store(Y[0:2, 0:40, 0:3], px.sum(px.load(X[0:2, 0:40, 0:3, 0:8]), -1))


@px.kernel(warps=4)
def shared_bools(X, Y):
    """Bools from a buffer that is smaller than the registers of all threads."""
    s = px.shared((5, 24), px.bool)
    px.store(s, px.load(X[0:5, 0:24]))
    seen = px.load(s)
    px.store(Y[0, 0:24], px.sum(seen, 0))
    px.store(Y[1, 0:5], px.any(seen, 1).to(px.i32))


case("moved-bools", moved_bools, 1, lambda rng: [rng.random((2, 40, 3, 8)) < 0.5, zeros((2, 40, 3), np.int32)])
case("shared-bools", shared_bools, 1, lambda rng: [rng.random((5, 24)) < 0.1, zeros((2, 24), np.int32)])
