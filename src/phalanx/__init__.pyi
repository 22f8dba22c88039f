"""What `import phalanx as px` gives, for editors and type checkers.

Written by `make golden` from the functions of the language; do not edit.
"""

import builtins as _b
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, dataclass_transform, overload

from phalanx.errors import Error as Error
from phalanx.ir.types import DType as DType
from phalanx.language.auto import auto as auto
from phalanx.language.examples import example as example
from phalanx import kernels as kernels
from phalanx.runtime.checking import check as check
from phalanx.runtime.compiled import Compiled as Compiled
from phalanx.runtime.debugging import debug as debug
from phalanx.runtime.device.devices import device as device
from phalanx.runtime.device.packed import packed as packed
from phalanx.runtime.exploring import explore as explore
from phalanx.runtime.exporting.export import export as export
from phalanx.runtime.launch.dispatch import compile as compile
from phalanx.runtime.launch.specialise import spec as spec
from phalanx.runtime.timeline.tracing import trace as trace
from phalanx.runtime.tuning import tune as tune
from phalanx.runtime.tuning.autotune import autotune as autotune
from phalanx.runtime.tuning.bench import bench as bench
from phalanx import torch as torch
from phalanx.types import Barrier, Kernel, Number, Pipe, Ring, Shape, Tile, View

_P = ParamSpec("_P")
_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C")
_V = TypeVar("_V")
_Chosen = int | Callable[..., int]
_Cluster = int | tuple[int, ...] | Callable[..., int | tuple[int, ...]]

__version__: str

bf16: DType
bool: DType
f16: DType
f32: DType
f4e2m1: DType
f64: DType
f6e2m3: DType
f6e3m2: DType
f8e4m3: DType
f8e5m2: DType
f8e8m0: DType
i16: DType
i32: DType
i4: DType
i64: DType
i8: DType
u16: DType
u32: DType
u4: DType
u64: DType
u8: DType

@overload
def kernel(fn: Callable[_P, object]) -> Kernel[_P]: ...
@overload
def kernel(
    fn: None = None,
    *,
    warps: _Chosen = 4,
    cluster: _Cluster = 1,
    exit_sync: _b.bool = True,
    watchdog: _b.bool | None = None,
    ctas_per_sm: _Chosen = 1,
    pdl: _b.bool = False,
    cooperative: _b.bool = False,
    strict: _b.bool | None = None,
    on_loss: str = "error",
) -> Callable[[Callable[_P, object]], Kernel[_P]]:
    """Makes a kernel of a Python function: positional parameters are run-time values, keyword-only ones constants."""

def choose(*values: _V) -> _V:
    """Stands for the one of several values of a kernel's constant with which a launch takes the least time on a model."""

def func(fn: _F) -> _F:
    """A helper that is inlined where kernels call it; recursion is refused."""

@dataclass_transform()
def struct(cls: type[_C]) -> type[_C]:
    """A class of values usable in kernels: annotated fields, defaults, methods (inlined like `@px.func`)."""

def abs(x: Any) -> Tile:
    """Absolute value of a scalar or tile, elementwise."""

def all(x: Any, axis: int | None = None, keepdims: _b.bool = False) -> Tile:
    """Whether every element along one axis, or of all, is not 0 (a NaN is not): bool."""

def any(x: Any, axis: int | None = None, keepdims: _b.bool = False) -> Tile:
    """Whether some element along one axis, or of all, is not 0 (a NaN is not): bool."""

def arange(n: Any) -> Tile:
    """The numbers 0 to n-1 as an i32 tile; `n` is a constant."""

def argmax(x: Any, axis: int | None, keepdims: _b.bool = False) -> Tile:
    """The index (i32) of the largest element along an axis; the first of equals, or of the NaNs where there are
    any."""

def argmin(x: Any, axis: int | None, keepdims: _b.bool = False) -> Tile:
    """The index (i32) of the smallest element along an axis; the first of equals, or of the NaNs where there
    are any."""

def assume(cond: Any) -> None:
    """Says that `cond` holds here (for a tile: everywhere), so that the compiler may rely on it."""

def atomic_add(view: Any, tile: Any, order: str = 'relaxed') -> Tile:
    """Adds to every element of a region, atomically per element; gives the old values."""

def atomic_cas(view: Any, compare: Any, tile: Any) -> Tile:
    """Where an element of a region equals `compare`, puts the new one in its place, atomically; gives the old
    values."""

def atomic_exch(view: Any, tile: Any) -> Tile:
    """Puts new elements in the place of those of a region, atomically per element; gives the old values."""

def atomic_load(view: Any) -> Tile:
    """Every element of a region as it is now, atomically per element: how a role waits for what others publish
    by updates."""

def atomic_max(view: Any, tile: Any) -> Tile:
    """The larger of each element of a region and the new one, atomically per element; gives the old values."""

def atomic_min(view: Any, tile: Any) -> Tile:
    """The smaller of each element of a region and the new one, atomically per element; gives the old values."""

def barrier(n: Any = 1, count: Any = None, init: _b.bool = True, checked: _b.bool = True) -> Barrier:
    """`n` mbarriers in this CTA's shared memory, each completing a phase after `count` arrivals and all
    expected bytes."""

def bitcast(x: Any, dtype: DType) -> Tile:
    """The bits of each element of a scalar or tile, read as another element type of the same size."""

def block_id(d: Any = 0) -> int:
    """This CTA's index in the grid along `d`."""

def breakpoint(condition: Any = True) -> None:
    """Stops a session of `px.debug` here, each time that `condition` holds (for a tile: anywhere)."""

def cdiv(a: Any, b: Any) -> int:
    """`a / b` rounded up, for integers; works in kernels and outside."""

def ceil(x: Any) -> Tile:
    """Smallest integer not below of a float scalar or tile, elementwise."""

def cos(x: Any) -> Tile:
    """Cosine of a float scalar or tile, elementwise."""

def counters(n: Any) -> View:
    """`n` i32 in global memory, which all CTAs of a launch share: 0 when it begins, and to be 0 again when it
    ends."""

def cumsum(x: Any, axis: int | None) -> Tile:
    """Running sums along an axis."""

def device_assert(cond: Any, message: str = 'assertion failed') -> None:
    """Stops the kernel with `message` unless `cond` holds (for a tile: everywhere)."""

def dot(
    a: Any,
    b: Any,
    acc: Tile | View | None = None,
    along: str = 'm',
    scale_a: Any = None,
    scale_b: Any = None,
) -> Tile:
    """``acc + a @ b``, finished when it returns: `px.wgmma`, its commit and its wait in one, ``tcgen05`` or
    ``mma.sync``."""

def empty(shape: Shape, dtype: DType = ...) -> Tile:
    """A tile with nothing in it yet: for an accumulator whose first product does not read it (``accumulate=k >
    0``)."""

def erf(x: Any) -> Tile:
    """Error function of a float scalar or tile, elementwise."""

def exp(x: Any) -> Tile:
    """e to the power of a float scalar or tile, elementwise."""

def exp2(x: Any) -> Tile:
    """2 to the power of a float scalar or tile, elementwise."""

def floor(x: Any) -> Tile:
    """Largest integer not above of a float scalar or tile, elementwise."""

def fma(a: Any, b: Any, c: Any) -> Tile:
    """`a * b + c` of float scalars and tiles, elementwise, rounded once; all broadcast."""

def full(shape: Shape, value: Any, dtype: DType = ...) -> Tile:
    """A tile whose elements are all `value` (a number or a scalar)."""

def isnan(x: Any) -> Tile:
    """Whether an element is NaN: a bool for each element of a float scalar or tile."""

def keep(x: Any) -> Tile:
    """A tile or scalar, held as it is; what was computed from it is computed again where it is needed later."""

def launch_dependents() -> None:
    """Lets the next launch on the stream begin, if it has ``pdl=True``, once all CTAs have come here or are
    over."""

def load(view: Any, fill: Any = 0, once: Any = False, shifted: Any = False) -> Tile:
    """A region of global or shared memory into registers; elements outside a global array are `fill`."""

def log(x: Any) -> Tile:
    """Natural logarithm of a float scalar or tile, elementwise."""

def log2(x: Any) -> Tile:
    """Logarithm to base 2 of a float scalar or tile, elementwise."""

def max(x: Any, axis: int | None = None, keepdims: _b.bool = False) -> Tile:
    """The largest element over one axis, or over all; NaN where one of them is."""

def maximum(a: Any, b: Any) -> Tile:
    """The larger of two, elementwise; NaN where one of them is, as NumPy has it."""

def min(x: Any, axis: int | None = None, keepdims: _b.bool = False) -> Tile:
    """The smallest element over one axis, or over all; NaN where one of them is."""

def minimum(a: Any, b: Any) -> Tile:
    """The smaller of two, elementwise; NaN where one of them is, as NumPy has it."""

def multiply(x: Any, factor: Any, skip_ones: _b.bool = False) -> Tile:
    """`x * factor`, elementwise; both broadcast."""

def num_blocks(d: Any = 0) -> int:
    """The number of CTAs of the grid along `d`."""

def persistent(n: Any = None, schedule: Any = None, groups: Any = None, tile: Any = None) -> Any:
    """The tiles 0 to `n` - 1, dealt to the clusters of the grid: all CTAs and roles of a cluster see the same
    sequence."""

def pipe(stages: Any, producers: Any = None, consumers: Any = None, ctas: Any = None, count: Any = None) -> Pipe:
    """A ring of `stages` between roles: barriers `.full[s]` and `.empty[s]`, and for each role its own place in
    it."""

def pipelined(items: Any, stages: Any = ..., producer: _b.bool = True, multicast: _b.bool = True) -> Iterable[Any]:
    """A run-time range whose loop lets its loads of global memory run ahead: ``for k in
    px.pipelined(range(n)):``."""

def print(*parts: Any) -> None:
    """Prints strings, values and views of memory, once per role that runs it, behind the names of its CTA and
    its role."""

def ptx(text: str, inputs: Any, out: Any, sim: Any = None, pack: Any = 1) -> Any:
    """What PTX makes of each element of its inputs: for instructions that the language has no name for."""

def reciprocal(x: Any) -> Tile:
    """1 / x without a division's steps, off by at most one in the last place, of a float scalar or tile,
    elementwise."""

def reduce(x: Any, axis: int | None, func: Callable[..., Any], keepdims: _b.bool = False) -> Any:
    """Folds an axis of a tile (or all axes, with ``axis=None``) with `func`, a ``@px.func`` of two elements."""

def ring(n: Any) -> Ring:
    """A position in a ring of `n` stages: `.stage` is 0 to n-1, `.parity` flips at every wrap, `.advance()`
    moves on."""

def round(x: Any) -> Tile:
    """The nearest integer of a float scalar or tile, elementwise, as a float; halves go to the even one, as in
    NumPy."""

def rsqrt(x: Any) -> Tile:
    """Reciprocal square root of a float scalar or tile, elementwise."""

def scan(x: Any, axis: int | None, func: Callable[..., Any]) -> Any:
    """Running results of `func` along an axis: element i is what `px.reduce` makes of the elements up to i."""

def shared(shape: Shape, dtype: DType, reuse: Any = None, padded: _b.bool = False) -> View:
    """A static buffer in this CTA's shared memory; `reuse=x` takes over the memory of a buffer or barrier
    array."""

def sigmoid(x: Any) -> Tile:
    """1 / (1 + exp(-x)) of a float scalar or tile, elementwise."""

def sin(x: Any) -> Tile:
    """Sine of a float scalar or tile, elementwise."""

def sqrt(x: Any) -> Tile:
    """Square root of a float scalar or tile, elementwise."""

def static_range(start: Any, stop: Any = None, step: Any = 1) -> Iterable[int]:
    """A range of constants: the loop over it is unrolled while the kernel is read."""

def store(view: Any, tile: Any, once: Any = False) -> None:
    """Registers into a region of global or shared memory; elements outside a global array are not stored."""

def sum(x: Any, axis: int | None = None, keepdims: _b.bool = False) -> Tile:
    """The sum over one axis, or over all; f16 and bf16 accumulate in f32."""

def sync() -> None:
    """Waits until all threads of the current role (or of the CTA, outside roles) are here."""

def tanh(x: Any, *, approx: _b.bool = False) -> Tile:
    """Hyperbolic tangent of a float scalar or tile, elementwise."""

def tmem(shape: Shape, dtype: DType, reuse: Any = None, padded: _b.bool = False) -> View:
    """A static buffer in this CTA's tensor memory: accumulators, A operands and scales of `px.tcgen05.mma`."""

def topk(x: Any, k: Any, axis: int | None) -> tuple[Tile, Tile]:
    """The `k` largest elements along an axis and their indices (i32): two tiles, whose axis has size `k`."""

def trunc(x: Any) -> Tile:
    """Integer part of a float scalar or tile, elementwise."""

def unroll(items: Any, by: Any) -> Iterable[Any]:
    """A run-time range whose loop is written out `by` iterations at a time, and the rest one by one."""

def wait_prior() -> None:
    """Waits until the launch before this one on the stream is over and what it wrote can be seen."""

def warps(first: Any, count: Any, regs: Any = None, copies: Any = 1) -> AbstractContextManager[int]:
    """`with px.warps(first, count):` a region run by those warps of the CTA only."""

def wgmma(a: Any, b: Any, acc: Tile | View, accumulate: Any = True, negate: Any = False, along: str = 'm') -> Tile:
    """Begins ``acc += a @ b`` on the tensor cores and updates the variable `acc`: read it only after
    `px.wgmma_wait`."""

def wgmma_commit() -> None:
    """Closes the group of products that this agent has begun since the last commit."""

def wgmma_wait(n: Any) -> None:
    """Waits until at most `n` groups of this agent are unfinished; they finish in order."""

def where(cond: Any, a: Any, b: Any) -> Tile:
    """`a` where `cond` holds, else `b`; all broadcast."""

def zeros(shape: Shape, dtype: DType = ...) -> Tile:
    """A tile of zeros."""

class clc:
    """`px.clc`: cluster launch control. A cluster that runs takes over blocks of the grid that have not
    started."""

    @staticmethod
    def query(result: Any) -> tuple[Tile, Tile]:
        """What a request brought: ``(granted, block)``, with `block` this CTA's linear block index in the
        granted cluster."""

    @staticmethod
    def try_cancel(result: Any, bar: Barrier) -> None:
        """Asks for a cluster of the grid that has not started; the answer is 16 bytes in `result`, which
        complete on `bar`."""

class cluster:
    """`px.cluster`: rank, size and id in the cluster, the barrier of all its threads, and its copies,
    reductions and gathers."""

    @staticmethod
    def arrive(relaxed: _b.bool = False) -> None:
        """The first half of `px.cluster.sync`; a relaxed arrival publishes nothing but fenced barrier inits."""

    @staticmethod
    def copy(
        src: Any,
        dst: Any,
        bar: Barrier | None = None,
        *,
        mask: Any = None,
        cta: Any = None,
        arm: _b.bool = False,
        cache: str | None = None,
    ) -> None:
        """Starts a copy inside the cluster: this CTA's shared memory to CTA `cta`, or global memory to all CTAs
        of `mask`."""

    @staticmethod
    def count() -> int:
        """The number of clusters of the grid; without clusters, of its CTAs."""

    @staticmethod
    def gather(x: Any) -> tuple[Tile, ...]:
        """What every CTA of the cluster holds, in all of them: a tile with a new first axis, entry r from the
        CTA of rank r."""

    @staticmethod
    def id(d: Any = None) -> int:
        """The index of this cluster in the grid, linear or along `d`."""

    @staticmethod
    def load(src: Any, dst: Any, bar: Barrier, ctas: Any, cache: str | None = None, count: Any = None) -> None:
        """Starts a balanced multicast: every CTA of the mask `ctas` fetches its share of the tile and sends it
        to all."""

    @staticmethod
    def rank(d: Any = None) -> int:
        """This CTA's rank in its cluster (dimension 0 fastest), or its coordinate along `d`."""

    @staticmethod
    def reduce(tile: Any, op: str, cta: Any = None) -> Tile:
        """The sum, maximum or minimum of a scalar or tile over all CTAs of the cluster, elementwise, in a fixed
        order."""

    @staticmethod
    def size(d: Any = None) -> int:
        """The number of CTAs of the cluster, in all or along `d`: a compile-time constant."""

    @staticmethod
    def store(dst: Any, tile: Any, bar: Barrier, *, cta: Any = None) -> None:
        """Registers into the shared region `dst` of rank `cta`; their bytes complete on that rank's `bar`."""

    @staticmethod
    def sync() -> None:
        """Waits until all threads of the cluster are here; what they did before is visible after it."""

    @staticmethod
    def wait() -> None:
        """The second half of `px.cluster.sync`."""

class cp_async:
    """`px.cp_async`: copies from global to shared memory that threads begin and that go on without them."""

    @staticmethod
    def commit(bar: Barrier | Pipe) -> None:
        """Arrives on `bar`, once, when all copies that this agent has begun by `px.cp_async.load` are over."""

    @staticmethod
    def load(src: Any, dst: Any) -> None:
        """Begins a copy from global to shared memory by all threads of the agent; it is over with a
        `px.cp_async.commit`."""

class fence:
    """`px.fence`: orders generic and asynchronous accesses, and barrier initialisations."""

    @staticmethod
    def async_proxy(space: str = 'cta') -> None:
        """Orders generic accesses before it with asynchronous ones (TMA, tensor cores) after it."""

    @staticmethod
    def barrier_init() -> None:
        """Makes barrier initialisations before it visible to the cluster at the next barrier of threads."""

    @staticmethod
    def cluster() -> None:
        """Acquires and releases at cluster scope."""

class tcgen05:
    """`px.tcgen05`: Blackwell's tensor cores and the memory they work in."""

    @staticmethod
    def commit(bar: Barrier | Pipe, multicast: Number | None = None, two_cta: _b.bool = False) -> None:
        """Lets the tensor cores arrive on `bar`, once, when all products and copies that this role has begun
        are over."""

    @staticmethod
    def copy(shared: Any, tmem: Any, two_cta: _b.bool = False) -> None:
        """Begins a copy from shared into tensor memory: scales, or an operand; products of this role behind it
        see it."""

    @staticmethod
    def load(tmem: Any) -> Tile:
        """A region of tensor memory as a register tile."""

    @staticmethod
    def mma(
        a: Any,
        b: Any,
        acc: View,
        accumulate: Any = True,
        scale_a: Any = None,
        scale_b: Any = None,
        two_cta: _b.bool = False,
        negate: Any = False,
    ) -> None:
        """Begins ``acc += a @ b`` on the tensor cores, in tensor memory: read `acc` only after a
        `px.tcgen05.commit` arrived."""

    @staticmethod
    def store(tmem: Any, tile: Any) -> None:
        """A register tile into a region of tensor memory."""

class tma:
    """`px.tma`: copies between global and shared memory by the TMA engine. They finish later."""

    @staticmethod
    def commit() -> None:
        """Closes the group of the stores and reductions this role started since its last commit."""

    @staticmethod
    def gather(
        src: Any,
        rows: Any,
        col: Any,
        dst: Any,
        bar: Barrier,
        multicast: Number | None = None,
        cache: str | None = None,
        two_cta: _b.bool = False,
    ) -> None:
        """Starts a copy of any multiple of four rows of the matrix `src` to the shared tile `dst` of shape (R,
        K)."""

    @staticmethod
    def gather4(
        src: Any,
        rows: Any,
        col: Any,
        dst: Any,
        bar: Barrier,
        multicast: Number | None = None,
        cache: str | None = None,
        two_cta: _b.bool = False,
    ) -> None:
        """Starts a copy of four rows of the matrix `src`, from column `col` on, to the shared tile `dst` of
        shape (4, K)."""

    @staticmethod
    def load(
        src: Any,
        dst: Any,
        bar: Barrier,
        multicast: Number | None = None,
        cache: str | None = None,
        two_cta: _b.bool = False,
    ) -> None:
        """Starts a copy from global to shared memory; its bytes complete on the barrier `bar`, without an
        arrival."""

    @staticmethod
    def prefetch(src: Any, cache: str | None = None) -> None:
        """Brings a region of a global array into L2."""

    @staticmethod
    def reduce(src: Any, dst: Any, op: str, cache: str | None = None) -> None:
        """Starts folding shared memory into global memory, atomically per element; finishes with its group."""

    @staticmethod
    def scatter(src: Any, rows: Any, col: Any, dst: Any, cache: str | None = None) -> None:
        """Starts a copy of the shared tile `src` of shape (R, K), R a multiple of four, to rows of the matrix
        `dst`."""

    @staticmethod
    def scatter4(src: Any, rows: Any, col: Any, dst: Any, cache: str | None = None) -> None:
        """Starts a copy of the shared tile `src` of shape (4, K) to four rows of the matrix `dst`, from column
        `col` on."""

    @staticmethod
    def store(src: Any, dst: Any, cache: str | None = None) -> None:
        """Starts a copy from shared to global memory; it finishes with its group (`px.tma.commit`,
        `px.tma.wait`)."""

    @staticmethod
    def wait(n: Any = 0, read: _b.bool = False) -> None:
        """Waits until at most `n` groups of this role are unfinished; `read=True`: until they have read their
        sources."""

__all__ = [
    "Compiled", "DType", "Error", "abs", "all", "any", "arange", "argmax", "argmin", "assume", "atomic_add",
    "atomic_cas", "atomic_exch", "atomic_load", "atomic_max", "atomic_min", "auto", "autotune", "barrier", "bench",
    "bf16", "bitcast", "block_id", "bool", "breakpoint", "cdiv", "ceil", "check", "choose", "clc", "cluster",
    "compile", "cos", "counters", "cp_async", "cumsum", "debug", "device", "device_assert", "dot", "empty", "erf",
    "example", "exp", "exp2", "explore", "export", "f16", "f32", "f4e2m1", "f64", "f6e2m3", "f6e3m2", "f8e4m3",
    "f8e5m2", "f8e8m0", "fence", "floor", "fma", "full", "func", "i16", "i32", "i4", "i64", "i8", "isnan", "keep",
    "kernel", "kernels", "launch_dependents", "load", "log", "log2", "max", "maximum", "min", "minimum", "multiply",
    "num_blocks", "packed", "persistent", "pipe", "pipelined", "print", "ptx", "reciprocal", "reduce", "ring",
    "round", "rsqrt", "scan", "shared", "sigmoid", "sin", "spec", "sqrt", "static_range", "store", "struct", "sum",
    "sync", "tanh", "tcgen05", "tma", "tmem", "topk", "trace", "trunc", "tune", "u16", "u32", "u4", "u64", "u8",
    "unroll", "wait_prior", "warps", "wgmma", "wgmma_commit", "wgmma_wait", "where", "zeros",
]
