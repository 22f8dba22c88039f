"""The library: functions on whole arrays (torch, CuPy, NumPy), each on top of kernels written in the language.

Arrays on a GPU run there, on the current stream; NumPy arrays run in the simulator. Where torch traces a call, it is one of
the function of `px.torch` with the same name: an operator.
"""

from collections.abc import Callable
from typing import Any

import phalanx.runtime.planning.plans  # noqa: F401  (calls with new sizes are planned)
from phalanx.kernels.attention.backward import attention_backward
from phalanx.kernels.attention.decode import attention_decode
from phalanx.kernels.attention.forward import attention
from phalanx.kernels.attention.sparse import sparse_attention
from phalanx.kernels.gather import embedding, gather_rows, scatter_add_rows, scatter_rows
from phalanx.kernels.kv_cache import kv_compact
from phalanx.kernels.products.grouped import grouped_matmul
from phalanx.kernels.products.matmul import matmul
from phalanx.kernels.products.moe import moe_gather_matmul, moe_matmul, moe_matmul_scatter
from phalanx.kernels.products.split_k import split_k_matmul
from phalanx.kernels.quantize import pack_scales, quantize
from phalanx.kernels.rowwise.cross_entropy import cross_entropy
from phalanx.kernels.rowwise.norms import add_rms_norm, layer_norm, rms_norm
from phalanx.kernels.rowwise.softmax import log_softmax, softmax
from phalanx.runtime.launch.replay import operator_of_torch

__all__ = [
    "add_rms_norm", "attention", "attention_backward", "attention_decode", "cross_entropy", "embedding", "gather_rows",
    "grouped_matmul", "kv_compact", "layer_norm", "log_softmax", "matmul", "moe_gather_matmul", "moe_matmul",
    "moe_matmul_scatter", "pack_scales", "quantize", "rms_norm", "scatter_add_rows", "scatter_rows", "softmax",
    "sparse_attention", "split_k_matmul",
]


def _in_torch(name: str) -> Callable[..., Any]:
    """The function of `px.torch` without its short way back here; the package is imported when it is first called."""

    def call(*args: Any, **options: Any) -> Any:
        import phalanx

        return getattr(phalanx.torch, name).__wrapped__(*args, **options)

    return call


for _name in __all__:
    operator_of_torch(globals()[_name], _in_torch(_name))
