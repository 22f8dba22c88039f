"""Runs the CUDA text of a kernel with clusters on the CPU: `host_cuda` with CTAs side by side, mbarriers and pushes.

All threads of a cluster are coroutines in an order shuffled by a seed. Asynchronous stores and copies land when the
shuffle says so: a copy reads its source only then, so that a slot that is reused too early shows as a wrong result.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import host_cuda
import host_mma  # noqa: F401  ldmatrix and stmatrix
from host_cuda import HOST_FUNCTIONS, HostFailure
from phalanx.cuda.module import Module
from phalanx.language.kernel import Kernel

MACHINE = r"""
#include <vector>
#include <map>
#include <functional>
enum { MOST = 16 };
alignas(1024) static unsigned char px_memories[MOST][232448];
struct Fiber {
  ucontext_t context; char* stack; uint3 thread; uint3 block; int rank; bool done; volatile int waits; int expected;
  int meetings; unsigned long long given;
};
static Fiber fibers[MOST * 1024];
static int threads, ctas, current;
static bool px_progress;
static ucontext_t scheduler;
static bool px_inside;
static uint3 gridDim;
#define threadIdx (fibers[current].thread)
#define blockIdx (fibers[current].block)
#define px_smem (px_memories[fibers[current].rank])
static void px_yield() { swapcontext(&fibers[current].context, &scheduler); }
static void px_block(int kind, int expected) {
  fibers[current].expected = expected; fibers[current].waits = kind; px_yield();
}
"""
ENGINE = r"""
static unsigned px_random;
static unsigned px_next() { px_random = px_random * 1664525u + 1013904223u; return px_random >> 8; }
static int px_rank_of(unsigned address) { return address >> 24 ? (address >> 24) - 1 : fibers[current].rank; }
static unsigned char* px_place(unsigned address, size_t bytes = 1) {
  return px_aligned<unsigned char>(px_memories[px_rank_of(address)] + (address & 0xffffff) - 4096, bytes);
}
struct Barrier { int pending, expected, tx; unsigned phase; };
static std::map<unsigned char*, Barrier> px_barriers;
static Barrier& px_barrier(unsigned address) {
  auto found = px_barriers.find(px_place(address));
  if (found == px_barriers.end()) px_fail("a barrier that is not initialised");
  return found->second;
}
static void px_check(Barrier& b) {
  if (b.pending == 0 && b.tx == 0) { ++b.phase; b.pending = b.expected; }
}
static void px_arrive(Barrier& b, int count) {
  if (count > b.pending) px_fail("too many arrivals at a barrier");
  b.pending -= count; px_check(b);
}
static std::vector<std::function<void()>> px_flying;
static void px_land(unsigned n) {
  auto work = px_flying[n]; px_flying.erase(px_flying.begin() + n); work(); px_progress = true;
}
static void px_credit(unsigned char* bar, int bytes) { Barrier& b = px_barriers[bar]; b.tx -= bytes; px_check(b); }
static int px_met; static int px_meeting;
"""

DRIVER = r"""
static void** px_args;
static void px_thread() { px_entry(@ARGUMENTS@); fibers[current].done = true; px_progress = true; }
static int px_first(int i) { return fibers[i].waits == 1 ? i / 32 * 32 : i / threads * threads; }
static bool px_released(int i) {
  int first = px_first(i), count = fibers[i].waits == 1 ? 32 : threads, here = 0;
  for (int j = first; j < first + count; ++j) here += !fibers[j].done && fibers[j].waits == fibers[i].waits;
  return here == fibers[i].expected;
}
static int px_cluster(uint3 origin, uint3 shape) {
  ctas = shape.x * shape.y * shape.z;
  px_barriers.clear(); px_flying.clear(); px_met = px_meeting = 0;
  int total = threads * ctas;
  for (int c = 0; c < ctas; ++c) memset(px_memories[c], 0xA5, sizeof px_memories[c]);
  for (int i = 0; i < total; ++i) {
    Fiber& f = fibers[i];
    if (!f.stack) f.stack = (char*)malloc(1 << 17);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack; f.context.uc_stack.ss_size = 1 << 17; f.context.uc_link = &scheduler;
    makecontext(&f.context, px_thread, 0);
    unsigned c = i / threads;
    f.thread = {(unsigned)(i % threads), 0, 0};
    f.block = {origin.x + c % shape.x, origin.y + c / shape.x % shape.y, origin.z + c / (shape.x * shape.y)};
    f.rank = c; f.done = false; f.waits = 0; f.meetings = 0;
  }
  for (int quiet = 0; quiet < 200;) {
    bool all = true;
    px_progress = false;
    int start = px_next() % total, step = px_next() % 2 ? 1 : total - 1, lazy = px_next() % (ctas + 1);
    for (int n = 0, i = start; n < total; ++n, i = (i + step) % total) {
      if (fibers[i].done || fibers[i].waits || fibers[i].rank == lazy) continue;  // one CTA may fall behind
      current = i, px_inside = true;
      swapcontext(&scheduler, &fibers[i].context);
      px_inside = false;
      if (px_failed) return px_failed;
      if (fibers[i].waits) px_progress = true;
    }
    for (int i = 0; i < total; ++i) {
      if (fibers[i].done || !fibers[i].waits || !px_released(i)) continue;
      int kind = fibers[i].waits, first = px_first(i), count = kind == 1 ? 32 : threads;
      for (int j = first; j < first + count; ++j) if (!fibers[j].done && fibers[j].waits == kind) fibers[j].waits = 0;
      px_progress = true;
    }
    for (unsigned n = px_next() % 4; n > 0 && !px_flying.empty(); --n) px_land(px_next() % px_flying.size());
    if (px_failed) return px_failed;
    for (int i = 0; i < total; ++i) all &= fibers[i].done;
    if (all && px_flying.empty()) return 0;
    quiet = px_progress || !px_flying.empty() ? 0 : quiet + 1;
  }
  return 1;
}
extern "C" const char* px_told() { return px_story; }
extern "C" int px_run(void** args, int count, unsigned* grid, unsigned* shape, unsigned seed) {
  threads = count, px_args = args, gridDim = {grid[0], grid[1], grid[2]}, px_random = seed, px_failed = 0;
  for (unsigned z = 0; z < grid[2]; z += shape[2])
    for (unsigned y = 0; y < grid[1]; y += shape[1])
      for (unsigned x = 0; x < grid[0]; x += shape[0])
        if (int why = px_cluster({x, y, z}, {shape[0], shape[1], shape[2]})) return why;
  return 0;
}
"""

FUNCTIONS = {
    "shared_address": "static inline unsigned shared_address(const void* p) "
    "{ return (unsigned)((unsigned char*)p - px_smem) + 4096; }",
    "mapa_shared_cluster": "static inline unsigned mapa_shared_cluster(unsigned a, unsigned cta) "
    '{ if ((int)cta >= ctas) px_fail("rank %u of %d", cta, ctas); return (a & 0xffffff) | (cta + 1) << 24; }',
    "load_remote": "template <int N, class T> static void load_remote(T* x, unsigned a) "
    "{ memcpy(x, px_place(a, N * sizeof(T)), N * sizeof(T)); }",
    "store_remote": "template <int N, class T> static void store_remote(unsigned a, const T* x) "
    "{ memcpy(px_place(a, N * sizeof(T)), x, N * sizeof(T)); }",
    "st_async": """template <int N, class T> static void st_async(unsigned a, const T* x, unsigned bar) {
  if (px_rank_of(a) != px_rank_of(bar)) px_fail("a store and its barrier are in different CTAs");
  std::vector<T> data(x, x + N); unsigned char *to = px_place(a, N * sizeof(T)), *at = px_place(bar, 8);
  px_flying.push_back([=] { memcpy(to, data.data(), N * sizeof(T)); px_credit(at, N * sizeof(T)); });
}""",
    "cp_async_bulk_shared_shared": """
static void cp_async_bulk_shared_shared(unsigned d, unsigned s, unsigned n, unsigned bar) {
  if (px_rank_of(d) != px_rank_of(bar)) px_fail("a copy and its barrier are in different CTAs");
  if (n % 16) px_fail("a copy of %u bytes", n);
  unsigned char *to = px_place(d, 16), *from = px_place(s, 16), *at = px_place(bar, 8);
  px_flying.push_back([=] { memmove(to, from, n); px_credit(at, n); });
}""",
    "elect_sync": "static inline bool elect_sync() { return current % 32 == 0; }",
    "cluster_ctarank": "static inline int cluster_ctarank() { return fibers[current].rank; }",
}


def _family(name: str) -> str | None:
    """Host versions by what a name begins with: scopes and spaces make no difference here."""
    rules: list[tuple[str, Callable[[str], str]]] = [
        (r"fence_.*", lambda n: f"static inline void {n}() {{}}"),
        (
            r"mbarrier_init.*",
            lambda n: (
                f"static void {n}(unsigned b, unsigned c) {{ px_barriers[px_place(b)] = {{(int)c, (int)c, 0, 0}}; }}"
            ),
        ),
        (
            r"mbarrier_arrive_expect_tx.*",
            lambda n: (
                f"static void {n}(unsigned b, unsigned t) {{ Barrier& x = px_barrier(b); x.tx += t; px_arrive(x, 1); }}"
            ),
        ),
        (
            r"mbarrier_arrive.*_count",
            lambda n: f"static void {n}(unsigned b, unsigned c) {{ px_arrive(px_barrier(b), c); }}",
        ),
        (r"mbarrier_arrive.*", lambda n: f"static void {n}(unsigned b) {{ px_arrive(px_barrier(b), 1); }}"),
        (
            r"mbarrier_complete_tx.*",
            lambda n: f"static void {n}(unsigned b, unsigned t) {{ px_credit(px_place(b), t); }}",
        ),
        (
            r"mbarrier_try_wait.*",
            lambda n: (
                f"static bool {n}(unsigned b, unsigned p) {{ if ((px_barrier(b).phase & 1) != p) return true; "
                "px_yield(); return false; }"
            ),
        ),
        (
            r"barrier_cluster_arrive.*",
            lambda n: (
                f"static void {n}() {{ ++fibers[current].meetings; px_progress = true; "
                "if (++px_met == threads * ctas) { px_met = 0; ++px_meeting; } }"
            ),
        ),
        (
            r"barrier_cluster_wait.*",
            lambda n: f"static void {n}() {{ while (px_meeting < fibers[current].meetings) px_yield(); }}",
        ),
        (r"cluster_ctaid_x", lambda n: f"static int {n}() {{ return fibers[current].block.x % px_shape[0]; }}"),
        (r"cluster_ctaid_y", lambda n: f"static int {n}() {{ return fibers[current].block.y % px_shape[1]; }}"),
        (r"cluster_ctaid_z", lambda n: f"static int {n}() {{ return fibers[current].block.z % px_shape[2]; }}"),
    ]
    return next((make(name) for pattern, make in rules if re.fullmatch(pattern, name)), None)


def _host_version(text: str) -> str:
    if "asm" not in text:
        return text
    names = re.findall(r"(\w+)\((?:[^()]|\([^()]*\))*\) \{", text)
    for name in names:
        host = FUNCTIONS.get(name) or _family(name) or HOST_FUNCTIONS.get(name)
        if host is not None:
            return f"#ifndef HOST_{name}\n#define HOST_{name}\n{host}\n#endif"
    raise HostFailure(f"no host version of {names or text}")


def host_source(module: Module, cluster: tuple[int, int, int]) -> str:
    source = module.source
    start = source.index("namespace ptx {") + len("namespace ptx {")
    stop = source.index("}  // namespace ptx")
    parts = [_host_version(part) for part in source[start:stop].split("\n\n")]
    source = source[:start] + "\n\n".join(parts) + source[stop:]
    source = re.sub(r"extern __shared__ .*px_smem\[\];", "", source)
    entry = re.search(rf"\b{module.entry}\((.*?)\) \{{", source, re.S)
    assert entry is not None
    source = source.replace(f"{module.entry}(", "px_entry(", 1)
    types = []
    for parameter in filter(None, (p.strip() for p in host_cuda._split(entry[1]))):
        types.append(parameter.replace("const __grid_constant__ ", "").replace("const ", "").rsplit(" ", 1)[0])
    arguments = ", ".join(f"*({ctype}*)px_args[{n}]" for n, ctype in enumerate(types))
    shape = f"static const int px_shape[3] = {{{', '.join(map(str, cluster))}}};\n"
    source = host_cuda.with_checked_accesses(source)
    return host_cuda.shim(shape + MACHINE) + ENGINE + source + DRIVER.replace("@ARGUMENTS@", arguments)


def build(module: Module, cluster: tuple[int, int, int]) -> ctypes.CDLL:
    return host_cuda.compiled(host_source(module, cluster), "cluster-")


def run_cluster(kernel: Kernel, grid: Any, *args: Any, seed: int = 1, **constants: Any) -> Module:
    """Runs a kernel in place on NumPy arrays, as its CUDA text says, cluster after cluster."""
    from front import prepared
    from phalanx.cuda.module import generate
    from phalanx.ir.archs import arch_of
    from phalanx.passes.lower import lower

    function = prepared(kernel, tuple(host_cuda.type_of(value) for value in args), **constants)
    module = generate(lower(function, arch_of("sm_90a")))
    launch(module, grid, list(args), [host_cuda._pack(value) for value in args], seed)
    return module


def launch(module: Module, grid: Any, args: list[Any], packed: list[Any], seed: int) -> None:
    library = build(module, module.cluster)
    pointers = (ctypes.c_void_p * max(1, len(packed)))(*(ctypes.addressof(p) for p in packed))
    shape = (grid,) if isinstance(grid, int) else tuple(grid)
    sizes = (ctypes.c_uint * 3)(*(*shape, 1, 1)[:3])
    why = library.px_run(pointers, module.threads, sizes, (ctypes.c_uint * 3)(*module.cluster), seed)
    if why:
        raise host_cuda.failure(library, why, host_source(module, module.cluster), args)
