"""Modules in kernels: `px` and its parts, `math`, NumPy and the user's own."""

from __future__ import annotations

import difflib
from types import ModuleType

import numpy as np

from phalanx.ir.types import FROM_NUMPY
from phalanx.language.builder import Builder
from phalanx.language.objects import HostFunction, PlainObject, as_object
from phalanx.language.reader.capture import CAPTURES, constant

TILE_FUNCTIONS = (
    "abs", "all", "any", "arange", "argmax", "argmin", "ceil", "cos", "cumsum", "erf", "exp", "exp2", "floor", "full",
    "isnan", "log", "log2", "max", "maximum", "min", "minimum", "round", "sin", "sqrt", "sum", "tanh", "trunc", "where",
    "zeros",
)
"""Functions whose NumPy namesakes users reach for first."""


ELSEWHERE = {
    **dict.fromkeys(("program_id", "blockIdx", "block_idx", "block_index"), "px.block_id(0) is the number of the CTA"),
    **dict.fromkeys(("num_programs", "gridDim", "grid_dim"), "px.num_blocks(0) is the number of CTAs"),
    **dict.fromkeys(
        ("thread_id", "threadIdx", "thread_idx", "lane_id", "warp_id", "local_id"),
        "threads have no numbers here: write what a whole CTA does with tiles, and parts of it with px.warps(first, count)",
    ),
    **dict.fromkeys(("syncthreads", "barrier_sync", "debug_barrier", "sync_threads"), "px.sync() does that"),
    **dict.fromkeys(("tensor", "array", "empty"), "px.zeros(shape, dtype) makes a tile, px.shared(shape, dtype) memory"),
    **dict.fromkeys(("shared_memory", "alloc_shared", "smem"), "px.shared(shape, dtype) makes a buffer"),
    **dict.fromkeys(("matmul", "gemm", "mma"), "px.dot(a, b, acc) multiplies in a kernel, px.kernels.matmul(a, b) outside"),
    **dict.fromkeys(("range", "grid"), "write range(n); px.static_range(n) is unrolled, px.persistent(n) dealt out to CTAs"),
    "constexpr": "a constant is a keyword-only parameter: def kernel(X, *, BM=64)",
    "load_tile": "px.load(A[m:m+BM, k:k+BK]) is a tile",
    "store_tile": "px.store(C[m:m+BM, n:n+BN], tile) writes one",
}
"""What other languages for GPUs call by these names, in ours."""


class ModuleObject(PlainObject):
    """A module: kernels use the constants and functions in it."""

    value: ModuleType

    def member(self, ctx: Builder, name: str) -> object:
        """What the module has under this name, if kernels can use it."""
        owner, shown = self.value, self.shown
        ours = owner.__name__.partition(".")[0] == "phalanx"
        public = owner.__all__ if hasattr(owner, "__all__") else dir(owner)
        if not hasattr(owner, name) or (ours and name not in public):
            close = difflib.get_close_matches(name, public, 1)
            remedy = f"did you mean {shown}.{close[0]}?" if close else "docs/reference.md lists what there is"
            ctx.fail(
                f"{shown} has no '{name}'",
                ELSEWHERE.get(name, remedy) if shown == "px" else remedy,
            )
        raw = getattr(owner, name)
        found = constant(raw)
        if (found is None and raw is not None) or isinstance(found, HostFunction):
            match = FROM_NUMPY.get(np.dtype(raw)) if isinstance(raw, type) and issubclass(raw, np.generic) else None
            remedy = f"kernels use {CAPTURES}"
            if match is not None or name in TILE_FUNCTIONS:
                remedy = f"use px.{match or name}"
            refusal = f"{shown}.{name} can't be used in kernels"
            if callable(raw) and not isinstance(raw, type):
                return HostFunction(raw, refusal, remedy)  # sim= of px.ptx takes it
            ctx.fail(refusal, remedy)
        return found

    @property
    def shown(self) -> str:
        """Its name as kernels write it."""
        package, _, rest = self.value.__name__.partition(".")
        if package != "phalanx":
            return self.value.__name__
        return "px." + rest.rsplit(".", 1)[-1] if rest else "px"


as_object.register(ModuleType, ModuleObject)
