"""Cluster launch control in PTX: `clusterlaunchcontrol.try_cancel`, and queries of what it brought."""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.bulk import FENCE_PROXY
from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function, instruction, special_register
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer
from phalanx.ir.ops.clc import ClcQuery, ClcTryCancel
from phalanx.ir.views import SharedView


@cache
def request(multicast: bool) -> Helper:
    """Builds `clusterlaunchcontrol.try_cancel`: 16 bytes to shared memory, credited to a barrier, here or in every CTA."""
    mnemonic = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    mnemonic += ".multicast::cluster::all" * multicast + ".b128"
    name = "clusterlaunchcontrol_try_cancel" + "_multicast" * multicast
    return instruction(mnemonic, "[{response}], [{bar}]", (("unsigned", "response"), ("unsigned", "bar")), name=name)


QUERY = device_function(
    "clusterlaunchcontrol_query_cancel",
    "bool",
    (("unsigned", "response"), ("int&", "x"), ("int&", "y"), ("int&", "z")),
    "// Whether a cluster was granted, and its first block; what that is where none was, PTX leaves open.\n"
    "unsigned granted;\n"
    'asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared::cta.b128 r, [%4]; "\n'
    '             "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %0, 1, 0, p; "\n'
    '             "mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "\n'
    '             "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, _}, r; }"\n'
    '             : "=r"(granted), "=r"(x), "=r"(y), "=r"(z) : "r"(response) : "memory");\n'
    "return granted != 0;",
)


@emits(ClcTryCancel)
def emit_try_cancel(w: Writer, op: ClcTryCancel) -> None:
    """Writes the request, by the elected thread."""
    response, bar = _address(w, op.response), w.barrier_address(op.bar)
    with w.elected():
        w.line(f"{w.use(request(op.ctas is not None))}({response}, {bar});")


@emits(ClcQuery)
def emit_query(w: Writer, op: ClcQuery) -> None:
    """Writes the read by every thread, the fence behind it, and the block of this CTA's own position in the cluster."""
    granted, block = op.results
    first = [w.unique(f"first_{axis}") for axis in "xyz"]
    w.line(f"int {', '.join(first)};")
    w.define(granted, f"{w.use(QUERY)}({', '.join([_address(w, op.response), *first])})")
    w.line(f"{w.use(FENCE_PROXY)}();")
    x, y, z = (_own(w, dim, name) for dim, name in enumerate(first))
    linear = f"{x} + (int)gridDim.x * ({y} + (int)gridDim.y * {z})"
    w.define(block, f"{w.name(granted)} ? {linear} : -1", pure=True)


def _own(w: Writer, dim: int, first: str) -> str:
    """This CTA's coordinate in a cluster whose first CTA has the coordinate `first`."""
    if w.plan.function.cluster[dim] == 1:
        return first
    position = special_register(f"cluster_ctaid.{'xyz'[dim]}")
    return f"({first} + {w.use(position)}())"


def _address(w: Writer, response: SharedView) -> str:
    """The shared address of the 16 bytes of a response."""
    terms = [w.name(offset) for offset in response.offsets]
    extra = w.plan.buffers[response.buffer].layout.linear_offset_expression(terms)
    address = w.address(response.buffer)
    return address if extra == "0" else f"{address} + {extra}"
