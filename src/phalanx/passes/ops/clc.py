"""What passes know of requests for clusters that have not started."""

from __future__ import annotations

from phalanx.ir.ops.clc import ClcTryCancel
from phalanx.passes.registry import needs_peers


@needs_peers(ClcTryCancel)
def _needs_peers(op: ClcTryCancel) -> bool:
    """In a cluster of several all CTAs have to be there when the response comes."""
    return op.ctas is not None
