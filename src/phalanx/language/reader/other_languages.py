"""What other languages for GPUs call by their names, in ours: for errors about names that are not there."""

from __future__ import annotations

import ast

from phalanx.language.builtin import BUILTINS

LANGUAGES = {
    "tl": "Triton", "triton": "Triton", "gl": "Gluon", "ttgl": "Gluon", "T": "TileLang", "tilelang": "TileLang",
    "cute": "CuTe", "cutlass": "CuTe", "pl": "Pallas", "plgpu": "Pallas", "pltpu": "Pallas", "lax": "JAX", "jnp": "JAX",
    "jax": "JAX", "cuda": "Numba", "numba": "Numba", "ct": "cuTile", "cg": "CUDA", "torch": "torch", "cupy": "CuPy",
}  # fmt: skip
"""Languages and libraries by the names under which people import them."""

_TILE_LOAD = "px.load(A[m:m+BM, k:k+BK]) is a tile; what is outside the array is `fill`: no mask is needed"
_TILE_STORE = "px.store(C[m:m+BM, n:n+BN], tile) writes one; what is outside the array is dropped: no mask is needed"
_DOT = "px.dot(a, b, acc) multiplies in a kernel, px.kernels.matmul(a, b) outside"
_SHARED = "px.shared(shape, dtype) makes a buffer"
_RANGE = "write range(n); px.static_range(n) is unrolled, px.persistent(n) dealt out to CTAs"
_PIPELINED = "for k in px.pipelined(range(0, K, BK), stages=3): its loads run ahead through a ring in shared memory"
_THREADS = (
    "threads have no numbers here: write what a whole CTA does with tiles, and parts of it with px.warps(first, count)"
)
_LANES = "px.sum, px.max and their kin fold along an axis of a tile; lanes exchange nothing by hand"
_COPY = "px.load and px.store move tiles; px.tma.load(A[m:m+BM, k:k+BK], stage, barrier) is the copy engine's copy"
_DESCRIPTOR = "a subscript is enough: A[m:m+BM, k:k+BK]; the compiler makes descriptors and computes addresses"
_PARITY = "bar = px.barrier(); bar.arrive(); bar.wait(parity)"
_PARAMETERS = "parameters need no types: positional ones are run-time values, keyword-only ones constants"
_LAYOUT = "layouts are the compiler's: tiles and buffers have shapes; phalanx explain FILE says their layouts"
_ATOMIC = "px.atomic_add(X[i], value), px.atomic_max, px.atomic_min, px.atomic_exch and px.atomic_cas"
_ASYNC = "px.cp_async.load(src, dst), px.cp_async.commit(bar), bar.wait(parity)"

_GROUPS = (
    (("program_id", "blockIdx", "block_idx", "block_index", "bid", "grid"), "px.block_id(0) is the number of the CTA"),
    (("num_programs", "gridDim", "grid_dim"), "px.num_blocks(0) is the number of CTAs"),
    (("thread_id", "threadIdx", "thread_idx", "lane_id", "warp_id", "local_id", "get_thread_binding", "laneid",
      "blockDim", "block_dim", "warpSize", "Parallel", "elect_one", "shuffle_elect"), _THREADS),
    (("syncthreads", "sync_threads", "barrier_sync", "debug_barrier", "syncwarp", "sync_warp", "named_barrier"),
     "px.sync() waits for all threads of this role; the compiler places barriers between threads of a role itself"),
    (("tensor", "array"), "px.zeros(shape, dtype) makes a tile, px.shared(shape, dtype) memory"),
    (("shared_memory", "alloc_shared", "smem", "SharedStorage", "SharedMemory", "run_scoped",
     "allocate_shared_memory"), _SHARED),
    (("alloc_fragment", "alloc_local", "make_fragment", "make_rmem_tensor", "clear", "zeros_like"),
     "px.zeros(shape, px.f32) is a tile in registers"),
    (("matmul", "gemm", "mma", "dot_scaled", "make_tiled_mma", "TiledMMA"), _DOT),
    (("range", "serial", "fori_loop"), _RANGE),
    (("Pipelined", "emit_pipeline", "num_stages", "PipelineTmaAsync"), _PIPELINED),
    (("load_tile", "ldg", "make_tensor"), _TILE_LOAD),
    (("store_tile", "stg"), _TILE_STORE),
    (("copy", "make_tiled_copy", "copy_gmem_to_smem", "async_copy", "memcpy_async"), _COPY),
    (("make_block_ptr", "make_tensor_descriptor", "make_layout", "local_tile", "local_partition",
     "BlockSpec", "ds", "dslice",
      "advance", "multiple_of", "max_contiguous"), _DESCRIPTOR),
    (("make_composed_layout", "annotate_layout", "BlockedLayout", "SliceLayout", "NVMMASharedLayout",
     "convert_layout"), _LAYOUT),
    (("mbarrier_init", "mbarrier_wait", "mbarrier_arrive", "mbarrier_wait_parity", "create_list_of_mbarrier",
     "alloc_barrier",
      "barrier_arrive", "barrier_wait", "allocate_mbarrier", "mbarrier"), _PARITY),
    (("cp_async_wait", "cp_async_wait_group", "cp_async_commit_group", "ptx_cp_async"), _ASYNC),
    (("shfl_sync", "shfl_down_sync", "shfl_xor_sync", "shuffle_sync", "ballot_sync", "warp_reduce"), _LANES),
    (("atomicAdd", "atomicMax", "atomicMin", "atomicCAS", "atomicExch", "atomic_xchg", "atomic_and", "atomic_or"),
     _ATOMIC),
    (("printf", "device_print", "static_print", "debug_print", "print_tensor"), "px.print(\"k =\", k, tile) prints"),
    (("static_assert",), "assert condition, \"message\" in a kernel is checked when it is compiled, of constants"),
    (("threadfence", "fence_proxy_async", "fence_view_async_shared", "commit_smem"),
     "px.fence.async_proxy() orders writes "
     "before copies that the engine makes; barriers order all else"),
    (("float32", "float"), "the type is px.f32"), (("float16", "half"), "the type is px.f16"),
    (("bfloat16",), "the type is px.bf16"), (("float64", "double"), "the type is px.f64"),
    (("int32",), "the type is px.i32"), (("int64",), "the type is px.i64"), (("int8",), "the type is px.i8"),
    (("uint8",), "the type is px.u8"), (("uint32",), "the type is px.u32"), (("int1", "bool_"), "the type is px.bool"),
    (("float8e4nv", "float8_e4m3", "float8_e4m3fn", "e4m3_float8"), "the type is px.f8e4m3"),
    (("float8e5", "float8_e5m2", "e5m2_float8"), "the type is px.f8e5m2"),
    (("sort", "argsort", "flip", "histogram"),
     "px.topk(x, k, axis) gives the k largest in order and where they are; a whole "
     "sort is not in the language"),
    (("ones", "ones_like"), "px.full(shape, 1.0, dtype) is a tile of ones"),
    (("empty_like", "full_like"), "px.full(x.shape, value, x.dtype) is a tile like x"),
    (("relu",), "px.maximum(x, 0.0) is it"), (("clip", "clamp"), "px.minimum(px.maximum(x, low), high) is it"),
    (("square",), "x * x is it"), (("norm",), "px.sqrt(px.sum(x * x)) is it"), (("tan",), "px.sin(x) / px.cos(x) is it"),
    (("gelu", "silu", "swish"), "x * px.sigmoid(x) is silu; px.erf and px.tanh are there for gelu"),
    (("var", "std"), "px.sum(x * x) / n - mean * mean is the variance"),
    (("cast", "astype"), "x.to(px.bf16) converts"), (("inf", "infty"), "write float('inf')"),
    (("nan",), "px.isnan(x) finds it, float('nan') is one"), (("wait",), "a barrier has it: bar.wait(parity)"),
    (("arrive",), "a barrier has it: bar.arrive()"), (("random",), "there are no random numbers in kernels: pass an array"),
    (("softmax",), "e = px.exp(x - px.max(x, 1, keepdims=True)), then e / px.sum(e, 1, keepdims=True); "
     "px.kernels.softmax outside"),
    (("mean", "average"), "px.sum(x, axis) / n is the mean"),
    (("trans", "transpose", "permute"), "x.T transposes a matrix, x.permute(...) any axes"),
    (("reshape", "view", "expand_dims", "broadcast_to", "unsqueeze", "ravel"), "x.reshape(...) is another shape, "
     "x[:, None] has one axis more; operands are broadcast as in NumPy"),
    (("cat", "concat", "concatenate", "stack", "join"),
     "tiles are not put together: write both to px.shared memory or to an "
     "array, and load the whole"),
    (("associative_scan", "cumprod"), "px.scan(x, axis, func) folds from the left, with a px.func of two values"),
    (("reduce_max",), "px.max(x, axis) is a function"), (("reduce_sum",), "px.sum(x, axis) is a function"),
    (("ceildiv", "ceil_div"), "px.cdiv(a, b) divides and rounds up"),
    (("fdiv", "div_rn", "div"), "a / b divides, a // b rounds down"),
    (("pow", "power"), "x ** 2 for constants; px.exp2(y * px.log2(x)) for all else"),
    (("rand", "randn", "philox", "randint"), "there are no random numbers in kernels: pass them as an array"),
    (("inline_asm_elementwise", "inline_asm", "asm"), "px.ptx(text, inputs, out, sim=...) writes PTX"),
    (("when", "cond"), "write `if condition:`; px.where(condition, a, b) for the elements of tiles"),
    (("use_swizzle", "swizzle2d"), "an order of tiles is arithmetic on t of px.persistent(n)"),
    (("ws", "warp_specialize", "async_task", "WarpSpecialize"), "with px.warps(first, count): is what one role does"),
    (("constexpr", "Constexpr", "const"), "a constant is a keyword-only parameter: def kernel(X, *, BM=64)"),
    (("Tensor", "Buffer", "ptr", "pointer", "pointer_type", "handle"), _PARAMETERS),
    (("jit", "prim_func", "pallas_call", "global_func", "Kernel"),
     "@px.kernel(warps=4) makes a kernel, kernel[grid](x, y) launches it"),
    (("Config", "heuristics"), "@px.autotune above @px.kernel measures constants that are px.choose"),
    (("cluster_id", "block_rank_in_cluster", "cluster_ctarank", "cluster_rank"),
     "px.cluster.rank() is the CTA's number in it"),
    (("clock64", "clock", "globaltimer"), "phalanx draw FILE shows what overlaps; px.bench measures launches"),
)  # fmt: skip
WORDS = {name: ours for names, ours in _GROUPS for name in names}
"""What to write here, by the other language's name, without underscores in front of it."""
SAME = {
    "dot": _DOT, "load": _TILE_LOAD, "store": _TILE_STORE, "barrier": _PARITY,
    "unroll": "px.unroll(range(n), 4) writes four out", "fill": "px.full(shape, value, dtype) is a tile of one value",
    "shared": _SHARED,
}  # fmt: skip
"""Names that we have too, for something that is written otherwise."""


def in_our_words(name: str) -> str | None:
    """What to write in place of another language's word; None where it is none. Underscores of CUDA do not count."""
    plain = name.strip("_") if name.startswith("__") else name
    return WORDS.get(plain)


def for_foreign(path: str) -> str | None:
    """What to write in place of `tl.dot` and its like: a name, or attributes behind the name of another language."""
    first, *rest = path.split(".")
    if first not in LANGUAGES:
        return in_our_words(first)
    for name in rest:
        found = SAME.get(name) or in_our_words(name)
        if found:
            return found
        if any(builtin.name == name for builtin in BUILTINS):
            return f"it is px.{name} here"
    return f"'{first}' looks like {LANGUAGES[first]}; docs/coming_from.md shows its kernels beside ours"


def whole_name(tree: ast.AST, name: ast.Name) -> str:
    """A name with the attributes that stand behind it in a function's text: tl.math.exp."""
    longest = name.id
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts, inner = [node.attr], node.value
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if inner is name and len(parts) > longest.count("."):
                longest = ".".join((name.id, *reversed(parts)))
    return longest
