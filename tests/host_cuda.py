"""Runs the CUDA text of a kernel on the CPU, thread by thread: what generated index arithmetic and barriers really do.

Needs a C++ compiler. Every thread of a CTA is a coroutine that runs until it blocks, in an order shuffled by a seed, so
that a missing barrier shows as a wrong result. An access of N bytes at an address that is no multiple of N fails, as it
does on a GPU. Inline PTX has a host version below, by function name; copies, mbarriers and clusters of more than one CTA
have none.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from front import prepared
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.ir.types import FROM_NUMPY, ArrayType, ScalarType, f32, i32
from phalanx.language.kernel import Kernel
from phalanx.passes.lower import lower

COMPILER = shutil.which(os.environ.get("PHALANX_TEST_CXX") or "g++") or shutil.which("clang++")
_BUILD = Path(tempfile.gettempdir()) / "phalanx-host-tests"

HEAD = r"""
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__
#define __align__(n)
struct uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
"""
ONE_CTA = r"""
alignas(1024) unsigned char px_smem[232448];
struct Fiber {
  ucontext_t context;
  char* stack;
  uint3 thread;
  bool done;
  volatile int waits;       // 0 runs, 1 at a warp barrier, 2 + id at a barrier of threads
  int expected;             // threads at that barrier
  unsigned long long given; // what a shuffle offers
};
static Fiber fibers[1024];
static int threads, current;
static ucontext_t scheduler;
static bool px_inside;  // a thread runs, not the scheduler
static uint3 blockIdx, gridDim;
#define threadIdx (fibers[current].thread)
static void px_block(int kind, int expected) {
  fibers[current].expected = expected;
  fibers[current].waits = kind;
  swapcontext(&fibers[current].context, &scheduler);
}
"""
FAILURES = r"""
static int px_failed;  // 0 all is well, 1 the threads wait for each other, 2 there is a story
static int px_at;      // line of the vector access that runs
static char px_story[400];
// Ends the launch. A thread that fails never runs on; from the scheduler, where copies land, this returns.
static void px_fail(const char* form, ...) {
  if (!px_failed) {
    va_list values;
    va_start(values, form);
    int n = snprintf(px_story, sizeof px_story, "thread %u of CTA (%u, %u, %u): ", threadIdx.x, blockIdx.x, blockIdx.y,
                     blockIdx.z);
    vsnprintf(px_story + n, sizeof px_story - n, form, values);
    va_end(values);
    px_failed = 2;
  }
  while (px_inside) swapcontext(&fibers[current].context, &scheduler);
}
// A pointer to a T that an access of sizeof(T) bytes goes through: machines trap where it is not aligned to them.
template <class T, class P> static inline T* px_aligned(P* p, size_t bytes = sizeof(T)) {
  if ((size_t)p % bytes == 0) return (T*)p;
  size_t shared = (size_t)p - (size_t)px_smem;
  if (shared < sizeof px_smem)
    px_fail("misaligned access of %d bytes at byte %d of shared memory @%d", (int)bytes, (int)shared, px_at);
  px_fail("misaligned access of %d bytes at address %llu @%d", (int)bytes, (unsigned long long)(size_t)p, px_at);
  return 0;
}
"""
FUNCTIONS = r"""
static void __syncwarp() { px_block(1, 32); }
static void __syncthreads() { px_block(2, threads); }
template <class T> static T px_exchange(T x, int lane) {
  fibers[current].given = 0;
  memcpy(&fibers[current].given, &x, sizeof x);
  px_block(1, 32);
  T got;
  memcpy(&got, &fibers[current / 32 * 32 + (lane & 31)].given, sizeof got);
  px_block(1, 32);
  return got;
}
template <class T> static T __shfl_sync(unsigned, T x, int lane) { return px_exchange(x, lane); }
template <class T> static T __shfl_xor_sync(unsigned, T x, int mask) { return px_exchange(x, current % 32 ^ mask); }
static int __reduce_max_sync(unsigned m, int x) {
  for (int k = 16; k; k /= 2) { const int y = __shfl_xor_sync(m, x, k); x = y > x ? y : x; }
  return x;
}
static int __reduce_min_sync(unsigned m, int x) { return ~__reduce_max_sync(m, ~x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T, class S> static inline T px_cast(S x) { T y; memcpy(&y, &x, sizeof y); return y; }
// f16 by its bits: not every compiler has a type for it. Nearest, ties to even.
static inline float px_half_value(unsigned short h) {
  const unsigned sign = (h & 0x8000u) << 16, rest = h & 0x7fffu, fraction = h & 0x3ffu;
  if (rest >= 0x7c00) return px_cast<float>(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
  if (rest >= 0x400) return px_cast<float>(sign | (rest << 13) + 0x38000000u);
  const float small = fraction * 0x1p-24f;
  return sign ? -small : small;
}
static inline unsigned short px_half_of(float x) {
  const unsigned b = px_cast<unsigned>(x), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u | (a >> 13 & 0x3ffu);
  if (a >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and beyond
  if (a >= 0x38800000u) return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
  if (a < 0x33000000u) return sign;  // below half of the smallest number
  const unsigned fraction = (a & 0x7fffffu) | 0x800000u, shift = 126 - (a >> 23), units = fraction >> shift;
  const unsigned rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  return sign | (units + (rest > half || (rest == half && units % 2)));
}
static inline unsigned short px_bfloat_of(float x) {
  const unsigned b = px_cast<unsigned>(x);
  return x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
static inline float px_bfloat_value(unsigned short x) { return px_cast<float>((unsigned)x << 16); }
static inline float __int_as_float(int x) { return px_cast<float>(x); }
static inline float __uint_as_float(unsigned x) { return px_cast<float>(x); }
static inline unsigned __float_as_uint(float x) { return px_cast<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return px_cast<double>(x); }
static inline long long __double_as_longlong(double x) { return px_cast<long long>(x); }
template <class T, class S> static inline T px_saturate(S x, double low, double high, T lowest, T highest) {
  return x != x ? 0 : x <= low ? lowest : x >= high ? highest : (T)x;
}
#define PX_TO(name, T, S, lo, hi, L, H) static inline T name(S x) { return px_saturate<T, S>(x, lo, hi, L, H); }
PX_TO(__float2int_rz, int, float, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647)
PX_TO(__double2int_rz, int, double, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647)
PX_TO(__float2uint_rz, unsigned, float, 0.0, 4294967296.0, 0u, 4294967295u)
PX_TO(__double2uint_rz, unsigned, double, 0.0, 4294967296.0, 0u, 4294967295u)
static const long long px_top = 9223372036854775807LL;
PX_TO(__float2ll_rz, long long, float, -9223372036854775808.0, 9223372036854775808.0, -px_top - 1, px_top)
PX_TO(__double2ll_rz, long long, double, -9223372036854775808.0, 9223372036854775808.0, -px_top - 1, px_top)
PX_TO(__float2ull_rz, unsigned long long, float, 0.0, 18446744073709551616.0, 0ULL, ~0ULL)
PX_TO(__double2ull_rz, unsigned long long, double, 0.0, 18446744073709551616.0, 0ULL, ~0ULL)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static const float px_e4m3[256] = {@E4M3@}, px_e5m2[256] = {@E5M2@};
// Nearest, ties to the even code, saturating: what cvt.rn.satfinite does.
static inline unsigned char px_encode(const float* table, float x, int top, unsigned char nan) {
  if (x != x) return nan;
  unsigned char sign = signbit(x) ? 0x80 : 0;
  float a = fminf(fabsf(x), table[top]);
  int best = 0;
  for (int code = 1; code <= top; ++code) {
    double d = fabs((double)table[code] - a), b = fabs((double)table[best] - a);
    if (d < b || (d == b && code % 2 == 0)) best = code;
  }
  return sign | best;
}
"""

DRIVER = r"""
static unsigned px_random;
static unsigned px_next() { px_random = px_random * 1664525u + 1013904223u; return px_random >> 8; }
static void** px_args;
static void px_thread() {
  px_entry(@ARGUMENTS@);
  fibers[current].done = true;
}
static bool px_released(int i) {
  if (fibers[i].waits == 0) return true;
  int first = fibers[i].waits == 1 ? i / 32 * 32 : 0, count = fibers[i].waits == 1 ? 32 : threads, here = 0;
  for (int j = first; j < first + count; ++j) here += !fibers[j].done && fibers[j].waits == fibers[i].waits;
  return here == fibers[i].expected;
}
static int px_cta() {
  memset(px_smem, 0xA5, sizeof px_smem);
  for (int i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    if (!f.stack) f.stack = (char*)malloc(1 << 18);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = 1 << 18;
    f.context.uc_link = &scheduler;
    makecontext(&f.context, px_thread, 0);
    f.thread = {(unsigned)i, 0, 0};
    f.done = false;
    f.waits = 0;
  }
  for (;;) {
    bool all = true, moved = false;
    int start = px_next() % threads, step = px_next() % 2 ? 1 : threads - 1;
    for (int n = 0, i = start; n < threads; ++n, i = (i + step) % threads) {
      if (fibers[i].done || fibers[i].waits) continue;
      current = i, px_inside = true;
      swapcontext(&scheduler, &fibers[i].context);
      px_inside = false;
      if (px_failed) return px_failed;
      moved = true;
    }
    for (int i = 0; i < threads; ++i) {
      if (fibers[i].done || !fibers[i].waits || !px_released(i)) continue;
      int kind = fibers[i].waits, first = kind == 1 ? i / 32 * 32 : 0, count = kind == 1 ? 32 : threads;
      for (int j = first; j < first + count; ++j)
        if (!fibers[j].done && fibers[j].waits == kind) fibers[j].waits = 0;
      moved = true;
    }
    for (int i = 0; i < threads; ++i) all &= fibers[i].done;
    if (all) return 0;
    if (!moved) return 1;
  }
}
extern "C" const char* px_told() { return px_story; }
extern "C" int px_run(void** args, int count, unsigned gx, unsigned gy, unsigned gz, unsigned seed) {
  threads = count, px_args = args, gridDim = {gx, gy, gz}, px_random = seed, px_failed = 0;
  for (unsigned z = 0; z < gz; ++z)
    for (unsigned y = 0; y < gy; ++y)
      for (unsigned x = 0; x < gx; ++x) {
        blockIdx = {x, y, z};
        if (const int why = px_cta()) return why;
      }
  return 0;
}
"""

HOST_FUNCTIONS = {
    # Launches run one after the other here.
    "griddepcontrol_wait": "static inline void griddepcontrol_wait() {}",
    "griddepcontrol_launch_dependents": "static inline void griddepcontrol_launch_dependents() {}",
    "f16_to_float": "static inline float f16_to_float(px_f16 x) { return px_half_value(x); }",
    "f16_from_float": "static inline px_f16 f16_from_float(float x) { return px_half_of(x); }",
    "bf16_from_float": "static inline px_bf16 bf16_from_float(float x) { return px_bfloat_of(x); }",
    "f8e4m3_to_float": "static inline float f8e4m3_to_float(px_f8e4m3 x) { return px_e4m3[x]; }",
    "f8e5m2_to_float": "static inline float f8e5m2_to_float(px_f8e5m2 x) { return px_e5m2[x]; }",
    "f8e4m3_from_float": """static inline px_f8e4m3 f8e4m3_from_float(float x) {
  return px_encode(px_e4m3, x, 0x7e, 0x7f);
}""",
    "f8e5m2_from_float": """static inline px_f8e5m2 f8e5m2_from_float(float x) {
  return px_encode(px_e5m2, x, 0x7b, 0x7f);
}""",
    **{
        f"{fn}_NaN_f32": f"static inline float {fn}_NaN_f32(float a, float b) {{\n"
        f"  return a != a || b != b ? px_cast<float>(0x7fffffff) : a {sign} b ? a : b;\n}}"
        for fn, sign in (("max", ">"), ("min", "<"))
    },
    "reciprocal_approx": "static inline float reciprocal_approx(float x) { return 1.0f / x; }",
    "tanh_approx": "static inline float tanh_approx(float x) { return tanhf(x); }",
    "exp2_approx": "static inline float exp2_approx(float x) { return exp2f(x); }",
    "store_vector_if": """template <int N, class T> static void store_vector_if(T* p, const T* x, bool inside) {
  if (inside) memcpy(px_aligned<T>(p, N * sizeof(T)), x, N * sizeof(T));
}""",
    "load_words_once": """template <int N, class T> static void load_words_once(unsigned* words, const T* p, bool inside) {
  if (inside) memcpy(words, px_aligned<const uint4>(p), 16);
}""",
    "store_vector_once": """template <int N, class T> static void store_vector_once(T* p, const T* x, bool inside) {
  if (inside) memcpy(px_aligned<uint4>(p), x, 16);
}""",
    "unknown_zero": "static inline unsigned unknown_zero() { return 0; }",
    "shared_address": """static inline unsigned shared_address(const void* p) {
  return (unsigned)((unsigned char*)p - px_smem) + 4096;
}""",
    "mapa_shared_cluster": """static inline unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  return address + (cta << 24);
}""",
    "load_remote": """template <int N, class T> static void load_remote(T* x, unsigned address) {
  memcpy(x, px_aligned<T>(px_smem + address - 4096, N * sizeof(T)), N * sizeof(T));
}""",
    "store_remote": """template <int N, class T> static void store_remote(unsigned address, const T* x) {
  memcpy(px_aligned<T>(px_smem + address - 4096, N * sizeof(T)), x, N * sizeof(T));
}""",
    "bar_sync": "template <int id, int count> static void bar_sync() { px_block(2 + id, count); }",
}


def _once(name: str) -> str:
    """A host function, even where several others bring it along."""
    return f"#ifndef HOST_{name}\n#define HOST_{name}\n{HOST_FUNCTIONS[name]}\n#endif"


for _name in ("f16", "bf16", "f8e4m3", "f8e5m2"):
    HOST_FUNCTIONS[f"{_name}_pair_from_float"] = (
        f"{_once(f'{_name}_from_float')}\n"
        f"static inline void {_name}_pair_from_float(px_{_name}* y, float a, float b) {{\n"
        f"  y[0] = {_name}_from_float(a), y[1] = {_name}_from_float(b);\n}}"
    )

for _name, _value, _rounded in (
    ("f16", "px_half_value", "px_half_of"), ("bf16", "px_bfloat_value", "px_bfloat_of")
):  # the exact sum, cut to a float whose last bit tells of what was lost, then rounded once
    HOST_FUNCTIONS[f"fma_{_name}"] = (
        f"static inline px_{_name} fma_{_name}(px_{_name} a, px_{_name} b, px_{_name} c) {{\n"
        f"  const double x = (double){_value}(a) * {_value}(b), y = {_value}(c), sum = x + y;\n"
        "  const double part = sum - x, lost = (x - (sum - part)) + (y - part);\n"
        "  float near = (float)sum;\n"
        "  const double rest = lost == lost ? (sum - near) + lost : 0.0;\n"
        "  if (near == near && rest != 0.0) {\n"
        "    unsigned bits = px_cast<unsigned>(near);\n"
        "    if ((rest < 0.0) != (near < 0.0) && near != 0.0f) --bits;\n"
        "    near = px_cast<float>(bits | 1);\n"
        "  }\n"
        f"  return {_rounded}(near);\n}}"
    )


def _atomic(name: str) -> str | None:
    match = re.fullmatch(r"(atomic|reduce)_add_(\w+?)_(global|shared|remote)", name)
    if not match:
        return None
    dtype = match[2]
    ctype = {
        "f64": "double",
        "f32": "float",
        "i64": "long long",
        "u64": "unsigned long long",
        "i32": "int",
        "u32": "unsigned",
        "f16": "px_f16",
        "bf16": "px_bf16",
    }[dtype]
    place = "unsigned p" if match[3] == "remote" else f"{ctype}* p"
    start = f"{ctype}* q = px_aligned<{ctype}>({'px_smem + p - 4096' if match[3] == 'remote' else 'p'});"
    add = "*q = old + x;"
    if dtype == "f16":
        add = "*q = px_half_of(px_half_value(old) + px_half_value(x));"
    if dtype == "bf16":
        add = "*q = px_bfloat_of(px_bfloat_value(old) + px_bfloat_value(x));"
    return f"static inline {ctype} {name}({place}, {ctype} x) {{ {start} {ctype} old = *q; {add} return old; }}"


class HostFailure(AssertionError):
    """The kernel could not run here, or its threads wait for each other forever."""


def host_source(module: Module) -> str:
    """The kernel's text with host versions of the functions that are made of PTX."""
    source = module.source
    if "namespace ptx {" in source:
        start = source.index("namespace ptx {") + len("namespace ptx {")
        stop = source.index("}  // namespace ptx")
        parts = [_host_version(part) for part in source[start:stop].split("\n\n")]
        source = source[:start] + "\n\n".join(parts) + source[stop:]
    source = with_checked_accesses(source)
    if "asm" in re.sub(r"//.*", "", source):
        raise HostFailure("some inline PTX has no host version:\n" + source)
    entry = re.search(rf"\b{module.entry}\((.*?)\) \{{", source, re.S)
    assert entry is not None
    source = source.replace(f"{module.entry}(", "px_entry(", 1)
    types = []
    for parameter in filter(None, (p.strip() for p in _split(entry[1]))):
        parameter = parameter.replace("const __grid_constant__ ", "").replace("const ", "")
        types.append(parameter.rsplit(" ", 1)[0])
    arguments = ", ".join(f"*({ctype}*)px_args[{n}]" for n, ctype in enumerate(types))
    return shim(ONE_CTA) + source + DRIVER.replace("@ARGUMENTS@", arguments)


def shim(machine: str) -> str:
    """What the text of a kernel needs before it: CUDA's own functions over threads of a machine."""
    functions = FUNCTIONS.replace("@E4M3@", _table(ml_dtypes.float8_e4m3fn))
    return HEAD + machine + FAILURES + functions.replace("@E5M2@", _table(ml_dtypes.float8_e5m2))


_NOTES_LINE = "px_at = __LINE__, "


def with_checked_accesses(source: str) -> str:
    """Casts of pointers that look at the alignment, and the line of each vector access for the story of a failure."""
    source = re.sub(r"reinterpret_cast<((?:const )?\w[\w ]*)\*>\(", r"px_aligned<\1>(", source)
    return re.sub(r"(?<![\w:])(ptx::(?:load|store)_\w+<)", rf"{_NOTES_LINE}\1", source)


def _table(dtype: Any) -> str:
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    return ", ".join(
        "NAN" if np.isnan(n) else "INFINITY" if n == np.inf else "-INFINITY" if n == -np.inf else repr(float(n)) + "f"
        for n in numbers
    )


def _split(parameters: str) -> list[str]:
    """At commas outside angle brackets."""
    parts, depth = [""], 0
    for character in parameters:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _host_version(text: str) -> str:
    if "asm" not in text:
        return text
    names = re.findall(r"(\w+)\((?:[^()]|\([^()]*\))*\) \{", text)
    name = next((n for n in names if n in HOST_FUNCTIONS or _atomic(n)), names[0] if names else "")
    host = _once(name) if name in HOST_FUNCTIONS else _atomic(name)
    if host is None:
        raise HostFailure(f"no host version of {name or text}")
    return host


def compiled(source: str, name: str = "") -> ctypes.CDLL:
    """The text as a loaded library. The same text is compiled once, by whoever comes first."""
    if COMPILER is None:
        raise HostFailure("no C++ compiler")
    command = [COMPILER, "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-fwrapv", "-fno-strict-aliasing"]
    key = hashlib.sha256("\n".join([*command, source]).encode()).hexdigest()[:24]
    _BUILD.mkdir(exist_ok=True)
    library = _BUILD / f"{name}{key}.so"
    if not library.exists():
        text = _BUILD / f"{name}{key}.{os.getpid()}.cpp"
        text.write_text(source)
        made = text.with_suffix(".so")
        done = subprocess.run([*command, "-o", str(made), str(text)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostFailure(f"{done.stderr[:4000]}\n{text}")
        made.rename(library)  # at once: another process may build the same text
        text.unlink()
    return ctypes.CDLL(str(library))


def build(module: Module) -> ctypes.CDLL:
    return compiled(host_source(module))


def failure(library: ctypes.CDLL, why: int, source: str, args: list[Any]) -> HostFailure:
    """What a launch that returned `why` is reported as: the text's line and the argument instead of their numbers."""
    if why == 1:
        return HostFailure("the threads wait for each other")
    library.px_told.restype = ctypes.c_char_p
    story = library.px_told().decode()

    def place(match: re.Match[str]) -> str:
        for n, value in enumerate(args):
            if isinstance(value, np.ndarray) and value.size:
                first, last = np.lib.array_utils.byte_bounds(value)
                if first <= int(match[1]) < last:
                    return f"byte {int(match[1]) - value.ctypes.data} of argument {n}"
        return match[0]

    lines = source.splitlines()
    story = re.sub(r"address (\d+)", place, story)
    return HostFailure(re.sub(r" @(\d+)$", lambda match: _told_line(lines, int(match[1])), story))


def _told_line(lines: list[str], number: int) -> str:
    return f", at {lines[number - 1].replace(_NOTES_LINE, '').strip()}" if number else ""


def type_of(value: Any) -> ArrayType | ScalarType:
    if isinstance(value, np.ndarray):
        item = value.dtype.itemsize
        unit = value.strides[-1] == item if value.ndim else True
        aligned = value.ctypes.data % 16 == 0 and all(stride % 16 == 0 for stride in value.strides[:-1])
        return ArrayType(value.ndim, FROM_NUMPY[value.dtype], unit, aligned)
    return ScalarType(i32 if isinstance(value, int) else f32)


def module_for(kernel: Kernel, args: tuple[Any, ...], **constants: Any) -> Module:
    types = tuple(type_of(value) for value in args)
    return generate(lower(prepared(kernel, types, **constants), arch_of("sm_90a")))


def run_on_host(kernel: Kernel, grid: Any, *args: Any, seed: int = 1, **constants: Any) -> Module:
    """Runs a kernel in place on NumPy arrays, as its CUDA text says."""
    module = module_for(kernel, args, **constants)
    launch(module, grid, list(args), seed)
    return module


def launch(module: Module, grid: Any, args: list[Any], seed: int) -> None:
    library = build(module)
    packed = [_pack(value) for value in args]
    pointers = (ctypes.c_void_p * max(1, len(packed)))(*(ctypes.addressof(p) for p in packed))
    shape = (grid,) if isinstance(grid, int) else tuple(grid)
    gx, gy, gz = (*shape, 1, 1)[:3]
    why = library.px_run(pointers, module.threads, gx, gy, gz, seed)
    if why:
        raise failure(library, why, host_source(module), args)


def _pack(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_float(value)
    item = value.dtype.itemsize
    data = value.ctypes.data.to_bytes(8, "little")
    data += b"".join((s // item).to_bytes(8, "little", signed=True) for s in value.strides)
    data += b"".join(n.to_bytes(4, "little") for n in value.shape)
    data += b"\0" * (-len(data) % 8)
    return ctypes.create_string_buffer(data, len(data))
