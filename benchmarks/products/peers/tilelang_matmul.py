"""A matmul in TileLang 0.1, as its own Hopper examples write it: pipelined TMA loads, wgmma, a result through shared memory.

TileLang's compiler makes the producer warps, the barriers and the swizzles from this by itself.
"""

# No postponed annotations: TileLang reads them.
import importlib.util
from typing import Any, NamedTuple

from benchmarks.products.contenders import Missing
from benchmarks.products.peers.settings import FastestSetting
from phalanx.runtime.device.timing import Run, Timer


class Setting(NamedTuple):
    """Tile, stages, threads that multiply."""

    bm: int
    bn: int
    bk: int
    stages: int
    threads: int


SETTINGS = (
    Setting(128, 256, 64, 3, 256),
    Setting(128, 256, 64, 4, 256),
    Setting(128, 128, 64, 4, 256),
    Setting(256, 128, 64, 3, 256),
    Setting(128, 128, 64, 4, 128),
    Setting(64, 128, 64, 4, 128),
)
PANEL = 10


def program(m: int, n: int, k: int, setting: Setting) -> Any:
    """TileLang's program for one shape."""
    import tilelang.language as T

    bm, bn, bk, stages, threads = setting

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),  # type: ignore[valid-type]
        B: T.Tensor((n, k), "bfloat16"),  # type: ignore[valid-type]
        C: T.Tensor((m, n), "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a_shared = T.alloc_shared((bm, bk), "bfloat16")
            b_shared = T.alloc_shared((bn, bk), "bfloat16")
            c_shared = T.alloc_shared((bm, bn), "bfloat16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.use_swizzle(panel_size=PANEL)
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, step * bk], a_shared)
                T.copy(B[bx * bn, step * bk], b_shared)
                T.gemm(a_shared, b_shared, acc, transpose_B=True)
            T.copy(acc, c_shared)
            T.copy(c_shared, C[by * bm, bx * bn])

    return main


class TileLang(FastestSetting):
    """The matmul with the fastest of its settings for each shape."""

    name = "tilelang"
    settings = SETTINGS
    checks = ((512, 1024, 512),)  # each shape is compiled by itself, which takes seconds

    def __init__(self, timer: Timer) -> None:
        if importlib.util.find_spec("tilelang") is None:
            raise Missing("tilelang is not installed")
        super().__init__(timer)
        self.compiled: dict[tuple[int, int, int], dict[Setting, Any]] = {}

    def compile(self, shape: tuple[int, int, int]) -> None:
        """All settings side by side: one takes seconds."""
        import tilelang

        tilelang.set_log_level("WARNING")  # it announces each compilation else
        kernels = tilelang.par_compile([program(*shape, s) for s in SETTINGS], target="cuda", ignore_error=True)
        self.compiled[shape] = dict(zip(SETTINGS, kernels))

    def bind(self, setting: Setting, a: Any, b: Any, c: Any) -> Run:
        """A run with one setting; all settings of a shape are compiled together, at the first."""
        shape = (a.shape[0], b.shape[0], a.shape[1])
        if shape not in self.compiled:
            self.compile(shape)
        kernel = self.compiled[shape][setting]
        if kernel is None:
            raise RuntimeError(f"TileLang could not compile {setting}")
        return lambda: kernel(a, b, c)
