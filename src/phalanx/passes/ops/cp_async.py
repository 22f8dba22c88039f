"""What passes know of copies that threads begin."""

from __future__ import annotations

from phalanx.ir.ops.cp_async import CpAsyncCommit
from phalanx.passes.registry import takes_every_warp

takes_every_warp.add(CpAsyncCommit)
