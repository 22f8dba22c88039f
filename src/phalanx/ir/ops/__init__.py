"""The instructions, one file per family; importing this package defines them all."""

from phalanx.ir.ops import cluster, control, gather, mbarrier, memory, mma, tcgen05, tile, tma, wgmma

__all__ = ["cluster", "control", "gather", "mbarrier", "memory", "mma", "tcgen05", "tile", "tma", "wgmma"]
