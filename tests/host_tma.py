"""Runs the CUDA text of a kernel with TMA copies on the CPU: `host_cluster` with an engine for tensor and bulk copies.

A copy lands when the shuffle says so, or at the latest when its group is waited for. Tensor copies obey the descriptor:
boxes, elements outside the matrix, and the swizzle as an XOR on shared addresses. Only matrices have descriptors here.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

import host_cluster
import host_cuda
from front import prepared
from host_cluster import FUNCTIONS
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.language.kernel import Kernel
from phalanx.layouts.shared import SWIZZLE_MASKS
from phalanx.passes.lower import lower
from phalanx.runtime.abi import TensorMapSlot

BOX = """
#ifndef HOST_BOX
#define HOST_BOX
struct Map { unsigned char* data; long long columns, rows, stride, width, height, mask, item; };
// One row of a box, at an address before the swizzle. A store touches nothing at a negative place: there it faults.
static void px_row(const Map& m, unsigned char* memory, unsigned at, int column, int row, bool load) {
  if (!load && (row < 0 || column < 0)) { px_fail("a tensor store to row %d, column %d", row, column); return; }
  for (int i = 0; i < m.width; ++i) {
    unsigned plain = at + i * m.item, place = plain ^ ((plain >> 3) & m.mask);
    long long c = (long long)column + i;
    bool inside = row >= 0 && row < m.rows && c >= 0 && c < m.columns;
    unsigned char *shared = memory + place, *global = m.data + row * m.stride + c * m.item;
    if (load && inside) memcpy(shared, global, m.item);
    else if (load) memset(shared, 0, m.item);
    else if (inside) memcpy(global, shared, m.item);
  }
}
static void px_load(unsigned dst, const void* map, int column, const int* rows, int n, unsigned bar, unsigned ctas) {
  Map m = *(const Map*)map;
  px_place(dst, 128);
  if (column * m.item % 16) px_fail("a box at column %d, not at a multiple of 16 bytes", column);
  std::vector<int> named(rows, rows + n);
  for (int cta = 0; cta < 16; ++cta) if (ctas >> cta & 1) {
    unsigned char *memory = px_memories[cta], *credited = px_memories[cta] + (bar & 0xffffff) - 4096;
    unsigned at = (dst & 0xffffff) - 4096;
    px_flying.push_back([=] {
      for (size_t i = 0; i < named.size(); ++i) px_row(m, memory, at + i * m.width * m.item, column, named[i], true);
      px_credit(credited, named.size() * m.width * m.item);
    });
  }
}
static void px_store(const void* map, int column, const int* rows, int n, unsigned src) {
  Map m = *(const Map*)map;
  px_place(src, 128);
  if (column * m.item % 16) px_fail("a box at column %d, not at a multiple of 16 bytes", column);
  std::vector<int> named(rows, rows + n);
  unsigned char* memory = px_memories[fibers[current].rank];
  unsigned at = (src & 0xffffff) - 4096;
  px_flying.push_back([=] {
    for (size_t i = 0; i < named.size(); ++i) px_row(m, memory, at + i * m.width * m.item, column, named[i], false);
  });
}
static std::vector<int> px_box(const void* map, int row) {
  std::vector<int> rows;
  for (int i = 0; i < ((const Map*)map)->height; ++i) rows.push_back(row + i);
  return rows;
}
#define PX_HERE (1u << fibers[current].rank)
#endif
"""
TMA = {
    "cp_async_bulk_tensor_2d_shared_global": BOX + """
static void cp_async_bulk_tensor_2d_shared_global(unsigned d, const void* m, int c, int r, unsigned bar) {
  auto rows = px_box(m, r); px_load(d, m, c, rows.data(), rows.size(), bar, PX_HERE); }""",
    "cp_async_bulk_tensor_2d_shared_global_multicast": BOX + """
static void cp_async_bulk_tensor_2d_shared_global_multicast(unsigned d, const void* m, int c, int r, unsigned bar,
  unsigned short ctas) { auto rows = px_box(m, r); px_load(d, m, c, rows.data(), rows.size(), bar, ctas); }""",
    "cp_async_bulk_tensor_2d_gather4": BOX + """
static void cp_async_bulk_tensor_2d_gather4(unsigned d, const void* m, int c, int r0, int r1, int r2, int r3,
  unsigned bar) { int rows[] = {r0, r1, r2, r3}; px_load(d, m, c, rows, 4, bar, PX_HERE); }""",
    "cp_async_bulk_tensor_2d_gather4_multicast": BOX + """
static void cp_async_bulk_tensor_2d_gather4_multicast(unsigned d, const void* m, int c, int r0, int r1, int r2, int r3,
  unsigned bar, unsigned short ctas) { int rows[] = {r0, r1, r2, r3}; px_load(d, m, c, rows, 4, bar, ctas); }""",
    "cp_async_bulk_tensor_2d_global_shared": BOX + """
static void cp_async_bulk_tensor_2d_global_shared(const void* m, int c, int r, unsigned s) {
  auto rows = px_box(m, r); px_store(m, c, rows.data(), rows.size(), s); }""",
    "cp_async_bulk_tensor_2d_scatter4": BOX + """
static void cp_async_bulk_tensor_2d_scatter4(const void* m, int c, int r0, int r1, int r2, int r3, unsigned s) {
  int rows[] = {r0, r1, r2, r3}; px_store(m, c, rows, 4, s); }""",
    "cp_async_bulk_shared_global": """
static inline void __threadfence_block() {}
static void cp_async_bulk_shared_global(unsigned d, const void* s, unsigned n, unsigned bar) {
  if (n % 16) px_fail("a copy of %u bytes", n);
  px_aligned<const char>(s, 16);
  unsigned char *to = px_place(d, 16), *at = px_place(bar, 8);
  px_flying.push_back([=] { memcpy(to, s, n); px_credit(at, n); });
}""",
    "cp_async_bulk_global_shared": """
static void cp_async_bulk_global_shared(void* d, unsigned s, unsigned n) {
  if (n % 16) px_fail("a copy of %u bytes", n);
  px_aligned<char>(d, 16);
  unsigned char* from = px_place(s, 16);
  px_flying.push_back([=] { memcpy(d, from, n); });
}""",
    "cp_async_bulk_commit_group": "static void cp_async_bulk_commit_group() {}",
    "prefetch_tensormap": "static void prefetch_tensormap(const void*) {}",
}  # fmt: skip
for _pending in range(8):
    for _read in ("", "_read"):
        _name = f"cp_async_bulk_wait_group{_read}_{_pending}"
        TMA[_name] = f"static void {_name}() {{ while (!px_flying.empty()) px_land(0); }}"
FUNCTIONS.update(TMA)


def descriptor(slot: TensorMapSlot, array: np.ndarray) -> Any:
    """What the engine above reads of a descriptor: 128 bytes, aligned."""
    height, width = slot.box
    words = (
        array.ctypes.data, array.shape[1], array.shape[0], array.strides[0], width, height, SWIZZLE_MASKS[slot.swizzle],
        array.itemsize,
    )  # fmt: skip
    return ctypes.create_string_buffer(struct.pack("<8q", *words) + b"\0" * 64, 128)


def run(kernel: Kernel, grid: int, *args: Any, arch: str = "sm_90a", seed: int = 1, **constants: Any) -> Module:
    """Runs a kernel in place on NumPy arrays, as its CUDA text for `arch` says."""
    function = prepared(kernel, tuple(host_cuda.type_of(value) for value in args), **constants)
    plan = lower(function, arch_of(arch))
    module = generate(plan)
    packed = [host_cuda._pack(value) for value in args]
    packed += [descriptor(slot, args[slot.array]) for slot in plan.tensor_maps]
    host_cluster.launch(module, grid, list(args), packed, seed)
    return module
