"""Cluster launch control in PTX: `clusterlaunchcontrol.try_cancel`, and queries of what it brought."""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import instruction, special_register
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
    w.define(granted, f"{w.use('clusterlaunchcontrol_query_cancel')}({', '.join([_address(w, op.response), *first])})")
    w.line(f"{w.use('fence_proxy_async_shared_cta')}();")
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
