"""Copies on the CPU, for `host_cuda`: tensor copies as their descriptor says, plain bulk copies, groups, those of threads.

A copy lands when the shuffle says so, or at the latest when its group is waited for; one of a thread, not before its commit.
"""

from __future__ import annotations

import re

from support.host_cuda import FAMILIES, HOST_FUNCTIONS, run_on_host

run = run_on_host
"""Runs a kernel in place on NumPy arrays, as its CUDA text for `arch` says."""

HOST_FUNCTIONS |= {
    "cp_async_bulk_commit_group": "static void cp_async_bulk_commit_group() {}",
    "cp_async_mbarrier_arrive": "static void cp_async_mbarrier_arrive(unsigned bar) { px_copies_arrive(bar); }",
    **{
        f"cp_async_{n}": f"static void cp_async_{n}(unsigned to, const void* from, unsigned found) "
        f"{{ px_copy_async(to, from, {n}, found); }}"
        for n in (4, 8, 16)
    },
    "prefetch_tensormap": "static void prefetch_tensormap(const void*) {}",
    "cp_async_bulk_tensor_2d_scatter4": """
static void cp_async_bulk_tensor_2d_scatter4(const void* m, int c, int r0, int r1, int r2, int r3, unsigned s) {
  const int at[] = {c, r0}, rows[] = {r0, r1, r2, r3};
  px_tensor_out(m, at, rows, s, "");
}""",
}
_RULES = {
    r"cp_async_bulk_tensor_(?P<rank>\dd)_shared_global(?P<multicast>_multicast)?(?P<hint>_cache_hint)?": (
        "(unsigned d, const void* m, {coordinates}, unsigned bar{ctas}{policy}) "
        "{{ const int at[] = {{{names}}}; px_tensor_in(d, m, at, 0, bar, {to}); }}"
    ),
    r"cp_async_bulk_tensor_(?P<rank>\dd)_shared_global_im2col(?P<multicast>_multicast)?(?P<hint>_cache_hint)?": (
        "(unsigned d, const void* m, {coordinates}, unsigned bar, {taps}{ctas}{policy}) {{ const int at[] = {{{names}}}, "
        "taps[] = {{{offsets}}}; px_patches_in(d, m, at, taps, bar, {to}); }}"
    ),
    r"cp_async_bulk_tensor_2d_gather4(?P<multicast>_multicast)?(?P<hint>_cache_hint)?": (
        "(unsigned d, const void* m, int c, int r0, int r1, int r2, int r3, unsigned bar{ctas}{policy}) "
        "{{ const int at[] = {{c, r0}}, rows[] = {{r0, r1, r2, r3}}; px_tensor_in(d, m, at, rows, bar, {to}); }}"
    ),
    r"cp_(reduce_)?async_bulk_tensor_(?P<rank>\dd)_global_shared(_(?P<by>add|min|max))?(?P<hint>_cache_hint)?": (
        "(const void* m, {coordinates}, unsigned s{policy}) "
        '{{ const int at[] = {{{names}}}; px_tensor_out(m, at, 0, s, "{by}"); }}'
    ),
    r"cp_async_bulk_prefetch_tensor_(?P<rank>\dd)_.*?(?P<hint>_cache_hint)?": "(const void* m, {coordinates}{policy}) {{}}",
    r"cp_async_bulk_prefetch_L2_global(_L2)?(?P<hint>_cache_hint)?": "(const void* p, unsigned n{policy}) {{}}",
    r"cp_async_bulk_shared_global(?P<multicast>_multicast)(?P<hint>_cache_hint)?": (
        "(unsigned d, const void* s, unsigned n, unsigned bar{ctas}{policy}) {{ for (unsigned r = 0; r < 16; ++r) "
        "if ({to} >> r & 1) px_bulk_in(px_mapped(d, r), s, n, px_mapped(bar, r)); }}"
    ),
    r"cp_async_bulk_shared_global(?P<hint>_cache_hint)?": (
        "(unsigned d, const void* s, unsigned n, unsigned bar{policy}) {{ px_bulk_in(d, s, n, bar); }}"
    ),
    r"cp_async_bulk_global_shared(?P<hint>_cache_hint)?": (
        "(void* d, unsigned s, unsigned n{policy}) {{ px_bulk_out(d, s, n); }}"
    ),
    r"cp_reduce_async_bulk_global_shared_add_(?P<added>\w+?)(?P<hint>_cache_hint)?": (
        "(void* d, unsigned s, unsigned n{policy}) {{ px_bulk_fold(d, s, n, sizeof({ctype}), [](void* p, const void* x) "
        "{{ reduce_add_{added}_global(({ctype}*)p, *(const {ctype}*)x); }}); }}"
    ),
    r"cp_async_bulk_wait_group(_read)?_\d+": "() {{ px_land_all(); }}",
}


_CTYPES = {
    "f64": "double", "f32": "float", "u64": "unsigned long long", "i32": "int", "u32": "unsigned", "f16": "px_f16",
    "bf16": "px_bf16",
}  # fmt: skip


def _family(name: str) -> str | None:
    """One rule for every rank, target and hint. What a cache is told makes no difference here."""
    for pattern, body in _RULES.items():
        if (match := re.fullmatch(pattern, name)) is None:
            continue
        parts = match.groupdict()
        rank = int((parts.get("rank") or "0d")[0])
        multicast = bool(parts.get("multicast"))
        return f"static void {name}" + body.format(
            coordinates=", ".join(f"int c{axis}" for axis in range(rank)),
            names=", ".join(f"c{axis}" for axis in range(rank)),
            taps=", ".join(f"unsigned short o{axis}" for axis in range(rank - 2)),
            offsets=", ".join(f"o{axis}" for axis in range(rank - 2)),
            ctas=", unsigned short ctas" * multicast,
            to="ctas" if multicast else "PX_HERE",
            policy=", unsigned long long" * bool(parts.get("hint")),
            by=parts.get("by") or "",
            added=parts.get("added") or "",
            ctype=_CTYPES.get(parts.get("added") or "", ""),
        )
    return None


FAMILIES.append(_family)
