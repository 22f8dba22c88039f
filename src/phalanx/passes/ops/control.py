"""What passes know of control flow, printing and assertions."""

from __future__ import annotations

from phalanx.ir.ops.control import Print
from phalanx.passes.registry import takes_every_warp

takes_every_warp.add(Print)
