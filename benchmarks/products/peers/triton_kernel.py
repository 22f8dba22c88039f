"""A persistent matmul in Triton, C = A @ B.T in bf16, loads and stores by TMA through descriptors made on the host.

One CTA to an SM walks over the tiles of C in groups of rows; the loop over tiles is flattened with the one over K, so that
the loads of the next tile begin before this one is stored. The result may leave in two halves, which takes half the shared
memory for it and lets the ring have another stage. Import it where Triton is installed only.
"""

# No postponed annotations: Triton reads them.
import triton
import triton.language as tl


@triton.jit
def place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a tile."""
    per_group = GROUP * tiles_n
    first = tile // per_group * GROUP
    rows = min(tiles_m - first, GROUP)
    return first + tile % per_group % rows, tile % per_group // rows


@triton.jit
def matmul(
    a_desc, b_desc, c_desc, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, CTAS: tl.constexpr, HALVES: tl.constexpr,
):
    """The kernel; `CTAS` is its grid, unless there are fewer tiles."""
    tiles_m, tiles_n, steps = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.cdiv(K, BK)
    # A second counter for the stores: else they would hold the next tile's loads back.
    stored = tl.program_id(0) - CTAS
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, CTAS, flatten=True, warp_specialize=False):
        i, j = place(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(steps):
            a = a_desc.load([i * BM, step * BK])
            b = b_desc.load([j * BN, step * BK])
            acc = tl.dot(a, b.T, acc)
        stored += CTAS
        i_out, j_out = place(stored, tiles_m, tiles_n, GROUP)
        if HALVES:
            parts = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(parts)
            c_desc.store([i_out * BM, j_out * BN], left.to(tl.bfloat16))
            c_desc.store([i_out * BM, j_out * BN + BN // 2], right.to(tl.bfloat16))
        else:
            c_desc.store([i_out * BM, j_out * BN], acc.to(tl.bfloat16))
