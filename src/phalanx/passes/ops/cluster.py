"""What passes make of copies from CTA to CTA."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Op
from phalanx.ir.effects import Span
from phalanx.ir.ops.cluster import ClusterCopy
from phalanx.passes.registry import at_scope


@at_scope(ClusterCopy)
def _at_scope(op: ClusterCopy, scope: Span) -> Op:
    return dataclasses.replace(op, scope=scope)
