"""What each instruction means, one file per family; importing this package registers them all."""

from phalanx.sim.ops import cluster, control, mbarrier, memory, tile, tma, wgmma

__all__ = ["cluster", "control", "mbarrier", "memory", "tile", "tma", "wgmma"]
