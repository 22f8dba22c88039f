"""Plain bulk copies of a run of elements. The hardware knows no array bounds here, so these functions do.

`start` is the index of the run's first element in a row of `size` elements, `n` the run's length. The part inside
the row is copied in whole 16-byte pieces; the rest, less than 16 bytes of data and what lies outside, is done by
ordinary accesses.
"""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import SHARED_ADDRESS, Parameter, instruction

_POLICY = ("unsigned long long", "policy")

COMPLETE_TX = instruction(
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64", "[{bar}], {bytes}", (("unsigned", "bar"), ("unsigned", "bytes"))
)
FENCE_PROXY = instruction("fence.proxy.async.shared::cta")

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


@cache
def copy_in(hint: bool) -> Helper:
    """Builds one bulk copy of contiguous bytes from global to shared memory, credited to a barrier."""
    parameters: tuple[Parameter, ...] = (
        ("unsigned", "dst"), ("const void*", "src"), ("unsigned", "bytes"), ("unsigned", "bar"),
    )
    operands = "[{dst}], [{src}], {bytes}, [{bar}]"
    if hint:
        parameters += (_POLICY,)
        operands += ", {policy}"
    mnemonic = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + ".L2::cache_hint" * hint
    return instruction(mnemonic, operands, parameters, name="cp_async_bulk_shared_global" + "_cache_hint" * hint)


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
  for (int i = 0; i < in.first; ++i) dst[i] = T(0);
  for (int i = in.whole; i < n; ++i) dst[i] = i < in.last ? src[i] : T(0);
  __threadfence_block();  // whoever waits for the credit below sees these stores,
  {FENCE_PROXY.name}();  // and so does a copy that reads them later
  {COMPLETE_TX.name}(bar, n * sizeof(T) - bytes);
}}"""
    return Helper(name, text, (SHARED_ADDRESS, copy, INSIDE, FENCE_PROXY, COMPLETE_TX))


@cache
def bulk_store(*, hint: bool = False) -> Helper:
    """Elements outside the row are not stored."""
    copy = copy_out(hint)
    name = "bulk_store" + "_cache_hint" * hint
    policy, pass_on = ", unsigned long long policy" * hint, ", policy" * hint
    text = f"""\
template <class T>
__device__ __forceinline__ void {name}(T* dst, int start, int size, int n, const T* src{policy}) {{
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) {copy.name}(dst + in.first, shared_address(src + in.first), bytes{pass_on});
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
}}"""
    return Helper(name, text, (SHARED_ADDRESS, copy, INSIDE))


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
