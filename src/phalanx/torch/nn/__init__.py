"""Modules whose heavy operations are ours: each takes the place of torch's module of the same name, parameters and all."""

from phalanx.torch.nn.attention import Attention, rotated, rotations
from phalanx.torch.nn.linear import Linear
from phalanx.torch.nn.moe import MoE
from phalanx.torch.nn.norms import LayerNorm, RMSNorm

__all__ = ["Attention", "LayerNorm", "Linear", "MoE", "RMSNorm", "rotated", "rotations"]
