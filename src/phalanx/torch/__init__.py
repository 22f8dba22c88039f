"""Phalanx in torch: the library as operators with gradients, for eager and compiled code.

``px.torch.softmax`` and its like take what ``px.kernels.softmax`` takes. A call that torch neither records nor traces goes
straight to the launch, one that nothing but autograd watches is a ``torch.autograd.Function``; all others go through
``torch.ops.phalanx``. `px.torch.op` makes an operator of your own function around kernels; `px.torch.nn` has modules,
`px.torch.replace` puts them into a model. Needs torch 2.6 or newer (``pip install "phalanx-gpu[torch]"``);
nothing else of the package imports this one.
"""

from phalanx.torch.version import require_torch

require_torch()

from phalanx.torch import (  # noqa: E402
    launches,  # noqa: F401  (of kernels, where torch traces them)
    nn,
)
from phalanx.torch.attention import attention, attention_backward, attention_decode, sparse_attention  # noqa: E402
from phalanx.torch.gather import embedding, gather_rows, kv_compact, scatter_add_rows, scatter_rows  # noqa: E402
from phalanx.torch.grouped import grouped_matmul, moe_gather_matmul, moe_matmul, moe_matmul_scatter  # noqa: E402
from phalanx.torch.products import matmul, split_k_matmul  # noqa: E402
from phalanx.torch.quantize import pack_scales, quantize  # noqa: E402
from phalanx.torch.replacing import replace  # noqa: E402
from phalanx.torch.rowwise import add_rms_norm, cross_entropy, layer_norm, log_softmax, rms_norm, softmax  # noqa: E402
from phalanx.torch.user_ops import op  # noqa: E402

__all__ = [
    "add_rms_norm", "attention", "attention_backward", "attention_decode", "cross_entropy", "embedding", "gather_rows",
    "grouped_matmul", "kv_compact", "layer_norm", "log_softmax", "matmul", "moe_gather_matmul", "moe_matmul",
    "moe_matmul_scatter", "nn", "op", "pack_scales", "quantize", "replace", "rms_norm", "scatter_add_rows", "scatter_rows",
    "softmax", "sparse_attention", "split_k_matmul",
]
