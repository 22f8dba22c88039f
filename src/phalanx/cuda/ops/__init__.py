"""How each instruction is written, one file per family; importing this package registers all emitters."""

from phalanx.cuda.ops import cluster, control, gather, mbarrier, memory, mma, tcgen05, tile, tma, wgmma

__all__ = ["cluster", "control", "gather", "mbarrier", "memory", "mma", "tcgen05", "tile", "tma", "wgmma"]
