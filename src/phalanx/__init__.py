"""Phalanx: GPU kernels whose choreography is checked before it runs.

A kernel is written once in Python. On any machine it runs in a simulator; on a Hopper GPU the same kernel runs as CUDA.
"""

from typing import TYPE_CHECKING

from phalanx.errors import Error
from phalanx.ir.types import (
    DType,
    bf16,
    f4e2m1,
    f6e2m3,
    f6e3m2,
    f8e4m3,
    f8e5m2,
    f8e8m0,
    f16,
    f32,
    f64,
    i4,
    i8,
    i16,
    i32,
    i64,
    u4,
    u8,
    u16,
    u32,
    u64,
)
from phalanx.ir.types import bool_ as bool
from phalanx.language.auto import auto
from phalanx.language.choose import choose
from phalanx.language.examples import example
from phalanx.language.kernel import bind_with, func, kernel, trace_with
from phalanx.language.ops import clc, cluster, cp_async, fence, tcgen05, tma
from phalanx.language.ops.control import (
    assume,
    block_id,
    cdiv,
    device_assert,
    launch_dependents,
    num_blocks,
    static_range,
    sync,
    unroll,
    wait_prior,
    warps,
)
from phalanx.language.ops.folds import reduce, scan
from phalanx.language.ops.mbarrier import barrier
from phalanx.language.ops.memory import (
    atomic_add,
    atomic_cas,
    atomic_exch,
    atomic_load,
    atomic_max,
    atomic_min,
    counters,
    load,
    shared,
    store,
)
from phalanx.language.ops.mma import dot
from phalanx.language.ops.persistent import persistent
from phalanx.language.ops.pipelined import pipelined
from phalanx.language.ops.pipes import pipe
from phalanx.language.ops.printing import breakpoint_ as breakpoint
from phalanx.language.ops.printing import print_ as print
from phalanx.language.ops.ptx import ptx
from phalanx.language.ops.ring import ring
from phalanx.language.ops.tile import abs_ as abs
from phalanx.language.ops.tile import all_ as all
from phalanx.language.ops.tile import any_ as any
from phalanx.language.ops.tile import (
    arange,
    argmax,
    argmin,
    bitcast,
    ceil,
    cos,
    cumsum,
    erf,
    exp,
    exp2,
    floor,
    fma,
    full,
    isnan,
    log,
    log2,
    maximum,
    minimum,
    multiply,
    reciprocal,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
    trunc,
    where,
    zeros,
)
from phalanx.language.ops.tile import max_ as max
from phalanx.language.ops.tile import min_ as min
from phalanx.language.ops.tile import round_ as round
from phalanx.language.ops.tile import sum_ as sum
from phalanx.language.ops.tile_parts import empty, keep
from phalanx.language.ops.tmem import tmem
from phalanx.language.ops.topk import topk
from phalanx.language.ops.wgmma import wgmma, wgmma_commit, wgmma_wait
from phalanx.language.reader.structs import struct

if TYPE_CHECKING:
    from phalanx import kernels, torch  # noqa: F401
    from phalanx.runtime.checking import check
    from phalanx.runtime.compiled import Compiled
    from phalanx.runtime.debugging import debug
    from phalanx.runtime.device.devices import device
    from phalanx.runtime.device.packed import packed
    from phalanx.runtime.exploring import explore
    from phalanx.runtime.exporting.export import export
    from phalanx.runtime.launch.dispatch import compile
    from phalanx.runtime.launch.specialise import spec
    from phalanx.runtime.timeline.tracing import trace
    from phalanx.runtime.tuning import tune
    from phalanx.runtime.tuning.autotune import autotune
    from phalanx.runtime.tuning.bench import bench

_LAZY = {
    "Compiled": "phalanx.runtime.compiled",
    "autotune": "phalanx.runtime.tuning.autotune",
    "bench": "phalanx.runtime.tuning.bench",
    "check": "phalanx.runtime.checking",
    "compile": "phalanx.runtime.launch.dispatch",
    "debug": "phalanx.runtime.debugging",
    "device": "phalanx.runtime.device.devices",
    "explore": "phalanx.runtime.exploring",
    "export": "phalanx.runtime.exporting.export",
    "kernels": "phalanx.kernels",
    "packed": "phalanx.runtime.device.packed",
    "spec": "phalanx.runtime.launch.specialise",
    "torch": "phalanx.torch",
    "trace": "phalanx.runtime.timeline.tracing",
    "tune": "phalanx.runtime.tuning",
}


def _bound_launch(kernel: object, grid: object) -> object:
    """`kernel[grid]`: the runtime is imported with the first of them."""
    from phalanx.runtime.launch.dispatch import BoundLaunch

    return BoundLaunch(kernel, grid)  # type: ignore[arg-type]


def _traced_launch(kernel: object, grid: object, args: tuple[object, ...], constants: dict[str, object]) -> None:
    """`kernel[grid](...)` where torch traces it: `phalanx.torch` is imported with the first of them."""
    import phalanx

    phalanx.torch.launches.launch(kernel, grid, args, constants)


bind_with(_bound_launch)
trace_with(_traced_launch)
del bind_with, trace_with


def __getattr__(name: str) -> object:
    """What compiles, runs, checks and tunes, and the library of kernels: imported when first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'phalanx' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    found = module if name in ("kernels", "torch") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__version__ = "0.2.0"

__all__ = [
    "Compiled", "DType", "Error", "abs", "all", "any", "arange", "argmax", "argmin", "assume", "atomic_add",
    "atomic_cas", "atomic_exch", "atomic_load", "atomic_max", "atomic_min", "auto", "autotune", "barrier", "bench", "bf16",
    "bitcast", "block_id", "bool", "breakpoint", "cdiv", "ceil", "check", "choose", "clc", "cluster", "compile", "cos",
    "counters", "cp_async", "cumsum", "debug", "device", "device_assert", "dot", "empty", "erf", "example",
    "exp", "exp2", "explore", "export", "f16", "f32", "f4e2m1", "f64", "f6e2m3", "f6e3m2",
    "f8e4m3", "f8e5m2", "f8e8m0", "fence", "floor", "fma", "full", "func", "i16", "i32", "i4", "i64", "i8", "isnan", "keep",
    "kernel", "kernels", "launch_dependents", "load", "log", "log2", "max", "maximum", "min", "minimum", "multiply",
    "num_blocks", "packed", "persistent", "pipe", "pipelined", "print", "ptx", "reciprocal", "reduce", "ring", "round",
    "rsqrt", "scan", "shared", "sigmoid", "sin", "spec", "sqrt", "static_range", "store", "struct", "sum", "sync",
    "tanh", "tcgen05", "tma", "tmem", "topk", "trace", "trunc", "tune", "u16", "u32", "u4", "u64", "u8", "unroll",
    "wait_prior", "warps", "wgmma", "wgmma_commit", "wgmma_wait", "where", "zeros",
]
