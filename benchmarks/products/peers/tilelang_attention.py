"""Attention in TileLang 0.1, the same loop as `examples/simple/attention.py`, over `T.Pipelined`.

Import it where TileLang is installed only.
"""

# No postponed annotations: TileLang reads them.
from typing import Any, NamedTuple

import tilelang
import tilelang.language as T


class Setting(NamedTuple):
    """Queries and keys of a tile, stages, threads that multiply."""

    rows: int
    keys: int
    stages: int
    threads: int


SETTINGS = (Setting(128, 128, 2, 256), Setting(128, 128, 1, 256), Setting(128, 64, 2, 256), Setting(64, 64, 2, 128))


def program(heads: int, length: int, dim: int, setting: Setting) -> Any:
    """TileLang's program for one shape."""
    rows, keys, stages, threads = setting
    scale = 1.4426950408889634 * dim**-0.5
    shape = (heads, length, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
        K: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
        V: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
        O: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(length, rows), heads, threads=threads) as (bx, head):
            q, k = T.alloc_shared((rows, dim), "bfloat16"), T.alloc_shared((keys, dim), "bfloat16")
            v, out = T.alloc_shared((keys, dim), "bfloat16"), T.alloc_shared((rows, dim), "bfloat16")
            s, p = T.alloc_fragment((rows, keys), "float32"), T.alloc_fragment((rows, keys), "bfloat16")
            o = T.alloc_fragment((rows, dim), "float32")
            top, before = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            faded, part = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(Q[head, bx * rows : (bx + 1) * rows, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for j in T.Pipelined(T.ceildiv(length, keys), num_stages=stages):
                T.copy(K[head, j * keys : (j + 1) * keys, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(rows):
                    faded[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, c in T.Parallel(rows, keys):
                    s[i, c] = T.exp2(s[i, c] * scale - top[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * faded[i] + part[i]
                T.copy(s, p)
                for i, c in T.Parallel(rows, dim):
                    o[i, c] *= faded[i]
                T.copy(V[head, j * keys : (j + 1) * keys, :], v)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, c in T.Parallel(rows, dim):
                o[i, c] /= total[i]
            T.copy(o, out)
            T.copy(out, O[head, bx * rows : (bx + 1) * rows, :])

    return main


def compiled(shapes: list[tuple[int, int, int]], settings: tuple[Setting, ...] = SETTINGS) -> dict[Any, Any]:
    """The kernels of all shapes and settings, compiled side by side; None for one that did not compile."""
    tilelang.set_log_level("WARNING")
    wanted = [(shape, setting) for shape in shapes for setting in settings]
    kernels = tilelang.par_compile([program(*shape, s) for shape, s in wanted], target="cuda", ignore_error=True)
    return dict(zip(wanted, kernels, strict=True))
