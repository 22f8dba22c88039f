"""Plain bulk copies that add to global memory, a device function per element type; `bulk.cuh` has the other copies."""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper, helper
from phalanx.cuda.text.prelude import Parameter, instruction

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
        ("void*", "dst"), ("unsigned", "src"), ("unsigned", "bytes"), *[("unsigned long long", "policy")] * hint,
    )
    copy = instruction(
        mnemonic, "[{dst}], [{src}], {bytes}" + ", {policy}" * hint, parameters,
        name=f"cp_reduce_async_bulk_global_shared_add_{dtype}" + "_cache_hint" * hint,
    )
    name = f"bulk_add_{dtype}" + "_cache_hint" * hint
    policy, pass_on = ", unsigned long long policy" * hint, ", policy" * hint
    text = f"""\
template <class T>
__device__ __forceinline__ void {name}(T* dst, int start, int size, int n, const T* src{policy}) {{
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) {copy.name}(dst + in.first, shared_address(src + in.first), bytes{pass_on});
  for (int i = in.whole; i < in.last; ++i) {element.name}(dst + i, src[i]);
}}"""
    return Helper(name, text, (helper("shared_address"), helper("px_inside"), element, copy))
