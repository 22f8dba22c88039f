"""Runs the CUDA text of a kernel on the CPU, thread by thread: what generated index arithmetic and barriers really do.

Needs a C++ compiler. Every thread of a cluster is a coroutine that runs until it blocks, in an order shuffled by a seed, so
that a missing barrier shows as a wrong result; see `host/machine.cpp`. An access of N bytes at an address that is no
multiple of N fails, as it does on a GPU, and so does a store beyond the kernel's shared memory. Inline PTX has a host
version by function name (here, in `host_cluster`, `host_tma` and `host_mma`) or becomes C++ by what it says (`host_ptx`).
Text that was written by hand runs as a `HandWritten` in the place of a module.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

import support.host_build as host_build
from phalanx.cuda.abi import ArraySlot, ScalarSlot, Signature, TensorMapSlot
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.ir.types import FROM_NUMPY, ArrayType, ScalarType, chunk_axes, f32, i32
from phalanx.language.kernel import Kernel
from phalanx.layouts.shared import SWIZZLE_MASKS
from phalanx.runtime.device.packed import Packed
from support.front import prepared
from support.host_build import COMPILER, MISSING, RUNNER, HostFailure
from support.host_hand import MASKS, HandWritten
from support.host_text import translation_unit, with_line

__all__ = ["COMPILER", "MISSING", "HostFailure", "launch", "module_for", "run_on_host", "type_of"]

OF_FOUR_BITS = tuple(map(np.dtype, (ml_dtypes.float4_e2m1fn, ml_dtypes.int4, ml_dtypes.uint4)))
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
  return px_e4m3_of(x);
}""",
    "f8e5m2_from_float": """static inline px_f8e5m2 f8e5m2_from_float(float x) {
  return px_e5m2_of(x);
}""",
    **{
        f"{fn}_NaN_f32": f"static inline float {fn}_NaN_f32(float a, float b) {{\n"
        f"  return a != a || b != b ? px_cast<float>(0x7fffffff) : a {sign} b ? a : b;\n}}"
        for fn, sign in (("max", ">"), ("min", "<"))
    },
    "reciprocal_approx": "static inline float reciprocal_approx(float x) { return 1.0f / x; }",
    "tanh_approx": "static inline float tanh_approx(float x) { return tanhf(x); }",
    "exp2_approx": "static inline float exp2_approx(float x) { return exp2f(x); }",
    "unknown_zero": "static inline unsigned unknown_zero() { return 0; }",
    "lane_here": "static inline int lane_here() { return (int)(threadIdx.x % 32); }",
    "shared_address": "static inline unsigned shared_address(const void* p) { return px_address(p); }",
    "bar_sync": "template <int id, int count> static void bar_sync() { px_block(PX_CTA + id, count); }",
    "bar_red_and": """template <int id, int count> static bool bar_red_and(bool value) {
  return px_vote(PX_CTA + id, count, value);
}""",
    "globaltimer": "static inline unsigned long long globaltimer() { return 0; }",
    "px_seed": "static inline unsigned long long px_seed(const unsigned long long*) { return 0; }",
    "px_delay": "static inline void px_delay(const unsigned long long*, unsigned long long, int, unsigned& n) { ++n; }",
    "px_clock": "static inline unsigned px_clock() { return (unsigned)px_ticks(); }",
    "px_clock64": "static inline unsigned long long px_clock64() { return px_ticks(); }",
    "px_time": "static inline unsigned long long px_time() { return px_ticks(); }",
    "px_sm": "static inline unsigned px_sm() { return 0; }",
    "px_latest": """static inline void px_latest(unsigned long long* at, unsigned long long time) {
  if (time > *at) *at = time;
}""",
    "px_write": """static inline void px_write(
    bool written, const unsigned long long* at, unsigned a, unsigned b, unsigned c, unsigned d) {
  const unsigned words[4] = {a, b, c, d};
  if (written) memcpy((void*)at, words, 16);
}""",
    "px_stop": """static inline void px_stop(unsigned long long*, int site, unsigned, int) {
  px_fail("a wait that takes too long at site %d", site);
}""",
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

for _name in ("f8e4m3", "f8e5m2"):
    HOST_FUNCTIONS[f"{_name}_four_from_float"] = (
        f"{_once(f'{_name}_from_float')}\n"
        f"static inline void {_name}_four_from_float(px_{_name}* y, float a, float b, float c, float d) {{\n"
        f"  y[0] = {_name}_from_float(a), y[1] = {_name}_from_float(b);\n"
        f"  y[2] = {_name}_from_float(c), y[3] = {_name}_from_float(d);\n}}"
    )

for _source, _name in ((source, target) for source in ("f8e4m3", "f8e5m2") for target in ("f16", "bf16")):
    HOST_FUNCTIONS[f"{_name}_pair_from_{_source}"] = (
        f"{_once(f'{_name}_from_float')}\n{_once(f'{_source}_to_float')}\n"
        f"static inline void {_name}_pair_from_{_source}(px_{_name}* y, px_{_source} a, px_{_source} b) {{\n"
        f"  y[0] = {_name}_from_float({_source}_to_float(a)), y[1] = {_name}_from_float({_source}_to_float(b));\n}}"
    )

for _name, _source, _ctype in (
    ("f16", "f64", "double"), ("bf16", "f64", "double"), ("bf16", "i32", "int"), ("bf16", "u32", "unsigned"),
    ("bf16", "i64", "long long"), ("bf16", "u64", "unsigned long long"),
):
    HOST_FUNCTIONS[f"{_name}_from_{_source}"] = (
        f"static inline px_{_name} {_name}_from_{_source}({_ctype} x) {{\n"
        f"  return px_{'half' if _name == 'f16' else 'bfloat'}_of(px_odd_float(x));\n}}"
    )

for _name, _value, _rounded in (("f16", "px_half_value", "px_half_of"), ("bf16", "px_bfloat_value", "px_bfloat_of")):
    HOST_FUNCTIONS[f"fma_{_name}"] = (
        f"static inline px_{_name} fma_{_name}(px_{_name} a, px_{_name} b, px_{_name} c) {{\n"
        f"  return {_rounded}(px_fma_odd({_value}(a), {_value}(b), {_value}(c)));\n}}"
    )


def _atomic(name: str) -> str | None:
    match = re.fullmatch(r"(?:atomic|reduce)_(add|max|min|exch|cas)_(\w+?)_(global|shared|remote)(?:_ordered)?", name)
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
        "u16": "unsigned short",
        "f16": "px_f16",
        "bf16": "px_bf16",
    }[dtype]
    place = "unsigned p" if match[3] == "remote" else f"{ctype}* p"
    place_of = f"px_aligned<{ctype}>(p)", f"({ctype}*)px_place(p, sizeof({ctype}))"
    start = f"{ctype}* q = {place_of[match[3] == 'remote']};"
    if match[1] != "add":
        return _exchange(name, match[1], ctype, place, start)
    add = "__builtin_add_overflow(old, x, q);" if dtype[0] in "iu" else "*q = old + x;"  # integers wrap
    if dtype == "f16":
        add = "*q = px_half_of(px_half_value(old) + px_half_value(x));"
    if dtype == "bf16":
        add = "*q = px_bfloat_of(px_bfloat_value(old) + px_bfloat_value(x));"
    return f"static inline {ctype} {name}({place}, {ctype} x) {{ {start} {ctype} old = *q; {add} return old; }}"


def _exchange(name: str, update: str, ctype: str, place: str, start: str) -> str:
    """Atomics that put one of two elements into memory."""
    new = {"max": "old < x ? x : old", "min": "x < old ? x : old", "exch": "x", "cas": "old == expected ? x : old"}[update]
    expected = f"{ctype} expected, " if update == "cas" else ""
    body = f"{start} {ctype} old = *q; *q = {new}; return old;"
    return f"static inline {ctype} {name}({place}, {expected}{ctype} x) {{ {body} }}"


def _vector_addition(name: str) -> str | None:
    """Up to 16 bytes of neighbours at once, which lie at a multiple of their size."""
    match = re.fullmatch(r"reduce_add_(f32|f16|bf16)_global_v([248])", name)
    if not match:
        return None
    ctype, size = {"f32": ("float", 4), "f16": ("px_f16", 2), "bf16": ("px_bf16", 2)}[match[1]]
    add = {
        "f32": "q[j] += x[j];", "f16": "q[j] = px_half_of(px_half_value(q[j]) + px_half_value(x[j]));",
        "bf16": "q[j] = px_bfloat_of(px_bfloat_value(q[j]) + px_bfloat_value(x[j]));",
    }[match[1]]
    body = f"{ctype}* q = px_aligned<{ctype}>(p, {size * int(match[2])}); for (int j = 0; j < {match[2]}; ++j) {add}"
    return f"static inline void {name}({ctype}* p, const {ctype}* x) {{ {body} }}"


FAMILIES: list[Callable[[str], str | None]] = [_atomic, _vector_addition]
"""Makers of host versions by what a name looks like."""


def host_function(name: str) -> str | None:
    """The host version of a device function."""
    import support.host_cluster
    import support.host_mma
    import support.host_small_floats
    import support.host_tma  # noqa: F401

    return HOST_FUNCTIONS.get(name) or next(filter(None, (make(name) for make in FAMILIES)), None)


def host_source(*modules: Module) -> str:
    """One translation unit with the text of kernels and host versions of the functions that are made of PTX."""
    return translation_unit(modules, host_function)


def type_of(value: Any) -> ArrayType | ScalarType | None:
    if value is None:  # left out: the kernel has no such parameter
        return None
    if isinstance(value, np.ndarray):
        item = value.dtype.itemsize
        unit = value.strides[-1] == item if value.ndim else True
        step = 32 if value.dtype in OF_FOUR_BITS else 16
        aligned = value.ctypes.data % 16 == 0 and all(stride % step == 0 for stride in value.strides[:-1])
        whole = value.ctypes.data % 16 == 0 and value.dtype not in OF_FOUR_BITS
        chunk = chunk_axes(value.shape, value.strides, item) if whole and not aligned else ()
        return ArrayType(value.ndim, FROM_NUMPY[value.dtype], unit, aligned, chunk=chunk)
    if isinstance(value, Packed):
        plain = type_of(value.data.view(value.dtype.numpy))
        assert isinstance(plain, ArrayType) and value.dense
        return dataclasses.replace(plain, dense=True)
    return ScalarType(i32 if isinstance(value, int) else f32)


def module_for(kernel: Kernel, args: tuple[Any, ...], *, arch: str = "sm_90a", **constants: Any) -> Module:
    types = tuple(type_of(value) for value in args)
    target = arch_of(arch)
    return generate(lower(prepared(kernel, types, target, **constants), target))


def run_on_host(kernel: Kernel, grid: Any, *args: Any, arch: str = "sm_90a", seed: int = 1, **constants: Any) -> Module:
    """Runs a kernel in place on NumPy arrays, as its CUDA text says."""
    module = module_for(kernel, args, arch=arch, **constants)
    launch(module, grid, list(args), seed)
    return module


def launch(module: Module, grid: Any, args: list[Any], seed: int, debug: np.ndarray | None = None) -> None:
    """Runs the text of a module in place on NumPy arrays; what the runtime owns is 0 before, and has to be after.

    `debug` is the memory that the debug pointer names, if the text has one.
    """
    owned = [np.zeros(module.signature.counters, np.int32)] if getattr(module, "signature", None) else []
    owned = [counters for counters in owned if counters.size]
    with in_bytes([*(value for value in args if value is not None), *owned]) as bare:
        if RUNNER:
            from support.host_program import run_program

            [story] = run_program([module], [(grid, bare, seed)])
        else:
            functions = (ctypes.c_void_p * 1).in_dll(host_build.library(host_source(module)), "px_kernels")
            story = called(functions[0], module, grid, bare, seed, debug)
    if story is not None:
        raise HostFailure(story)
    for counters in owned:
        if counters.any():
            raise HostFailure(f"the counters are {counters.tolist()} at the end, not 0")


@contextmanager
def in_bytes(args: list[Any]) -> Iterator[list[Any]]:
    """The arguments as a GPU gets them: 4-bit elements, which have a byte each here, two to a byte, the first one lower, and
    those of dense arrays of 6-bit elements four to three bytes."""
    bare, whole = list(args), []
    for n, value in enumerate(args):
        if isinstance(value, np.ndarray) and value.dtype in OF_FOUR_BITS:
            codes = value.view(np.uint8)
            size = value.nbytes // 2
            room = np.zeros(size + 32, np.uint8)
            start = -room.ctypes.data % 32
            made = room[start : start + size].reshape(*value.shape[:-1], value.shape[-1] // 2)
            made[...] = codes[..., 0::2] & 15 | codes[..., 1::2] << 4
            bare[n] = made
            whole.append((value, made))
        if isinstance(value, Packed):
            bare[n] = four_to_three(value.data)
    yield bare
    for value, made in whole:
        codes = value.view(np.uint8)
        codes[..., 0::2], codes[..., 1::2] = made & 15, made >> 4


def four_to_three(elements: np.ndarray) -> np.ndarray:
    """The bytes of a dense array of 6-bit elements, from a multiple of 32 bytes on."""
    a, b, c, d = (elements.view(np.uint8)[..., part::4] & 63 for part in range(4))
    room = np.zeros(elements.size * 3 // 4 + 32, np.uint8)
    start = -room.ctypes.data % 32
    made = room[start : start + elements.size * 3 // 4].reshape(*elements.shape[:-1], -1)
    made[..., 0::3], made[..., 1::3], made[..., 2::3] = a | b << 6, b >> 2 | c << 4, c >> 4 | d << 2
    return made


def is_dense(slot: ArraySlot, array: np.ndarray) -> bool:
    """Whether an argument is the bytes of 6-bit elements."""
    return slot.dtype in ("f6e2m3", "f6e3m2") and array.dtype == np.uint8


class Launch(ctypes.Structure):
    """`px_launch` of the machine."""

    _fields_ = [
        ("threads", ctypes.c_int), ("shared", ctypes.c_uint), ("grid", ctypes.c_uint * 3), ("cluster", ctypes.c_int * 3),
        ("seed", ctypes.c_uint), ("seconds", ctypes.c_uint),
    ]  # fmt: skip


def launch_of(module: Module, grid: Any, seed: int) -> Launch:
    shape = (grid,) if isinstance(grid, int) else tuple(grid)
    sizes = (ctypes.c_uint * 3)(*(*shape, 1, 1)[:3])
    cluster = (ctypes.c_int * 3)(*module.cluster)
    return Launch(module.threads, module.shared_bytes, sizes, cluster, seed, SECONDS)


SECONDS = 300
"""What one launch may take."""


def called(
    function: Any, module: Module, grid: Any, args: list[Any], seed: int, debug: np.ndarray | None = None
) -> str | None:
    """Calls a kernel of a library; why it failed, if it did."""
    packed = [data for data, _ in packed_arguments(module, args)]
    if debug is not None:
        packed[-1] = struct.pack("<Q", debug.ctypes.data)
    # Descriptors and structs are copied by the call; only the array of their addresses is passed.
    kept = [ctypes.create_string_buffer(len(data) + 127) for data in packed]
    places = [-(-ctypes.addressof(buffer) // 128) * 128 for buffer in kept]  # a descriptor's alignment
    for place, data in zip(places, packed, strict=True):
        ctypes.memmove(place, data, len(data))
    pointers = (ctypes.c_void_p * max(1, len(packed)))(*places)
    machine = host_build.machine()
    why = machine.px_run(ctypes.c_void_p(function), pointers, ctypes.byref(launch_of(module, grid, seed)))
    if why == 0:
        return None
    return "the threads wait for each other" if why == 1 else told(module, machine.px_told().decode(), args)


def told(module: Module, story: str, args: list[Any]) -> str:
    """A story with arguments instead of addresses and with the line of the text."""

    def place(match: re.Match[str]) -> str:
        for n, value in enumerate(args):
            if isinstance(value, np.ndarray) and value.size:
                first, last = extent(value)
                if first <= int(match[1]) < last:
                    return f"byte {int(match[1]) - value.ctypes.data} of argument {n}"
        return match[0]

    return with_line(module, re.sub(r"address (\d+)", place, story))


def extent(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte and behind the last byte of an array's elements."""
    steps = [(count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True)]
    start = array.ctypes.data
    if array.size == 0:
        return start, start
    return start + sum(s for s in steps if s < 0), start + sum(s for s in steps if s > 0) + array.itemsize


def packed_arguments(module: Any, args: list[Any]) -> list[tuple[bytes, int]]:
    """The kernel's parameters, each with the argument whose address it begins with, or -1."""
    if isinstance(module, HandWritten):
        return module.packed(args)
    packed = parameters(module.signature, args)
    owners = [*range(len(args)), *(slot.array for slot in module.signature.tensor_maps)]
    return list(zip(packed, [*owners, *[-1] * (len(packed) - len(owners))], strict=True))


def parameters(signature: Signature, args: list[Any]) -> list[bytes]:
    """The kernel's parameters as they lie in memory; an array's address comes first in its struct and descriptor."""
    packed = []
    for slot, value in zip(signature.slots, args, strict=True):
        if isinstance(slot, ScalarSlot):
            packed.append(struct.pack(slot.format, value if slot.dtype[0] == "f" else int(value)))
        else:
            strides, shape = [stride // value.itemsize for stride in value.strides], list(value.shape)
            if is_dense(slot, value):  # of which the kernel is told as elements
                strides = [*(stride * 4 // 3 for stride in strides[:-1]), 1]
                shape[-1] = shape[-1] * 4 // 3
            packed.append(struct.pack(slot.format, value.ctypes.data, *strides, *shape))
    packed += [descriptor(slot, args[slot.array], signature) for slot in signature.tensor_maps]
    if signature.debug:
        packed.append(bytes(8))
    return packed


def descriptor(slot: TensorMapSlot, array: np.ndarray, signature: Signature) -> bytes:
    """`px_map` of the machine in the place of a TMA descriptor: 128 bytes."""
    if slot.merged > 1:  # the last axes are one, which has to be in memory
        count = slot.merged
        if not array[(0,) * (array.ndim - count)].flags.c_contiguous:
            raise HostFailure(f"a descriptor with {count} axes in one of an array with the strides {array.strides}")
        strides = (*array.strides[:-count], array.itemsize)
        shape = (*array.shape[:-count], int(np.prod(array.shape[-count:])))
        array = np.lib.stride_tricks.as_strided(array, shape, strides)
    order = [*(slot.axes or range(array.ndim))][::-1]

    def five(values: Any) -> list[int]:
        return [*values, *[0] * (5 - array.ndim)]

    shape, strides, box, item, unit = [*array.shape], [*array.strides], [*slot.box], array.itemsize, 0
    if slot.expands:  # units of sixteen elements: eight or twelve bytes of the array, sixteen of shared memory
        target = signature.slots[slot.array]
        assert isinstance(target, ArraySlot)
        item, unit = 16, 12 if is_dense(target, array) else 8
        steps = [stride for stride, size in zip(strides[:-1], shape) if size > 1]
        if box[-1] != 128 or shape[-1] % (8 * unit) or array.ctypes.data % 32 or any(step % 32 for step in steps):
            raise HostFailure(f"a descriptor of boxes {box} that pads elements: {shape} bytes, strides of {strides}")
        shape[-1], strides[-1], box[-1] = shape[-1] // unit, unit, box[-1] // 16
    steps = [number for part in slot.walk for number in (*part[::-1], 0, 0)[:3]]  # innermost first, as all others
    words = struct.pack(
        "<Q5q5i9h8sh9h", array.ctypes.data, *five(strides[axis] for axis in order),
        *five(shape[axis] for axis in order), *five(box[axis] for axis in order), array.ndim, item,
        MASKS["128B atoms of 32B"] if slot.wide else SWIZZLE_MASKS[slot.swizzle], slot.fill_nan,
        signature.slots[slot.array].dtype.encode(), unit, *(steps or [0] * 9),
    )  # fmt: skip
    return words.ljust(128, b"\0")
