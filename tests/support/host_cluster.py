"""Clusters and mbarriers on the CPU, for `host_cuda`: addresses in peers, pushes, barriers of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable

from support.host_cuda import FAMILIES, HOST_FUNCTIONS, run_on_host

run_cluster = run_on_host
"""Runs a kernel in place on NumPy arrays, as its CUDA text says, cluster after cluster."""

HOST_FUNCTIONS |= {
    "mapa_shared_cluster": """static inline unsigned mapa_shared_cluster(unsigned a, unsigned cta) {
  return px_mapped(a, cta);
}""",
    "cp_async_bulk_shared_shared": """
static void cp_async_bulk_shared_shared(unsigned d, unsigned s, unsigned n, unsigned bar) { px_push(d, s, n, bar); }""",
    "elect_sync": "static inline bool elect_sync() { return px_self->index % 32 == 0; }",
    "cluster_ctarank": "static inline int cluster_ctarank() { return px_self->rank; }",
}


def _family(name: str) -> str | None:
    """Host versions by what a name begins with: scopes and spaces make no difference here."""
    rules: list[tuple[str, Callable[[str], str]]] = [
        (r"fence_.*", lambda n: f"static inline void {n}() {{}}"),
        (r"mbarrier_init.*", lambda n: f"static void {n}(unsigned b, unsigned c) {{ px_barrier_init(b, c); }}"),
        (r"mbarrier_inval.*", lambda n: f"static void {n}(unsigned b) {{ px_barrier_inval(b); }}"),
        (
            r"mbarrier_arrive_expect_tx.*",
            lambda n: f"static void {n}(unsigned b, unsigned t) {{ px_expect(b, t), px_arrive(b, 1); }}",
        ),
        (r"mbarrier_expect_tx.*", lambda n: f"static void {n}(unsigned b, unsigned t) {{ px_expect(b, t); }}"),
        (r"mbarrier_arrive.*_count", lambda n: f"static void {n}(unsigned b, unsigned c) {{ px_arrive(b, c); }}"),
        (r"mbarrier_arrive.*", lambda n: f"static void {n}(unsigned b) {{ px_arrive(b, 1); }}"),
        (r"mbarrier_complete_tx.*", lambda n: f"static void {n}(unsigned b, unsigned t) {{ px_complete(b, t); }}"),
        (
            r"mbarrier_(try|test)_wait.*",
            lambda n: f"static bool {n}(unsigned b, unsigned p) {{ return px_phase_comes(b, p); }}",
        ),
        (r"barrier_cluster_arrive.*", lambda n: f"static void {n}() {{ px_cluster_arrive(); }}"),
        (r"barrier_cluster_wait.*", lambda n: f"static void {n}() {{ px_cluster_wait(); }}"),
        *(
            (rf"cluster_ctaid_{axis}", lambda n, axis=axis, i=i: f"static int {n}() "  # type: ignore[misc]
             f"{{ return (int)(blockIdx.{axis} % (unsigned)px_cluster_shape()[{i}]); }}")
            for i, axis in enumerate("xyz")
        ),
    ]  # fmt: skip
    return next((make(name) for pattern, make in rules if re.fullmatch(pattern, name)), None)


FAMILIES.append(_family)
