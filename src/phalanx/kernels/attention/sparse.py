"""Attention to some keys of a long sequence: each query, or block of queries, has a list of those that it attends to."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK, Arch, Feature
from phalanx.kernels.attention.decode import positive_scale
from phalanx.kernels.attention.decode_config import BLOCK, ctas_on_an_sm, largest_cluster, lone_ring, ring_stages
from phalanx.kernels.attention.forms import ListForm
from phalanx.kernels.attention.sparse_loop import sparse_loop
from phalanx.kernels.attention.sparse_ring import SMALLEST_BOX, sparse_latent, sparse_ring
from phalanx.kernels.gather import INDICES
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import HALVES, as_rows, empty, has_work, info_of, refused
from phalanx.kernels.products.targets import target_of
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo
from phalanx.runtime.launch.replay import remembered

ROWS = 64
"""Rows of queries of a CTA."""
LONGEST_BESIDE_128 = 256
"""Elements of keys beside which 128 rows of queries fit into shared memory."""
LAYOUT_BYTES = 160
"""Shared memory for each row of queries, in which powers change their layout; barriers are counted in it."""
LEAST_ON_HOPPER = 256
"""Columns of values of a latent cache from which on ptxas keeps the products of both roles in flight (else C7514)."""


@remembered("q", "k", "v", "indices")
def sparse_attention(
    q: Any, k: Any, v: Any, indices: Any, *, block: int = 1, scale: float | None = None, lse: bool = False,
    v_dim: int | None = None, arch: str | None = None,
) -> Any:
    """``softmax(scale * q @ k.T) @ v`` over the keys that lists name, (B, Sq, H, size of v): nothing else is read.

    `q` (B, Sq, H, D), `k` and `v` (B, Sk, Hkv, D), bf16 or f16, contiguous; Hkv is a divisor of H. `indices` (B, L, Hkv
    or 1, n), i32 or i64 on the same device: list l serves the queries from ``l * Sq / L`` on, as many as ``Sq / L``,
    for one KV head or for all. An entry i names the tokens ``i * block`` to ``i * block + block - 1``; -1, and tokens
    that are not there, name none. A token that is named twice counts twice; no mask comes on top. Rows are gathered
    straight into the operands of the tensor cores; blocks of 16, 32 and multiples of 64 tokens come as boxes. Without
    `v` the values are the first `v_dim` columns of the keys, which have one head (MLA, 576 and 512; a multiple of
    128, on an sm_90a GPU 256 and more). `scale` is 1 / sqrt(D) by default. A query without keys gives 0. With `lse` the
    result is ``(o, lse)``, lse (B, Sq, H) f32 the natural logarithm of the sums of exponentials, -inf where there is
    nothing. sm_90a; sm_100a and its kin, where rows come by `gather4` and products are `tcgen05`, and sm_120a (compiled and
    simulated); or the simulator for NumPy, where `arch` names the target.
    Example: ``o = sparse_attention(q, k, v, indices)`` with 2,048 of 65,536 tokens for each query.
    """
    target = target_of(info_of("q", q, HALVES), arch)
    call = _call(q, k, v, indices, block, v_dim, target.on_gpu and target.hopper)
    out = empty(q, (call.batch, call.queries, call.heads, call.v_size), call.dtype)
    logs = empty(q, (call.batch, call.queries, call.heads), "f32") if lse else None
    if has_work(call.batch, call.queries, call.heads):
        arrays = q, k, v, indices, out, logs
        options = {"call": call, "scale": positive_scale(scale, call.size), "named": arch}
        if target.arch is None or target.hopper:
            _sparse(*arrays, **options)
        else:
            _sparse_by_loop(*arrays, **options, arch=target.arch)
    return (out, logs) if lse else out


@remembered("q", "k", "v", "indices", "out", "logs")
def _sparse(
    q: Any, k: Any, v: Any = None, indices: Any = None, out: Any = None, logs: Any = None, *, call: Call, scale: float,
    named: str | None,
) -> Any:
    """Launches the kernel of a call, whose arrays have all been made, where there is `wgmma`; for the target `named`."""
    by_row = call.block < SMALLEST_BOX

    def rows_or_all(x: Any) -> Any:
        return x.reshape(-1, x.shape[3]) if by_row else x

    lists = indices.reshape(call.batch * call.lists, *indices.shape[2:])
    tiles = px.cdiv(call.shared_queries * call.group, ROWS)
    results = (lists, out.reshape(-1, call.v_size), None if logs is None else logs.reshape(-1))
    options = (scale * LOG2E, call.tokens, call.kv_heads, call.lists, call.heads)
    form = ListForm(call.size, call.v_size, call.shared_queries, call.group, call.block)
    rows = as_rows(q, info_of("q", q, HALVES))
    units = call.batch * call.lists
    if v is None:
        pair = by_row and tiles == 2  # the two tiles of 128 rows gather one half each, for both
        sparse_latent[units, tiles](
            rows, rows_or_all(k), *results, *options, form=form, PAIR=pair, **_named(named),
        )  # fmt: skip
    else:
        ctas = ctas_on_an_sm(ROWS, call.size, call.v_size)
        cluster = largest_cluster(units * call.kv_heads * tiles, call.named, ctas)
        stages = ring_stages(ROWS, call.size, call.v_size, ctas)
        if by_row:  # more on its way is no quicker, on an SM with one CTA slower
            stages = min(stages, lone_ring(ROWS, call.size, call.v_size)[0])
        sparse_ring[units * cluster, call.kv_heads * tiles](
            rows, rows_or_all(k), rows_or_all(v), *results, *options, form=form,
            C=cluster, STAGES=stages, CTAS=ctas, **_named(named),
        )  # fmt: skip
    return out


@remembered("q", "k", "v", "indices", "out", "logs")
def _sparse_by_loop(
    q: Any, k: Any, v: Any = None, indices: Any = None, out: Any = None, logs: Any = None, *, call: Call, scale: float,
    named: str | None, arch: Arch,
) -> Any:
    """Launches the kernel of a call on a target without `wgmma`: rows by index, whatever the block is."""
    rows, columns, keys = loop_tiles(call, arch)
    tiles = px.cdiv(call.shared_queries * call.group, rows)
    parts = call.v_size // columns
    sparse_loop[call.batch * call.lists, call.kv_heads * tiles, parts](
        as_rows(q, info_of("q", q, HALVES)), k.reshape(-1, call.size), None if v is None else v.reshape(-1, call.v_size),
        indices.reshape(call.batch * call.lists, *indices.shape[2:]), out.reshape(-1, call.v_size),
        None if logs is None else logs.reshape(-1), scale * LOG2E, call.tokens, call.kv_heads, call.lists, call.heads,
        form=ListForm(call.size, columns, call.shared_queries, call.group, call.block, rows, keys), **_named(named),
    )  # fmt: skip
    return out


def _named(arch: str | None) -> dict[str, str]:
    """The constant of a launch that names its target, where a call does."""
    return {} if arch is None else {"arch": arch}


def loop_tiles(call: Call, arch: Arch) -> tuple[int, int, int]:
    """Rows of queries of a CTA of `sparse_loop`, columns of its values, and keys of a block, such that two stages fit.

    Tensor memory takes powers as an operand of 128 rows. Of longer keys half as many fit, and more columns then, whose sums
    are in registers.
    """
    tall = arch.has({Feature.TCGEN05}) and call.size <= LONGEST_BESIDE_128
    rows, widest = (ROWS * 2, 128) if tall else (ROWS, 256 if call.size > LONGEST_BESIDE_128 else 128)
    columns = next(part for part in range(min(widest, call.v_size), 0, -64) if call.v_size % part == 0)
    for keys in (64, 32, 16):
        bytes_of_all = 2 * (rows * call.size + 2 * keys * (call.size + columns)) + LAYOUT_BYTES * rows
        if bytes_of_all <= arch.shared_limit:
            return rows, columns, keys
    raise refused(
        f"keys of {call.size} elements on {arch}, whose CTAs have {arch.shared_limit:,} bytes of shared memory",
        "sm_90a and sm_100a take them",
    )


@frozen
class Call:
    """The sizes of a call: `lists` lists for each sequence, of entries of `block` tokens, which name `named` at most."""

    batch: int
    queries: int
    heads: int
    kv_heads: int
    size: int
    v_size: int
    tokens: int
    lists: int
    block: int
    named: int
    dtype: str

    @property
    def group(self) -> int:
        """How many heads of queries share a head of keys."""
        return self.heads // self.kv_heads

    @property
    def shared_queries(self) -> int:
        """How many queries share a list."""
        return self.queries // self.lists


def _call(q: Any, k: Any, v: Any, indices: Any, block: Any, v_dim: Any, on_hopper: bool) -> Call:
    """The sizes of arrays that go together; `px.Error` where they do not."""
    queries = info_of("q", q, HALVES)
    keys = _rows("k", k)
    if len(queries.shape) != 4:
        raise refused(f"q has shape {queries.shape}", "pass (sequences, queries, heads, size)")
    batch, count, heads, size = queries.shape
    if keys.shape[0] != batch or keys.shape[3] != size or keys.dtype_name != queries.dtype_name:
        raise refused(
            f"q has shape {queries.shape}, of {queries.dtype_name}, k {keys.shape}, of {keys.dtype_name}",
            "q and k have the same batch, the same last axis and one element type",
        )
    if not keys.shape[2] or heads % keys.shape[2]:
        raise refused(f"{heads} heads of q for {keys.shape[2]} of k", "each head of k serves as many heads of q")
    lists = info_of("indices", indices, INDICES)
    if len(lists.shape) != 4 or lists.shape[0] != batch or lists.shape[2] not in (1, keys.shape[2]):
        raise refused(
            f"indices of shape {lists.shape}", f"pass ({batch}, lists of a sequence, {keys.shape[2]} or 1, entries)"
        )
    if not lists.shape[1] or count % lists.shape[1]:
        raise refused(f"{lists.shape[1]} lists for {count} queries", "each list serves as many queries as any other")
    v_size = _latent(keys, v_dim, on_hopper) if v is None else _values(keys, _rows("v", v), v_dim)
    if isinstance(block, bool) or not isinstance(block, int) or block < 1 or not _is_block(block):
        raise refused(f"block is {block!r}", "use 1, 2, 4, 8, 16 or 32 tokens, or a multiple of 64")
    return Call(
        batch, count, heads, keys.shape[2], size, v_size, keys.shape[1], lists.shape[1], block,
        lists.shape[3] * block, queries.dtype_name,
    )  # fmt: skip


def _is_block(block: int) -> bool:
    """Whether blocks of keys are made of whole entries, or entries of whole blocks."""
    return BLOCK % block == 0 or block % BLOCK == 0


def _values(keys: ArrayInfo, values: ArrayInfo, v_dim: Any) -> int:
    if v_dim is not None and v_dim != values.shape[3]:
        raise refused(f"v_dim is {v_dim!r}, v has {values.shape[3]} columns", "leave v_dim out")
    if keys.shape[:3] != values.shape[:3] or keys.dtype_name != values.dtype_name:
        raise refused(
            f"k has shape {keys.shape}, of {keys.dtype_name}, v {values.shape}, of {values.dtype_name}",
            "they differ in their last axis only",
        )
    for what, size in (("keys", keys.shape[3]), ("values", values.shape[3])):
        if size % 64 or not 64 <= size <= 256:
            raise refused(f"{what} of {size} elements", "sizes are 64, 128, 192 or 256")
    return int(values.shape[3])


def _latent(keys: ArrayInfo, v_dim: Any, on_hopper: bool) -> int:
    """The columns of the keys that are values, too; `on_hopper`: on a GPU with `wgmma`."""
    size = keys.shape[3]
    if isinstance(v_dim, bool) or not isinstance(v_dim, int) or v_dim % 128 or not 0 < v_dim <= min(size, 512):
        raise refused(
            f"v_dim is {v_dim!r} without v, for keys of {size}",
            "pass v, or how many columns of the keys are values: a multiple of 128 up to 512",
        )
    if on_hopper and v_dim < LEAST_ON_HOPPER:
        raise refused(
            f"v_dim is {v_dim} without v, on an sm_90a GPU",
            f"pass v, or {LEAST_ON_HOPPER} columns and more: ptxas serialises the products of fewer",
        )
    if keys.shape[2] != 1 or size % 64 or size > 576:
        raise refused(
            f"k has shape {keys.shape} without v", "a latent cache has one head of a multiple of 64 columns, up to 576"
        )
    return v_dim


def _rows(what: str, x: Any) -> ArrayInfo:
    """Keys or values whose rows can be gathered."""
    info = info_of(what, x, HALVES)
    if len(info.shape) != 4:
        raise refused(f"{what} has shape {info.shape}", "pass (sequences, tokens, heads, size)")
    expected = 1
    for extent, stride in zip(reversed(info.shape), reversed(info.strides), strict=True):
        if extent > 1 and stride != expected:
            raise refused(f"{what} has strides {info.strides}", "pass a contiguous array: rows are gathered from it")
        expected *= extent
    if not info.aligned16 or info.shape[3] * ITEM_BYTES[info.dtype_name] % COPY_CHUNK:
        raise refused(f"{what} does not begin at a multiple of {COPY_CHUNK} bytes", "pass an array that does")
    return info
