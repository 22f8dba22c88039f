"""What each instruction means, one file per family; importing this package registers them all."""

from phalanx.sim.ops import cluster, control, gather, mbarrier, memory, mma, tcgen05, tile, tma, wgmma

__all__ = ["cluster", "control", "gather", "mbarrier", "memory", "mma", "tcgen05", "tile", "tma", "wgmma"]
