"""What each family tells the passes that lower for a GPU, one file per family; importing this package registers it all."""

from phalanx.cuda.lower.ops import cluster, control, gather, memory, mma, tcgen05, tile, tma, wgmma

__all__ = ["cluster", "control", "gather", "memory", "mma", "tcgen05", "tile", "tma", "wgmma"]
