"""Plain bulk copies of a run of elements. The hardware knows no array bounds here, so these functions do.

`start` is the index of the run's first element in a row of `size` elements, `n` the run's length. The part inside
the row is copied in whole 16-byte pieces; the rest, less than 16 bytes of data and what lies outside, is done by
ordinary accesses.
"""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import MAPA, SHARED_ADDRESS, Parameter, instruction

_POLICY = ("unsigned long long", "policy")

COMPLETE_TX = instruction(
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64", "[{bar}], {bytes}", (("unsigned", "bar"), ("unsigned", "bytes"))
)
FENCE_PROXY = instruction("fence.proxy.async.shared::cta")
FENCE_PROXY_CLUSTER = instruction("fence.proxy.async.shared::cluster")
FENCE_CLUSTER = instruction("fence.acq_rel.cluster")

INSIDE = Helper(
    "px_inside",
    "// The elements [first, last) of a run lie inside the row; up to `whole` they are whole 16-byte pieces.\n"
    "template <class T>\n"
    "struct px_inside {\n"
    "  int first, last, whole;\n"
    "  __device__ __forceinline__ px_inside(int start, int size, int n) {\n"
    "    const long long left = (long long)size - start;\n"
    "    first = start < 0 ? (start > -n ? -start : n) : 0;\n"
    "    last = left < first ? first : left < n ? (int)left : n;\n"
    "    whole = first + (last - first) * (int)sizeof(T) / 16 * 16 / (int)sizeof(T);\n"
    "  }\n"
    "};",
)


ZEROS = Helper(
    "bulk_zeros",
    "// Zeros in place of the elements [i, end) of a run that begins at a multiple of 16 bytes.\n"
    "template <class T>\n"
    "__device__ __forceinline__ void bulk_zeros(T* dst, int i, int end) {\n"
    "  constexpr int vector = 16 / (int)sizeof(T);\n"
    "  for (; i < end && i % vector != 0; ++i) dst[i] = T(0);\n"
    "  for (; i + vector <= end; i += vector) *reinterpret_cast<uint4*>(dst + i) = make_uint4(0, 0, 0, 0);\n"
    "  for (; i < end; ++i) dst[i] = T(0);\n"
    "}",
)


REMOTE_COMPLETE_TX = instruction(
    "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64", "[{bar}], {bytes}",
    (("unsigned", "bar"), ("unsigned", "bytes")),
)
"""The credit of bytes to a barrier of a peer, for what ordinary stores have written."""

SPREAD_REST = Helper(
    "bulk_spread_rest",
    "// What a bulk copy to several CTAs leaves of a run, stored in one of them: the bytes [whole, last), and zeros for\n"
    "// those outside [first, last).\n"
    "__device__ __forceinline__ void bulk_spread_rest(unsigned there, const unsigned char* src, unsigned first,\n"
    "                                                 unsigned whole, unsigned last, unsigned n) {\n"
    "  for (unsigned at = first != 0 ? 0 : whole; at < n;) {\n"
    "    if (at == first && whole > first) {\n"
    "      at = whole;\n"
    "    } else if (at % 16 == 0 && at + 16 <= n && (at + 16 <= first || at >= last)) {\n"
    '      asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(there + at), "r"(0) : "memory");\n'
    "      at += 16;\n"
    "    } else {\n"
    "      const unsigned byte = at >= whole && at < last ? src[at] : 0;\n"
    '      asm volatile("st.shared::cluster.b8 [%0], %1;" :: "r"(there + at), "r"(byte) : "memory");\n'
    "      ++at;\n"
    "    }\n"
    "  }\n"
    "}",
)


@cache
def copy_in(hint: bool, multicast: bool = False) -> Helper:
    """Builds one bulk copy of contiguous bytes from global to shared memory, here or in each CTA of a mask, credited to a
    barrier there."""
    parameters: tuple[Parameter, ...] = (
        ("unsigned", "dst"), ("const void*", "src"), ("unsigned", "bytes"), ("unsigned", "bar"),
    )
    operands = "[{dst}], [{src}], {bytes}, [{bar}]"
    if multicast:
        parameters += (("unsigned short", "ctas"),)
        operands += ", {ctas}"
    if hint:
        parameters += (_POLICY,)
        operands += ", {policy}"
    mnemonic = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    mnemonic += ".multicast::cluster" * multicast + ".L2::cache_hint" * hint
    name = "cp_async_bulk_shared_global" + "_multicast" * multicast + "_cache_hint" * hint
    return instruction(mnemonic, operands, parameters, name=name)


@cache
def bulk_multicast(*, hint: bool = False) -> Helper:
    """In each CTA of a mask elements outside the row become zeros, and all bytes of the run are credited to its barrier."""
    copy = copy_in(hint, True)
    name = "bulk_multicast" + "_cache_hint" * hint
    policy, pass_on = ", unsigned long long policy" * hint, ", policy" * hint
    text = f"""\
template <class T>
__device__ __forceinline__ void {name}(T* dst, const T* src, int start, int size, int n, unsigned bar,
                                       unsigned short ctas{policy}) {{
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T), all = n * sizeof(T);
  if (bytes != 0) {copy.name}(shared_address(dst + in.first), src + in.first, bytes, bar, ctas{pass_on});
  if (bytes == all) return;
  const unsigned here = shared_address(dst), first = in.first * sizeof(T), whole = in.whole * sizeof(T);
  const unsigned char* const from = reinterpret_cast<const unsigned char*>(src);
  for (int cta = 0; cta < 16; ++cta)
    if (ctas >> cta & 1)
      {SPREAD_REST.name}({MAPA.name}(here, cta), from, first, whole, in.last * sizeof(T), all);
  {FENCE_PROXY_CLUSTER.name}();  // a copy that reads these stores later sees them,
  {FENCE_CLUSTER.name}();  // and so does whoever waits for the credit below
  for (int cta = 0; cta < 16; ++cta)
    if (ctas >> cta & 1) {REMOTE_COMPLETE_TX.name}({MAPA.name}(bar, cta), all - bytes);
}}"""
    uses = (SHARED_ADDRESS, MAPA, copy, INSIDE, SPREAD_REST, FENCE_PROXY_CLUSTER, FENCE_CLUSTER, REMOTE_COMPLETE_TX)
    return Helper(name, text, uses)


@cache
def copy_out(hint: bool = False) -> Helper:
    """Builds one bulk copy of contiguous bytes from shared to global memory, in the current bulk group."""
    parameters: tuple[Parameter, ...] = (
        ("void*", "dst"), ("unsigned", "src"), ("unsigned", "bytes"), *[_POLICY] * hint,
    )
    return instruction(
        "cp.async.bulk.global.shared::cta.bulk_group" + ".L2::cache_hint" * hint,
        "[{dst}], [{src}], {bytes}" + ", {policy}" * hint, parameters,
        name="cp_async_bulk_global_shared" + "_cache_hint" * hint,
    )


@cache
def bulk_load(*, hint: bool = False) -> Helper:
    """Elements outside the row become zeros; all bytes of the run are credited to the barrier."""
    copy = copy_in(hint)
    name = "bulk_load" + "_cache_hint" * hint
    policy = ", unsigned long long policy" * hint
    pass_on = ", policy" * hint
    text = f"""\
template <class T>
__device__ __forceinline__ void {name}(T* dst, const T* src, int start, int size, int n, unsigned bar{policy}) {{
  const px_inside<T> in(start, size, n);
  if (in.first == 0 && in.whole == n) {{
    {copy.name}(shared_address(dst), src, n * sizeof(T), bar{pass_on});
    return;
  }}
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) {copy.name}(shared_address(dst + in.first), src + in.first, bytes, bar{pass_on});
  bulk_zeros(dst, 0, in.first);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
  bulk_zeros(dst, in.last, n);
  __threadfence_block();  // whoever waits for the credit below sees these stores,
  {FENCE_PROXY.name}();  // and so does a copy that reads them later
  {COMPLETE_TX.name}(bar, n * sizeof(T) - bytes);
}}"""
    return Helper(name, text, (SHARED_ADDRESS, copy, INSIDE, ZEROS, FENCE_PROXY, COMPLETE_TX))


@cache
def bulk_store(*, hint: bool = False) -> Helper:
    """Elements outside the row are not stored."""
    copy = copy_out(hint)
    name = "bulk_store" + "_cache_hint" * hint
    return Helper(name, _row_out(name, copy, "dst[i] = src[i]", hint), (SHARED_ADDRESS, copy, INSIDE))


def _row_out(name: str, copy: Helper, one: str, hint: bool) -> str:
    """A function that hands a row of shared memory to the copy engine, and what follows its whole pieces one by one."""
    policy, pass_on = ", unsigned long long policy" * hint, ", policy" * hint
    return f"""\
template <class T>
__device__ __forceinline__ void {name}(T* dst, int start, int size, int n, const T* src{policy}) {{
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) {copy.name}(dst + in.first, shared_address(src + in.first), bytes{pass_on});
  for (int i = in.whole; i < in.last; ++i) {one};
}}"""


_ADDED = {"f32": "f32", "f16": "noftz.f16", "bf16": "noftz.bf16", "i32": "s32", "u32": "u32", "u64": "u64", "f64": "f64"}
BULK_ADDITIONS = tuple(_ADDED)
"""Element types that a bulk copy adds to global memory."""


@cache
def bulk_add(dtype: str, element: Helper, *, hint: bool = False) -> Helper:
    """Elements are added to those of the row, each atomically; outside the row there is nothing to add to.

    `element` adds one, for the end of a row that is no whole piece.
    """
    mnemonic = f"cp.reduce.async.bulk.global.shared::cta.bulk_group{'.L2::cache_hint' * hint}.add.{_ADDED[dtype]}"
    parameters: tuple[Parameter, ...] = (
        ("void*", "dst"), ("unsigned", "src"), ("unsigned", "bytes"), *[_POLICY] * hint,
    )
    copy = instruction(
        mnemonic, "[{dst}], [{src}], {bytes}" + ", {policy}" * hint, parameters,
        name=f"cp_reduce_async_bulk_global_shared_add_{dtype}" + "_cache_hint" * hint,
    )
    name = f"bulk_add_{dtype}" + "_cache_hint" * hint
    text = _row_out(name, copy, f"{element.name}(dst + i, src[i])", hint)
    return Helper(name, text, (SHARED_ADDRESS, INSIDE, element, copy))


@cache
def bulk_prefetch(*, hint: bool = False) -> Helper:
    """Whole 16-byte pieces inside the row are brought into L2."""
    fetch = instruction(
        "cp.async.bulk.prefetch.L2.global" + ".L2::cache_hint" * hint,
        "[{src}], {bytes}" + ", {policy}" * hint,
        (("const void*", "src"), ("unsigned", "bytes"), *[_POLICY] * hint),
    )
    name = "bulk_prefetch" + "_cache_hint" * hint
    policy, pass_on = ", unsigned long long policy" * hint, ", policy" * hint
    text = f"""\
template <class T>
__device__ __forceinline__ void {name}(const T* src, int start, int size, int n{policy}) {{
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) {fetch.name}(src + in.first, bytes{pass_on});
}}"""
    return Helper(name, text, (fetch, INSIDE))
