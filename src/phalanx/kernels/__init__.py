"""The library: functions on whole arrays (torch, CuPy, NumPy), each on top of kernels written in the language.

Arrays on a GPU run there, on the current stream; NumPy arrays run in the simulator.
"""

from phalanx.kernels.cross_entropy import cross_entropy
from phalanx.kernels.gather import embedding, gather_rows, scatter_add_rows, scatter_rows
from phalanx.kernels.grouped import grouped_matmul
from phalanx.kernels.kv_cache import kv_compact
from phalanx.kernels.matmul import matmul
from phalanx.kernels.moe import moe_gather_matmul, moe_matmul, moe_matmul_scatter
from phalanx.kernels.norms import layer_norm, rms_norm
from phalanx.kernels.softmax import log_softmax, softmax
from phalanx.kernels.split_k import split_k_matmul

__all__ = [
    "cross_entropy", "embedding", "gather_rows", "grouped_matmul", "kv_compact", "layer_norm", "log_softmax", "matmul",
    "moe_gather_matmul", "moe_matmul", "moe_matmul_scatter", "rms_norm", "scatter_add_rows", "scatter_rows", "softmax",
    "split_k_matmul",
]
