"""What the kernels of attention are made for and called with, where that is more than a few parameters.

Frozen dataclasses are constants of a kernel: together with a configuration they say which text is compiled. Structs are
run-time arguments that belong together; a field is None where a call has no such thing, and the kernel is compiled
without it.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.frozen import frozen


@px.struct
class PackedStarts:
    """Where each packed sequence begins, and the last one ends: vectors of i32 for queries and for keys, or None."""

    CUQ: Any
    CUK: Any


@px.struct
class OperandScales:
    """Arrays of one f32 by which queries, keys and values are multiplied; each may be None."""

    QS: Any
    KS: Any
    VS: Any


@px.struct
class ScoreFactors:
    """What products become scores by, in units of log2: ``factor * x``, or ``cap * tanh(slope * x)``, without a cap
    ``slope * x``, where `factor` is None. Results are multiplied by `v_scale`."""

    factor: Any
    slope: Any
    cap: Any
    v_scale: Any


@px.struct
class Window:
    """How many keys before and behind its own place a query attends to; None is no bound."""

    left: Any
    right: Any


@px.struct
class TileHeights:
    """The numbers of `heights.Heights`, or None five times where all tiles have the same height."""

    whole: Any
    more: Any
    low: Any
    first: Any
    second: Any


@px.struct
class GradientScores:
    """How scores came about, for their gradients: ``factor * x``, or ``cap * tanh(factor * x)``, `scale` times what a user
    calls a score; and how far a query sees to both sides, None without a bound."""

    factor: Any
    scale: Any
    cap: Any
    left: Any
    right: Any


@px.struct
class CachePlace:
    """The keys of a cache that count: `left` and `right` bound what a token sees, a sequence has `capacity` at most; and how
    many heads of queries there are."""

    left: Any
    right: Any
    capacity: Any
    heads: Any


@frozen
class TilesForm:
    """What `attention_tiles` computes: heads of `dim` elements and values of `wide`, of which results have all if `whole`.

    Results leave through memory of their own if `own_out`, else through the place of their queries. `bias_kind` is None,
    "slopes" or "tile". `sure`: each query has a key to attend to.
    """

    dim: int = 128
    wide: int = 128
    whole: bool = True
    own_out: bool = False
    bias_kind: str | None = None
    sure: bool = False


@frozen
class KeyGradients:
    """What `backward_keys` computes: for heads of `dim` elements, with rings of `stages` blocks of `queries` queries.

    `bound`: keys may end within a block. `want` says which gradients: "both", "keys" or "values". `early` and `ahead` are
    those of `BackwardConfig`. `loader_regs` and `regs` are registers of the loading warpgroup and of the others.
    """

    queries: int
    dim: int
    keys: int = 128
    stages: int = 2
    bound: bool = False
    bias_kind: str | None = None
    early: bool = True
    ahead: bool = False
    want: str = "both"
    loader_regs: int = 24
    regs: int = 240


@frozen
class QueryGradients:
    """What `backward_queries` computes: `columns` columns from `first` on, for heads of `dim` elements.

    `queries` is what a block of row statistics has, `keys` a block of keys, of which there are `stages` in shared memory.
    """

    queries: int
    dim: int
    first: int
    columns: int
    keys: int = 64
    stages: int = 2
    bias_kind: str | None = None
    loader_regs: int = 40
    regs: int = 232


@frozen
class CacheForm:
    """What kernels of `attention_decode` are made for: keys of `dim` and values of `wide` elements, in blocks of `block`.

    A sequence has `tokens` new tokens, and `group` heads of queries for each KV head. `page` counts rows of the cache in a
    page, 0 without pages. `narrow`: elements have 8 bits.
    """

    dim: int = 128
    wide: int = 128
    tokens: int = 1
    group: int = 4
    page: int = 0
    narrow: bool = False
    block: int = 64


@frozen
class RunsForm:
    """How `decode_runs` and `join_runs` deal out sequences: up to `batch` of them, a power of two, and `units` of work each.

    A block has keys of `heads` KV heads, in turn.
    """

    batch: int = 64
    heads: int = 8
    units: int = 1


@frozen
class ListForm:
    """What the kernels of `sparse_attention` are made for: `rows` rows, keys of `dim` and values of `wide` elements.

    `tokens` queries share a list, and `group` heads of queries a KV head. An entry of a list names `entry` tokens; `block`
    keys are worked on at once.
    """

    dim: int = 128
    wide: int = 128
    tokens: int = 1
    group: int = 4
    entry: int = 1
    rows: int = 64
    block: int = 64
